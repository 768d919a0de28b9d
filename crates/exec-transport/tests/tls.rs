//! `wss://` with a certificate made on the spot.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking, its helpers too")]

use std::path::{Path, PathBuf};
use std::time::Duration;

use exec_transport::{
    AcceptPolicy, ClientTls, ConnectOptions, Error, TlsRoots, WsAuth, accept, accept_tls,
    connect_websocket, server_tls,
};
use tokio::net::TcpListener;

struct Files {
    _dir: tempfile::TempDir,
    certificate: PathBuf,
    key: PathBuf,
}

fn make_files() -> Files {
    let dir = tempfile::tempdir().unwrap();
    let made =
        rcgen::generate_simple_self_signed(["localhost".into(), "127.0.0.1".into()]).unwrap();
    let (certificate, key) = (dir.path().join("cert.pem"), dir.path().join("key.pem"));
    std::fs::write(&certificate, made.cert.pem()).unwrap();
    std::fs::write(&key, made.signing_key.serialize_pem()).unwrap();
    Files { _dir: dir, certificate, key }
}

fn trusting(path: &Path) -> ConnectOptions {
    ConnectOptions {
        bearer_token: Some("any".into()),
        timeout: Duration::from_secs(5),
        tls: ClientTls { roots: TlsRoots::File(path.to_owned()) },
        ..ConnectOptions::default()
    }
}

#[tokio::test]
async fn messages_cross_tls_and_a_bare_close_is_an_end() {
    let files = make_files();
    let config = server_tls(&files.certificate, &files.key).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let policy = AcceptPolicy::for_listener(address, WsAuth::None);
    let long = "x".repeat(3_000_000);
    let serve = async {
        let (stream, peer) = listener.accept().await.unwrap();
        let stream = accept_tls(stream, &config).await.unwrap();
        let mut server = accept(stream, peer, &policy).await.unwrap().unwrap();
        let message = server.next_message().await.unwrap().unwrap();
        server.send(&message).unwrap();
        server.flush().await.unwrap();
    };
    let options = trusting(&files.certificate);
    let talk = async {
        let url = format!("wss://127.0.0.1:{}", address.port());
        let mut client = connect_websocket(&url, &options).await.unwrap();
        client.send(long.as_bytes()).unwrap();
        assert!(client.next_message().await.unwrap().unwrap() == long.as_bytes());
        assert_eq!(client.next_message().await.unwrap(), None);
    };
    tokio::join!(serve, talk);
}

#[tokio::test]
async fn an_unknown_certificate_is_refused() {
    let files = make_files();
    let config = server_tls(&files.certificate, &files.key).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("wss://localhost:{}", listener.local_addr().unwrap().port());
    let others = make_files();
    let options = trusting(&others.certificate);
    let (accepted, connected) = tokio::join!(
        async {
            let (stream, _) = listener.accept().await.unwrap();
            accept_tls(stream, &config).await.map(|_| ())
        },
        connect_websocket(&url, &options)
    );
    assert!(accepted.is_err());
    let error = connected.unwrap_err().to_string();
    assert!(
        error.contains("cannot complete the tls handshake: invalid peer certificate"),
        "{error}"
    );
}

#[test]
fn unusable_files_are_named() {
    let files = make_files();
    let missing = Path::new("/nonexistent/cert.pem");
    let error = server_tls(missing, &files.key).unwrap_err();
    let text = "cannot load certificates from /nonexistent/cert.pem";
    assert!(error.to_string().starts_with(text), "{error}");
    let error = server_tls(&files.key, &files.key).unwrap_err();
    assert!(matches!(error, Error::NoCertificate { .. }), "{error}");
    let error = server_tls(&files.certificate, &files.certificate).unwrap_err();
    assert!(error.to_string().starts_with("cannot load private key from"), "{error}");
    let error = server_tls(&files.certificate, &make_files().key).unwrap_err();
    assert!(matches!(error, Error::Tls(_)), "{error}");
}
