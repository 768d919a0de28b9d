//! `https:`, with a certificate that only a named file vouches for, directly and through a proxy.
#![allow(clippy::unwrap_used, reason = "a test fails where something is not as expected")]

mod support;

use std::sync::Arc;

use exec_http::HttpClient;
use rustls_pki_types::PrivateKeyDer;
use serde_json::json;
use support::{params, whole};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;

/// A server that answers every request with its first line; its port and its certificate.
async fn server() -> (u16, String) {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let key = PrivateKeyDer::try_from(made.signing_key.serialize_der()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.der().clone()], key)
        .unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let Ok(mut stream) = acceptor.accept(stream).await else { continue };
            let mut head = vec![0; 4096];
            let length = stream.read(&mut head).await.unwrap_or(0);
            let line = head[..length].split(|&byte| byte == b'\r').next().unwrap();
            let answer = [b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n", line].concat();
            stream.write_all(&answer).await.unwrap();
            stream.shutdown().await.unwrap();
        }
    });
    (port, made.cert.pem())
}

/// A proxy that opens tunnels to this machine, and wants to know for whom.
async fn proxy() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut head = vec![0; 4096];
            let length = stream.read(&mut head).await.unwrap();
            let head = String::from_utf8_lossy(&head[..length]).into_owned();
            let target = head.strip_prefix("CONNECT ").unwrap().split(' ').next().unwrap();
            assert!(
                head.to_ascii_lowercase().contains("proxy-authorization: basic dtpw"),
                "{head}"
            );
            let mut far = TcpStream::connect(target).await.unwrap();
            stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await.unwrap();
            tokio::io::copy_bidirectional(&mut stream, &mut far).await.ok();
        }
    });
    port
}

#[tokio::test]
async fn only_certificates_that_are_vouched_for_are_believed() {
    let (port, certificate) = server().await;
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("ca.pem");
    std::fs::write(&file, certificate).unwrap();
    let file = file.to_str().unwrap();
    let ask = async |set: &[(&str, String)], host: &str| {
        let variable =
            |name: &str| set.iter().find(|(key, _)| *key == name).map(|(_, value)| value.clone());
        let url = format!("https://{host}:{port}/x");
        let params = params(&url, json!({"timeoutMs": 10_000}));
        HttpClient::default().request(params, variable).await.map(whole)
    };
    let named = ("CODEX_CA_CERTIFICATE", file.to_owned());
    assert_eq!(ask(std::slice::from_ref(&named), "localhost").await.unwrap(), b"GET /x HTTP/1.1");
    let through = ("HTTPS_PROXY", format!("http://u:p@127.0.0.1:{}", proxy().await));
    assert_eq!(ask(&[named.clone(), through], "localhost").await.unwrap(), b"GET /x HTTP/1.1");

    let refused = "http/request failed: error sending request for url (https://";
    for (set, host) in [(vec![], "localhost"), (vec![named], "127.0.0.1")] {
        let error = ask(&set, host).await.unwrap_err().to_string();
        assert!(error.starts_with(refused), "{error}");
    }
    let missing = ("CODEX_CA_CERTIFICATE", "/nonexist".to_owned());
    let error = ask(&[missing], "localhost").await.unwrap_err().to_string();
    assert!(error.contains("/nonexist, named by CODEX_CA_CERTIFICATE: No such file"), "{error}");
}
