//! A process that talks over its real stdin and stdout: this test binary, started once more.

#![cfg(unix)]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking, its helpers too")]

use std::io::{BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};

const CHILD: &str = "EXEC_TRANSPORT_TEST_CHILD";

/// Does nothing in a normal run. In the child it sends every message back.
#[tokio::test]
async fn echo() {
    if std::env::var_os(CHILD).is_none() {
        return;
    }
    let mut connection = exec_transport::process_stdio().unwrap();
    while let Some(message) = connection.next_message().await.unwrap() {
        connection.send(&message).unwrap();
        connection.flush().await.unwrap();
    }
    connection.close().await;
    std::process::exit(0);
}

fn child(stdin: Stdio, stdout: Stdio) -> std::process::Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "echo", "--nocapture"])
        .env(CHILD, "1")
        .stdin(stdin)
        .stdout(stdout)
        .spawn()
        .unwrap()
}

/// Exchanges one short and one long message; the test harness's own output is passed over.
fn talk(mut input: impl Write, output: impl Read) {
    let mut lines = BufReader::new(output).lines();
    for message in ["{\"n\":1}".to_owned(), format!("\"{}\"", "x".repeat(500_000))] {
        writeln!(input, "{message}\r\n").unwrap();
        assert!(lines.any(|line| line.unwrap().ends_with(&message)));
    }
}

#[test]
fn pipes_carry_messages_and_end_with_stdin() {
    let mut child = child(Stdio::piped(), Stdio::piped());
    talk(child.stdin.take().unwrap(), child.stdout.take().unwrap());
    assert!(child.wait().unwrap().success());
}

#[test]
fn sockets_carry_messages_and_end_with_stdin() {
    let (ours, theirs) = UnixStream::pair().unwrap();
    let theirs: OwnedFd = theirs.into();
    let mut child = child(theirs.try_clone().unwrap().into(), theirs.into());
    talk(&ours, &ours);
    ours.shutdown(std::net::Shutdown::Write).unwrap();
    assert!(child.wait().unwrap().success());
}

#[test]
fn files_carry_messages_too() {
    let mut input = tempfile::tempfile().unwrap();
    let mut output = tempfile::tempfile().unwrap();
    writeln!(input, "{{\"from\":\"file\"}}").unwrap();
    input.seek(SeekFrom::Start(0)).unwrap();
    let mut child = child(input.into(), output.try_clone().unwrap().into());
    assert!(child.wait().unwrap().success());
    let mut text = String::new();
    output.seek(SeekFrom::Start(0)).unwrap();
    output.read_to_string(&mut text).unwrap();
    assert!(text.ends_with("{\"from\":\"file\"}\n"), "{text}");
}
