//! A confined command on a terminal.

use exec_protocol::process::TerminalSize;

use crate::bench::{Bench, ended};

crate::scenarios! {
    control_c_reaches_the_trap,
    the_terminal_is_the_commands_own,
    a_shell_has_job_control,
    a_resize_is_announced,
}

fn bench() -> Bench {
    let mut bench = Bench::read_only();
    bench.terminal = true;
    bench
}

async fn control_c_reaches_the_trap() {
    let bench = bench();
    let script = "trap 'echo trapped; exit 3' INT; echo ready; sleep 100 & wait";
    let process = bench.start(&["/bin/sh", "-c", script]).await.unwrap();
    bench.until(&process, "ready").await;
    process.write(b"\x03".to_vec(), None).await.unwrap();
    let result = ended(&process).await;
    assert_eq!(result.code, 3, "{result:?}");
    assert!(result.stdout.contains("trapped"), "{result:?}");
}

async fn the_terminal_is_the_commands_own() {
    let script = "tty; echo by-name > /dev/tty; echo again > /dev/stdout; ps -o sid=,tpgid= $$ | tr -s ' '; echo $$; stty size";
    let result = bench().shell(script).await;
    assert_eq!(
        result.stdout, "/dev/console\r\nby-name\r\nagain\r\n 2 2\r\n2\r\n24 80\r\n",
        "{result:?}"
    );
}

async fn a_shell_has_job_control() {
    let bench = bench();
    let process = bench.start(&["/bin/bash", "--norc", "--noprofile", "-i"]).await.unwrap();
    process.write(b"sleep 100\n".to_vec(), None).await.unwrap();
    crate::bench::eventually("sleep runs", || {
        crate::bench::processes_named(process.pid()).iter().any(|(_, name)| name == "sleep")
    });
    process.write(b"\x1a".to_vec(), None).await.unwrap();
    bench.until(&process, "Stopped").await;
    process.write(b"kill %1; fg; echo code=$?; exit 5\n".to_vec(), None).await.unwrap();
    let result = ended(&process).await;
    assert_eq!(result.code, 5, "{result:?}");
    assert!(result.stdout.contains("code=143"), "{result:?}");
    assert!(!result.stdout.contains("no job control"), "{result:?}");
}

async fn a_resize_is_announced() {
    let bench = bench();
    let script = "trap 'stty size; exit' WINCH; echo ready; while :; do sleep 0.05; done";
    let process = bench.start(&["/bin/bash", "-c", script]).await.unwrap();
    bench.until(&process, "ready").await;
    process.resize(TerminalSize { rows: 33, cols: 99 }).unwrap();
    let result = ended(&process).await;
    assert!(result.stdout.contains("33 99"), "{result:?}");
}
