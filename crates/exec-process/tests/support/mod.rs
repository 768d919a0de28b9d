//! What the system layer's tests share: starting, reading, waiting with a limit, and finding out from
//! `/proc`, without the code under test, who is still alive.

#![allow(dead_code, unreachable_pub, reason = "each test binary uses its own part")]

use std::ffi::CString;
use std::fs;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use exec_process::sys::{
    self, ChildStdio, Containment, ExitStatus, Mechanism, SpawnRequest, Spawned,
};

/// No wait in a test is longer. Only a failure comes near.
pub const PATIENCE: Duration = Duration::from_secs(20);
/// Tells a test binary that it is started as a helper.
pub const ROLE: &str = "EXEC_PROCESS_TEST_ROLE";

/// Both mechanisms, or the one this host has.
pub fn containments() -> Vec<Containment> {
    let detected = Containment::detect();
    if detected.mechanism() == Mechanism::Tag {
        exec_testkit::skip("with cgroups: none here that can be used");
        return vec![detected];
    }
    vec![Containment::tag_only(), detected]
}

/// A name that every descendant carries in its environment.
pub struct Marker(String);

impl Marker {
    pub fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        Marker(format!("EXEC_PROCESS_MARK=m{}-{number}-", std::process::id()))
    }

    pub fn env(&self) -> CString {
        CString::new(self.0.as_str()).unwrap()
    }

    pub fn pair(&self) -> (&str, &str) {
        self.0.split_once('=').unwrap()
    }

    /// Who carries it. A zombie has no environment any more.
    pub fn carriers(&self) -> Vec<i32> {
        let carries = |pid: &i32| {
            let environ = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
            environ.windows(self.0.len()).any(|part| part == self.0.as_bytes())
        };
        pids().into_iter().filter(carries).collect()
    }
}

pub fn pids() -> Vec<i32> {
    let entries = fs::read_dir("/proc").unwrap().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

pub fn strings(words: &[&str]) -> Vec<CString> {
    words.iter().map(|word| CString::new(*word).unwrap()).collect()
}

/// What the tests vary. The program is the first word, as a path.
pub struct Start<'a> {
    pub argv: &'a [&'a str],
    pub env: Vec<CString>,
    pub cwd: &'a str,
    pub stdio: ChildStdio,
}

impl<'a> Start<'a> {
    pub fn new(argv: &'a [&'a str]) -> Self {
        let env = strings(&["PATH=/usr/local/bin:/usr/bin:/bin"]);
        Start { argv, env, cwd: "/", stdio: ChildStdio::Pipes { stdin: false } }
    }

    pub fn marked(argv: &'a [&'a str], marker: &Marker) -> Self {
        let mut start = Self::new(argv);
        start.env.push(marker.env());
        start
    }

    pub fn on(&self, containment: &Containment) -> io::Result<Spawned> {
        self.candidates(&self.argv[..1], containment)
    }

    pub fn candidates(&self, paths: &[&str], containment: &Containment) -> io::Result<Spawned> {
        sys::spawn(&SpawnRequest {
            argv: &strings(self.argv),
            program: &strings(paths),
            env: &self.env,
            cwd: &CString::new(self.cwd).unwrap(),
            stdio: self.stdio,
            containment,
            limits: &[],
            group_limits: Default::default(),
            launch: None,
        })
    }
}

/// Runs a shell script to its end: its exit code and output.
pub fn shell(script: &str, containment: &Containment) -> (i32, String) {
    let spawned = Start::new(&["/bin/sh", "-c", script]).on(containment).unwrap();
    let output = read_to_end(spawned.stdout.as_ref().unwrap());
    (wait(&spawned).code(), output)
}

pub fn wait(spawned: &Spawned) -> ExitStatus {
    poll(&spawned.pidfd, libc::POLLIN);
    sys::try_wait(spawned.pidfd.as_fd()).unwrap().expect("a readable pidfd has ended")
}

pub fn poll(fd: &OwnedFd, events: i16) {
    let mut poll = libc::pollfd { fd: fd.as_raw_fd(), events, revents: 0 };
    let wait_ms = i32::try_from(PATIENCE.as_millis()).unwrap();
    // SAFETY: one valid pollfd.
    let ready = unsafe { libc::poll(&raw mut poll, 1, wait_ms) };
    assert_eq!(ready, 1, "nothing happened in {PATIENCE:?}");
}

/// Everything up to the end, which a terminal announces with EIO.
pub fn read_to_end(fd: &OwnedFd) -> String {
    let mut text = Vec::new();
    while let Ok(bytes @ 1..) = read_once(fd, &mut text) {
        assert!(bytes > 0);
    }
    String::from_utf8(text).unwrap()
}

/// Everything up to and with this text.
pub fn read_until(fd: &OwnedFd, end: &str) -> String {
    let mut text = Vec::new();
    while !String::from_utf8_lossy(&text).contains(end) {
        let bytes = read_once(fd, &mut text).unwrap();
        assert!(bytes > 0, "no {end:?} in {:?}", String::from_utf8_lossy(&text));
    }
    String::from_utf8(text).unwrap()
}

pub fn read_once(fd: &OwnedFd, text: &mut Vec<u8>) -> io::Result<usize> {
    poll(fd, libc::POLLIN);
    let mut buffer = [0; 4096];
    let bytes = sys::read(fd.as_fd(), &mut buffer)?;
    text.extend_from_slice(&buffer[..bytes]);
    Ok(bytes)
}

/// Waits for something that no descriptor tells.
pub fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < deadline, "not so after {PATIENCE:?}: {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// This test binary again, running only the named test, which then plays a role.
pub fn helper(test: &str, role: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", test, "--nocapture", "--test-threads=1"]).env(ROLE, role);
    command
}

/// The role that this process is to play, if it is a helper.
pub fn role() -> Option<String> {
    std::env::var(ROLE).ok()
}

/// The cgroup directories of the server with this pid.
pub fn cgroup_dirs(pid: u32) -> Vec<PathBuf> {
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
    let points = mounts.lines().filter(|line| line.contains(" - cgroup2 "));
    let mut found = Vec::new();
    for point in points.filter_map(|line| line.split(' ').nth(4)) {
        search(Path::new(point), &format!("exec-server-{pid}-"), 6, &mut found);
    }
    found
}

fn search(dir: &Path, prefix: &str, depth: u32, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        if !entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            continue;
        }
        if entry.file_name().to_string_lossy().starts_with(prefix) {
            found.push(entry.path());
        } else if depth > 0 {
            search(&entry.path(), prefix, depth - 1, found);
        }
    }
}
