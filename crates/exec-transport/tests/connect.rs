//! Our client against our server, and against servers that misbehave.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking, its helpers too")]

use std::time::Duration;

use exec_transport::{
    AcceptPolicy, ConnectOptions, Error, WsAuth, WsAuthFlags, WsAuthMode, accept, connect_websocket,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

/// SHA-256 of "secret".
const DIGEST: &str = "2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b";

fn options() -> ConnectOptions {
    ConnectOptions { timeout: Duration::from_secs(5), ..ConnectOptions::default() }
}

fn token_auth() -> WsAuth {
    let flags = WsAuthFlags {
        mode: Some(WsAuthMode::CapabilityToken),
        token_sha256: Some(DIGEST.to_owned()),
        ..WsAuthFlags::default()
    };
    flags.resolve().unwrap()
}

/// Answers one request with `answer` and returns the request.
async fn serve_raw(listener: TcpListener, answer: &str) -> String {
    let (mut stream, _) = listener.accept().await.unwrap();
    let mut request = Vec::new();
    while !request.ends_with(b"\r\n\r\n") {
        assert_ne!(stream.read_buf(&mut request).await.unwrap(), 0);
    }
    stream.write_all(answer.as_bytes()).await.unwrap();
    stream.shutdown().await.unwrap();
    String::from_utf8(request).unwrap()
}

async fn connect_to_raw(answer: &str) -> (String, Error) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("ws://{}/path?q=1", listener.local_addr().unwrap());
    let options = ConnectOptions { bearer_token: Some("t0ken".into()), ..options() };
    let (request, result) =
        tokio::join!(serve_raw(listener, answer), connect_websocket(&url, &options));
    (request.replace(&url[5..url.len() - 9], "HOST"), result.unwrap_err())
}

#[tokio::test]
async fn a_token_opens_the_door_and_its_absence_does_not() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let policy = AcceptPolicy::for_listener(address, token_auth());
    let url = format!("ws://{address}");
    for (token, refusal) in [
        (Some("secret"), None),
        (Some("wrong"), Some("invalid websocket bearer token")),
        (None, Some("missing websocket bearer token")),
    ] {
        let options = ConnectOptions { bearer_token: token.map(str::to_owned), ..options() };
        let (accepted, connected) = tokio::join!(
            async {
                let (stream, peer) = listener.accept().await.unwrap();
                accept(stream, peer, &policy).await.unwrap()
            },
            connect_websocket(&url, &options)
        );
        match refusal {
            None => {
                let (mut server, mut client) = (accepted.unwrap(), connected.unwrap());
                client.send(b"hello").unwrap();
                client.flush().await.unwrap();
                assert_eq!(server.next_message().await.unwrap().unwrap(), b"hello");
                assert_eq!(client.peer().to_string(), format!("websocket {address}"));
            }
            Some(text) => {
                let error = connected.unwrap_err();
                assert!(matches!(error, Error::Refused { status: 401, body } if body == text));
            }
        }
    }
}

#[tokio::test]
async fn the_request_carries_only_what_it_must() {
    let answer = "HTTP/1.1 503 Service Unavailable\r\ncontent-length: 8\r\n\r\nnot\x1bnow!more";
    let (request, error) = connect_to_raw(answer).await;
    let (start, rest) = request.split_once("Sec-WebSocket-Key: ").unwrap();
    assert_eq!(
        start,
        "GET /path?q=1 HTTP/1.1\r\nHost: HOST\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
         Sec-WebSocket-Version: 13\r\n"
    );
    assert_eq!(&rest[24..], "\r\nauthorization: Bearer t0ken\r\n\r\n");
    let text = "server refused the websocket upgrade with status 503: not now!";
    assert_eq!(error.to_string(), text);
}

#[tokio::test]
async fn an_answer_without_proof_is_refused() {
    let upgrade = "HTTP/1.1 101 X\r\nconnection: upgrade\r\nupgrade: websocket\r\n";
    let table = [
        (format!("{upgrade}sec-websocket-accept: AAAA\r\n\r\n"), "did not prove"),
        (format!("{upgrade}\r\n"), "did not prove"),
        ("HTTP/1.1 101 X\r\nupgrade: h2c\r\n\r\n".to_owned(), "something else"),
        ("SSH-2.0-x\r\n\r\n".to_owned(), "not http"),
        ("HTTP/1.1 101 X\r\n".to_owned(), "closed the connection"),
        (format!("HTTP/1.1 200 OK\r\nA: {}\r\n\r\n", "x".repeat(17_000)), "too large"),
    ];
    for (answer, part) in table {
        let (_, error) = connect_to_raw(&answer).await;
        assert!(matches!(error, Error::Handshake(text) if text.contains(part)), "{error}");
    }
}

#[tokio::test]
async fn a_long_refusal_is_cut() {
    let (_, error) = connect_to_raw(&format!("HTTP/1.1 500 X\r\n\r\n{}", "y".repeat(5000))).await;
    assert!(matches!(error, Error::Refused { status: 500, body } if body.len() == 1024));
}

#[tokio::test]
async fn a_token_in_the_clear_stays_here() {
    for host in ["example.com", "10.0.0.1", "[2001:db8::1]", "localhost.example"] {
        let options = ConnectOptions { bearer_token: Some("t".into()), ..options() };
        let error = connect_websocket(&format!("ws://{host}:9"), &options).await.unwrap_err();
        assert!(matches!(error, Error::TokenInClear { .. }), "{error}");
    }
    for token in ["", "a b", "a\r\nX: y", "é"] {
        let options = ConnectOptions { bearer_token: Some(token.into()), ..options() };
        let error = connect_websocket("ws://127.0.0.1:9", &options).await.unwrap_err();
        assert!(matches!(error, Error::BearerToken), "{error}");
    }
    let options = ConnectOptions { bearer_token: Some("hush".into()), ..options() };
    assert!(!format!("{options:?}").contains("hush"));
}

#[tokio::test]
async fn a_silent_server_runs_into_the_timeout() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("ws://{}", listener.local_addr().unwrap());
    let options = ConnectOptions { timeout: Duration::from_millis(50), ..options() };
    let error = connect_websocket(&url, &options).await.unwrap_err();
    assert!(matches!(error, Error::Timeout { .. }), "{error}");
}

#[tokio::test]
async fn nobody_listening_is_an_error() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("ws://{}", listener.local_addr().unwrap());
    drop(listener);
    let error = connect_websocket(&url, &options()).await.unwrap_err();
    assert!(error.to_string().starts_with("cannot connect: "), "{error}");
}
