//! What ends a connection, what only earns an error, and that the session survives both.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod support;

use std::sync::Arc;

use exec_server::Server;
use serde_json::{Value, json};

use support::{Client, NEVER, config, link};

/// Sends a text to a session with a running process; the messages that come back before the
/// server hangs up, if it does.
async fn provoke(server: &Arc<Server>, text: &str, closes: bool) -> Vec<Value> {
    let mut client = Client::connect(server).await;
    client.start("p", &["sleep", "1000"], json!({})).await;
    let session = client.session.clone();
    client.peer.send_text(text).await.unwrap();
    let mut messages = Vec::new();
    if closes {
        while let Some(message) = client.peer.recv().await.unwrap() {
            messages.push(message);
        }
    } else {
        messages.push(client.peer.recv().await.unwrap().unwrap());
        assert_eq!(client.ok("environment/status", Value::Null).await["status"], "ready");
    }
    drop(client);
    let mut client = Client::resume(server, &session).await;
    assert_eq!(client.listed("p").await.unwrap()["running"], true, "the session is not lost");
    assert!(client.terminate("p").await);
    messages
}

#[tokio::test]
async fn an_unknown_notification_is_answered_and_ends_the_connection() {
    let server = Server::new(config(|_| {}));
    for method in ["no/such", "process/start", "process/output"] {
        let text = json!({"method": method, "params": {}}).to_string();
        let messages = provoke(&server, &text, true).await;
        let [error] = messages.as_slice() else { panic!("{messages:?}") };
        assert_eq!((&error["id"], &error["error"]["code"]), (&json!(-1), &json!(-32600)));
    }
    server.shut_down().await;
}

#[tokio::test]
async fn unknown_notifications_can_be_tolerated() {
    let server = Server::new(config(|config| config.tolerate_unknown_notifications = true));
    let messages = provoke(&server, r#"{"method":"no/such"}"#, false).await;
    assert_eq!((&messages[0]["id"], &messages[0]["error"]["code"]), (&json!(-1), &json!(-32600)));
    server.shut_down().await;
}

#[tokio::test]
async fn an_answer_without_a_request_ends_the_connection_without_a_word() {
    let server = Server::new(config(|_| {}));
    for text in [r#"{"id":1,"result":{}}"#, r#"{"id":"x","error":{"code":1,"message":"m"}}"#] {
        assert_eq!(provoke(&server, text, true).await, [Value::Null; 0]);
    }
    server.shut_down().await;
}

#[tokio::test]
async fn a_malformed_message_only_earns_an_error() {
    let server = Server::new(config(|_| {}));
    let deep = format!(r#"{{"id":1,"method":"m","params":{}}}"#, "[".repeat(200));
    let values = format!(r#"{{"id":1,"method":"m","params":[0{}]}}"#, ",0".repeat(1_000_000));
    for text in
        ["{", "[]", "{}", "nonsense", "\0\0\0", r#"{"id":1,"id":1}"#, r#"{"id":null,"method":"m"}"#]
            .into_iter()
            .chain([deep.as_str(), values.as_str()])
    {
        let messages = provoke(&server, text, false).await;
        let shown = &text[..text.len().min(40)];
        assert_eq!(messages[0]["id"], -1, "{shown}");
        assert_eq!(messages[0]["error"]["code"], -32600, "{shown}");
    }
    server.shut_down().await;
}

#[tokio::test]
async fn initialized_comes_after_initialize_and_may_come_again() {
    let server = Server::new(config(|_| {}));
    let (mut peer, _served) = link(&server, 4096);
    peer.notify("initialized", json!({})).await.unwrap();
    assert_eq!(peer.recv().await.unwrap(), None, "before, it ends the connection");
    let mut client = Client::connect(&server).await;
    client.peer.notify("initialized", json!({"any": [1]})).await.unwrap();
    client.ok("environment/status", Value::Null).await;
    let again = client.refused("initialize", json!({"clientName": ""})).await;
    assert_eq!(again, (-32600, "initialize may only be sent once per connection".to_owned()));
    server.shut_down().await;
}

#[tokio::test]
async fn each_state_of_the_handshake_says_what_is_missing() {
    let server = Server::new(config(|_| {}));
    let (peer, _served) = link(&server, 4096);
    let mut client = Client::on(peer);
    let list = client.refused("process/list", Value::Null).await;
    let expected = "client must call initialize before using exec methods".to_owned();
    assert_eq!(list, (-32600, expected));
    // Parameters are looked at first, unknown methods are unknown in every state.
    assert_eq!(client.refused("process/read", json!({})).await.0, -32602);
    assert_eq!(client.refused("no/such", Value::Null).await.0, -32601);
    assert_eq!(client.refused("initialize", json!({})).await.0, -32602);
    client.ok("initialize", json!({"clientName": ""})).await;
    let status = client.refused("environment/status", Value::Null).await;
    let expected = "client must send initialized before using environment status methods";
    assert_eq!(status, (-32600, expected.to_owned()));
    client.peer.notify("initialized", Value::Null).await.unwrap();
    client.ok("environment/status", Value::Null).await;
    assert!(!client.receive_within(NEVER).await);
    server.shut_down().await;
}

#[tokio::test]
async fn a_line_cut_off_by_the_end_is_not_a_request() {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    let server = Server::new(config(|_| {}));
    let (mut ours, theirs) = tokio::io::duplex(4096);
    let (reader, writer) = tokio::io::split(theirs);
    let serving = server.clone();
    let connection = exec_transport::stdio(reader, writer);
    let served = tokio::spawn(async move { serving.serve_connection(connection).await });
    ours.write_all(br#"{"id":1,"method":"initialize","params":{"clientName":""}}"#).await.unwrap();
    ours.shutdown().await.unwrap();
    let mut answer = String::new();
    ours.read_to_string(&mut answer).await.unwrap();
    assert_eq!(answer, "");
    served.await.unwrap();
    assert_eq!(server.session_count(), 0);
}
