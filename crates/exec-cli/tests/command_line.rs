//! The binary as a person uses it: what it prints, what it returns, what it refuses.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use exec_testkit::leaks;
use exec_testkit::server::ServerUnderTest;

fn exec_server(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_exec-server"));
    let home = Path::new(env!("CARGO_TARGET_TMPDIR")).join("no-configuration");
    command.env("EXEC_SERVER_HOME", home).env_remove("EXEC_SERVER_URL").args(args);
    command
}

fn output(args: &[&str]) -> Output {
    exec_server(args).stdin(Stdio::null()).output().unwrap()
}

fn with_input(args: &[&str], input: &[u8]) -> Output {
    let mut child = exec_server(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let input = input.to_vec();
    let writer = std::thread::spawn(move || stdin.write_all(&input));
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap().ok();
    output
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap().trim_end()
}

fn refused(args: &[&str], status: i32, message: &str) {
    let output = output(args);
    assert_eq!(output.status.code(), Some(status), "{args:?}: {}", text(&output.stderr));
    assert_eq!(text(&output.stderr), message, "{args:?}");
    assert!(output.stdout.is_empty(), "{args:?}");
}

#[test]
fn run_passes_streams_and_exit_code_through() {
    let script = "read line; echo \"got $line\"; echo problem >&2; exit 7";
    let output = with_input(&["run", "--", "sh", "-c", script], b"hello\n");
    assert_eq!(output.status.code(), Some(7));
    assert_eq!(text(&output.stdout), "got hello");
    assert_eq!(text(&output.stderr), "problem");
}

#[test]
fn run_carries_every_byte_both_ways() {
    let input: Vec<u8> =
        (0..3_000_000u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    let output = with_input(&["run", "--", "cat"], &input);
    assert!(output.status.success());
    assert!(output.stdout == input, "{} of {} bytes", output.stdout.len(), input.len());
}

#[test]
fn run_sets_directory_and_variables() {
    let output = output(&["run", "--cwd", "/usr", "-e", "A=1=2", "--", "sh", "-c", "pwd; echo $A"]);
    assert_eq!(text(&output.stdout), "/usr\n1=2");
}

#[test]
fn run_says_what_could_not_be_started() {
    refused(
        &["run", "--", "/nowhere/x"],
        127,
        "Error: No such file or directory (os error 2) (-32603)",
    );
    refused(&["run", "--", "/etc/passwd"], 126, "Error: Permission denied (os error 13) (-32603)");
}

#[test]
fn run_gives_a_terminal() {
    let output = output(&["run", "--tty", "--", "sh", "-c", "tty -s && echo yes"]);
    assert_eq!(text(&output.stdout), "yes");
}

#[test]
fn an_interrupt_reaches_the_command() {
    let script = "trap 'echo trapped; exit 9' INT; echo ready; while :; do sleep 0.05; done";
    let mut child = exec_server(&["run", "--", "sh", "-c", script])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdout = std::io::BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    std::io::BufRead::read_line(&mut stdout, &mut line).unwrap();
    assert_eq!(line, "ready\n");
    // SAFETY: a signal to a child that has not been waited for.
    unsafe { libc::kill(i32::try_from(child.id()).unwrap(), libc::SIGINT) };
    let mut rest = String::new();
    std::io::Read::read_to_string(&mut stdout, &mut rest).unwrap();
    assert_eq!(rest, "trapped\n");
    assert_eq!(child.wait().unwrap().code(), Some(9));
}

#[test]
fn killing_run_kills_the_command() {
    let marker = format!("exec-cli-killed-{}", std::process::id());
    let script = format!("setsid sh -c 'sleep 1000; : {marker}' & echo ready; wait");
    let mut child = exec_server(&["run", "--", "sh", "-c", &script])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdout = std::io::BufReader::new(child.stdout.take().unwrap());
    std::io::BufRead::read_line(&mut stdout, &mut String::new()).unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    let deadline = Instant::now() + Duration::from_secs(5);
    while !leaks::marked(&marker).is_empty() {
        assert!(Instant::now() < deadline, "a descendant outlived a killed `run`");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn bad_listen_urls_are_refused_as_the_reference_does() {
    for url in ["ws://localhost:0", "ws://127.0.0.1", "ws://127.0.0.1:0/", "ws://127.0.0.1:99999"] {
        let message =
            format!("Error: invalid websocket --listen URL `{url}`; expected `ws://IP:PORT`");
        refused(&["--listen", url], 1, &message);
    }
    for url in ["http://127.0.0.1:0", "unix:///x", "", "STDIO"] {
        let message =
            format!("Error: unsupported --listen URL `{url}`; expected `ws://IP:PORT` or `stdio`");
        refused(&["--listen", url], 1, &message);
    }
}

#[test]
fn an_open_door_to_the_network_is_refused_unless_meant() {
    for url in ["ws://0.0.0.0:0", "ws://[::]:0"] {
        let output = output(&["--listen", url]);
        assert_eq!(output.status.code(), Some(1));
        assert!(text(&output.stderr).contains("--allow-unauthenticated-network"), "{url}");
    }
    let meant = exec_server(&["--listen", "ws://0.0.0.0:0", "--allow-unauthenticated-network"]);
    assert!(ServerUnderTest::start(meant).unwrap().url().starts_with("ws://0.0.0.0:"));
}

#[test]
fn auth_flags_that_do_not_fit_are_refused() {
    refused(
        &["--ws-token-sha256", "00"],
        1,
        "Error: websocket auth flags require `--ws-auth capability-token` or `--ws-auth signed-bearer-token`",
    );
    let digest = "0".repeat(64);
    refused(
        &["--listen", "stdio", "--ws-auth", "capability-token", "--ws-token-sha256", &digest],
        1,
        "Error: WebSocket auth requires a WebSocket listener, not stdio",
    );
}

#[test]
fn counts_that_are_none_are_wrong_usage() {
    for count in ["0", "-1", "x"] {
        let flag = format!("--concurrent-requests={count}");
        assert_eq!(output(&[&flag]).status.code(), Some(2), "{count}");
    }
}

#[test]
fn a_mistake_in_the_configuration_names_the_key() {
    let home = tempfile::tempdir().unwrap();
    std::fs::write(home.path().join("exec-server.toml"), "alow_direct_exec = true\n").unwrap();
    let output = exec_server(&["--listen", "ws://127.0.0.1:0"])
        .env("EXEC_SERVER_HOME", home.path())
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1));
    let message = text(&output.stderr);
    assert!(
        message.contains("unknown key `alow_direct_exec`; did you mean `allow_direct_exec`?"),
        "{message}"
    );
}

#[test]
fn a_server_serves_run_and_leaves_on_sigterm() {
    let mut server =
        ServerUnderTest::start(exec_server(&["--listen", "ws://127.0.0.1:0"])).unwrap();
    let output = output(&["run", "--url", server.url(), "--", "sh", "-c", "echo there; exit 4"]);
    assert_eq!((output.status.code(), text(&output.stdout)), (Some(4), "there"));
    server.signal(libc::SIGTERM);
    let status = server.wait_for_exit(Duration::from_secs(5)).unwrap();
    assert_eq!(status.and_then(|status| status.code()), Some(0));
}

#[test]
fn no_server_is_its_own_exit_code() {
    let output = output(&["run", "--url", "ws://127.0.0.1:1", "--", "true"]);
    assert_eq!(output.status.code(), Some(255));
    assert!(text(&output.stderr).contains("cannot connect to ws://127.0.0.1:1"));
}

#[test]
fn a_token_opens_the_door_and_a_wrong_one_does_not() {
    let home = tempfile::tempdir().unwrap();
    let (good, bad) = (home.path().join("good"), home.path().join("bad"));
    std::fs::write(&good, "open-sesame\n").unwrap();
    std::fs::write(&bad, "open-barley\n").unwrap();
    let good = good.to_str().unwrap();
    let args =
        ["--listen", "ws://127.0.0.1:0", "--ws-auth", "capability-token", "--ws-token-file", good];
    let server = ServerUnderTest::start(exec_server(&args)).unwrap();
    let run =
        |token: &str| output(&["run", "--url", server.url(), "--token-file", token, "--", "true"]);
    assert!(run(good).status.success());
    let refused = run(bad.to_str().unwrap());
    assert_eq!(refused.status.code(), Some(1));
    assert!(text(&refused.stderr).contains("401"), "{}", text(&refused.stderr));
}

#[test]
fn tls_serves_those_who_trust_the_certificate() {
    let home = tempfile::tempdir().unwrap();
    let made = rcgen::generate_simple_self_signed(vec!["127.0.0.1".to_owned()]).unwrap();
    let (cert, key) = (home.path().join("cert.pem"), home.path().join("key.pem"));
    std::fs::write(&cert, made.cert.pem()).unwrap();
    std::fs::write(&key, made.signing_key.serialize_pem()).unwrap();
    let (cert, key) = (cert.to_str().unwrap(), key.to_str().unwrap());
    let args = ["--listen", "wss://127.0.0.1:0", "--tls-cert", cert, "--tls-key", key];
    let server = ServerUnderTest::start(exec_server(&args)).unwrap();
    assert!(server.url().starts_with("wss://127.0.0.1:"));
    let trusted =
        output(&["run", "--url", server.url(), "--tls-roots", cert, "--", "echo", "safe"]);
    assert_eq!(text(&trusted.stdout), "safe", "{}", text(&trusted.stderr));
    assert!(!output(&["run", "--url", server.url(), "--", "true"]).status.success());
    refused(
        &["--listen", "wss://127.0.0.1:0"],
        1,
        "Error: a wss:// listener requires `--tls-cert` and `--tls-key`",
    );
}

#[test]
fn doctor_tells_in_words_and_in_json() {
    let words = output(&["doctor"]);
    assert!(words.status.success());
    assert!(text(&words.stdout).contains("no orphan"));
    let json = output(&["doctor", "--json"]);
    let rows: serde_json::Value = serde_json::from_slice(&json.stdout).unwrap();
    assert!(rows.as_array().unwrap().iter().any(|row| row["subject"] == "sandbox"));
}
