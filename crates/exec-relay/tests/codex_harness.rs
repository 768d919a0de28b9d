//! The real codex as the harness in front of a relay, and our executor behind it.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on panics")]

mod support;

use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Instant;

use exec_relay::{Executor, ExecutorConfig, ExecutorEvent, Identity, Limits, StreamKey};
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

struct Server {
    executor: Executor,
    socket: WebSocket<std::net::TcpStream>,
}

impl Server {
    /// Moves frames until `found` has what it looks for.
    fn run<T>(&mut self, mut found: impl FnMut(&mut Executor) -> Option<T>) -> T {
        let deadline = Instant::now() + DEADLINE;
        loop {
            let now = Instant::now();
            assert!(now < deadline, "codex says nothing more");
            self.executor.handle_timeout(now);
            let result = found(&mut self.executor);
            while let Some(frame) = self.executor.poll_transmit(now) {
                self.socket.send(Message::binary(frame)).unwrap();
            }
            if let Some(result) = result {
                return result;
            }
            if let Some(frame) = read_frame(&mut self.socket) {
                self.executor.handle_frame(&frame, Instant::now());
            }
        }
    }

    fn event(&mut self) -> ExecutorEvent {
        self.run(Executor::poll_event)
    }

    fn message(&mut self, stream: StreamKey) -> Value {
        let message = self.run(|executor| executor.poll_message(stream, Instant::now()));
        serde_json::from_slice(&message).unwrap()
    }
}

#[test]
fn codex_uses_our_executor() {
    let binary = match codex_binary() {
        Ok(binary) => binary,
        Err(skip) => return exec_testkit::skip(skip.0),
    };
    let identity = Arc::new(Identity::from_seed([5; 96]));
    let (hub, home) = (Hub::start(), CodexHome::new().unwrap());
    let key = serde_json::to_value(identity.public_key()).unwrap();
    hub.registry.lock().unwrap().executor = Some(key);
    let codex = Command::new(&binary)
        .arg("app-server")
        .env("CODEX_HOME", home.path())
        .env("CODEX_EXEC_SERVER_NOISE_REGISTRY_URL", hub.url())
        .env("CODEX_EXEC_SERVER_NOISE_ENVIRONMENT_ID", ENVIRONMENT)
        .env("CODEX_EXEC_SERVER_NOISE_AUTH_TOKEN", "use")
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let _codex = Codex(codex);

    let executor = Executor::new(ExecutorConfig {
        identity,
        environment_id: ENVIRONMENT.to_owned(),
        registration_id: REGISTRATION.to_owned(),
        reliable: true,
        limits: Limits::default(),
    });
    let mut server = Server { executor, socket: hub.accept() };
    let ExecutorEvent::Validate { stream, harness, authorization, stream_id } = server.event()
    else {
        panic!("the first event is a handshake")
    };
    assert_eq!(authorization, TOKEN);
    assert_eq!(stream_id.len(), 36, "{stream_id}");
    let asked = hub.registry.lock().unwrap().requests[0].clone();
    assert_eq!(asked.0, "connect");
    assert_eq!(serde_json::to_value(harness).unwrap(), asked.1["harness_public_key"]);
    server.executor.approve(stream, &[6; 160], Instant::now());
    assert_eq!(server.event(), ExecutorEvent::Opened { stream, reliable: false });

    let initialize = server.message(stream);
    assert_eq!(initialize["method"], "initialize", "{initialize}");
    assert_eq!(initialize["params"]["clientName"], "codex-environment");
    let session = "11111111-2222-4333-8444-555555555555";
    // Longer than a record, in a member that nobody reads.
    let result = json!({"sessionId": session, "unknown": "x".repeat(200_000)});
    let answer = json!({"id": initialize["id"], "result": result});
    server.executor.send(stream, answer.to_string().into_bytes()).unwrap();
    assert_eq!(server.message(stream)["method"], "initialized");
}
