//! The same script, started by the standard library and by the server: the same bytes on each
//! stream and the same end.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod support;

use std::io::Write as _;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Command, Stdio};

use exec_server::Server;
use serde_json::json;

use support::{Client, Failing, PATH, Random, config, encode};

const SCRIPTS: u64 = 300;
/// Scripts that the server runs at once.
const AT_ONCE: usize = 10;

/// How deep statements are nested.
const DEPTH: usize = 2;

const INPUT: &[u8] = b"first line\nsecond line\n\x00\x01\xfe\xff third, without an end";

#[derive(Debug, PartialEq, Eq)]
struct Outcome {
    stdout: Vec<u8>,
    stderr: Vec<u8>,
    code: i32,
}

#[tokio::test]
async fn a_script_does_through_the_server_what_it_does_without() {
    let server = Server::new(config(|_| {}));
    let mut client = Client::connect(&server).await;
    let seeds: Vec<u64> = (0..SCRIPTS).collect();
    for batch in seeds.chunks(AT_ONCE) {
        for seed in batch {
            start(&mut client, *seed).await;
        }
        for seed in batch {
            let failing = Failing(*seed);
            let script = script(*seed);
            let all = client.closed(&seed.to_string()).await;
            let through =
                Outcome { stdout: all.stdout, stderr: all.stderr, code: all.exit.unwrap().0 };
            assert_eq!(through, natively(&script), "{script}");
            drop(failing);
        }
    }
    server.shut_down().await;
}

async fn start(client: &mut Client, seed: u64) {
    let id = seed.to_string();
    client.shell(&id, &script(seed), json!({"pipeStdin": true})).await;
    client.send("process/write", json!({"processId": id, "chunk": encode(INPUT)})).await;
    client.send("process/closeStdin", json!({"processId": id})).await;
}

fn natively(script: &str) -> Outcome {
    let mut child = Command::new("/bin/sh")
        .args(["-c", script])
        .current_dir("/")
        .env_clear()
        .env("PATH", PATH)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // A script that does not read may be gone already.
    child.stdin.take().unwrap().write_all(INPUT).ok();
    let output = child.wait_with_output().unwrap();
    let code = output.status.code().or(output.status.signal().map(|signal| 128 + signal));
    Outcome { stdout: output.stdout, stderr: output.stderr, code: code.unwrap() }
}

fn script(seed: u64) -> String {
    let mut writer = Writer { random: Random::new(seed), text: String::new() };
    for _ in 0..1 + writer.random.below(6) {
        writer.statement(DEPTH);
        writer.text.push('\n');
    }
    writer.text
}

/// Writes a script whose outcome does not depend on time or chance.
struct Writer {
    random: Random,
    text: String,
}

impl Writer {
    fn add(&mut self, text: impl AsRef<str>) {
        self.text.push_str(text.as_ref());
    }

    fn statement(&mut self, depth: usize) {
        let number = self.random.below(250);
        let kinds = if depth == 0 { 14 } else { 22 };
        match self.random.below(kinds) {
            0 | 1 => self.add(format!("echo word{number}")),
            2 | 3 => self.add(format!("echo word{number} >&2")),
            4 => self.add(format!("printf 'a\\tb %s \\001\\377\\000 no newline' {number}")),
            5 => self.add(format!("seq 1 {}", number * 20)),
            6 => self.add(format!("seq 1 {} >&2", number * 5)),
            7 => self.add("read line; echo \"read $line: $?\""),
            8 => self.add("cat"),
            9 => self.add(format!("echo {number} | sed s/1/one/ | tr a-z A-Z")),
            10 => self.add(format!("seq 1 100000 | head -n {}", 1 + number % 9)),
            11 => self.add(format!("no-such-command-{number}; echo $?")),
            12 => self.add(format!("x=$(echo {number}; echo sub >&2); echo \"[$x]\"")),
            13 => self.ending(number, depth),
            14 | 15 => self.within("(", depth, ")"),
            16 => self.within("for i in 1 2 3; do ", depth, "; done"),
            17 => self.within("if [ -e /tmp ]; then ", depth, "; fi"),
            18 => self.within("f() { ", depth, "; }; f; f"),
            19 => self.within("{ ", depth, "; } & wait $!; echo waited $?"),
            20 => self.within("{ ", depth, "; } 2>&1 | sort"),
            _ => self.within("{ ", depth, "; } >&2"),
        }
    }

    fn within(&mut self, before: &str, depth: usize, after: &str) {
        self.add(before);
        self.statement(depth - 1);
        self.add("; ");
        self.statement(depth - 1);
        self.add(after);
    }

    fn ending(&mut self, number: usize, depth: usize) {
        let signal = self.random.pick(&["TERM", "KILL", "USR1", "ALRM"]).to_owned();
        match self.random.below(4) {
            0 => self.add(format!("exit {number}")),
            // Further in, the shell might still be starting the rest of a pipe.
            1 if depth == DEPTH => self.add(format!("kill -{signal} $$")),
            2 => self.add(format!("sh -c 'echo inner; kill -{signal} $$'; echo $?")),
            _ => self.add(format!("sh -c 'exit {number}' || echo failed $?")),
        }
    }
}

#[test]
fn scripts_differ_and_repeat() {
    assert_eq!(script(1), script(1));
    assert_ne!(script(1), script(2));
}
