//! A child as it starts: what it is given, what it is not, and what comes back when it fails.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod support;

use std::collections::BTreeSet;
use std::fs;
use std::os::fd::AsFd;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use exec_process::sys::{self, ChildStdio, Containment, ExitStatus};
use support::{
    Start, containments, eventually, helper, read_once, read_to_end, read_until, role, shell, wait,
};

const NO_STDIN: ChildStdio = ChildStdio::Pipes { stdin: false };
const TERMINAL: ChildStdio = ChildStdio::Pty { rows: 24, cols: 80 };

#[test]
fn the_end_of_a_child_becomes_its_code() {
    for containment in containments() {
        let check = |script: &str, expected: ExitStatus, code: i32| {
            let child = Start::new(&["/bin/sh", "-c", script]).on(&containment).unwrap();
            let status = wait(&child);
            assert_eq!((status, status.code()), (expected, code), "{script}");
        };
        check("exit 0", ExitStatus::Exited(0), 0);
        check("exit 7", ExitStatus::Exited(7), 7);
        check("exit 255", ExitStatus::Exited(255), 255);
        check("kill -TERM $$", ExitStatus::Signaled(15), 143);
        check("kill -KILL $$", ExitStatus::Signaled(9), 137);
        check("kill -INT $$", ExitStatus::Signaled(2), 130);
        check("kill -SEGV $$", ExitStatus::Signaled(11), 139);
    }
}

#[test]
fn a_running_child_has_not_ended() {
    let containment = Containment::tag_only();
    let child = Start::new(&["/bin/sleep", "100"]).on(&containment).unwrap();
    assert_eq!(sys::try_wait(child.pidfd.as_fd()).unwrap(), None);
    sys::signal_group(child.pid, libc::SIGINT).unwrap();
    assert_eq!(wait(&child).signal(), Some(libc::SIGINT));
    assert_eq!(sys::try_wait(child.pidfd.as_fd()).unwrap_err().raw_os_error(), Some(libc::ECHILD));
    assert!(sys::signal_group(0, libc::SIGINT).is_err(), "never the server's own group");
}

#[test]
fn a_failed_start_says_what_the_kernel_said() {
    let dir = scratch("errors");
    fs::write(dir.join("plain"), "exit 0").unwrap();
    fs::write(dir.join("noformat"), "exit 0").unwrap();
    fs::set_permissions(dir.join("noformat"), fs::Permissions::from_mode(0o755)).unwrap();
    fs::copy("/bin/true", dir.join("ours")).unwrap();
    let path = dir.to_str().unwrap();
    for containment in containments() {
        let check = |cwd: &str, candidates: &[&str], expected: Option<i32>| {
            let start = Start { cwd, ..Start::new(&["x"]) };
            let result = start.candidates(candidates, &containment);
            let errno = result.as_ref().err().and_then(std::io::Error::raw_os_error);
            assert_eq!(errno, expected, "{cwd} {candidates:?}");
            if let Ok(child) = result {
                assert_eq!(wait(&child).code(), 0, "{cwd} {candidates:?}");
            }
        };
        check("/nonexistent", &["/bin/true"], Some(libc::ENOENT));
        check("/etc/passwd", &["/bin/true"], Some(libc::ENOTDIR));
        check("/", &["/nonexistent"], Some(libc::ENOENT));
        check("/", &["/etc/passwd/x"], Some(libc::ENOTDIR));
        check("/", &["/etc/passwd"], Some(libc::EACCES));
        check("/", &["/etc"], Some(libc::EACCES));
        check("/", &[], Some(libc::ENOENT));
        check(path, &["./noformat"], Some(libc::ENOEXEC));
        check(path, &["./noformat", "/bin/true"], Some(libc::ENOEXEC));
        check(path, &["./plain", "./missing"], Some(libc::EACCES));
        check(path, &["./missing", "./plain", "/bin/true"], None);
        check(path, &["./ours"], None);
        check(path, &["/nonexistent/x", "/bin/true"], None);
    }
    fs::remove_dir_all(dir).unwrap();
}

#[test]
fn a_child_leads_its_own_session_and_group() {
    for containment in containments() {
        for stdio in [NO_STDIN, TERMINAL] {
            let start = Start { stdio, ..Start::new(&["/bin/cat", "/proc/self/stat"]) };
            let child = start.on(&containment).unwrap();
            let stat = read_to_end(child.stdout.as_ref().unwrap());
            wait(&child);
            let fields: Vec<i32> =
                stat.split(' ').skip(3).take(3).map(|field| field.parse().unwrap()).collect();
            let server = i32::try_from(std::process::id()).unwrap();
            assert_eq!(fields, [server, child.pid, child.pid], "parent, group, session");
        }
    }
}

#[test]
fn a_child_inherits_three_descriptors_only() {
    // SAFETY: takes a number and makes a descriptor, which is left open on purpose: not close-on-exec.
    let leaked = unsafe { libc::dup(2) };
    assert!(leaked > 2);
    for containment in containments() {
        for stdio in [NO_STDIN, ChildStdio::Pipes { stdin: true }, TERMINAL] {
            // One more is the directory that `ls` reads.
            let start = Start { stdio, ..Start::new(&["/bin/ls", "/proc/self/fd"]) };
            let child = start.on(&containment).unwrap();
            let listed = read_to_end(child.stdout.as_ref().unwrap());
            let listed: BTreeSet<&str> = listed.split_whitespace().collect();
            assert_eq!(listed, BTreeSet::from(["0", "1", "2", "3"]));
            assert_eq!(wait(&child).code(), 0);
        }
    }
}

#[test]
fn the_childs_ends_block_and_the_servers_do_not() {
    let containment = Containment::tag_only();
    let script = "cat /proc/self/fdinfo/[012]; readlink /proc/self/fd/0; cat";
    let argv = ["/bin/sh", "-c", script];
    for (stdio, stdin) in [(NO_STDIN, "/dev/null"), (ChildStdio::Pipes { stdin: true }, "pipe:")] {
        let child = Start { stdio, ..Start::new(&argv) }.on(&containment).unwrap();
        let stdout = child.stdout.as_ref().unwrap();
        if let Some(input) = &child.stdin {
            let text = read_until(stdout, "]\n");
            assert!(!has_flag(&text, libc::O_NONBLOCK) && text.contains(stdin), "{text}");
            let error = sys::read(stdout.as_fd(), &mut [0; 16]).unwrap_err();
            assert_eq!(error.kind(), std::io::ErrorKind::WouldBlock);
            assert_eq!(sys::write(input.as_fd(), b"hello\n").unwrap(), 6);
            assert_eq!(read_until(stdout, "\n"), "hello\n");
            let error = fill(input.as_fd());
            assert_eq!(error.kind(), std::io::ErrorKind::WouldBlock);
            drop(child.stdin);
            read_to_end(stdout);
            poll_exit(&child.pidfd);
        } else {
            let text = read_to_end(stdout);
            assert!(!has_flag(&text, libc::O_NONBLOCK) && text.contains(stdin), "{text}");
            assert_eq!(wait(&child).code(), 0);
        }
    }
}

/// Whether one of the `flags:` lines of some `fdinfo` has this flag.
fn has_flag(fdinfo: &str, flag: i32) -> bool {
    let lines = fdinfo.lines().filter_map(|line| line.strip_prefix("flags:"));
    lines.map(|line| i32::from_str_radix(line.trim(), 8).unwrap()).any(|flags| flags & flag != 0)
}

/// Writes until the pipe is full and its reader, whose output nobody reads, is stuck.
fn fill(input: std::os::fd::BorrowedFd<'_>) -> std::io::Error {
    loop {
        if let Err(error) = sys::write(input, &[b'x'; 4096]) {
            return error;
        }
    }
}

fn poll_exit(pidfd: &std::os::fd::OwnedFd) {
    support::poll(pidfd, libc::POLLIN);
    assert!(sys::try_wait(pidfd.as_fd()).unwrap().is_some());
}

#[test]
fn a_terminal_controls_the_childs_session() {
    for containment in containments() {
        let script = "stty size; tty; ps -o tty= -p $$; echo yes >/dev/tty; \
                      trap 'stty size; exit 3' WINCH; echo ready; while :; do sleep 0.01; done";
        let argv = ["/bin/sh", "-c", script];
        let child = Start { stdio: TERMINAL, ..Start::new(&argv) }.on(&containment).unwrap();
        let master = child.stdout.as_ref().unwrap();
        assert!(child.stdin.is_none() && child.stderr.is_none());
        let text = read_until(master, "ready\r\n");
        let lines: Vec<&str> = text.split("\r\n").collect();
        assert_eq!(lines[0], "24 80");
        assert!(lines[1].starts_with("/dev/pts/"), "{text}");
        assert_eq!(lines[2].trim(), lines[1].trim_start_matches("/dev/"), "{text}");
        assert_eq!(lines[3], "yes");
        sys::set_window_size(master.as_fd(), 50, 132).unwrap();
        assert_eq!(read_until(master, "132\r\n"), "50 132\r\n");
        assert_eq!(wait(&child).code(), 3);
        let error = read_once(master, &mut Vec::new()).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::EIO), "how a terminal ends");
    }
}

#[test]
fn a_terminal_turns_control_c_into_an_interrupt() {
    let containment = Containment::tag_only();
    let argv = ["/bin/sh", "-c", "echo ready; exec sleep 100"];
    let child = Start { stdio: TERMINAL, ..Start::new(&argv) }.on(&containment).unwrap();
    let master = child.stdout.as_ref().unwrap();
    read_until(master, "ready\r\n");
    sys::write(master.as_fd(), b"\x03").unwrap();
    assert_eq!(wait(&child).code(), 130);
}

#[test]
fn a_child_ends_with_the_thread_that_started_it() {
    let containment = Containment::tag_only();
    let child = std::thread::scope(|scope| {
        scope.spawn(|| Start::new(&["/bin/sleep", "100"]).on(&containment).unwrap()).join()
    });
    assert_eq!(wait(&child.unwrap()).code(), 137);
}

#[test]
fn many_threads_start_children_at_once() {
    for containment in containments() {
        let results: Vec<i32> = std::thread::scope(|scope| {
            let starter = |thread: i32| {
                let containment = &containment;
                move || {
                    let run = |number: i32| {
                        let expected = (thread * 25 + number) % 256;
                        let script = format!("echo {expected}; exit {expected}");
                        let (code, output) = shell(&script, containment);
                        assert_eq!(output.trim(), code.to_string());
                        assert_eq!(code, expected);
                        code
                    };
                    (0..25).map(run).collect::<Vec<_>>()
                }
            };
            let threads: Vec<_> = (0..4).map(|thread| scope.spawn(starter(thread))).collect();
            threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
        });
        assert_eq!(results.len(), 100);
    }
}

#[test]
fn signals_are_as_in_a_fresh_login() {
    match role().as_deref() {
        None => {
            let test = "signals_are_as_in_a_fresh_login";
            let output = helper(test, "ignore").output().unwrap();
            assert!(output.status.success(), "{output:?}");
        }
        Some(_) => {
            for signal in (1..32).filter(|signal| ![9, 19].contains(signal)) {
                // SAFETY: ignoring a signal runs no code, and this process has no other threads at
                // work.
                unsafe { libc::signal(signal, libc::SIG_IGN) };
            }
            // SAFETY: ends the exception that the loop made for children, who must be waited for.
            unsafe { libc::signal(libc::SIGCHLD, libc::SIG_DFL) };
            // SAFETY: the set is plain data, filled in before it is used.
            unsafe {
                let mut all = std::mem::zeroed();
                libc::sigfillset(&raw mut all);
                libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, std::ptr::null_mut());
            }
            for containment in containments() {
                let start = Start::new(&["/bin/cat", "/proc/self/status"]);
                let child = start.on(&containment).unwrap();
                let status = read_to_end(child.stdout.as_ref().unwrap());
                for set in ["SigBlk", "SigIgn", "SigCgt"] {
                    assert!(status.contains(&format!("{set}:\t0000000000000000")), "{status}");
                }
                wait(&child);
            }
            let status = fs::read_to_string("/proc/thread-self/status").unwrap();
            let blocked = status.lines().find(|line| line.starts_with("SigBlk")).unwrap();
            assert!(!blocked.ends_with("0000"), "the server's own mask is back: {blocked}");
        }
    }
}

#[test]
fn descriptors_are_all_given_back() {
    if role().is_none() {
        let output = helper("descriptors_are_all_given_back", "count").output().unwrap();
        assert!(output.status.success(), "{output:?}");
        return;
    }
    for containment in containments() {
        let round = |number: i32| {
            let stdio = if number % 10 == 0 { TERMINAL } else { NO_STDIN };
            let start = Start { stdio, ..Start::new(&["/bin/true"]) };
            match number % 7 {
                0 => assert!(start.candidates(&["/nonexistent"], &containment).is_err()),
                _ => assert_eq!(wait(&start.on(&containment).unwrap()).code(), 0),
            }
        };
        round(1);
        let count = || fs::read_dir("/proc/self/fd").unwrap().count();
        let before = count();
        (0..1000).for_each(round);
        assert_eq!(count(), before);
    }
}

#[test]
fn a_server_without_stdio_starts_children_with_theirs() {
    if role().is_none() {
        let test = "a_server_without_stdio_starts_children_with_theirs";
        let status = helper(test, "close").status().unwrap();
        assert!(status.success());
        return;
    }
    let containments = containments();
    for fd in 0..3 {
        // SAFETY: this process says nothing from here on but its exit code.
        unsafe { libc::close(fd) };
    }
    let run = || {
        for containment in &containments {
            for stdio in [NO_STDIN, ChildStdio::Pipes { stdin: true }, TERMINAL] {
                let argv = ["/bin/sh", "-c", "echo out; echo err >&2; ls /proc/self/fd"];
                let child = Start { stdio, ..Start::new(&argv) }.on(containment).unwrap();
                let mut text = read_to_end(child.stdout.as_ref().unwrap());
                text.extend(child.stderr.as_ref().map(read_to_end));
                let words: BTreeSet<&str> = text.split_whitespace().collect();
                assert_eq!(words, BTreeSet::from(["out", "err", "0", "1", "2", "3"]));
                assert_eq!(wait(&child).code(), 0);
            }
        }
    };
    let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(run));
    drop(containments);
    std::process::exit(i32::from(result.is_err()));
}

#[test]
fn a_subreaper_reaps_strangers_and_keeps_its_own() {
    if role().is_none() {
        let test = "a_subreaper_reaps_strangers_and_keeps_its_own";
        let output = helper(test, "subreaper").output().unwrap();
        assert!(output.status.success(), "{output:?}");
        return;
    }
    assert!(!sys::needs_reaping());
    // SAFETY: takes numbers only.
    assert_eq!(unsafe { libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1) }, 0);
    assert!(sys::needs_reaping());
    let containment = Containment::tag_only();
    // The inner shell outlives its parent and so becomes a child of this process.
    let script = "(sh -c 'echo $$; exec sleep 0.1' &) ; exit 5";
    let child = Start::new(&["/bin/sh", "-c", script]).on(&containment).unwrap();
    let text = read_to_end(child.stdout.as_ref().unwrap());
    let orphan: PathBuf = format!("/proc/{}", text.trim()).into();
    let state = |path: &PathBuf| fs::read_to_string(path.join("stat")).unwrap_or_default();
    eventually("the orphan is a zombie", || state(&orphan).contains(") Z "));
    eventually("our child too", || state(&format!("/proc/{}", child.pid).into()).contains(") Z "));
    sys::reap_strangers(|_| false);
    assert!(!orphan.exists(), "reaped");
    assert_eq!(wait(&child).code(), 5, "still ours to wait for");
    sys::reap_strangers(|_| false);
}

fn scratch(name: &str) -> PathBuf {
    let path = std::env::temp_dir().join(format!("exec-process-{name}-{}", std::process::id()));
    fs::create_dir(&path).unwrap();
    path
}
