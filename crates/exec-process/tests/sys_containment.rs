//! Nothing that was started escapes: not from a kill, and not when the server is killed itself.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod support;

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use exec_process::sys::{self, Containment, Mechanism, Spawned};
use support::{
    Marker, Start, cgroup_dirs, containments, eventually, helper, read_until, role, wait,
};

/// Scripts whose descendants do what they can to stay. Each prints `ready` once they are there.
const TENACIOUS: [&str; 6] = [
    "echo ready; exec sleep 100",
    "setsid sh -c 'echo ready; exec sleep 100' & sleep 100 & wait",
    // A daemon: forked twice, in its own session, its parents gone.
    "(setsid sh -c 'sleep 100 & echo ready; exec sleep 100' &); exit 0",
    "trap '' TERM INT HUP; (setsid sh -c 'echo ready; sleep 100') & sleep 100",
    "nohup setsid nohup sh -c 'echo ready; exec sleep 100' & kill -STOP $$",
    "for i in 1 2 3 4 5 6 7 8 9 10; do (setsid sleep 100 &) ; done; echo ready; exec sleep 100",
];

fn start_tenacious(script: &str, containment: &Containment, marker: &Marker) -> Spawned {
    let child = Start::marked(&["/bin/sh", "-c", script], marker).on(containment).unwrap();
    read_until(child.stdout.as_ref().unwrap(), "ready\n");
    child
}

#[test]
fn kill_leaves_no_descendant() {
    for containment in containments() {
        for script in TENACIOUS {
            let marker = Marker::new();
            let child = start_tenacious(script, &containment, &marker);
            assert_eq!(child.group.mechanism(), containment.mechanism());
            eventually("somebody is there", || !marker.carriers().is_empty());
            assert!(!child.group.is_empty(), "{script}");
            child.group.kill().unwrap();
            if !containment.mechanism().is_instant() {
                assert_eq!(marker.carriers(), [0; 0], "{script}");
            }
            eventually("nobody is left", || marker.carriers().is_empty());
            eventually("the group knows", || child.group.is_empty());
            child.group.kill().unwrap();
            wait(&child);
        }
    }
}

#[test]
fn kill_spares_the_neighbours() {
    for containment in containments() {
        let (doomed, spared) = (Marker::new(), Marker::new());
        let first = start_tenacious(TENACIOUS[1], &containment, &doomed);
        let second = start_tenacious(TENACIOUS[0], &containment, &spared);
        first.group.kill().unwrap();
        eventually("the first is gone", || doomed.carriers().is_empty());
        assert_eq!(spared.carriers(), [second.pid]);
        assert!(!second.group.is_empty());
        containment.kill_all();
        assert_eq!(spared.carriers(), [0; 0]);
        assert_eq!((wait(&first).code(), wait(&second).code()), (137, 137));
    }
}

#[test]
fn kill_ends_a_fork_bomb() {
    if role().is_some() {
        explode();
    }
    for containment in containments() {
        let marker = Marker::new();
        let itself = std::env::current_exe().unwrap();
        let argv = [itself.to_str().unwrap(), "--exact", "kill_ends_a_fork_bomb", "--nocapture"];
        let mut start = Start::marked(&argv, &marker);
        start.env.extend(support::strings(&[&format!("{}=bomb", support::ROLE)]));
        let child = start.on(&containment).unwrap();
        // Most are gone before they can be looked at.
        eventually("it has gone off", || marker.carriers().len() > 3);
        let started = Instant::now();
        child.group.kill().unwrap();
        eventually("nobody is left", || marker.carriers().is_empty());
        println!("{:?}: ended in {:?}", containment.mechanism(), started.elapsed());
        assert!(child.group.is_empty());
        wait(&child);
    }
}

/// 16 lines of processes in which each forks the next, into a new session, and is gone at once. No
/// process lives for longer than a fork takes. Comes to an end by itself.
fn explode() -> ! {
    let end = Instant::now() + Duration::from_secs(8);
    // SAFETY: this process runs no other test, so nobody holds a lock that a child would need, and
    // the children only make system calls.
    unsafe {
        // The first one stays and takes in the dead, so that they do not fill up the process table.
        libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1);
        libc::signal(libc::SIGCHLD, libc::SIG_IGN);
        if libc::fork() > 0 {
            std::thread::sleep(Duration::from_secs(9));
            libc::_exit(0);
        }
        for _ in 0..4 {
            libc::fork();
        }
        while Instant::now() < end {
            if libc::fork() > 0 {
                libc::_exit(0);
            }
            libc::setsid();
        }
        libc::_exit(0)
    }
}

#[test]
fn the_end_of_the_containment_is_the_end_of_all() {
    for containment in containments() {
        let marker = Marker::new();
        let children: Vec<Spawned> =
            TENACIOUS.iter().map(|script| start_tenacious(script, &containment, &marker)).collect();
        // Given back while inhabited: still this server's to end.
        let pidfds: Vec<_> = children.into_iter().map(|child| child.pidfd).collect();
        let directory = cgroup_of_some(&marker);
        drop(containment);
        assert_eq!(marker.carriers(), [0; 0]);
        assert!(directory.is_none_or(|path| !path.exists()));
        drop(pidfds);
    }
}

/// The server's cgroup directory, found through one of its processes.
fn cgroup_of_some(marker: &Marker) -> Option<PathBuf> {
    let of = |pid: i32| {
        let text = fs::read_to_string(format!("/proc/{pid}/cgroup")).ok()?;
        let path = text.lines().find_map(|line| line.strip_prefix("0::"))?.to_owned();
        let name = Path::new(&path).parent()?.file_name()?.to_str()?.to_owned();
        cgroup_dirs(std::process::id()).into_iter().find(|dir| dir.ends_with(&name))
    };
    marker.carriers().into_iter().find_map(of)
}

/// A server with children, in a process of its own. It plays the role of the mechanism's name.
struct Server {
    process: Child,
    marker: Marker,
}

impl Server {
    fn start(test: &str, role: &str) -> Self {
        let marker = Marker::new();
        let (name, value) = marker.pair();
        let mut command = helper(test, role);
        let mut process = command.env(name, value).stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(process.stdout.take().unwrap()).lines();
        assert!(lines.map_while(Result::ok).any(|line| line.contains("all started")), "{role}");
        Server { process, marker }
    }

    /// Never returns: somebody kills it.
    fn play(role: &str) -> ! {
        if role == "unprivileged" {
            // SAFETY: takes numbers only.
            assert_eq!(unsafe { libc::setgid(65534) | libc::setuid(65534) }, 0);
        }
        let containment =
            if role == "tag" { Containment::tag_only() } else { Containment::detect() };
        if role == "unprivileged" {
            assert_eq!(containment.mechanism(), Mechanism::Tag);
        }
        let env = std::env::vars().find(|(name, _)| name == "EXEC_PROCESS_MARK").unwrap();
        let start = |script: &&str| {
            let argv = ["/bin/sh", "-c", script];
            let mut start = Start::new(&argv);
            start.env.extend(support::strings(&[&format!("{}={}", env.0, env.1)]));
            let child = start.on(&containment).unwrap();
            read_until(child.stdout.as_ref().unwrap(), "ready\n");
            child
        };
        let children: Vec<Spawned> = TENACIOUS.iter().map(start).collect();
        println!("all started");
        std::thread::sleep(Duration::from_secs(60));
        drop(children);
        std::process::exit(1)
    }

    fn guardian(&self) -> i32 {
        let is_guardian = |pid: &i32| {
            fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|name| name == "exec-guard\n")
        };
        self.marker.carriers().into_iter().find(is_guardian).expect("a guardian")
    }

    fn kill(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }
}

fn is_root() -> bool {
    // SAFETY: takes no arguments.
    unsafe { libc::geteuid() == 0 }
}

#[test]
fn a_killed_server_leaves_nothing() {
    if let Some(role) = role() {
        Server::play(&role);
    }
    for role in ["tag", "detect", "unprivileged"] {
        if role == "unprivileged" && !is_root() {
            exec_testkit::skip("unprivileged: it takes root to become somebody else");
            continue;
        }
        let mut server = Server::start("a_killed_server_leaves_nothing", role);
        assert!(server.marker.carriers().len() > 15, "{role}");
        server.kill();
        // The guardian carries the mark too, so it has gone home as well.
        eventually("nobody is left", || server.marker.carriers().is_empty());
        eventually("its cgroup is gone", || cgroup_dirs(server.process.id()).is_empty());
    }
}

#[test]
fn a_guardian_is_small_and_holds_nothing_of_the_server() {
    if let Some(role) = role() {
        Server::play(&role);
    }
    let mut server = Server::start("a_guardian_is_small_and_holds_nothing_of_the_server", "detect");
    let guardian = PathBuf::from(format!("/proc/{}", server.guardian()));
    let fds: Vec<_> = fs::read_dir(guardian.join("fd")).unwrap().flatten().collect();
    assert_eq!(fds.len(), 1, "{fds:?}");
    assert!(fs::read_link(fds[0].path()).unwrap().to_str().unwrap().starts_with("pipe:"));
    assert_eq!(fs::read_link(guardian.join("cwd")).unwrap(), Path::new("/"));
    let status = fs::read_to_string(guardian.join("status")).unwrap();
    let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    let resident: u32 = resident.trim().trim_end_matches(" kB").parse().unwrap();
    println!("the guardian has {resident} kB resident");
    assert!(resident < 1536, "{resident}");
    // None of these concerns it.
    for signal in [libc::SIGHUP, libc::SIGINT, libc::SIGTERM] {
        // SAFETY: takes numbers only.
        unsafe { libc::kill(server.guardian(), signal) };
    }
    server.kill();
    eventually("nobody is left", || server.marker.carriers().is_empty());
}

#[test]
fn the_next_server_cleans_up_after_one_whose_guardian_died_too() {
    if let Some(role) = role() {
        Server::play(&role);
    }
    if Containment::detect().mechanism() == Mechanism::Tag {
        exec_testkit::skip("no cgroups here that can be used");
        return;
    }
    let test = "the_next_server_cleans_up_after_one_whose_guardian_died_too";
    let mut server = Server::start(test, "detect");
    // SAFETY: takes numbers only.
    unsafe { libc::kill(server.guardian(), libc::SIGKILL) };
    server.kill();
    let next = Containment::detect();
    eventually("nobody is left", || server.marker.carriers().is_empty());
    drop(next);
    // The processes were still dying when their directory was first looked at.
    eventually("its cgroup is gone", || {
        drop(Containment::detect());
        cgroup_dirs(server.process.id()).is_empty()
    });
}

/// A containment with cgroups, and its directory.
fn with_cgroup() -> Option<(Containment, PathBuf)> {
    let containment = Containment::detect();
    let marker = Marker::new();
    let child = start_tenacious(TENACIOUS[0], &containment, &marker);
    let directory = cgroup_of_some(&marker);
    end(child);
    if directory.is_none() {
        exec_testkit::skip("no cgroups here that can be used");
    }
    Some((containment, directory?))
}

/// Ends a child without its group's kill, after which a cgroup is not used again.
fn end(child: Spawned) {
    sys::signal_group(child.pid, libc::SIGKILL).unwrap();
    wait(&child);
}

fn place_of(child: &Spawned) -> String {
    let text = fs::read_to_string(format!("/proc/{}/cgroup", child.pid)).unwrap();
    let path = text.lines().find_map(|line| line.strip_prefix("0::")).unwrap();
    path.rsplit('/').next().unwrap().to_owned()
}

#[test]
fn an_empty_cgroup_is_used_again_and_an_inhabited_or_frozen_one_is_not() {
    let Some((containment, directory)) = with_cgroup() else { return };
    let marker = Marker::new();
    let start = |script| start_tenacious(script, &containment, &marker);
    let place_and_end = |child: Spawned| {
        let place = place_of(&child);
        end(child);
        place
    };
    let first = place_and_end(start(TENACIOUS[0]));
    let again = start(TENACIOUS[1]);
    assert_eq!(place_of(&again), first);
    // Its daemon stays when the group is given up.
    end(again);
    let other = place_and_end(start(TENACIOUS[0]));
    assert_ne!(other, first, "inhabited");
    let frozen = start(TENACIOUS[0]);
    assert_eq!(place_of(&frozen), other);
    sys::signal_group(frozen.pid, libc::SIGKILL).unwrap();
    wait(&frozen);
    fs::write(directory.join(&other).join("cgroup.freeze"), "1").unwrap();
    drop(frozen);
    assert!(!directory.join(&other).exists(), "frozen");
    let killed = start(TENACIOUS[0]);
    let place = place_of(&killed);
    killed.group.kill().unwrap();
    wait(&killed);
    drop(killed);
    assert!(!directory.join(&place).exists(), "killed");
    // Somebody else may have killed it.
    let place = place_and_end(start(TENACIOUS[0]));
    fs::write(directory.join(&place).join("cgroup.kill"), "1").unwrap();
    assert_ne!(place_and_end(start(TENACIOUS[0])), place, "poisoned");
    drop(containment);
    assert_eq!(marker.carriers(), [0; 0]);
    assert!(!directory.exists());
}

#[test]
fn without_a_usable_cgroup_a_child_is_tagged() {
    let Some((containment, directory)) = with_cgroup() else { return };
    let marker = Marker::new();
    // Beside a threaded cgroup, no other can be entered.
    fs::create_dir(directory.join("threaded")).unwrap();
    fs::write(directory.join("threaded/cgroup.type"), "threaded").unwrap();
    let refused = start_tenacious(TENACIOUS[0], &containment, &marker);
    assert_eq!(refused.group.mechanism(), Mechanism::Tag);
    fs::remove_dir(directory.join("threaded")).unwrap();
    let admitted = start_tenacious(TENACIOUS[0], &containment, &marker);
    assert_eq!(admitted.group.mechanism(), Mechanism::Cgroup);
    // None can be made any more.
    fs::write(directory.join("cgroup.max.descendants"), "0").unwrap();
    let more = |_| start_tenacious(TENACIOUS[0], &containment, &marker);
    let _idle_ones: Vec<Spawned> = (0..4).map(more).collect();
    let unmade = start_tenacious(TENACIOUS[1], &containment, &marker);
    assert_eq!(unmade.group.mechanism(), Mechanism::Tag);
    let left = start_tenacious(TENACIOUS[2], &containment, &marker);
    assert_eq!(left.group.mechanism(), Mechanism::Tag);
    unmade.group.kill().unwrap();
    wait(&unmade);
    assert!(!marker.carriers().is_empty());
    drop(containment);
    assert_eq!(marker.carriers(), [0; 0]);
    assert_eq!((wait(&refused).code(), wait(&admitted).code()), (137, 137));
}
