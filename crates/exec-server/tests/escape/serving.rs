//! The real server in a process of its own: this test binary again, which then plays a server, with
//! one engine, as root or as an ordinary user, with user namespaces or without.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};

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
    _home: tempfile::TempDir,
}

impl RealServer {
    /// `test` is the test that is running: the same, started again, is the server.
    pub fn start(test: &str, role: Role) -> Self {
        let home = tempfile::Builder::new().prefix("escape-home-").tempdir_in(WORLDS).unwrap();
        if role.ordinary {
            give(home.path(), NOBODY);
        }
        let mut process = Command::new(std::env::current_exe().unwrap())
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
        RealServer { process, url: url.expect("it prints its URL"), role, _home: home }
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
    if role.ordinary {
        become_nobody();
    }
    if role.forbidden {
        forbid_user_namespaces();
    }
    // SAFETY: before there is another thread.
    unsafe { std::env::remove_var(ROLE) };
    let mut config = ExecServerConfig::default();
    config.sandbox.engine = Some(role.engine);
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = runtime.worker_threads(2).enable_all().build().unwrap();
    let served = runtime.block_on(run_main(ListenOptions::default(), config));
    std::process::exit(if served.is_ok() { 0 } else { 1 })
}

fn become_nobody() {
    // SAFETY: takes numbers and an empty list only. Afterwards the process may be looked into by its
    // user again, as one that was started by that user could be.
    unsafe {
        assert_eq!(libc::setgroups(0, std::ptr::null()), 0);
        assert_eq!(libc::setgid(NOBODY) | libc::setuid(NOBODY), 0);
        assert_eq!(libc::prctl(libc::PR_SET_DUMPABLE, 1, 0, 0, 0), 0);
    }
}

/// In a user namespace of its own, whose limit of such namespaces is none.
fn forbid_user_namespaces() {
    // SAFETY: takes numbers only.
    let (user, group) = unsafe { (libc::getuid(), libc::getgid()) };
    // SAFETY: there is one thread; takes a number only.
    let done = unsafe { libc::unshare(libc::CLONE_NEWUSER) };
    assert_eq!(done, 0, "{}", std::io::Error::last_os_error());
    std::fs::write("/proc/self/setgroups", "deny").unwrap();
    std::fs::write("/proc/self/uid_map", format!("0 {user} 1")).unwrap();
    std::fs::write("/proc/self/gid_map", format!("0 {group} 1")).unwrap();
    std::fs::write("/proc/sys/user/max_user_namespaces", "0").unwrap();
}
