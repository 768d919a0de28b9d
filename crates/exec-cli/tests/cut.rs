//! A cut connection is a delay and nothing else, for `run` and for `shell`.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::process::Stdio;

use exec_testkit::server::ServerUnderTest;
use exec_testkit::tap::WireTap;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, Command};

fn server() -> ServerUnderTest {
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_exec-server"));
    command
        .env("EXEC_SERVER_HOME", env!("CARGO_TARGET_TMPDIR"))
        .args(["--listen", "ws://127.0.0.1:0"]);
    ServerUnderTest::start(command).unwrap()
}

fn client(args: &[&str]) -> Child {
    Command::new(env!("CARGO_BIN_EXE_exec-server"))
        .env("EXEC_SERVER_HOME", env!("CARGO_TARGET_TMPDIR"))
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap()
}

#[tokio::test]
async fn run_loses_no_line_and_no_exit_code() {
    let server = server();
    let tap = WireTap::start(server.url()).await.unwrap();
    let script = "for n in 1 2 3 4 5 6 7 8; do echo $n; read go; done; exit 5";
    let mut child = client(&["run", "--url", tap.url(), "--", "sh", "-c", script]);
    let mut stdin = child.stdin.take().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    for n in 1..=8 {
        assert_eq!(lines.next_line().await.unwrap().unwrap(), n.to_string());
        if n % 3 == 0 {
            tap.cut();
        }
        // While the line is down, this write waits in the client and is made once.
        stdin.write_all(b"go\n").await.unwrap();
        if n % 3 == 0 {
            tap.restore();
        }
    }
    assert_eq!(lines.next_line().await.unwrap(), None);
    assert_eq!(child.wait().await.unwrap().code(), Some(5));
}

#[tokio::test]
async fn a_shell_goes_on_after_a_cut() {
    let server = server();
    let tap = WireTap::start(server.url()).await.unwrap();
    let mut child = client(&["shell", "--url", tap.url(), "--cwd", "/"]);
    let mut stdin = child.stdin.take().unwrap();
    let mut stdout = child.stdout.take().unwrap();
    let mut seen = String::new();
    // Typed as a sum, so that the echo of the command is not taken for its output.
    stdin.write_all(b"echo before-$((1+1))\n").await.unwrap();
    read_until(&mut stdout, &mut seen, "before-2").await;
    tap.cut();
    stdin.write_all(b"echo after-$((2+2))\n").await.unwrap();
    tap.restore();
    read_until(&mut stdout, &mut seen, "after-4").await;
    stdin.write_all(b"exit 3\n").await.unwrap();
    stdout.read_to_string(&mut seen).await.unwrap();
    assert_eq!(child.wait().await.unwrap().code(), Some(3), "{seen}");
}

async fn read_until(from: &mut (impl AsyncReadExt + Unpin), seen: &mut String, text: &str) {
    let mut buffer = [0; 4096];
    while !seen.contains(text) {
        let bytes = from.read(&mut buffer).await.unwrap();
        assert!(bytes > 0, "ended before {text:?}: {seen}");
        seen.push_str(&String::from_utf8_lossy(&buffer[..bytes]));
    }
}
