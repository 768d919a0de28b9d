//! Starting confined commands, and what came of them.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use exec_process::log::LogLimits;
use exec_process::sys::Containment;
use exec_process::{Error, Process, Spec, Stdio, Watcher};
use exec_protocol::id::ProcessId;
use exec_protocol::process::{Stream, TerminalSize};
use exec_sandbox::launch::Command;
use exec_sandbox::linux::builtin::{self, Options};
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
        Bench { containment: Containment::detect(), plan, terminal: false, stdin: false }
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
        }
    }

    pub(crate) async fn start(&self, argv: &[&str]) -> Result<Arc<Process>, Error> {
        self.start_with(argv, &Options { filter: &ALLOW_ALL, ..Options::default() }).await
    }

    pub(crate) async fn start_with(
        &self,
        argv: &[&str],
        options: &Options<'_>,
    ) -> Result<Arc<Process>, Error> {
        let spec = self.spec(argv);
        let strings = spec.exec_strings()?;
        let command = Command {
            argv: &strings.argv,
            candidates: &strings.candidates,
            env: &strings.env,
            terminal: self.terminal,
        };
        let launch = builtin::launch(&self.plan, &command, options).map_err(Error::Confine)?;
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

/// A filter that refuses nothing.
pub(crate) const ALLOW_ALL: [u8; 8] = [0x06, 0, 0, 0, 0, 0, 0xff, 0x7f];

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
