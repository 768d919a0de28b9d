//! The start and the end of a confined command.

use std::task::Poll;
use std::time::Instant;

use exec_process::Error;

use crate::bench::{Bench, Ended, Scratch, ended, eventually, processes_named};

crate::scenarios! {
    a_command_runs_and_its_end_becomes_its_code,
    a_program_that_is_missing_fails_as_without_confinement,
    a_directory_that_is_missing_fails_as_without_confinement,
    a_name_is_looked_for_along_the_path,
    input_reaches_the_command,
    a_stream_ends_when_the_command_closes_it,
    a_signal_reaches_the_commands_group_and_its_trap,
    a_terminated_command_leaves_nothing,
    what_is_left_in_the_background_ends_with_the_command,
    sixteen_at_once,
    a_start_that_nobody_waits_for_leaves_nothing,
    a_step_that_fails_is_named_and_leaves_nothing,
    the_usage_is_known_at_the_end,
    a_filter_alone_needs_no_namespace,
    landlock_alone_needs_no_namespace,
}

async fn a_command_runs_and_its_end_becomes_its_code() {
    let bench = Bench::read_only();
    for (script, code) in [
        ("exit 0", 0),
        ("exit 7", 7),
        ("exit 255", 255),
        ("kill -TERM $$", 143),
        ("kill -9 $$", 137),
    ] {
        assert_eq!(bench.shell(script).await.code, code, "{script}");
    }
    let ended = bench.shell("echo out; echo err >&2").await;
    assert_eq!(ended, Ended { code: 0, stdout: "out\n".into(), stderr: "err\n".into() });
}

/// What the same command is answered without confinement.
async fn bare(bench: &Bench, argv: &[&str]) -> String {
    match bench.start_bare(argv) {
        Err(error) => error.to_string(),
        Ok(process) => panic!("{argv:?} ran: {:?}", ended(&process).await),
    }
}

async fn a_program_that_is_missing_fails_as_without_confinement() {
    let bench = Bench::read_only();
    for argv in
        [["/nonexistent"], ["no-such-program"], ["/etc/passwd"], ["/etc"], ["/etc/passwd/x"]]
    {
        let error = bench.start(&argv).await.unwrap_err();
        assert!(matches!(error, Error::Spawn(_)), "{argv:?}: {error:?}");
        assert_eq!(error.to_string(), bare(&bench, &argv).await, "{argv:?}");
    }
}

async fn a_directory_that_is_missing_fails_as_without_confinement() {
    for cwd in ["/nonexistent", "/etc/passwd"] {
        let bench = Bench::read_only().cwd(cwd);
        let error = bench.start(&["/bin/true"]).await.unwrap_err();
        assert_eq!(error.to_string(), bare(&bench, &["/bin/true"]).await, "{cwd}");
    }
    let bench = Bench::read_only().cwd("/usr/bin");
    assert_eq!(bench.shell("pwd").await.stdout, "/usr/bin\n");
}

async fn a_name_is_looked_for_along_the_path() {
    let bench = Bench::read_only();
    let process = bench.start(&["sh", "-c", "echo $0 $#", "named", "x"]).await.unwrap();
    assert_eq!(ended(&process).await.stdout, "named 1\n");
}

async fn input_reaches_the_command() {
    let mut bench = Bench::read_only();
    bench.stdin = true;
    let process = bench.start(&["/bin/cat"]).await.unwrap();
    process.write(b"through".to_vec(), None).await.unwrap();
    process.close_stdin().await;
    assert_eq!(
        ended(&process).await,
        Ended { code: 0, stdout: "through".into(), stderr: String::new() }
    );
}

/// The first process inside must not hold the command's streams open.
async fn a_stream_ends_when_the_command_closes_it() {
    let bench = Bench::read_only();
    let script = "exec 1>&- 2>&-; exec sleep 100";
    let process = bench.start(&["/bin/sh", "-c", script]).await.unwrap();
    eventually("only the null device is open", || {
        let inside = processes_named(process.pid());
        inside.iter().any(|(pid, name)| {
            name == "sleep" && std::fs::read_link(format!("/proc/{pid}/fd/1")).is_err()
        }) && std::fs::read_dir(format!("/proc/{}/fd", process.pid())).map_or(true, |all| {
            // Not dumpable: another user's, unless root looks.
            all.flatten().all(|fd| {
                std::fs::read_link(fd.path())
                    .is_ok_and(|to| to.to_string_lossy().starts_with("socket:"))
            })
        })
    });
    process.terminate();
    ended(&process).await;
}

async fn a_signal_reaches_the_commands_group_and_its_trap() {
    let bench = Bench::read_only();
    let script = "trap 'echo trapped; exit 3' INT; echo ready; sleep 100 & wait";
    let process = bench.start(&["/bin/sh", "-c", script]).await.unwrap();
    bench.until(&process, "ready").await;
    process.interrupt().unwrap();
    let result = ended(&process).await;
    assert_eq!((result.code, result.stdout.as_str()), (3, "ready\ntrapped\n"));

    let process = bench.start(&["/bin/sh", "-c", "echo ready; exec sleep 100"]).await.unwrap();
    bench.until(&process, "ready").await;
    process.interrupt().unwrap();
    assert_eq!(ended(&process).await.code, 130);

    let script = "trap 'echo ended; exit 4' TERM; echo ready; sleep 100 & wait";
    let process = bench.start(&["/bin/sh", "-c", script]).await.unwrap();
    bench.until(&process, "ready").await;
    assert!(process.terminate_gracefully(crate::bench::PATIENCE));
    assert_eq!(ended(&process).await.code, 4);
}

async fn a_terminated_command_leaves_nothing() {
    let bench = Bench::read_only();
    let script = "trap '' TERM INT; setsid sleep 123 & (setsid sleep 123 &); echo ready; sleep 123";
    let process = bench.start(&["/bin/sh", "-c", script]).await.unwrap();
    bench.until(&process, "ready").await;
    let inside = processes_named(process.pid());
    assert!(inside.len() >= 4, "{inside:?}");
    assert!(process.terminate());
    assert_eq!(ended(&process).await.code, 137);
    eventually("all are gone", || {
        inside.iter().all(|(pid, _)| !std::path::Path::new(&format!("/proc/{pid}")).exists())
    });
}

async fn what_is_left_in_the_background_ends_with_the_command() {
    let bench = Bench::read_only();
    let result = bench.shell("(setsid sleep 100 &); setsid sleep 100 & echo done").await;
    assert_eq!((result.code, result.stdout.as_str()), (0, "done\n"));
}

async fn sixteen_at_once() {
    let bench = Bench::read_only();
    let runs = (0..16).map(|number| {
        let bench = &bench;
        async move { bench.shell(&format!("echo {number}; exit {number}")).await }
    });
    let results = futures_util::future::join_all(runs).await;
    for (number, result) in (0..).zip(results) {
        assert_eq!((result.code, result.stdout), (number, format!("{number}\n")));
    }
}

async fn a_start_that_nobody_waits_for_leaves_nothing() {
    let bench = Bench::read_only();
    let before = own_children();
    {
        let start = bench.start(&["/bin/sleep", "100"]);
        tokio::pin!(start);
        // Polled once: the child is made, and nobody has heard of it yet.
        let polled = std::future::poll_fn(|cx| Poll::Ready(start.as_mut().poll(cx))).await;
        assert!(polled.is_pending());
    }
    let deadline = Instant::now() + crate::bench::PATIENCE;
    while own_children() != before {
        assert!(Instant::now() < deadline, "a child is left");
        tokio::time::sleep(std::time::Duration::from_millis(2)).await;
    }
}

/// Children of this process but for the guardian, which is there before and after.
fn own_children() -> Vec<String> {
    let threads = std::fs::read_dir("/proc/self/task").unwrap().flatten();
    let mut children: Vec<String> = threads
        .filter_map(|thread| std::fs::read_to_string(thread.path().join("children")).ok())
        .flat_map(|list| list.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
        .collect();
    children.sort();
    children
}

async fn a_step_that_fails_is_named_and_leaves_nothing() {
    use exec_sandbox::plan::{Access, Mount};
    let before = own_children();
    let path = "/nonexistent/place".into();
    let bench = Bench::read_only().mount([Mount::Bind { path, access: Access::ReadOnly }]);
    let children = own_children();
    let error = bench.start(&["/bin/true"]).await.unwrap_err();
    assert!(matches!(error, Error::Confine(_)), "{error:?}");
    let text = error.to_string();
    assert!(text.contains("mount /nonexistent/place read-only"), "{text}");
    assert!(text.contains("No such file or directory (os error 2)"), "{text}");
    assert_eq!(own_children(), children, "and {before:?} before");
}

async fn the_usage_is_known_at_the_end() {
    let bench = Bench::read_only();
    let script = "i=0; while [ $i -lt 30000 ]; do i=$((i+1)); done";
    let process = bench.start(&["/bin/sh", "-c", script]).await.unwrap();
    ended(&process).await;
    let usage = process.state().exit.unwrap().usage;
    assert!(usage.cpu > std::time::Duration::from_millis(1), "{usage:?}");
    assert!(usage.memory_bytes_max > 100 << 10, "{usage:?}");
}

async fn a_filter_alone_needs_no_namespace() {
    use exec_sandbox::plan::Filter;
    let mut bench = Bench::read_only();
    bench.plan.view = None;
    bench.plan.filter = Filter::Restricted;
    let scratch = Scratch::new();
    let file = scratch.path.join("x");
    let script = format!(
        "echo x > {} && grep -E 'NoNewPrivs|Seccomp:' /proc/self/status; echo $$ $PPID; trap 'exit 3' INT; echo ready; sleep 100 > /dev/null 2>&1 & wait; exit 9",
        file.display()
    );
    let process = bench.start(&["/bin/sh", "-c", &script]).await.unwrap();
    bench.until(&process, "ready").await;
    process.interrupt().unwrap();
    let result = ended(&process).await;
    let expected =
        format!("NoNewPrivs:\t1\nSeccomp:\t2\n{} {}\nready\n", process.pid(), std::process::id());
    assert_eq!((result.code, result.stdout), (3, expected), "{}", result.stderr);
    let error = bench.start(&["/nonexistent"]).await.unwrap_err();
    assert_eq!(error.to_string(), "No such file or directory (os error 2)");
}

async fn landlock_alone_needs_no_namespace() {
    use exec_sandbox::linux::landlock::{self, Wanted};
    use exec_sandbox::linux::{builtin::Options, landlock_only};
    let scratch = Scratch::new();
    let (open, shut) = (scratch.path.join("open"), scratch.path.join("shut"));
    std::fs::create_dir(&open).unwrap();
    std::fs::create_dir(&shut).unwrap();
    let writable = [open];
    let wanted = Wanted {
        reads_everything: true,
        writable: &writable,
        carve_outs: &[],
        protects_metadata: false,
        accept_unprotected_metadata: false,
        network: exec_sandbox::plan::Network::Isolated,
    };
    let ruleset = match landlock::alone(landlock::abi(), &wanted) {
        Ok(ruleset) => ruleset,
        Err(reason) => return exec_testkit::skip(format!("Landlock alone: {reason}")),
    };
    for terminal in [false, true] {
        let mut bench = Bench::read_only().cwd(&scratch.path);
        bench.terminal = terminal;
        let script = "echo x > open/a && cat open/a; echo y > /dev/null; echo z > /dev/stdout; \
            grep -E 'CapEff|NoNew' /proc/self/status; echo x > shut/a";
        let process = bench
            .start_by(&["/bin/sh", "-c", script], |plan, command| {
                landlock_only::launch(&ruleset, plan, command, &Options::default())
            })
            .await
            .unwrap();
        let result = ended(&process).await;
        let shown = result.stdout.replace('\r', "");
        let expected = "x\nz\nCapEff:\t0000000000000000\nNoNewPrivs:\t1\n";
        assert!(shown.starts_with(expected), "{result:?}");
        assert!(format!("{shown}{}", result.stderr).contains("Permission denied"), "{result:?}");
        assert_ne!(result.code, 0);
    }
}
