//! Requests to the HTTP server of the testkit.
#![allow(
    dead_code,
    clippy::unwrap_used,
    reason = "a part of each test binary, which uses its part"
)]

use exec_http::{Body, Error, HttpClient, Response};
use exec_protocol::http::HttpRequestParams;
use exec_testkit::web::WebServer;
use serde_json::{Value, json};

/// It serves for as long as the runtime lives.
pub(crate) async fn server() -> WebServer {
    WebServer::start().await.unwrap()
}

/// Parameters of a GET, with these members added or changed.
pub(crate) fn params(url: &str, members: Value) -> HttpRequestParams {
    serde_json::from_value(raw(url, members)).unwrap()
}

pub(crate) fn raw(url: &str, members: Value) -> Value {
    let mut params = json!({"method": "GET", "url": url, "requestId": "r"});
    for (key, value) in members.as_object().unwrap() {
        params[key] = value.clone();
    }
    params
}

/// Makes one request with a client of its own.
pub(crate) async fn request(url: &str, members: Value) -> Result<Response, Error> {
    HttpClient::default().request(params(url, members), |_| None).await
}

/// Its status and its body as text.
pub(crate) async fn text(url: &str, members: Value) -> (u16, String) {
    let response = request(url, members).await.unwrap();
    (response.status, String::from_utf8_lossy(&whole(response)).into_owned())
}

/// The words of its failure.
pub(crate) async fn failure(url: &str, members: Value) -> String {
    request(url, members).await.unwrap_err().to_string()
}

pub(crate) fn whole(response: Response) -> Vec<u8> {
    match response.body {
        Body::Whole(bytes) => bytes,
        Body::Stream(_) => panic!("the body was streamed"),
    }
}

/// Every delta of a streamed body.
pub(crate) async fn deltas(response: Response) -> Vec<exec_protocol::http::BodyDeltaParams> {
    let Body::Stream(body) = response.body else { panic!("the body was not streamed") };
    let mut deltas = body.into_deltas("r".to_owned());
    let mut all = Vec::new();
    while let Some(delta) = deltas.next().await {
        all.push(delta);
    }
    all
}
