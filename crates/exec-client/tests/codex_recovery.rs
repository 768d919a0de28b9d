//! Cut connections to the real codex server, through a proxy that does the cutting.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking, its helpers too")]

use std::time::Duration;

use exec_client::{ExecServerClientConnectOptions, ExecServerError, LostReason, ProcessEvent};
use exec_protocol::methods::ProcessRead;
use exec_protocol::process::ReadParams;

use support::{Proxy, shell, soon};

mod support;

#[tokio::test]
async fn cuts_in_the_middle_of_output_only_delay_it() {
    let codex = codex_or_skip!();
    let proxy = Proxy::start(codex.url()).await;
    let client = proxy.client(Default::default()).await;
    let script =
        "i=0; while [ $i -lt 300 ]; do i=$((i+1)); echo line $i; sleep 0.004; done; exit 4";
    let process = client.start(shell("p", script)).await.unwrap();
    let cutting = async {
        for pause_ms in [150, 300, 20, 400, 5] {
            tokio::time::sleep(Duration::from_millis(pause_ms)).await;
            proxy.cut();
        }
    };
    let (output, ()) = soon(async { tokio::join!(process.communicate(b""), cutting) }).await;
    let output = output.unwrap();
    let expected: String = (1..=300).map(|line| format!("line {line}\n")).collect();
    assert_eq!(String::from_utf8(output.stdout).unwrap(), expected);
    assert_eq!((output.code, output.gap_bytes), (4, Some(0)));
}

#[tokio::test]
async fn an_end_during_the_cut_is_found_afterwards() {
    let codex = codex_or_skip!();
    let proxy = Proxy::start(codex.url()).await;
    let client = proxy.client(Default::default()).await;
    let script = "echo before; sleep 0.2; echo during; exit 6";
    let process = client.start(shell("p", script)).await.unwrap();
    assert!(matches!(soon(process.next_event()).await, Some(ProcessEvent::Output { .. })));
    proxy.refuse(true);
    proxy.cut();
    tokio::time::sleep(Duration::from_millis(600)).await;
    assert!(!client.is_closed());
    proxy.refuse(false);
    let output = soon(process.communicate(b"")).await.unwrap();
    assert_eq!((&output.stdout[..], output.code), (&b"during\n"[..], 6));
}

#[tokio::test]
async fn a_flood_during_cuts_is_whole_or_tells_its_gap() {
    let codex = codex_or_skip!();
    let proxy = Proxy::start(codex.url()).await;
    let client = proxy.client(Default::default()).await;
    let bytes = 30_000_000;
    let script = format!("head -c {bytes} /dev/zero; exit 5");
    let process = client.start(shell("p", &script)).await.unwrap();
    let cutting = async {
        for _ in 0..5 {
            tokio::time::sleep(Duration::from_millis(60)).await;
            proxy.cut();
        }
    };
    let (output, ()) = soon(async { tokio::join!(process.communicate(b""), cutting) }).await;
    let output = output.unwrap();
    assert_eq!(output.code, 5);
    match output.gap_bytes {
        Some(gap) => assert_eq!((gap, output.stdout.len()), (0, bytes)),
        None => assert!(output.stdout.len() < bytes),
    }
}

#[tokio::test]
async fn a_write_in_flight_is_made_exactly_once() {
    let codex = codex_or_skip!();
    let proxy = Proxy::start(codex.url()).await;
    let client = proxy.client(Default::default()).await;
    let mut params = shell("p", "read a; echo got $a; read b; echo then $b");
    params.pipe_stdin = true;
    let process = client.start(params).await.unwrap();
    proxy.mute(true);
    let cutting = async {
        // The server has the write and has answered it, but nobody heard.
        tokio::time::sleep(Duration::from_millis(200)).await;
        proxy.mute(false);
        proxy.cut();
    };
    let (written, ()) = soon(async { tokio::join!(process.write(b"one\n"), cutting) }).await;
    written.unwrap();
    process.write(b"two\n").await.unwrap();
    let output = soon(process.collect_for(Duration::from_secs(10), 1000)).await.unwrap();
    assert_eq!(String::from_utf8_lossy(&output.output), "got one\nthen two\n");
    assert!(output.closed);
}

#[tokio::test]
async fn a_start_in_flight_is_not_repeated_but_undone() {
    let codex = codex_or_skip!();
    let proxy = Proxy::start(codex.url()).await;
    let client = proxy.client(Default::default()).await;
    proxy.mute(true);
    let cutting = async {
        tokio::time::sleep(Duration::from_millis(200)).await;
        proxy.mute(false);
        proxy.cut();
    };
    let start = client.start(shell("p", "sleep 1000"));
    let (started, ()) = soon(async { tokio::join!(start, cutting) }).await;
    assert!(matches!(started, Err(ExecServerError::ConnectionLost(_))), "{started:?}");
    let read = || ReadParams {
        process_id: "p".into(),
        after_seq: None,
        max_bytes: None,
        wait_ms: Some(100),
    };
    let ended = async || match client.call::<ProcessRead>(read()).await {
        Ok(page) => page.exited,
        // The server had not come to it before the end of it was asked for.
        Err(error) => error.code() == Some(-32600),
    };
    soon(async { while !ended().await {} }).await;
}

#[tokio::test]
async fn calls_during_a_cut_wait_for_the_resume() {
    let codex = codex_or_skip!();
    let proxy = Proxy::start(codex.url()).await;
    let client = proxy.client(Default::default()).await;
    proxy.refuse(true);
    proxy.cut();
    let resuming = async {
        tokio::time::sleep(Duration::from_millis(250)).await;
        proxy.refuse(false);
    };
    let start = client.start(shell("p", "echo started"));
    let (status, started, ()) =
        soon(async { tokio::join!(client.environment_status(), start, resuming) }).await;
    // The cut may be noticed only with the first message on it; a start on it is then not repeated.
    status.unwrap();
    match started {
        Ok(process) => assert_eq!(process.communicate(b"").await.unwrap().stdout, b"started\n"),
        Err(error) => assert!(error.is_connection_lost(), "{error}"),
    }
}

#[tokio::test]
async fn when_the_window_has_passed_everything_is_lost() {
    let codex = codex_or_skip!();
    let proxy = Proxy::start(codex.url()).await;
    let window = Duration::from_millis(400);
    let options = ExecServerClientConnectOptions { recovery_window: window, ..Default::default() };
    let client = proxy.client(options).await;
    let process = client.start(shell("p", "sleep 1000")).await.unwrap();
    proxy.refuse(true);
    proxy.cut();
    let event = soon(process.next_event()).await;
    assert!(matches!(event, Some(ProcessEvent::Lost(LostReason::Connection(_)))), "{event:?}");
    assert_eq!(soon(process.next_event()).await, None);
    assert!(client.is_closed());
    assert!(process.wait().await.unwrap_err().is_connection_lost());
    assert!(process.write(b"x").await.unwrap_err().is_connection_lost());
    assert!(process.exit_status().is_none(), "a lost transport is no exit");
}

#[tokio::test]
async fn a_session_is_continued_by_another_client() {
    let codex = codex_or_skip!();
    let first = codex.client().await;
    let process = first.start(shell("p", "echo early; sleep 1; echo late; exit 2")).await.unwrap();
    process.detach();
    let resume_session_id = Some(first.session_id().to_owned());
    first.close().await;
    let options = ExecServerClientConnectOptions { resume_session_id, ..Default::default() };
    let proxy = Proxy::start(codex.url()).await;
    let second = proxy.client(options).await;
    let process = second.attach("p".into()).await.unwrap();
    let output = soon(process.collect_for(Duration::from_secs(10), 1000)).await.unwrap();
    assert_eq!((&output.output[..], output.gap_bytes), (&b"early\nlate\n"[..], Some(0)));
    assert_eq!(output.exited.map(|status| status.code), Some(2));
}

#[tokio::test]
async fn a_connection_that_has_gone_silent_is_replaced() {
    let codex = codex_or_skip!();
    let proxy = Proxy::start(codex.url()).await;
    let options = ExecServerClientConnectOptions {
        silence_limit: Some(Duration::from_millis(300)),
        initialize_timeout: Duration::from_millis(200),
        connect_timeout: Duration::from_millis(200),
        ..Default::default()
    };
    let client = proxy.client(options).await;
    let process = client.start(shell("p", "sleep 0.5; echo after; exit 1")).await.unwrap();
    // Quiet but alive: pings are answered.
    tokio::time::sleep(Duration::from_millis(400)).await;
    proxy.mute(true);
    let unmuting = async {
        tokio::time::sleep(Duration::from_millis(500)).await;
        proxy.mute(false);
    };
    let (output, ()) = soon(async { tokio::join!(process.communicate(b""), unmuting) }).await;
    let output = output.unwrap();
    assert_eq!((&output.stdout[..], output.code), (&b"after\n"[..], 1));
}
