//! The client against a scripted server in the same process: what codex lacks, and what a server
//! does only when it is slow or gone.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking, its helpers too")]

use std::time::Duration;

use exec_client::{
    ExecServerClient, ExecServerClientConnectOptions, ExecServerError, LostReason, ProcessEvent,
};
use exec_transport::{Connection, memory_pair};
use serde_json::{Value, json};

use support::{shell, soon};

mod support;

/// The server's end, played by the test.
struct Server {
    connection: Connection,
}

impl Server {
    async fn recv(&mut self) -> Value {
        let text = soon(self.connection.next_message()).await.unwrap().expect("a message");
        serde_json::from_slice(&text).unwrap()
    }

    async fn send(&mut self, message: Value) {
        self.connection.send(message.to_string().as_bytes()).unwrap();
        soon(self.connection.flush()).await.unwrap();
    }

    /// Expects a call of `method`, answers it and gives its parameters.
    async fn answer(&mut self, method: &str, result: Value) -> Value {
        let call = self.recv().await;
        assert_eq!(call["method"], method, "{call}");
        self.send(json!({"id": call["id"], "result": result})).await;
        call["params"].clone()
    }

    async fn output(&mut self, seq: u64, text: &str) {
        let chunk = base64(text);
        let params = json!({"processId": "p", "seq": seq, "stream": "stdout", "chunk": chunk});
        self.send(json!({"method": "process/output", "params": params})).await;
    }

    async fn end(&mut self, seq: u64) {
        let exited = json!({"processId": "p", "seq": seq, "exitCode": 0, "sandboxDenied": false});
        self.send(json!({"method": "process/exited", "params": exited})).await;
        let closed = json!({"processId": "p", "seq": seq + 1});
        self.send(json!({"method": "process/closed", "params": closed})).await;
    }
}

fn base64(text: &str) -> Value {
    serde_json::to_value(exec_protocol::bytes::Base64Bytes(text.into())).unwrap()
}

fn environment() -> Value {
    let capabilities = json!({"processControlV1": true});
    json!({"shell": {"name": "sh", "path": "/bin/sh"}, "capabilities": capabilities})
}

async fn connect(options: ExecServerClientConnectOptions) -> (ExecServerClient, Server) {
    let (near, far) = memory_pair(4096);
    let mut server = Server { connection: far };
    let greet = async {
        let result = json!({"sessionId": "s", "environmentInfo": environment()});
        server.answer("initialize", result).await;
        assert_eq!(server.recv().await["method"], "initialized");
    };
    let (client, ()) = tokio::join!(ExecServerClient::connect_in_memory(near, options), greet);
    (client.unwrap(), server)
}

async fn start(client: &ExecServerClient, server: &mut Server) -> exec_client::Process {
    let mut params = shell("p", "");
    params.pipe_stdin = true;
    let answer = server.answer("process/start", json!({"processId": "p"}));
    tokio::join!(client.start(params), answer).0.unwrap()
}

#[tokio::test]
async fn communicate_writes_closes_and_collects() {
    let (client, mut server) = connect(Default::default()).await;
    let process = start(&client, &mut server).await;
    let script = async {
        let accepted = json!({"status": "accepted"});
        let write = server.answer("process/write", accepted.clone()).await;
        assert_eq!(write["chunk"], base64("question"));
        assert!(write["writeId"].is_string());
        server.output(1, "answer").await;
        server.answer("process/closeStdin", accepted).await;
        server.end(2).await;
    };
    let (output, ()) = tokio::join!(soon(process.communicate(b"question")), script);
    let output = output.unwrap();
    assert_eq!((&output.stdout[..], output.code, output.gap_bytes), (&b"answer"[..], 0, Some(0)));
}

#[tokio::test]
async fn an_environment_that_initialize_left_out_is_asked_for() {
    let (near, far) = memory_pair(4096);
    let mut server = Server { connection: far };
    let greet = async {
        server.answer("initialize", json!({"sessionId": "s"})).await;
        assert_eq!(server.recv().await["method"], "initialized");
        assert_eq!(server.answer("environment/info", environment()).await, Value::Null);
    };
    let client = ExecServerClient::connect_in_memory(near, Default::default());
    let client = soon(async { tokio::join!(client, greet) }).await.0.unwrap();
    assert!(client.supports_process_control());
}

#[tokio::test]
async fn an_initialize_that_is_refused_or_not_answered_is_an_error() {
    let (near, far) = memory_pair(4096);
    let mut server = Server { connection: far };
    let refuse = async {
        let call = server.recv().await;
        let error = json!({"code": -32600, "message": "unknown session id x"});
        server.send(json!({"id": call["id"], "error": error})).await;
    };
    let client = ExecServerClient::connect_in_memory(near, Default::default());
    let error = tokio::join!(client, refuse).0.unwrap_err();
    assert!(matches!(error, ExecServerError::Initialize { code: -32600, .. }), "{error}");

    let (near, _silent) = memory_pair(4096);
    let limit = Duration::from_millis(20);
    let options =
        ExecServerClientConnectOptions { initialize_timeout: limit, ..Default::default() };
    let error = ExecServerClient::connect_in_memory(near, options).await.unwrap_err();
    assert_eq!(error, ExecServerError::Timeout { what: "initialize", limit });
}

#[tokio::test]
async fn one_that_takes_no_events_delays_the_others_and_then_gets_a_gap() {
    let options = ExecServerClientConnectOptions {
        queued_bytes_max: 8,
        stall_limit: Duration::from_millis(50),
        ..Default::default()
    };
    let (client, mut server) = connect(options).await;
    let process = start(&client, &mut server).await;
    for seq in 1..=4 {
        server.output(seq, "12345").await;
    }
    // The call is answered behind output that nobody takes, and yet it comes.
    let status = server.answer("environment/status", json!({"status": "ready"}));
    let (answered, _) = tokio::join!(soon(client.environment_status()), status);
    answered.unwrap();
    let take = async {
        let mut taken = Vec::new();
        while let Some(event) = soon(process.next_event()).await {
            taken.push(event);
        }
        taken
    };
    let script = async {
        let page = json!({
            "chunks": [{"seq": 4, "stream": "stdout", "chunk": base64("12345")}], "nextSeq": 7,
            "exited": true, "exitCode": 0, "closed": true, "failure": null, "outputOffset": 15,
        });
        let read = server.answer("process/read", page).await;
        assert_eq!(read["afterSeq"], 2);
    };
    let (taken, ()) = tokio::join!(take, script);
    let seen: Vec<_> = taken
        .iter()
        .map(|event| match event {
            ProcessEvent::Output { seq, .. } => format!("output {seq}"),
            ProcessEvent::Gap { bytes } => format!("gap {bytes:?}"),
            ProcessEvent::Exited { code, .. } => format!("exit {code}"),
            ProcessEvent::Closed => "closed".to_owned(),
            ProcessEvent::Lost(reason) => reason.to_string(),
        })
        .collect();
    assert_eq!(seen, ["output 1", "output 2", "gap Some(5)", "output 4", "exit 0", "closed"]);
}

#[tokio::test]
async fn one_that_takes_no_events_waits_for_ever_when_it_is_alone() {
    let options = ExecServerClientConnectOptions {
        queued_bytes_max: 8,
        stall_limit: Duration::ZERO,
        ..Default::default()
    };
    let (client, mut server) = connect(options).await;
    let process = start(&client, &mut server).await;
    // Far more than the queue and the pipe hold, so the server is held up as well.
    let script = async {
        for seq in 1..=500 {
            server.output(seq, "1234567890").await;
        }
        server.end(501).await;
    };
    let slow = async {
        tokio::time::sleep(Duration::from_millis(50)).await;
        process.collect_for(Duration::from_secs(20), 100_000).await
    };
    let (_, yielded) = tokio::join!(script, slow);
    let yielded = yielded.unwrap();
    assert_eq!((yielded.output.len(), yielded.gap_bytes, yielded.closed), (5000, Some(0), true));
}

#[tokio::test]
async fn the_last_drop_ends_the_process_and_the_connection() {
    let (client, mut server) = connect(Default::default()).await;
    let process = start(&client, &mut server).await;
    drop(client);
    assert!(!process.client().is_closed());
    drop(process);
    let last = server.recv().await;
    assert_eq!(
        (&last["method"], &last["params"]["processId"]),
        (&json!("process/terminate"), &json!("p"))
    );
    assert!(soon(server.connection.next_message()).await.unwrap().is_none());
}

#[tokio::test]
async fn a_start_that_nobody_waits_for_any_more_is_undone() {
    let (client, mut server) = connect(Default::default()).await;
    let started = tokio::time::timeout(Duration::from_millis(20), client.start(shell("p", "")));
    assert!(started.await.is_err());
    server.answer("process/start", json!({"processId": "p"})).await;
    assert_eq!(server.recv().await["method"], "process/terminate");
}

#[tokio::test]
async fn a_server_that_is_gone_loses_calls_and_processes() {
    let (client, mut server) = connect(Default::default()).await;
    let process = start(&client, &mut server).await;
    let hang_up = async {
        assert_eq!(server.recv().await["method"], "environment/status");
        drop(server);
    };
    let (status, ()) = tokio::join!(soon(client.environment_status()), hang_up);
    assert!(status.unwrap_err().is_connection_lost());
    let lost = soon(process.next_event()).await;
    assert!(matches!(lost, Some(ProcessEvent::Lost(LostReason::Connection(_)))), "{lost:?}");
    assert!(client.is_closed());
}
