//! The table of answers, row by row, and the order of the checks.

use sha2::{Digest, Sha256};

use super::*;
use crate::auth::WsAuth;

const UPGRADE: &[&str] = &[
    "Connection: Upgrade",
    "Upgrade: websocket",
    "Sec-WebSocket-Version: 13",
    "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
];

fn policy(auth: WsAuth) -> AcceptPolicy {
    AcceptPolicy::for_listener("127.0.0.1:1".parse().unwrap(), auth)
}

fn token_policy() -> AcceptPolicy {
    policy(WsAuth::CapabilityToken { sha256: Sha256::digest(b"secret").into() })
}

fn request(line: &str, headers: &[&str]) -> String {
    let mut text = format!("{line} HTTP/1.1\r\n");
    for header in headers {
        text.push_str(header);
        text.push_str("\r\n");
    }
    text + "\r\n"
}

/// Status, and body after a `content-type: text/plain`.
fn answer(policy: &AcceptPolicy, request: &str) -> (u16, Option<String>) {
    match judge(request.as_bytes(), policy, 0) {
        Verdict::Answer(answer) => {
            let (head, body) = answer.split_once("\r\n\r\n").unwrap();
            assert!(head.contains("connection: close"));
            let text = head.contains("content-type: text/plain; charset=utf-8");
            (head[9..12].parse().unwrap(), text.then(|| body.to_owned()))
        }
        Verdict::Upgrade { answer, .. } => {
            assert!(answer.ends_with("accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n"));
            (101, None)
        }
        Verdict::ReadMore => (0, None),
    }
}

fn check_with(policy: &AcceptPolicy, line: &str, headers: &[&str], status: u16, body: &str) {
    let body = (!body.is_empty()).then(|| body.to_owned());
    assert_eq!(answer(policy, &request(line, headers)), (status, body), "{line} {headers:?}");
}

fn check(line: &str, headers: &[&str], status: u16, body: &str) {
    check_with(&policy(WsAuth::None), line, headers, status, body);
}

fn without(name: &str, instead: &str) -> Vec<&'static str> {
    let instead: &'static str = Box::leak(instead.to_owned().into_boxed_str());
    UPGRADE.iter().map(|header| if header.starts_with(name) { instead } else { header }).collect()
}

#[test]
fn paths_and_methods() {
    check("GET /readyz", &[], 200, "");
    check("GET /readyz?x=1", &[], 200, "");
    check("HEAD /readyz", &[], 200, "");
    check("POST /readyz", &[], 405, "");
    check("GET /", UPGRADE, 101, "");
    check("GET /?a=b", UPGRADE, 101, "");
    check("POST /", UPGRADE, 405, "Request method must be `GET`");
    for path in ["/healthz", "/health", "/readyz/", "/metrics", "//", "*"] {
        check(&format!("GET {path}"), UPGRADE, 404, "");
    }
    check("GET http://localhost/readyz", &[], 200, "");
    check("GET http://localhost?x", UPGRADE, 101, "");
}

#[test]
fn the_upgrade_headers_are_checked_in_order() {
    let connection = "Connection header did not include 'upgrade'";
    check("GET /", &[], 400, connection);
    check("GET /", &without("Connection", "Connection: close"), 400, connection);
    let upgrade = "`Upgrade` header did not include 'websocket'";
    check("GET /", &without("Upgrade", "Upgrade: h2c"), 400, upgrade);
    check("GET /", &without("Upgrade", "X: y"), 400, upgrade);
    let version = "`Sec-WebSocket-Version` header did not include '13'";
    check("GET /", &without("Sec-WebSocket-V", "Sec-WebSocket-Version: 12"), 400, version);
    check("GET /", &without("Sec-WebSocket-V", "Sec-WebSocket-Version: 13, 8"), 400, version);
    check("GET /", &without("Sec-WebSocket-V", "X: y"), 400, version);
    let key = "`Sec-WebSocket-Key` header missing";
    check("GET /", &without("Sec-WebSocket-K", "X: y"), 400, key);
    check("GET /", &without("Connection", "connection: keep-alive, UPGRADE"), 101, "");
    check("GET /", &without("Upgrade", "upgrade: WebSocket"), 101, "");
    let old = request("GET /", UPGRADE).replace("HTTP/1.1", "HTTP/1.0");
    assert_eq!(answer(&policy(WsAuth::None), &old).0, 426);
}

#[test]
fn an_origin_is_refused_before_everything_else() {
    let with = [UPGRADE, &["Origin: https://x"]].concat();
    for line in ["GET /", "GET /readyz", "POST /nowhere"] {
        check(line, &with, 403, "");
        check(line, &["Origin:"], 403, "");
        check(line, &["origin: http://127.0.0.1", "Host: evil"], 403, "");
    }
}

#[test]
fn only_loopback_names_reach_a_loopback_listener() {
    let good = [
        "127.0.0.1",
        "127.0.0.1:80",
        "127.3.2.1:1",
        "[::1]",
        "[::1]:9",
        "localhost",
        "LocalHost:80",
        "[::ffff:127.0.0.1]:1",
        "localhost:",
    ];
    for host in good {
        check("GET /readyz", &[&format!("Host: {host}")], 200, "");
    }
    let text = "Host header must name a loopback address or `localhost`, since the server listens on loopback";
    let bad = [
        "evil.example",
        "evil.example:80",
        "localhost.evil",
        "10.0.0.1",
        "[::2]",
        "",
        "::1:x",
        "127.0.0.1.evil",
        "127.0.0.1@evil",
    ];
    for host in bad {
        check("GET /readyz", &[&format!("Host: {host}")], 403, text);
        check("GET /", &[UPGRADE, &[&format!("Host: {host}")]].concat(), 403, text);
    }
    check("GET /readyz", &["Host: localhost", "Host: evil"], 403, text);
    check("GET http://evil/readyz", &["Host: localhost"], 403, text);
    let open = AcceptPolicy::for_listener("0.0.0.0:1".parse().unwrap(), WsAuth::None);
    check_with(&open, "GET /readyz", &["Host: evil"], 200, "");
}

#[test]
fn authentication_comes_last_and_only_for_the_upgrade() {
    let policy = token_policy();
    check_with(&policy, "GET /readyz", &[], 200, "");
    check_with(&policy, "GET /nowhere", &[], 404, "");
    check_with(&policy, "POST /", &[], 405, "Request method must be `GET`");
    check_with(&policy, "GET /", &[], 400, "Connection header did not include 'upgrade'");
    check_with(&policy, "GET /", UPGRADE, 401, "missing websocket bearer token");
    let with = |value| [UPGRADE, &[value]].concat();
    let bad = with("Authorization: Bearer x");
    check_with(&policy, "GET /", &bad, 401, "invalid websocket bearer token");
    check_with(&policy, "GET /", &with("authorization: bearer secret"), 101, "");
    let first_counts = [bad.as_slice(), &["Authorization: Bearer secret"]].concat();
    check_with(&policy, "GET /", &first_counts, 401, "invalid websocket bearer token");
}

#[test]
fn malformed_and_oversized_heads_are_answered() {
    let policy = policy(WsAuth::None);
    assert_eq!(answer(&policy, "garbage\r\n\r\n"), (400, None));
    assert_eq!(answer(&policy, "\x16\x03\x01\x02"), (400, None));
    assert_eq!(answer(&policy, "GET / HTTP/1.1\r\nbad header\r\n\r\n"), (400, None));
    assert_eq!(answer(&policy, "GET / HTTP/1.1\r\nA: b"), (0, None));
    let many = request("GET /readyz", &["A: b"; 65]);
    assert_eq!(answer(&policy, &many), (431, None));
    assert_eq!(answer(&policy, &request("GET /readyz", &["A: b"; 64])), (200, None));
    let long = format!("GET /readyz HTTP/1.1\r\nA: {}", "x".repeat(HEAD_BYTES_MAX));
    assert_eq!(answer(&policy, &long), (431, None));
}

#[test]
fn answers_are_as_short_as_they_can_be() {
    let policy = policy(WsAuth::None);
    let shown = |request: &str| judge(request.as_bytes(), &policy, 0);
    let text = |text: &str| Verdict::Answer(text.to_owned());
    assert_eq!(
        shown("POST /readyz HTTP/1.1\r\n\r\n"),
        text(
            "HTTP/1.1 405 Method Not Allowed\r\nconnection: close\r\nallow: GET,HEAD\r\ncontent-length: 0\r\n\r\n"
        )
    );
    assert_eq!(
        shown("HEAD / HTTP/1.1\r\n\r\n"),
        text(
            "HTTP/1.1 405 Method Not Allowed\r\nconnection: close\r\ncontent-type: text/plain; charset=utf-8\r\ncontent-length: 28\r\n\r\n"
        )
    );
}
