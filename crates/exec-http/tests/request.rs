//! What is sent, what comes back, and every way in which a request fails.
#![allow(clippy::unwrap_used, reason = "a test fails where something is not as expected")]

mod support;

use exec_http::{ErrorKind, HttpClient};
use exec_protocol::http::ResponseHeader;
use serde_json::json;
use support::{failure, params, request, server, text, whole};

#[tokio::test]
async fn a_request_is_sent_as_it_was_given() {
    let server = server().await;
    let host = server.address;
    let sent = async |members| text(&server.url("/echo"), members).await.1;
    assert_eq!(
        sent(json!({})).await,
        format!("GET /echo HTTP/1.1\r\naccept: */*\r\nhost: {host}\r\n\r\n")
    );
    assert_eq!(
        sent(json!({"method": "get"})).await,
        format!("get /echo HTTP/1.1\r\naccept: */*\r\nhost: {host}\r\n\r\n")
    );
    assert_eq!(
        sent(json!({"method": "M-X", "bodyBase64": "aGk="})).await,
        format!("M-X /echo HTTP/1.1\r\naccept: */*\r\nhost: {host}\r\ncontent-length: 2\r\n\r\nhi")
    );
    let headers = json!([
        {"name": "X-Q", "value": "1"}, {"name": "x-q", "value": "2"},
        {"name": "Accept", "value": "a/b"}, {"name": "Host", "value": "h.example"},
    ]);
    assert_eq!(
        sent(json!({"headers": headers})).await,
        "GET /echo HTTP/1.1\r\nx-q: 1\r\nx-q: 2\r\naccept: a/b\r\nhost: h.example\r\n\r\n"
    );
}

#[tokio::test]
async fn the_path_is_encoded_and_the_fragment_stays_here() {
    let server = server().await;
    let url = server.url("/a b?q=\u{e9}#fragment");
    assert_eq!(text(&url, json!({})).await, (200, "/a%20b?q=%C3%A9".to_owned()));
}

#[tokio::test]
async fn a_header_may_take_its_value_from_the_environment() {
    let server = server().await;
    let headers = json!([{"name": "A", "value": "Bearer ", "valueEnvVar": "V"}]);
    let params = params(&server.url("/echo"), json!({"headers": headers}));
    let variable = |name: &str| (name == "V").then(|| "sek".to_owned());
    let response = HttpClient::default().request(params, variable).await.unwrap();
    assert!(String::from_utf8(whole(response)).unwrap().contains("\r\na: Bearer sek\r\n"));
}

#[tokio::test]
async fn headers_come_back_in_lower_case_with_repeats() {
    let server = server().await;
    let response = request(&server.url("/echo"), json!({})).await.unwrap();
    let header =
        |name: &str, value: &str| ResponseHeader { name: name.into(), value: value.into() };
    assert_eq!(response.status, 200);
    // The one that is not ASCII is missing.
    assert_eq!(
        response.headers[..5],
        [
            header("x-a", "1"),
            header("x-a", "2"),
            header("x-tab", "a\tb"),
            header("x-empty", ""),
            header("x-sp", "pad"),
        ]
    );
    assert_eq!(response.headers[5].name, "content-length");
    assert_eq!(response.headers.len(), 6);
}

#[tokio::test]
async fn any_status_is_a_result() {
    let server = server().await;
    for status in [404, 500, 999] {
        let answer = text(&server.url(&format!("/status/{status}")), json!({})).await;
        assert_eq!(answer, (status, "rb".to_owned()));
    }
    assert_eq!(text(&server.url("/empty"), json!({})).await, (204, String::new()));
    assert_eq!(text(&server.url("/continue"), json!({})).await, (200, "after".to_owned()));
    let head = text(&server.url("/echo"), json!({"method": "HEAD"})).await;
    assert_eq!(head, (200, String::new()));
}

#[tokio::test]
async fn no_answer_is_a_failure_that_names_the_url_without_credentials() {
    let server = server().await;
    for path in ["/close", "/junk", "/headers/100", "/header/1000000"] {
        let url = server.url(path);
        let expected = format!("http/request failed: error sending request for url ({url})");
        assert_eq!(failure(&url, json!({})).await, expected);
    }
    let refused = failure("http://u:p@127.0.0.1:1/p?q#f", json!({})).await;
    let expected = "http/request failed: error sending request for url (http://127.0.0.1:1/p?q#f)";
    assert_eq!(refused, expected);
    let secure = server.url("/").replace("http:", "https:");
    let tls = failure(&secure, json!({"timeoutMs": 300})).await;
    assert!(tls.starts_with("http/request failed: error sending request for url (https://127."));
}

#[tokio::test]
async fn as_many_headers_as_the_reference_takes_are_taken() {
    let server = server().await;
    assert_eq!(request(&server.url("/headers/99"), json!({})).await.unwrap().headers.len(), 100);
    let large = request(&server.url("/header/400000"), json!({})).await.unwrap();
    assert_eq!(large.headers[0].value.len(), 400_000);
}

#[tokio::test]
async fn time_limits_cover_head_and_body() {
    let server = server().await;
    let (silent, stuck) = (server.url("/silent"), server.url("/stuck"));
    let expected = format!("http/request failed: error sending request for url ({silent})");
    assert_eq!(failure(&silent, json!({"timeoutMs": 100})).await, expected);
    let expected = "failed to read http/request response body: error decoding response body";
    assert_eq!(failure(&stuck, json!({"timeoutMs": 100})).await, expected);
    let none = failure(&silent, json!({"timeoutMs": 0})).await;
    assert_eq!(none, "http/request failed: route-aware request timed out");
    assert!(
        request("nonsense", json!({"timeoutMs": 0}))
            .await
            .is_err_and(|error| { error.kind() == ErrorKind::Params })
    );
    for forever in [json!(null), json!(u64::MAX)] {
        let answer = text(&server.url("/x"), json!({"timeoutMs": forever})).await;
        assert_eq!(answer, (200, "/x".to_owned()));
    }
}

#[tokio::test]
async fn connections_are_used_again() {
    let server = server().await;
    let client = HttpClient::default();
    for _ in 0..50 {
        let params = params(&server.url("/x"), json!({}));
        assert_eq!(whole(client.request(params, |_| None).await.unwrap()), b"/x");
    }
    // One that the server closed meanwhile does no harm.
    for _ in 0..5 {
        let broken = params(&server.url("/broken"), json!({}));
        assert!(client.request(broken, |_| None).await.is_err());
        let params = params(&server.url("/x"), json!({}));
        assert_eq!(whole(client.request(params, |_| None).await.unwrap()), b"/x");
    }
}

#[test]
fn a_client_without_requests_is_next_to_nothing() {
    assert!(std::mem::size_of::<HttpClient>() < 512);
    drop(HttpClient::default());
}
