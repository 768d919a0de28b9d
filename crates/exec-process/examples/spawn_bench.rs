//! How long it takes to start a child and to kill a group, with each mechanism.
//!
//! `cargo run --release -p exec-process --example spawn_bench [heap MiB] [rounds]`. Prints medians in
//! microseconds. Ratios are what to look at: the machine is rarely idle.

use std::ffi::CString;
use std::os::fd::{AsFd, AsRawFd};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use exec_process::sys::{self, ChildStdio, Containment, SpawnRequest, Spawned};

fn main() {
    let mut args = std::env::args().skip(1);
    let mut number = |default: usize| match args.next().map(|text| text.parse()) {
        Some(Ok(value)) => value,
        Some(Err(_)) | None => default,
    };
    let (heap_mib, rounds) = (number(0), number(400));
    let contained = [
        ("tag", Containment::tag_only()),
        ("cgroup, reused", Containment::detect()),
        ("cgroup, fresh", Containment::detect_with_idle(0)),
    ];
    // Touched, so that a fork would have to copy its page tables.
    let heap = vec![1u8; heap_mib << 20];
    println!("heap {heap_mib} MiB, {rounds} rounds, median (p90) in microseconds");
    println!("{:<34} {:>14} {:>14}", "", "until started", "until reaped");

    start_and_wait("ordinary slice", rounds, &contained);
    sys::shorten_time_slice().expect("a short slice is granted");
    start_and_wait("short slice", rounds, &contained);
    println!("{:<34} {:>14} {:>14}", "", "kill", "until empty");
    for members in [1, 100] {
        for (name, containment) in &contained[..2] {
            let mut times = (Vec::new(), Vec::new());
            (0..rounds / 10).for_each(|_| record(&mut times, kill(containment, members)));
            show(&format!("{name}, {members} members"), &mut times);
        }
    }
    drop(heap);
}

fn start_and_wait(slice: &str, rounds: usize, contained: &[(&str, Containment); 3]) {
    let mut standard = (Vec::new(), Vec::new());
    let mut ours = [const { (Vec::new(), Vec::new()) }; 3];
    // In turns, so that whatever else runs disturbs all alike.
    for _ in 0..rounds {
        record(&mut standard, with_standard_library());
        for (times, (_, containment)) in ours.iter_mut().zip(contained) {
            record(times, with_ours(containment));
        }
    }
    show(&format!("std::process, {slice}"), &mut standard);
    for (times, (name, _)) in ours.iter_mut().zip(contained) {
        show(&format!("{name}, {slice}"), times);
    }
}

type Times = (Vec<Duration>, Vec<Duration>);

fn record(times: &mut Times, (first, second): (Duration, Duration)) {
    times.0.push(first);
    times.1.push(second);
}

fn show(name: &str, times: &mut Times) {
    let column = |times: &mut Vec<Duration>| {
        times.sort();
        let at = |part: usize| times[(times.len() * part / 100).min(times.len() - 1)].as_micros();
        format!("{} ({})", at(50), at(90))
    };
    println!("{name:<34} {:>14} {:>14}", column(&mut times.0), column(&mut times.1));
}

fn with_standard_library() -> (Duration, Duration) {
    let start = Instant::now();
    let mut command = Command::new("/bin/true");
    command.env_clear().env("PATH", "/bin").stdin(Stdio::null());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("/bin/true starts");
    let started = start.elapsed();
    child.wait().expect("a child can be waited for");
    (started, start.elapsed())
}

fn with_ours(containment: &Containment) -> (Duration, Duration) {
    let start = Instant::now();
    let child = spawn(&["/bin/true"], containment);
    let started = start.elapsed();
    wait(&child);
    (started, start.elapsed())
}

fn kill(containment: &Containment, members: u32) -> (Duration, Duration) {
    let script = format!(
        "i=1; while [ $i -lt {members} ]; do sleep 100 & i=$((i+1)); done; echo; exec sleep 100"
    );
    let child = spawn(&["/bin/sh", "-c", &script], containment);
    let stdout = child.stdout.as_ref().expect("a pipe was asked for");
    poll(stdout.as_raw_fd());
    let start = Instant::now();
    child.group.kill().expect("a group can be killed");
    let killed = start.elapsed();
    while !child.group.is_empty() {
        std::thread::yield_now();
    }
    let empty = start.elapsed();
    wait(&child);
    (killed, empty)
}

fn spawn(argv: &[&str], containment: &Containment) -> Spawned {
    let strings = |words: &[&str]| -> Vec<CString> {
        words.iter().map(|word| CString::new(*word).expect("no NUL in it")).collect()
    };
    sys::spawn(&SpawnRequest {
        argv: &strings(argv),
        program: &strings(&argv[..1]),
        env: &strings(&["PATH=/bin"]),
        cwd: c"/",
        stdio: ChildStdio::Pipes { stdin: false },
        containment,
        limits: &[],
        group_limits: Default::default(),
        launch: None,
    })
    .expect("the program starts")
}

fn wait(child: &Spawned) {
    poll(child.pidfd.as_raw_fd());
    sys::try_wait(child.pidfd.as_fd()).expect("a child can be waited for");
}

fn poll(fd: i32) {
    let mut poll = libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
    // SAFETY: one valid pollfd.
    unsafe { libc::poll(&raw mut poll, 1, -1) };
}
