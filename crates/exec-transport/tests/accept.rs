//! The listener's answers over real sockets: bytes as a client sees them, and deadlines.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking, its helpers too")]

use std::net::SocketAddr;
use std::time::Duration;

use exec_transport::{AcceptPolicy, Connection, Error, WsAuth, accept};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

const UPGRADE: &str = "GET / HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\n\
    Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
    Sec-WebSocket-Protocol: a, b\r\nSec-WebSocket-Extensions: permessage-deflate\r\n\
    Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";

type Accepted = JoinHandle<Result<Option<Connection>, Error>>;

async fn start(change: impl FnOnce(&mut AcceptPolicy)) -> (TcpStream, Accepted) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address: SocketAddr = listener.local_addr().unwrap();
    let mut policy = AcceptPolicy::for_listener(address, WsAuth::None);
    change(&mut policy);
    let accepted = tokio::spawn(async move {
        let (stream, peer) = listener.accept().await.unwrap();
        accept(stream, peer, &policy).await
    });
    (TcpStream::connect(address).await.unwrap(), accepted)
}

#[tokio::test]
async fn bytes_that_follow_the_head_belong_to_the_websocket() {
    let (mut client, accepted) = start(|_| {}).await;
    let both = [UPGRADE.as_bytes(), b"\x81\x85\0\0\0\0hello\x81\x83\0\0"].concat();
    client.write_all(&both).await.unwrap();
    let mut connection = accepted.await.unwrap().unwrap().unwrap();
    let peer = format!("websocket {}", client.local_addr().unwrap());
    assert_eq!(connection.peer().to_string(), peer);
    assert_eq!(connection.next_message().await.unwrap().unwrap(), b"hello");
    client.write_all(b"\0\0two").await.unwrap();
    assert_eq!(connection.next_message().await.unwrap().unwrap(), b"two");

    let expected = "HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\n\
        upgrade: websocket\r\nsec-websocket-accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n";
    let mut answer = vec![0; expected.len()];
    client.read_exact(&mut answer).await.unwrap();
    assert_eq!(String::from_utf8(answer).unwrap(), expected);
}

#[tokio::test]
async fn a_head_that_comes_byte_by_byte_is_understood() {
    let (mut client, accepted) = start(|_| {}).await;
    client.set_nodelay(true).unwrap();
    for byte in UPGRADE.as_bytes() {
        client.write_all(&[*byte]).await.unwrap();
        tokio::task::yield_now().await;
    }
    assert!(accepted.await.unwrap().unwrap().is_some());
}

#[tokio::test]
async fn another_answer_ends_the_connection() {
    let (mut client, accepted) = start(|_| {}).await;
    let request = "POST /nowhere HTTP/1.1\r\nHost: [::1]:5\r\nContent-Length: 9\r\n\r\nsome body";
    client.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    client.read_to_string(&mut answer).await.unwrap();
    let expected = "HTTP/1.1 404 Not Found\r\nconnection: close\r\ncontent-length: 0\r\n\r\n";
    assert_eq!(answer, expected);
    drop(client);
    assert!(accepted.await.unwrap().unwrap().is_none());
}

#[tokio::test]
async fn a_slow_head_is_cut_off() {
    let limit = Duration::from_millis(50);
    let (mut client, accepted) = start(|policy| policy.head_timeout = limit).await;
    client.write_all(b"GET / HTTP/1.1\r\n").await.unwrap();
    assert!(matches!(accepted.await.unwrap(), Err(Error::Timeout { .. })));
    assert_eq!(client.read(&mut [0; 10]).await.unwrap(), 0);
}

#[tokio::test]
async fn an_endless_head_is_cut_off() {
    let (mut client, accepted) = start(|_| {}).await;
    let endless = format!("GET / HTTP/1.1\r\nA: {}", "x".repeat(17 * 1024));
    client.write_all(endless.as_bytes()).await.unwrap();
    let mut answer = String::new();
    client.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 431 "), "{answer}");
    drop(client);
    assert!(accepted.await.unwrap().unwrap().is_none());
}

#[tokio::test]
async fn a_client_that_leaves_is_not_an_error() {
    let (client, accepted) = start(|_| {}).await;
    drop(client);
    assert!(accepted.await.unwrap().unwrap().is_none());
}
