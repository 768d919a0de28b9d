//! Bodies: whole, streamed, broken, slow and too large.
#![allow(clippy::unwrap_used, reason = "a test fails where something is not as expected")]

mod support;

use std::time::Duration;

use exec_http::limits::PIECE_BYTES_MAX;
use exec_http::{Body, HttpClient};
use serde_json::json;
use support::{deltas, failure, params, request, server, text};

const BROKEN: &str = "error decoding response body";

#[tokio::test]
async fn a_body_comes_as_it_was_sent() {
    let server = server().await;
    assert_eq!(text(&server.url("/chunked"), json!({})).await.1, "abcde");
    assert_eq!(text(&server.url("/to-the-end"), json!({})).await.1, "all until the end");
    assert_eq!(text(&server.url("/slow"), json!({})).await.1, "abcd");
    let gzip = support::whole(request(&server.url("/gzip"), json!({})).await.unwrap());
    assert!(gzip.starts_with(b"\x1f\x8b"));
}

#[tokio::test]
async fn a_broken_body_is_a_failure() {
    let server = server().await;
    for path in ["/broken", "/broken-chunk"] {
        let failed = failure(&server.url(path), json!({})).await;
        assert_eq!(failed, format!("failed to read http/request response body: {BROKEN}"));
    }
}

#[tokio::test]
async fn a_body_that_does_not_fit_is_refused() {
    let server = server().await;
    let client = HttpClient::with_body_max(1000);
    let ask = async |path: &str, stream: bool| {
        let params = params(&server.url(path), json!({"streamResponse": stream}));
        client.request(params, |_| None).await
    };
    assert_eq!(support::whole(ask("/bytes/1000", false).await.unwrap()).len(), 1000);
    for path in ["/bytes/1001", "/endless"] {
        let error = ask(path, false).await.unwrap_err();
        let expected = "failed to read http/request response body: larger than 1000 bytes; \
            use streamResponse";
        assert_eq!(error.to_string(), expected);
    }
    let streamed = deltas(ask("/bytes/100000", true).await.unwrap()).await;
    let total: usize = streamed.iter().map(|delta| delta.delta_base64.0.len()).sum();
    assert_eq!(total, 100_000);
}

/// Streams `path` and gives each delta's bytes and the end's error; the numbers are checked.
async fn streamed(
    server: &exec_testkit::web::WebServer,
    path: &str,
    timeout: Option<u64>,
) -> (Vec<Vec<u8>>, Option<String>) {
    let members = json!({"streamResponse": true, "timeoutMs": timeout});
    let response = request(&server.url(path), members).await.unwrap();
    let mut all = deltas(response).await;
    for (delta, seq) in all.iter().zip(1..) {
        assert_eq!((delta.seq, delta.request_id.as_str()), (seq, "r"));
    }
    let end = all.pop().unwrap();
    assert!(end.done && end.delta_base64.0.is_empty());
    assert!(all.iter().all(|delta| !delta.done && delta.error.is_none()));
    (all.into_iter().map(|delta| delta.delta_base64.0).collect(), end.error)
}

#[tokio::test]
async fn a_stream_is_numbered_and_has_one_end() {
    let server = server().await;
    let (pieces, error) = streamed(&server, "/slow", None).await;
    assert_eq!((pieces, error), (vec![b"ab".to_vec(), b"cd".to_vec()], None));
    let (pieces, error) = streamed(&server, "/chunked", None).await;
    assert_eq!((pieces.concat(), error), (b"abcde".to_vec(), None));
    assert_eq!(streamed(&server, "/empty", None).await, (Vec::new(), None));
    for path in ["/broken", "/broken-chunk"] {
        let (pieces, error) = streamed(&server, path, None).await;
        assert_eq!((pieces, error.as_deref()), (vec![b"abc".to_vec()], Some(BROKEN)));
    }
    let (pieces, error) = streamed(&server, "/stuck", Some(200)).await;
    assert_eq!((pieces, error.as_deref()), (vec![b"ab".to_vec()], Some(BROKEN)));
}

#[tokio::test]
async fn no_piece_is_larger_than_the_protocol_allows() {
    let server = server().await;
    let (pieces, error) = streamed(&server, "/bytes/5000000", None).await;
    assert_eq!(error, None);
    assert!(pieces.iter().all(|piece| (1..=PIECE_BYTES_MAX).contains(&piece.len())));
    assert_eq!(pieces.concat().len(), 5_000_000);
}

#[tokio::test]
async fn a_stream_can_be_sent_by_another_task() {
    let server = server().await;
    let client = std::sync::Arc::new(HttpClient::default());
    let params = params(&server.url("/slow"), json!({"streamResponse": true}));
    let request = tokio::spawn(async move { client.request(params, |_| None).await });
    let response = request.await.unwrap().unwrap();
    let sent = tokio::spawn(deltas(response)).await.unwrap();
    assert_eq!(sent.len(), 3);
}

#[tokio::test]
async fn a_stream_that_nobody_reads_holds_little_and_ends_when_dropped() {
    let server = server().await;
    let members = json!({"streamResponse": true});
    let response = request(&server.url("/endless"), members).await.unwrap();
    let Body::Stream(mut body) = response.body else { panic!("streamed") };
    assert!(!body.next().await.unwrap().unwrap().is_empty());
    drop(body);
    // The server's write fails, so its connection ends; a new request gets a new one.
    tokio::time::sleep(Duration::from_millis(20)).await;
    assert_eq!(text(&server.url("/x"), json!({})).await.1, "/x");
}
