//! What files, watches and HTTP bodies are to a connection: theirs, and gone with it.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Arc;

use exec_server::{ExecServerConfig, Server};
use exec_testkit::peer::RawPeer;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

async fn connect(server: &Arc<Server>) -> RawPeer {
    let (ours, theirs) = tokio::io::duplex(1 << 16);
    let (read, write) = tokio::io::split(theirs);
    let connection = exec_transport::stdio(read, write);
    let server = server.clone();
    tokio::spawn(async move { server.serve_connection(connection).await });
    let (read, write) = tokio::io::split(ours);
    let mut peer = RawPeer::from_io(read, write);
    peer.handshake().await.unwrap();
    peer
}

/// The next notification of that method.
async fn notified(peer: &mut RawPeer, method: &str) -> Value {
    loop {
        let message = peer.recv().await.unwrap().expect("the connection is open");
        if message["method"] == method {
            return message["params"].clone();
        }
    }
}

#[tokio::test]
async fn a_handle_ends_with_its_connection() {
    let server = Server::new(ExecServerConfig::default());
    let mut first = connect(&server).await;
    let path = format!("file://{}", concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml"));
    first.call_ok("fs/open", json!({"handleId": "h", "path": path})).await.unwrap();
    let block = json!({"handleId": "h", "offset": 0, "len": 9});
    let read = first.call_ok("fs/readBlock", block.clone()).await.unwrap();
    assert_eq!(read, json!({"chunk": "W3BhY2thZ2Vd", "eof": false}));
    let mut second = connect(&server).await;
    let unknown = second.call("fs/readBlock", block).await.unwrap();
    assert_eq!(unknown["error"]["code"], -32004);
    server.shut_down().await;
}

#[tokio::test]
async fn a_missing_path_that_appears_is_told_once() {
    let server = Server::new(ExecServerConfig::default());
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("later");
    let mut peer = connect(&server).await;
    let params = json!({"watchId": 7, "missing": [format!("file://{}", path.display())]});
    let watching = peer.call_ok("fs/watchMissing", params).await.unwrap();
    assert_eq!(watching, json!({"watching": true}));
    std::fs::write(&path, b"").unwrap();
    assert_eq!(notified(&mut peer, "fs/missingChanged").await, json!({"watchId": 7}));
    server.shut_down().await;
}

#[tokio::test]
async fn changes_below_a_watched_directory_are_told() {
    let server = Server::new(ExecServerConfig::default());
    let home = tempfile::tempdir().unwrap();
    let root = home.path().canonicalize().unwrap();
    let mut peer = connect(&server).await;
    let uri = format!("file://{}", root.display());
    let params = json!({"watchId": "w", "path": uri, "recursive": true});
    peer.call_ok("fs/watch", params).await.unwrap();
    std::fs::write(root.join("new"), b"x").unwrap();
    let changed = notified(&mut peer, "fs/changed").await;
    assert_eq!(changed["watchId"], "w");
    assert_eq!(changed["events"][0]["path"], format!("{uri}/new"));
    peer.call_ok("fs/unwatch", json!({"watchId": "w"})).await.unwrap();
    server.shut_down().await;
}

#[tokio::test]
async fn a_streamed_body_follows_its_answer_in_order() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let body = "0123456789".repeat(300_000);
    let sent = body.clone();
    let serving = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut head = [0; 4096];
        assert!(stream.read(&mut head).await.unwrap() > 0);
        let answer = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{sent}", sent.len());
        stream.write_all(answer.as_bytes()).await.unwrap();
    });
    let server = Server::new(ExecServerConfig::default());
    let mut peer = connect(&server).await;
    let params = json!({"method": "GET", "url": url, "requestId": "r", "streamResponse": true});
    let text = json!({"id": 5, "method": "http/request", "params": params}).to_string();
    peer.send_text(&text).await.unwrap();
    let first = peer.recv().await.unwrap().unwrap();
    assert_eq!((&first["id"], &first["result"]["status"]), (&json!(5), &json!(200)));
    let mut received = Vec::new();
    for seq in 1.. {
        let delta = notified(&mut peer, "http/request/bodyDelta").await;
        assert_eq!(delta["seq"], seq);
        let piece = delta["deltaBase64"].as_str().unwrap();
        received.extend(base64_simd::STANDARD.decode_to_vec(piece).unwrap());
        if delta["done"] == true {
            assert_eq!((piece, &delta["error"]), ("", &Value::Null));
            break;
        }
    }
    assert!(received == body.as_bytes(), "{} of {}", received.len(), body.len());
    serving.await.unwrap();
    server.shut_down().await;
}
