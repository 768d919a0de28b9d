//! `ps`, `logs` and `kill` on a session that belongs to somebody else.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::process::{Command, Output};

use exec_testkit::peer::RawPeer;
use exec_testkit::server::ServerUnderTest;
use serde_json::json;

fn exec_server(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_exec-server"));
    command.env("EXEC_SERVER_HOME", env!("CARGO_TARGET_TMPDIR")).args(args);
    command
}

/// Runs one of the commands on the session, off the runtime's thread.
async fn look(command: &str, url: &str, session: &str, args: &[&str]) -> Output {
    let mut look = exec_server(&[command, "--url", url, "--session", session]);
    look.args(args);
    tokio::task::spawn_blocking(move || look.output().unwrap()).await.unwrap()
}

#[tokio::test]
async fn an_observer_sees_reads_and_ends_what_belongs_to_somebody_else() {
    let server = ServerUnderTest::start(exec_server(&["--listen", "ws://127.0.0.1:0"])).unwrap();
    let mut owner = RawPeer::websocket(server.url()).await.unwrap();
    let answer = owner.call_ok("initialize", json!({"clientName": "owner"})).await.unwrap();
    let session = answer["sessionId"].as_str().unwrap().to_owned();
    owner.send_text(r#"{"method":"initialized"}"#).await.unwrap();
    let script = "echo begun; echo aside >&2; exec sleep 1000";
    let params = json!({"processId": "job", "argv": ["/bin/sh", "-c", script], "cwd": "file:///",
        "env": {"PATH": "/usr/bin:/bin"}, "tty": false});
    owner.call_ok("process/start", params).await.unwrap();
    let read = json!({"processId": "job", "afterSeq": 1, "waitMs": 20_000});
    owner.call_ok("process/read", read).await.unwrap();

    let ps = look("ps", server.url(), &session, &[]).await;
    let shown = String::from_utf8(ps.stdout).unwrap();
    assert!(shown.lines().any(|l| l.starts_with("job") && l.contains("running")), "{shown}");
    let json = look("ps", server.url(), &session, &["--json"]).await;
    let list: serde_json::Value = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!(list["processes"][0]["argv"][2], script);

    let logs = look("logs", server.url(), &session, &["job"]).await;
    assert_eq!((&logs.stdout[..], &logs.stderr[..]), (&b"begun\n"[..], &b"aside\n"[..]));

    assert!(look("kill", server.url(), &session, &["job"]).await.status.success());
    let follow = look("logs", server.url(), &session, &["-f", "job"]).await;
    assert_eq!(follow.stdout, b"begun\n", "it ends when the process has closed");
    let again = look("kill", server.url(), &session, &["job", "other"]).await;
    assert_eq!(again.status.code(), Some(1));
    assert_eq!(String::from_utf8(again.stderr).unwrap(), "Error: not running: job, other\n");

    let status = owner.call_ok("environment/status", json!(null)).await.unwrap();
    assert_eq!(status, json!({"status": "ready"}), "the owner was not disturbed");
    let unknown = look("ps", server.url(), "no-such-session", &[]).await;
    assert!(String::from_utf8(unknown.stderr).unwrap().contains("unknown session id"));
}
