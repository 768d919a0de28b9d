//! Starting confined commands, and what came of them.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use exec_process::log::LogLimits;
use exec_process::sys::Containment;
use exec_process::{Error, Limits, Process, Spec, Stdio, Watcher};
use exec_protocol::id::ProcessId;
use exec_protocol::process::{Stream, TerminalSize};
use exec_sandbox::launch::{Command, Failure, Launch};
use exec_sandbox::linux::builtin::{self, Options};
use exec_sandbox::linux::bwrap::{self, Places, Tools};
use exec_sandbox::plan::{Filter, Mount, Network, Plan, Root, View, Witness};

/// No wait in a test is longer. Only a failure comes near.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

struct Nobody;

impl Watcher for Nobody {
    fn changed(&self, process: &Arc<Process>) {
        process.follow(|_| std::ops::ControlFlow::Continue(()));
    }
    fn closed(&self, _: &Arc<Process>) {}
}

/// A containment and the way to start commands in it.
pub(crate) struct Bench {
    pub(crate) containment: Containment,
    pub(crate) plan: Plan,
    pub(crate) terminal: bool,
    pub(crate) stdin: bool,
    pub(crate) limits: Limits,
}

/// How a command ended.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Ended {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Bench {
    /// The host's tree, read-only, with its own `/dev` and `/proc` and no network.
    pub(crate) fn read_only() -> Self {
        Self::with([Mount::Root(Root::HostReadOnly), Mount::Devices, Mount::Processes])
    }

    pub(crate) fn with(mounts: impl IntoIterator<Item = Mount>) -> Self {
        let view = View {
            mounts: mounts.into_iter().collect(),
            placeholders: Vec::new(),
            witnesses: Vec::new(),
            writable: Vec::new(),
        };
        let plan = Plan {
            view: Some(view),
            network: Network::Isolated,
            filter: Filter::None,
            cwd: "/".into(),
        };
        Bench {
            containment: Containment::detect(),
            plan,
            terminal: false,
            stdin: false,
            limits: Limits::default(),
        }
    }

    pub(crate) fn view(&mut self) -> &mut View {
        self.plan.view.as_mut().unwrap()
    }

    /// Adds mounts before the last one, `/proc`.
    pub(crate) fn mount(mut self, mounts: impl IntoIterator<Item = Mount>) -> Self {
        let all = &mut self.view().mounts;
        let processes = all.pop().unwrap();
        all.extend(mounts);
        all.push(processes);
        self
    }

    /// What Landlock lets be written.
    pub(crate) fn writable(mut self, paths: &[&Path]) -> Self {
        self.view().writable = paths.iter().map(|path| path.to_path_buf()).collect();
        self
    }

    pub(crate) fn witness(mut self, path: &Path, inode: u64) -> Self {
        use std::os::unix::fs::MetadataExt;
        let device = std::fs::symlink_metadata(path).unwrap().dev();
        self.view().witnesses.push(Witness { path: path.to_owned(), device, inode });
        self
    }

    pub(crate) fn spec(&self, argv: &[&str]) -> Spec {
        let env = [("PATH", "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"), ("LC_ALL", "C")];
        Spec {
            argv: argv.iter().map(|arg| (*arg).to_owned()).collect(),
            arg0: None,
            cwd: self.plan.cwd.clone(),
            env: env
                .into_iter()
                .map(|(name, value)| (OsString::from(name), value.into()))
                .collect(),
            stdio: if self.terminal {
                Stdio::Terminal(TerminalSize { rows: 24, cols: 80 })
            } else {
                Stdio::Pipes { stdin: self.stdin }
            },
            limits: self.limits,
            tells_usage: false,
        }
    }

    pub(crate) async fn start(&self, argv: &[&str]) -> Result<Arc<Process>, Error> {
        self.start_with(argv, &Options::default()).await
    }

    pub(crate) async fn start_with(
        &self,
        argv: &[&str],
        options: &Options<'_>,
    ) -> Result<Arc<Process>, Error> {
        self.start_by(argv, |plan, command| match bubblewrap() {
            Some(tools) => bwrap::launch(tools, plan, command, options),
            None => builtin::launch(plan, command, options),
        })
        .await
    }

    pub(crate) async fn start_by(
        &self,
        argv: &[&str],
        launch: impl FnOnce(&Plan, &Command<'_>) -> Result<Launch, Failure>,
    ) -> Result<Arc<Process>, Error> {
        let spec = self.spec(argv);
        let strings = spec.exec_strings()?;
        let command = Command {
            argv: &strings.argv,
            candidates: &strings.candidates,
            env: &strings.env,
            terminal: self.terminal,
        };
        let launch = launch(&self.plan, &command).map_err(Error::Confine)?;
        let id = ProcessId::from("p");
        Process::launch(
            id,
            spec,
            launch,
            log_limits(),
            &self.containment,
            Arc::new(Nobody),
            Box::new(()),
        )
        .await
    }

    /// The same without confinement.
    pub(crate) fn start_bare(&self, argv: &[&str]) -> Result<Arc<Process>, Error> {
        let id = ProcessId::from("p");
        Process::start(id, self.spec(argv), log_limits(), &self.containment, Arc::new(Nobody))
    }

    /// Waits until the command has written something.
    pub(crate) async fn until(&self, process: &Arc<Process>, text: &str) {
        let mut seen = Vec::new();
        let mut after = 0;
        while !String::from_utf8_lossy(&seen).contains(text) {
            let (_, page, state) = process
                .read(after, None, PATIENCE, |_, _, bytes| seen.extend_from_slice(bytes))
                .await;
            let shown = String::from_utf8_lossy(&seen);
            assert!(state.exit.is_none() || shown.contains(text), "no {text:?} in {shown:?}");
            assert!(page.next_seq > after, "no {text:?} in {PATIENCE:?}: {shown:?}");
            after = page.next_seq.saturating_sub(1);
        }
    }

    /// Runs a shell script to its end.
    pub(crate) async fn shell(&self, script: &str) -> Ended {
        let process = self.start(&["/bin/sh", "-c", script]).await.unwrap();
        ended(&process).await
    }

    pub(crate) fn cwd(mut self, cwd: impl Into<PathBuf>) -> Self {
        self.plan.cwd = cwd.into();
        self
    }
}

fn log_limits() -> LogLimits {
    LogLimits {
        retained_bytes_max: 1 << 20,
        retained_chunks_max: 1000,
        unsent_bytes_max: 1 << 20,
        chunk_bytes_max: 64 << 10,
        snapshot_bytes_max: 1 << 20,
    }
}

pub(crate) async fn ended(process: &Arc<Process>) -> Ended {
    assert!(process.wait_closed(Some(PATIENCE)).await, "still runs after {PATIENCE:?}");
    let text = |stream| String::from_utf8_lossy(&process.snapshot(stream).0).into_owned();
    let stdout = text(Stream::Stdout) + &text(Stream::Pty);
    Ended { code: process.state().exit.unwrap().code, stdout, stderr: text(Stream::Stderr) }
}

/// Whether a command can be confined here at all. Said once for each test if not.
pub(crate) async fn can_confine() -> bool {
    match Bench::read_only().start(&["/bin/true"]).await {
        Ok(process) => ended(&process).await.code == 0,
        Err(error) => {
            exec_testkit::skip(format!("confinement: {error}"));
            false
        }
    }
}

/// Names the directory with which all commands of this process are confined by bubblewrap.
pub(crate) const BUBBLEWRAP: &str = "EXEC_PROCESS_TEST_BUBBLEWRAP";

/// What bubblewrap takes, where the scenarios are to be played with it.
fn bubblewrap() -> Option<&'static Tools> {
    static TOOLS: OnceLock<Option<Tools>> = OnceLock::new();
    let find = || {
        let directory = PathBuf::from(std::env::var_os(BUBBLEWRAP)?);
        let found = bwrap::find(&Places::default(), PATIENCE).unwrap();
        Some(Tools::new(found, &directory).unwrap())
    };
    TOOLS.get_or_init(find).as_ref()
}

/// A directory of its own, with a path free of links; gone with the value.
pub(crate) struct Scratch {
    pub(crate) path: PathBuf,
}

impl Scratch {
    pub(crate) fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("exec-confined-{}-{number}", std::process::id());
        let path = std::env::temp_dir().canonicalize().unwrap().join(name);
        std::fs::create_dir(&path).unwrap();
        Scratch { path }
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.path).ok();
    }
}

/// A process and its descendants, with their names.
pub(crate) fn processes_named(first: i32) -> Vec<(i32, String)> {
    let mut found = vec![first];
    let mut next = 0;
    while let Some(pid) = found.get(next).copied() {
        let path = format!("/proc/{pid}/task/{pid}/children");
        let children = std::fs::read_to_string(path).unwrap_or_default();
        found.extend(children.split_whitespace().flat_map(str::parse::<i32>));
        next += 1;
    }
    let name = |pid: &i32| std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    found.iter().map(|pid| (*pid, name(pid).trim().to_owned())).collect()
}

/// Waits for something that no descriptor tells.
pub(crate) fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < deadline, "not so after {PATIENCE:?}: {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}
