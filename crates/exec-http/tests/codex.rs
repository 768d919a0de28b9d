//! The same requests made by us and by the real codex server: the answers are equal.
#![allow(clippy::unwrap_used, reason = "a test fails where something is not as expected")]

mod support;

use exec_http::{Body, ErrorKind, HttpClient};
use exec_protocol::bytes::Base64Bytes;
use exec_protocol::http::{HttpRequestParams, HttpRequestResult};
use exec_testkit::codex::{CodexHome, codex_binary};
use exec_testkit::peer::RawPeer;
use exec_testkit::skip;
use serde_json::{Value, json};
use support::{raw, server};

/// Set for codex, and known to us.
const VARIABLES: &[(&str, &str)] =
    &[("SETV", "sek"), ("EMPTYV", ""), ("BADV", "a\nb"), ("OPENAI_API_KEY", "secret")];

fn variable(name: &str) -> Option<String> {
    VARIABLES.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned())
}

/// None, with a word about it, where there is no codex.
async fn codex(proxies: &[(&str, &str)]) -> Option<(CodexHome, RawPeer)> {
    let binary = codex_binary().map_err(skip).ok()?;
    let home = CodexHome::new().unwrap();
    let mut command = tokio::process::Command::from(home.exec_server(&binary));
    for name in ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "REQUEST_METHOD"] {
        command.env_remove(name).env_remove(name.to_ascii_lowercase());
    }
    command.args(["--listen", "stdio"]).envs(VARIABLES.iter().copied());
    command.envs(proxies.iter().copied()).stderr(std::process::Stdio::null());
    let mut peer = RawPeer::stdio(command).unwrap();
    peer.handshake().await.unwrap();
    Some((home, peer))
}

/// Our answer, in the shape of codex's.
async fn ours(client: &HttpClient, params: Value, proxies: &[(&str, &str)]) -> Value {
    let params: HttpRequestParams = serde_json::from_value(params).unwrap();
    let proxy = |name: &str| {
        proxies.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned())
    };
    match client.request(params, |name| proxy(name).or_else(|| variable(name))).await {
        Ok(response) => {
            let body = match response.body {
                Body::Whole(bytes) => bytes,
                Body::Stream(_) => panic!("the body was streamed"),
            };
            let result = HttpRequestResult {
                status: response.status,
                headers: response.headers,
                body_base64: Base64Bytes(body),
            };
            json!({ "result": result })
        }
        Err(error) => {
            let code = match error.kind() {
                ErrorKind::Params => -32602,
                ErrorKind::Failed => -32603,
            };
            json!({"error": {"code": code, "message": error.to_string()}})
        }
    }
}

async fn check(cases: Vec<Value>, proxies: &[(&str, &str)]) {
    let Some((_home, mut peer)) = codex(proxies).await else { return };
    let client = HttpClient::default();
    for params in cases {
        let mut theirs = peer.call("http/request", params.clone()).await.unwrap();
        theirs.as_object_mut().unwrap().remove("id");
        let ours = ours(&client, params.clone(), proxies).await;
        assert_eq!(ours, theirs, "{params}");
    }
}

#[tokio::test]
async fn requests_are_answered_as_by_codex() {
    let server = server().await;
    let get = |path: &str, members: Value| raw(&server.url(path), members);
    let header = |name: &str, value: &str| json!([{"name": name, "value": value}]);
    let mut cases = Vec::new();
    for method in ["GET", "get", "POST", "PUT", "M-X", "OPTIONS", "HEAD", "", "G T", "\u{e9}"] {
        cases.push(get("/echo", json!({"method": method})));
    }
    for body in ["", "aGk="] {
        for method in ["GET", "POST", "DELETE"] {
            cases.push(get("/echo", json!({"method": method, "bodyBase64": body})));
        }
    }
    for (name, value) in [
        ("X-E", ""),
        ("X-U", "\u{e9}"),
        ("x-sp", "  a  "),
        ("Connection", "close"),
        ("Accept-Encoding", "gzip"),
        ("Accept", "a/b"),
        ("Host", "h.example"),
        ("A b", "x"),
        ("", "x"),
        ("A", "x\r\ny"),
        ("A", "x\0"),
    ] {
        cases.push(get("/echo", json!({"headers": header(name, value)})));
    }
    for name in ["SETV", "EMPTYV", "NOPE", "openai_api_key", "BADV", "", "AWS_SESSION_TOKEN"] {
        let headers = json!([{"name": "Authorization", "value": "B ", "valueEnvVar": name}]);
        cases.push(get("/echo", json!({"headers": headers})));
    }
    for path in [
        "/gzip",
        "/chunked",
        "/broken",
        "/broken-chunk",
        "/close",
        "/junk",
        "/to-the-end",
        "/empty",
        "/continue",
        "/status/404",
        "/status/999",
        "/bytes/3000000",
        "/headers/99",
        "/headers/100",
        "/header/400000",
        "/header/1000000",
        "/a b?q=\u{e9}#f",
        "/slow",
    ] {
        cases.push(get(path, json!({})));
    }
    cases.push(get("/silent", json!({"timeoutMs": 100})));
    cases.push(get("/stuck", json!({"timeoutMs": 100})));
    cases.push(get("/echo", json!({"timeoutMs": 0})));
    check(cases, &[]).await;
}

#[tokio::test]
async fn urls_are_understood_as_by_codex() {
    let server = server().await;
    let host = server.address;
    let urls = [
        "",
        "/x",
        "x",
        "ftp://h/",
        "http://",
        "http://[",
        "http://h:99999/",
        "file:///etc/passwd",
        "http://127.0.0.1:1/",
        "http://127.0.0.1:1/p?q#f",
        "http://u:p@127.0.0.1:1/",
        "ws://h/",
        "unix:/x",
        "data:,x",
    ];
    let mut cases: Vec<Value> = urls.iter().map(|url| raw(url, json!({}))).collect();
    for form in ["http://H/echo", "http://u:p%20w@H/echo", "http://u@H/echo", "http://:p@H/echo"] {
        cases.push(raw(&form.replace('H', &host.to_string()), json!({})));
    }
    cases.push(raw(&format!("http:{host}/a/../echo"), json!({})));
    cases.push(raw(&format!("https://{host}/"), json!({"timeoutMs": 300})));
    check(cases, &[]).await;
}

#[tokio::test]
async fn redirects_are_followed_as_by_codex() {
    let (server, other) = (server().await, server().await);
    let get = |path: &str, members: Value| raw(&server.url(path), members);
    let headers = json!([
        {"name": "Authorization", "value": "s"}, {"name": "Cookie", "value": "c"},
        {"name": "X-K", "value": "k"}, {"name": "Content-Type", "value": "t/t"},
    ]);
    let mut cases = Vec::new();
    for status in 300..=308 {
        let path = format!("/status/{status}");
        cases.push(get(&path, json!({})));
        cases.push(get(&path, json!({"redirectPolicy": "stop"})));
        for method in ["POST", "PUT", "DELETE", "post"] {
            let members = json!({"method": method, "bodyBase64": "aGk=", "headers": headers});
            cases.push(get(&path, members));
        }
    }
    for path in ["/no-location", "/latin", "/to/http:!![", "/to/ftp:!!x!", "/left/9", "/left/10"] {
        cases.push(get(path, json!({})));
    }
    for target in [format!("http:!!{}!echo", other.address), format!("!!{}!echo", other.address)] {
        cases.push(get(&format!("/to/{target}"), json!({"headers": headers})));
    }
    cases.push(get("/to/http:!!127.0.0.1:1!x", json!({})));
    cases.push(get("/to/!echo?a=b", json!({"headers": [{"name": "Referer", "value": "mine"}]})));
    check(cases, &[]).await;
}

#[tokio::test]
async fn proxies_are_used_as_by_codex() {
    let (server, proxy) = (server().await, server().await);
    let url = format!("http://pu:pp@{}", proxy.address);
    let ask = || {
        vec![raw("http://target.example:8080/echo", json!({})), raw(&server.url("/x"), json!({}))]
    };
    check(ask(), &[("HTTP_PROXY", &url)]).await;
    check(ask(), &[("all_proxy", &url), ("NO_PROXY", "127.0.0.0/8")]).await;
    check(ask()[1..].to_vec(), &[("HTTP_PROXY", "nonsense://x")]).await;
    let secure = vec![raw("https://target.example/x", json!({"timeoutMs": 300}))];
    check(secure, &[("HTTPS_PROXY", &url)]).await;
    let opened = proxy.take_received();
    assert!(opened.iter().all(|head| !head.starts_with("CONNECT") || head.contains("cHU6cHA=")));
}

#[tokio::test]
async fn streams_are_sent_as_by_codex() {
    let Some((_home, mut peer)) = codex(&[]).await else { return };
    let server = server().await;
    let client = HttpClient::default();
    for path in ["/slow", "/chunked", "/broken", "/broken-chunk", "/empty", "/status/404", "/stuck"]
    {
        let params = raw(&server.url(path), json!({"streamResponse": true, "timeoutMs": 500}));
        let result = peer.call_ok("http/request", params.clone()).await.unwrap();
        let mut theirs = Vec::new();
        while theirs.last().is_none_or(|delta: &Value| delta["done"] == false) {
            theirs.push(peer.recv().await.unwrap().unwrap()["params"].take());
        }
        let params = serde_json::from_value(params).unwrap();
        let response = client.request(params, variable).await.unwrap();
        assert_eq!(json!(response.headers), result["headers"]);
        assert_eq!(
            (json!(response.status), &json!("")),
            (result["status"].clone(), &result["bodyBase64"])
        );
        let ours = json!(support::deltas(response).await);
        assert_eq!(join(&ours), join(&json!(theirs)), "{path}");
    }
}

/// The pieces as one: how they are cut depends on the network.
fn join(deltas: &Value) -> (String, Value) {
    let deltas = deltas.as_array().unwrap();
    let pieces = deltas.iter().map(|delta| delta["deltaBase64"].as_str().unwrap());
    let seqs: Vec<u64> = deltas.iter().map(|delta| delta["seq"].as_u64().unwrap()).collect();
    assert!(seqs.iter().copied().eq(1..=u64::try_from(deltas.len()).unwrap()));
    let mut end = deltas.last().unwrap().clone();
    end.as_object_mut().unwrap().remove("seq");
    let bytes: Vec<u8> =
        pieces.flat_map(|piece| exec_protocol::bytes::decode(piece).unwrap()).collect();
    (String::from_utf8_lossy(&bytes).into_owned(), end)
}
