//! The real server in a process of its own: this test binary again, which then plays a server, with
//! one engine, as root or as an ordinary user, with user namespaces or without.

use std::fs;
use std::io::{self, BufRead as _, BufReader};
use std::os::fd::AsRawFd as _;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use exec_sandbox::linux::probe::Engine;
use exec_server::ExecServerConfig;
use exec_server::listen::{ListenOptions, run_main};

use super::world::{NOBODY, WORLDS, give};

/// Tells this binary which server to be.
const ROLE: &str = "EXEC_SERVER_ESCAPE_ROLE";

/// What kind of server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Role {
    pub engine: Engine,
    /// Whether it is an ordinary user's.
    pub ordinary: bool,
    /// Whether it may not make user namespaces.
    pub forbidden: bool,
}

impl Role {
    fn word(self) -> String {
        let Role { engine, ordinary, forbidden } = self;
        format!("{} {ordinary} {forbidden}", engine.as_str())
    }

    fn parse(word: &str) -> Self {
        let mut parts = word.split(' ');
        let engine = parts.next().unwrap();
        let engines = [Engine::Builtin, Engine::Bwrap, Engine::LandlockOnly];
        let engine = engines.into_iter().find(|known| known.as_str() == engine).unwrap();
        let mut flag = || parts.next() == Some("true");
        Role { engine, ordinary: flag(), forbidden: flag() }
    }
}

/// A server that runs.
pub struct RealServer {
    process: Child,
    pub url: String,
    pub role: Role,
    home: Arc<tempfile::TempDir>,
}

impl RealServer {
    /// `test` is the test that is running: the same, started again, is the server.
    pub fn start(test: &str, role: Role) -> Self {
        let home = tempfile::Builder::new().prefix("escape-home-").tempdir_in(WORLDS).unwrap();
        if role.ordinary {
            give(home.path(), NOBODY);
        }
        Self::start_at(test, role, Arc::new(home))
    }

    /// Another server of the same kind and home.
    pub fn again(self, test: &str) -> Self {
        Self::start_at(test, self.role, self.home.clone())
    }

    fn start_at(test: &str, role: Role, home: Arc<tempfile::TempDir>) -> Self {
        // By descriptor: an ordinary user need not be able to reach the file.
        let program = std::fs::File::open(std::env::current_exe().unwrap()).unwrap();
        let mut command = Command::new(format!("/proc/self/fd/{}", program.as_raw_fd()));
        // SAFETY: between fork and exec there is one thread, and what is done takes numbers and
        // writes short texts to files of the kernel.
        unsafe { command.pre_exec(move || become_role(role, program.as_raw_fd())) };
        let mut process = command
            .args(["--exact", test, "--nocapture", "--test-threads=1"])
            .env(ROLE, role.word())
            .env("HOME", home.path())
            .env("EXEC_SERVER_HOME", home.path())
            .env_remove("XDG_STATE_HOME")
            .env_remove("XDG_RUNTIME_DIR")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines =
            BufReader::new(process.stdout.take().unwrap()).lines().map_while(Result::ok);
        let url = lines.find_map(|line| line.find("ws://").map(|start| line[start..].to_owned()));
        RealServer { process, url: url.expect("it prints its URL"), role, home }
    }

    pub fn pid(&self) -> u32 {
        self.process.id()
    }

    /// Whose worlds it plays in.
    pub fn owner(&self) -> u32 {
        if self.role.ordinary { NOBODY } else { 0 }
    }

    pub fn signal(&self, signal: i32) {
        let pid = libc::pid_t::try_from(self.process.id()).unwrap();
        // SAFETY: takes numbers only, and the process has not been waited for.
        assert_eq!(unsafe { libc::kill(pid, signal) }, 0);
    }

    /// Waits until it has ended.
    pub fn wait(&mut self) {
        self.process.wait().unwrap();
    }
}

impl Drop for RealServer {
    fn drop(&mut self) {
        self.signal_if_running();
        self.process.wait().ok();
    }
}

impl RealServer {
    fn signal_if_running(&mut self) {
        if self.process.try_wait().is_ok_and(|status| status.is_none()) {
            self.signal(libc::SIGTERM);
        }
    }
}

/// At the start of each test: plays the server when this process was started as one.
pub fn play_if_told() {
    let Ok(word) = std::env::var(ROLE) else { return };
    let role = Role::parse(&word);
    // SAFETY: before there is another thread.
    unsafe { std::env::remove_var(ROLE) };
    let mut config = ExecServerConfig::default();
    config.sandbox.engine = Some(role.engine);
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = runtime.worker_threads(2).enable_all().build().unwrap();
    let served = runtime.block_on(run_main(ListenOptions::default(), config));
    std::process::exit(if served.is_ok() { 0 } else { 1 })
}

/// In the child: becomes who serves, and keeps the program open over the exec.
fn become_role(role: Role, program: i32) -> io::Result<()> {
    let done = |result: i32| if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) };
    // SAFETY: takes numbers and an empty list only.
    unsafe {
        if role.ordinary {
            done(libc::setgroups(0, std::ptr::null()))?;
            done(libc::setgid(NOBODY))?;
            done(libc::setuid(NOBODY))?;
        }
        // The files in /proc/self are those of the new user only then.
        done(libc::prctl(libc::PR_SET_DUMPABLE, 1, 0, 0, 0))?;
        done(libc::fcntl(program, libc::F_SETFD, 0))?;
        if !role.forbidden {
            return Ok(());
        }
        let (user, group) = (libc::getuid(), libc::getgid());
        done(libc::unshare(libc::CLONE_NEWUSER))?;
        // In a user namespace of its own, whose limit of such namespaces is none.
        fs::write("/proc/self/setgroups", "deny")?;
        fs::write("/proc/self/uid_map", format!("0 {user} 1"))?;
        fs::write("/proc/self/gid_map", format!("0 {group} 1"))?;
        fs::write("/proc/sys/user/max_user_namespaces", "0")
    }
}
