//! The real codex as the executor behind a relay, and our harness in front of it.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on panics")]

mod support;

use std::process::{Child, Stdio};
use std::time::Instant;

use exec_relay::{
    CloseReason, Harness, HarnessConfig, HarnessEvent, Identity, Limits, PublicKey, Reliability,
};
use exec_testkit::codex::{CodexHome, codex_binary};
use serde_json::{Value, json};
use support::hub::{DEADLINE, ENVIRONMENT, Hub, REGISTRATION, TOKEN, read_frame};
use tokio_tungstenite::tungstenite::{Message, WebSocket};

/// Killed and reaped when dropped.
struct Codex(Child);

impl Drop for Codex {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

/// Our harness on the executor's own socket: the relay between them does nothing.
struct Client {
    harness: Harness,
    socket: WebSocket<std::net::TcpStream>,
    messages: Vec<Value>,
}

impl Client {
    fn start(hub: &Hub, socket: WebSocket<std::net::TcpStream>, token: &str) -> Self {
        let key = hub.registry.lock().unwrap().executor.clone().expect("codex has registered");
        let executor: PublicKey = serde_json::from_value(key).unwrap();
        let config = HarnessConfig {
            identity: &Identity::from_seed([9; 96]),
            executor: &executor,
            environment_id: ENVIRONMENT,
            registration_id: REGISTRATION,
            authorization: token,
            stream_id: "5f0c3bb4-9a52-4c33-8d53-0e2fb1d1f001",
            reliability: Reliability::Offer,
            limits: Limits::default(),
        };
        let harness = Harness::new(config, &[7; 128], Instant::now()).unwrap();
        Self { harness, socket, messages: Vec::new() }
    }

    /// Moves frames until an event comes, or until `done` is content with the messages.
    fn run(&mut self, done: impl Fn(&[Value]) -> bool) -> Option<HarnessEvent> {
        let deadline = Instant::now() + DEADLINE;
        loop {
            let now = Instant::now();
            assert!(now < deadline, "codex says nothing more: {:?}", self.messages);
            self.harness.handle_timeout(now);
            while let Some(frame) = self.harness.poll_transmit(now) {
                self.socket.send(Message::binary(frame)).unwrap();
            }
            while let Some(message) = self.harness.poll_message(now) {
                self.messages.push(serde_json::from_slice(&message).unwrap());
            }
            if let Some(event) = self.harness.poll_event() {
                return Some(event);
            }
            if done(&self.messages) {
                return None;
            }
            if let Some(frame) = read_frame(&mut self.socket) {
                self.harness.handle_frame(&frame, Instant::now());
            }
        }
    }

    fn send(&mut self, message: &Value) {
        self.harness.send(message.to_string().into_bytes()).unwrap();
    }
}

fn start() -> Option<(Hub, CodexHome, Codex)> {
    let binary = match codex_binary() {
        Ok(binary) => binary,
        Err(skip) => {
            exec_testkit::skip(skip.0);
            return None;
        }
    };
    let (hub, home) = (Hub::start(), CodexHome::new().unwrap());
    let codex = home
        .exec_server(&binary)
        .args(["--remote", &hub.url(), "--environment-id", ENVIRONMENT])
        .env("CODEX_API_KEY", "key")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    Some((hub, home, Codex(codex)))
}

#[test]
fn codex_serves_our_harness() {
    let Some((hub, _home, _codex)) = start() else { return };
    let socket = hub.accept();
    let mut client = Client::start(&hub, socket, TOKEN);
    // It ignores the field in which we offer more, and so the stream is a plain one.
    assert_eq!(client.run(|_| false), Some(HarnessEvent::Opened { reliable: false }));

    client.send(&json!({"id": 1, "method": "initialize",
        "params": {"clientName": "test", "resumeSessionId": null}}));
    assert_eq!(client.run(|messages| !messages.is_empty()), None);
    assert!(client.messages[0]["result"]["sessionId"].is_string(), "{:?}", client.messages);
    client.send(&json!({"method": "initialized", "params": {}}));

    // Both directions need several records.
    let script = "echo ${#BIG}; head -c 300000 /dev/zero | tr '\\0' y";
    client.send(&json!({"id": 2, "method": "process/start", "params": {
        "processId": "p", "argv": ["/bin/sh", "-c", script], "cwd": "file:///",
        "env": {"BIG": "x".repeat(100_000), "PATH": "/usr/bin:/bin"}, "tty": false, "arg0": null}}));
    let closed = |messages: &[Value]| messages.iter().any(|m| m["method"] == "process/closed");
    assert_eq!(client.run(closed), None);
    let output: Vec<u8> = client
        .messages
        .iter()
        .filter(|message| message["method"] == "process/output")
        .flat_map(|message| {
            let chunk = message["params"]["chunk"].as_str().unwrap();
            base64_simd::STANDARD.decode_to_vec(chunk).unwrap()
        })
        .collect();
    assert!(output.starts_with(b"100000\nyyy"), "{:?}", &output[..output.len().min(20)]);
    assert_eq!(output.len(), 7 + 300_000);

    let registry = hub.registry.lock().unwrap();
    let (_, validate) = registry.requests.iter().find(|(name, _)| name == "validate").unwrap();
    assert_eq!(validate["harness_key_authorization"], TOKEN);
    assert_eq!(validate["executor_registration_id"], REGISTRATION);
    let key: PublicKey = serde_json::from_value(validate["harness_public_key"].clone()).unwrap();
    assert_eq!(key, Identity::from_seed([9; 96]).public_key());
}

#[test]
fn codex_resets_a_harness_that_its_registry_refuses() {
    let Some((hub, _home, _codex)) = start() else { return };
    hub.registry.lock().unwrap().refuses = true;
    let socket = hub.accept();
    let mut client = Client::start(&hub, socket, TOKEN);
    let reason = "noise_relay_protocol_error".to_owned();
    let closed = HarnessEvent::Closed(CloseReason::Reset { reason });
    assert_eq!(client.run(|_| false), Some(closed));
}
