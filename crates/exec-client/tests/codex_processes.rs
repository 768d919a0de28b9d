//! Processes on the real codex server, over an undisturbed connection.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking, its helpers too")]

use std::time::Duration;

use exec_client::{ExecServerClient, ExecServerError, ProcessEvent};
use exec_protocol::methods::ProcessRead;
use exec_protocol::process::{ReadParams, Stream, TerminateMode};
use exec_testkit::codex::{CodexHome, codex_binary};
use futures_util::StreamExt as _;
use futures_util::future::join_all;

use support::{shell, soon};

mod support;

#[tokio::test]
async fn output_and_exit_code_are_collected() {
    let codex = codex_or_skip!();
    let client = codex.client().await;
    let process = client.start(shell("p", "echo out; echo err >&2; exit 7")).await.unwrap();
    let output = soon(process.communicate(b"")).await.unwrap();
    assert_eq!((&output.stdout[..], &output.stderr[..]), (&b"out\n"[..], &b"err\n"[..]));
    assert_eq!((output.code, output.gap_bytes), (7, Some(0)));
    assert_eq!(soon(process.wait()).await.unwrap().code, 7, "it can be asked again");
}

#[tokio::test]
async fn exit_codes_are_as_exited_or_128_and_the_signal() {
    let codex = codex_or_skip!();
    let client = codex.client().await;
    for (script, code) in [("exit 0", 0), ("exit 255", 255), ("kill -TERM $$", 143)] {
        let process = client.start(shell(script, script)).await.unwrap();
        assert_eq!(soon(process.wait()).await.unwrap().code, code, "{script}");
    }
}

#[tokio::test]
async fn a_start_that_fails_is_an_answer_of_the_server() {
    let codex = codex_or_skip!();
    let client = codex.client().await;
    let mut params = shell("p", "");
    params.argv = vec!["/no/such/program".to_owned()];
    let error = soon(client.start(params)).await.unwrap_err();
    assert_eq!(error.code(), Some(-32603), "{error}");
    // The id is free again.
    let process = client.start(shell("p", "true")).await.unwrap();
    assert!(soon(process.wait()).await.unwrap().success());
}

#[tokio::test]
async fn stdin_is_written_through_a_pipe() {
    let codex = codex_or_skip!();
    let client = codex.client().await;
    let mut params = shell("p", "read a; read b; echo $b$a");
    params.pipe_stdin = true;
    let process = client.start(params).await.unwrap();
    process.write(b"one\n").await.unwrap();
    process.write(b"two\n").await.unwrap();
    let yielded = soon(process.collect_for(Duration::from_secs(10), 1000)).await.unwrap();
    assert_eq!(yielded.output, b"twoone\n");
    assert!(yielded.closed && yielded.exited.is_some_and(|status| status.success()));
}

#[tokio::test]
async fn what_codex_lacks_is_refused_before_anything_happens() {
    let codex = codex_or_skip!();
    let client = codex.client().await;
    assert!(!client.supports_process_control());
    let mut params = shell("p", "cat");
    params.pipe_stdin = true;
    let process = client.start(params).await.unwrap();
    let error = process.communicate(b"input").await.unwrap_err();
    assert!(matches!(error, ExecServerError::Unsupported(_)), "{error}");
    assert!(matches!(process.close_stdin().await, Err(ExecServerError::Unsupported(_))));
    let plain = client.start(shell("q", "true")).await.unwrap();
    assert!(matches!(plain.write(b"x").await, Err(ExecServerError::WriteRefused(_))));
}

#[tokio::test]
async fn a_terminal_is_written_to_and_sees_the_end() {
    let codex = codex_or_skip!();
    let client = codex.client().await;
    let mut params = shell("p", "stty -echo; echo ready; cat; echo end");
    params.tty = true;
    let process = client.start(params).await.unwrap();
    let ready = soon(process.next_event()).await.unwrap();
    assert!(matches!(ready, ProcessEvent::Output { stream: Stream::Pty, .. }), "{ready:?}");
    let output = soon(process.communicate(b"hello\nunfinished")).await.unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "hello\r\nunfinishedend\r\n");
    assert_eq!(output.code, 0);
}

#[tokio::test]
async fn interrupt_reaches_the_process() {
    let codex = codex_or_skip!();
    let client = codex.client().await;
    let script = "trap 'echo caught; exit 9' INT; echo ready; while :; do sleep 0.05; done";
    let process = client.start(shell("p", script)).await.unwrap();
    assert!(matches!(soon(process.next_event()).await, Some(ProcessEvent::Output { .. })));
    process.interrupt().await.unwrap();
    let output = soon(process.communicate(b"")).await.unwrap();
    assert_eq!((&output.stdout[..], output.code), (&b"caught\n"[..], 9));
}

#[tokio::test]
async fn terminate_kills_and_a_dropped_handle_does_too() {
    let codex = codex_or_skip!();
    let client = codex.client().await;
    let process = client.start(shell("p", "sleep 1000")).await.unwrap();
    assert!(process.terminate(TerminateMode::Force).await.unwrap());
    assert_eq!(soon(process.wait()).await.unwrap().code, 137);
    assert!(!process.terminate(TerminateMode::Force).await.unwrap());

    drop(client.start(shell("q", "sleep 1000")).await.unwrap());
    client.start(shell("r", "sleep 1000")).await.unwrap().detach();
    assert!(exits(&client, "q").await);
    assert!(!exits(&client, "r").await);
}

async fn exits(client: &ExecServerClient, id: &str) -> bool {
    for _ in 0..20 {
        let params = ReadParams {
            process_id: id.into(),
            after_seq: None,
            max_bytes: None,
            wait_ms: Some(20),
        };
        if client.call::<ProcessRead>(params).await.unwrap().exited {
            return true;
        }
    }
    false
}

#[tokio::test]
async fn twenty_processes_at_once_keep_their_output_apart() {
    let codex = codex_or_skip!();
    let client = codex.client().await;
    let run = async |number: u32| {
        let script = format!("for i in 1 2 3 4 5; do seq {number} 1000; done; exit {number}");
        let process = client.start(shell(&format!("p{number}"), &script)).await.unwrap();
        let output = process.communicate(b"").await.unwrap();
        let once: String = (number..=1000).map(|line| format!("{line}\n")).collect();
        assert_eq!(String::from_utf8(output.stdout).unwrap(), once.repeat(5));
        assert_eq!(u32::try_from(output.code), Ok(number));
    };
    soon(join_all((0..20).map(run))).await;
}

#[tokio::test]
async fn output_beyond_the_queue_arrives_whole_however_slowly_it_is_taken() {
    let codex = codex_or_skip!();
    let client = codex.client().await;
    let bytes = 12_000_000;
    let script = format!("head -c {bytes} /dev/zero; echo done >&2");
    let process = client.start(shell("p", &script)).await.unwrap();
    // Long enough for the queue, the socket and the server's own queue to fill.
    tokio::time::sleep(Duration::from_millis(300)).await;
    let mut taken = 0;
    let mut events = process.events();
    while let Some(event) = soon(events.next()).await {
        match event {
            ProcessEvent::Output { stream: Stream::Stdout, bytes, .. } => taken += bytes.len(),
            ProcessEvent::Output { bytes, .. } => assert_eq!(bytes, b"done\n"),
            ProcessEvent::Exited { code, .. } => assert_eq!(code, 0),
            ProcessEvent::Closed => {}
            ProcessEvent::Gap { .. } | ProcessEvent::Lost(_) => panic!("{event:?}"),
        }
    }
    assert_eq!(taken, bytes);
}

#[tokio::test]
async fn a_yield_window_returns_what_there_is_and_keeps_the_rest() {
    let codex = codex_or_skip!();
    let client = codex.client().await;
    let mut params = shell("p", "echo 12345; read go; echo 67890");
    params.pipe_stdin = true;
    let process = client.start(params).await.unwrap();
    let first = soon(process.collect_for(Duration::MAX, 3)).await.unwrap();
    assert_eq!((&first.output[..], first.full, first.closed), (&b"123"[..], true, false));
    let second = soon(process.collect_for(Duration::from_millis(50), 100)).await.unwrap();
    assert_eq!((&second.output[..], second.exited), (&b"45\n"[..], None));
    process.write(b"go\n").await.unwrap();
    let third = soon(process.collect_for(Duration::from_secs(10), 100)).await.unwrap();
    assert_eq!((&third.output[..], third.closed), (&b"67890\n"[..], true));
}

#[tokio::test]
async fn the_environment_is_told() {
    let codex = codex_or_skip!();
    let client = codex.client().await;
    let info = client.environment_info().await.unwrap();
    assert_eq!(info.executor_version, client.environment().unwrap().executor_version);
    client.environment_status().await.unwrap();
    let error = client.list().await.unwrap_err();
    assert_eq!(error.code(), Some(-32601), "{error}");
    let observer = client.clone();
    client.close().await;
    assert!(observer.is_closed());
    assert!(observer.environment_status().await.unwrap_err().is_connection_lost());
}

#[tokio::test]
async fn a_program_is_driven_over_its_stdio() {
    let binary = match codex_binary() {
        Ok(binary) => binary,
        Err(skip) => return println!("{skip}"),
    };
    let home = CodexHome::new().unwrap();
    let mut command = home.exec_server(&binary);
    command.args(["--listen", "stdio"]);
    let client = ExecServerClient::connect_stdio(command.into(), Default::default()).await.unwrap();
    let process = client.start(shell("p", "echo $PPID; exit 3")).await.unwrap();
    let output = soon(process.communicate(b"")).await.unwrap();
    assert_eq!(output.code, 3);
    let server: u32 = String::from_utf8(output.stdout).unwrap().trim().parse().unwrap();
    assert!(exec_testkit::leaks::is_alive(server));
    drop(process);
    soon(client.close()).await;
    assert!(!exec_testkit::leaks::is_alive(server), "it was reaped");
}

#[tokio::test]
async fn a_program_that_ends_loses_what_ran_on_it() {
    let binary = match codex_binary() {
        Ok(binary) => binary,
        Err(skip) => return println!("{skip}"),
    };
    let home = CodexHome::new().unwrap();
    let mut command = home.exec_server(&binary);
    command.args(["--listen", "stdio"]);
    let client = ExecServerClient::connect_stdio(command.into(), Default::default()).await.unwrap();
    let process =
        client.start(shell("p", "sleep 0.3; kill -KILL $PPID; exec sleep 1000")).await.unwrap();
    let error = soon(process.wait()).await.unwrap_err();
    assert!(error.is_connection_lost(), "{error}");
    assert!(client.is_closed());
}

#[tokio::test]
async fn a_program_that_is_not_there_cannot_be_started() {
    let program = tokio::process::Command::new("/no/such/server");
    let error = ExecServerClient::connect_stdio(program, Default::default()).await.unwrap_err();
    assert!(error.to_string().starts_with("cannot start /no/such/server"), "{error}");
}
