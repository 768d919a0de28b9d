//! Redirects, from one server to another.
#![allow(clippy::unwrap_used, reason = "a test fails where something is not as expected")]

mod support;

use serde_json::json;
use support::{failure, server, text};

#[tokio::test]
async fn a_redirect_is_followed_with_a_referer() {
    let server = server().await;
    for status in [301, 302, 303, 307, 308] {
        let url = server.url(&format!("/status/{status}"));
        let (last, sent) = text(&url, json!({})).await;
        assert_eq!(last, 200);
        let expected = format!(
            "GET /echo HTTP/1.1\r\naccept: */*\r\nreferer: {url}\r\nhost: {}\r\n\r\n",
            server.address
        );
        assert_eq!(sorted(&sent), sorted(&expected));
    }
}

fn sorted(head: &str) -> Vec<&str> {
    let mut lines: Vec<&str> = head.lines().collect();
    lines.sort_unstable();
    lines
}

#[tokio::test]
async fn other_statuses_and_bad_targets_are_the_answer() {
    let server = server().await;
    for status in [300, 304, 305, 306] {
        let (last, _) = text(&server.url(&format!("/status/{status}")), json!({})).await;
        assert_eq!(last, status);
    }
    for path in ["/no-location", "/latin", "/to/http:!!["] {
        assert_eq!(text(&server.url(path), json!({})).await.0, 302, "{path}");
    }
    for status in [301, 302, 303, 307, 308] {
        let url = server.url(&format!("/status/{status}"));
        let stopped = text(&url, json!({"redirectPolicy": "stop"})).await;
        assert_eq!(stopped, (status, "rb".to_owned()));
    }
}

#[tokio::test]
async fn a_post_becomes_a_get_without_its_body() {
    let server = server().await;
    let members = json!({
        "method": "POST", "bodyBase64": "aGk=",
        "headers": [{"name": "content-type", "value": "t/t"}],
    });
    let (_, sent) = text(&server.url("/status/302"), members.clone()).await;
    assert!(sent.starts_with("GET ") && sent.ends_with("\r\n\r\n") && !sent.contains("content-"));
    let (_, sent) = text(&server.url("/status/307"), members).await;
    assert!(sent.starts_with("POST ") && sent.ends_with("\r\n\r\nhi") && sent.contains("t/t"));
}

#[tokio::test]
async fn another_origin_gets_no_credentials() {
    let (server, other) = (server().await, server().await);
    let url = server.url(&format!("/to/http:!!a:b@{}!echo", other.address));
    let members = json!({"headers": [{"name": "authorization", "value": "s"}]});
    let (_, sent) = text(&url.replace("http://", "http://u:p@"), members).await;
    assert!(!sent.contains("authorization"), "{sent}");
    assert!(sent.contains(&format!("referer: http://{}/\r\n", server.address)), "{sent}");
    assert!(server.take_received()[0].contains("authorization: s\r\n"));
}

#[tokio::test]
async fn redirects_end() {
    let server = server().await;
    assert_eq!(text(&server.url("/left/9"), json!({})).await.0, 200);
    server.take_received();
    let endless = failure(&server.url("/left/10"), json!({})).await;
    assert_eq!(endless, "http/request failed: too many redirects");
    assert_eq!(server.take_received().len(), 11);
    for (target, scheme) in [("ftp:!!x!", "ftp"), ("file:!!!etc!passwd", "file")] {
        let failed = failure(&server.url(&format!("/to/{target}")), json!({})).await;
        let expected = "http/request failed: redirect target uses unsupported URL scheme: ";
        assert_eq!(failed, format!("{expected}{scheme}"));
    }
    let refused = failure(&server.url("/to/http:!!127.0.0.1:1!x"), json!({})).await;
    let expected = "http/request failed: error sending request for url (http://127.0.0.1:1/x)";
    assert_eq!(refused, expected);
}
