//! Files, watches and HTTP bodies: with our server in the same process, and with one that lies.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking, its helpers too")]

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::Mutex;

use exec_client::files::{ByteRange, Recursion, Replacement, Tolerance, TreeOptions, WriteFrom};
use exec_client::{ExecServerClient, ExecServerError};
use exec_protocol::fs::{ChangeKind, SearchParams, WalkOptions};
use exec_protocol::http::HttpRequestParams;
use exec_protocol::path_uri::PathUri;
use exec_server::{ExecServerConfig, Server};
use exec_transport::{Connection, memory_pair};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::task::JoinHandle;

use support::soon;

mod support;

/// Our server in this process, and a client of it.
struct Real {
    client: ExecServerClient,
    server: Arc<Server>,
    serving: JoinHandle<()>,
}

impl Real {
    async fn start() -> Self {
        let server = Server::new(ExecServerConfig::default());
        let (ours, theirs) = memory_pair(1 << 18);
        let serving = tokio::spawn({
            let server = server.clone();
            async move { server.serve_connection(theirs).await }
        });
        let client = ExecServerClient::connect_in_memory(ours, Default::default()).await.unwrap();
        Self { client, server, serving }
    }

    async fn stop(self) {
        self.client.close().await;
        self.server.shut_down().await;
        self.serving.await.unwrap();
    }
}

fn uri(path: &Path) -> PathUri {
    PathUri::from_native(path).unwrap()
}

#[tokio::test]
async fn every_call_does_what_its_name_says() {
    let real = Real::start().await;
    let files = real.client.files();
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| uri(&directory.path().join(name));
    files.create_directory(&at("a/b"), Recursion::Tree).await.unwrap();
    assert!(files.create_directory(&at("a/b"), Recursion::Single).await.is_err());
    files.write(&at("a/f"), b"one\ntwo\n", Replacement::InPlace).await.unwrap();
    files.write(&at("a/g"), b"three", Replacement::Atomic).await.unwrap();
    assert_eq!(files.read(&at("a/f")).await.unwrap(), b"one\ntwo\n");
    let metadata = files.metadata(&at("a/g")).await.unwrap();
    assert!(metadata.is_file && metadata.size == 5);
    assert_eq!(files.canonicalize(&at("a/b")).await.unwrap(), at("a/b"));
    assert_eq!(files.list(&at("a")).await.unwrap().len(), 3);
    let options = WalkOptions {
        max_depth: 9,
        max_directories: 9,
        max_entries: 9,
        follow_directory_symlinks: false,
        prune_hidden_directories: false,
    };
    assert_eq!(files.walk(&at(""), options).await.unwrap().entries.len(), 4);
    files.copy(&at("a"), &at("c"), Recursion::Tree).await.unwrap();
    assert!(files.rename(&at("c/f"), &at("c/g"), Tolerance::Refuse).await.is_err());
    files.rename(&at("c/f"), &at("c/g"), Tolerance::Accept).await.unwrap();
    assert_eq!(files.read(&at("c/g")).await.unwrap(), b"one\ntwo\n");
    let search: SearchParams =
        serde_json::from_value(json!({"path": at("a").as_str(), "pattern": "tw", "globs": []}))
            .unwrap();
    assert_eq!(files.search(search).await.unwrap().matches[0].line, 2);
    assert!(files.remove(&at("a"), Recursion::Single, Tolerance::Refuse).await.is_err());
    files.remove(&at("a"), Recursion::Tree, Tolerance::Refuse).await.unwrap();
    files.remove(&at("a"), Recursion::Tree, Tolerance::Accept).await.unwrap();
    let gone = files.read(&at("a/f")).await.unwrap_err();
    assert_eq!(gone.code(), Some(-32004));
    let large = files.write(&at("x"), &vec![0; 9 << 20], Replacement::InPlace).await;
    assert!(large.unwrap_err().to_string().contains("for a stream"));
    real.stop().await;
}

#[tokio::test]
async fn streams_are_exact_and_leave_no_handle() {
    let real = Real::start().await;
    let files = real.client.files();
    let directory = tempfile::tempdir().unwrap();
    let path = uri(&directory.path().join("f"));
    let content: Vec<u8> =
        (0..3_000_000_u32).map(|n| n.wrapping_mul(2_654_435_761).to_le_bytes()[3]).collect();
    let mut stream = files.write_stream(&path, WriteFrom::Start).await.unwrap();
    for piece in content.chunks(70_001) {
        stream.write(piece).await.unwrap();
    }
    assert_eq!(stream.finish().await.unwrap(), content.len() as u64);
    let mut stream =
        files.write_stream(&path, WriteFrom::Offset(content.len() as u64)).await.unwrap();
    stream.write(b"more").await.unwrap();
    assert_eq!(stream.finish().await.unwrap(), content.len() as u64 + 4);
    // More than a connection may have open: each is closed when it is dropped.
    for n in 0..300 {
        let mut stream =
            files.read_stream(&path, ByteRange { offset: n, length: Some(10) }).await.unwrap();
        let first = stream.next().await.unwrap().unwrap();
        assert_eq!(first, content[usize::try_from(n).unwrap()..][..10]);
    }
    let mut stream = files.read_stream(&path, ByteRange::from(0)).await.unwrap();
    stream.next().await.unwrap();
    fs::OpenOptions::new()
        .write(true)
        .open(directory.path().join("f"))
        .unwrap()
        .set_len(2_600_000)
        .unwrap();
    let error = loop {
        match stream.next().await {
            Ok(Some(_)) => {}
            Ok(None) => panic!("a file that was cut off is not complete"),
            Err(error) => break error,
        }
    };
    assert!(matches!(error, ExecServerError::FileChanged { .. }), "{error}");
    real.stop().await;
}

#[tokio::test]
async fn watches_tell_what_changed_and_what_appeared() {
    let real = Real::start().await;
    let files = real.client.files();
    let directory = tempfile::tempdir().unwrap();
    let watch = files.watch(&uri(directory.path()), Recursion::Tree).await.unwrap();
    fs::write(directory.path().join("f"), "x").unwrap();
    let changes = soon(watch.next()).await.unwrap();
    assert!(!changes.rescan);
    assert_eq!(changes.events[0].kind, ChangeKind::Created);
    assert_eq!(changes.events[0].path, uri(&directory.path().join("f")));
    let missing = uri(&directory.path().join("later"));
    let hint = files.watch_missing(vec![missing.clone()], None).await.unwrap().unwrap();
    fs::write(directory.path().join("later"), "x").unwrap();
    soon(hint.appeared()).await;
    assert!(files.watch_missing(vec![missing], None).await.unwrap().is_none(), "it exists");
    drop(watch);
    real.stop().await;
}

#[tokio::test]
async fn a_streamed_body_is_whole_and_in_order() {
    let real = Real::start().await;
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    // More than is queued for a reader, so that the line is held up and let go again.
    let body: Vec<u8> = (0..9_000_000_u32).map(|n| (n / 1000).to_le_bytes()[0]).collect();
    let sent = body.clone();
    let serving = tokio::spawn(async move {
        let (mut peer, _) = listener.accept().await.unwrap();
        let mut request = vec![0; 4096];
        assert!(peer.read(&mut request).await.unwrap() > 0);
        let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", sent.len());
        peer.write_all(head.as_bytes()).await.unwrap();
        peer.write_all(&sent).await.unwrap();
    });
    let params: HttpRequestParams =
        serde_json::from_value(json!({"method": "GET", "url": url, "requestId": "ignored"}))
            .unwrap();
    let (answer, mut stream) = soon(real.client.http_request_streamed(params)).await.unwrap();
    assert_eq!(answer.status, 200);
    let mut got = Vec::new();
    while let Some(piece) = soon(stream.next()).await.unwrap() {
        got.extend_from_slice(&piece);
    }
    assert!(got == body);
    assert_eq!(stream.next().await, Ok(None));
    serving.await.unwrap();
    real.stop().await;
}

/// A server that answers every call by a function, and remembers them.
struct Liar {
    client: ExecServerClient,
    called: Arc<Mutex<Vec<String>>>,
    serving: JoinHandle<()>,
}

impl Liar {
    async fn start(answer: impl Fn(&str, &Value) -> Value + Send + 'static) -> Self {
        let (ours, theirs) = memory_pair(1 << 18);
        let called = Arc::new(Mutex::new(Vec::new()));
        let serving = tokio::spawn(lie(theirs, answer, Arc::clone(&called)));
        let client = ExecServerClient::connect_in_memory(ours, Default::default()).await.unwrap();
        Self { client, called, serving }
    }

    async fn stop(self) {
        self.client.close().await;
        self.serving.await.unwrap();
    }
}

async fn lie(
    mut connection: Connection,
    answer: impl Fn(&str, &Value) -> Value,
    called: Arc<Mutex<Vec<String>>>,
) {
    while let Ok(Some(text)) = connection.next_message().await {
        let call: Value = serde_json::from_slice(&text).unwrap();
        let Some(id) = call.get("id") else { continue };
        let method = call["method"].as_str().unwrap();
        called.lock().unwrap().push(method.to_owned());
        let result = match method {
            "initialize" => json!({"sessionId": "s", "environmentInfo": {
                "shell": {"name": "sh", "path": "/bin/sh"}}}),
            _ => answer(method, &call["params"]),
        };
        // Several messages: what comes before the answer, and the answer.
        let (before, result) = match result.get("before") {
            Some(before) => (before.as_array().unwrap().clone(), result["result"].clone()),
            None => (Vec::new(), result),
        };
        for message in before {
            connection.send(message.to_string().as_bytes()).unwrap();
        }
        connection.send(json!({"id": id, "result": result}).to_string().as_bytes()).unwrap();
        connection.flush().await.unwrap();
    }
}

/// A directory `/srv/t` with one good file and everything that must not be believed.
fn hostile(method: &str, params: &Value) -> Value {
    let path = params["path"].as_str().unwrap_or_default();
    match method {
        "fs/getMetadata" => json!({
            "isDirectory": path == "file:///srv/t", "isFile": path != "file:///srv/t",
            "isSymlink": path.ends_with("link"), "size": 4, "createdAtMs": 0, "modifiedAtMs": 1}),
        "fs/canonicalize" if path.ends_with("uplink") => json!({"path": "file:///srv/t/%2e%2e/x"}),
        "fs/canonicalize" if path.ends_with("rootlink") => json!({"path": "file:///"}),
        "fs/canonicalize" => json!({"path": path}),
        "fs/walk" => {
            let entry = |path: &str| json!({"path": path, "kind": "file"});
            json!({"entries": [
                entry("file:///srv/t/good"), entry("file:///srv/t/good"),
                entry("file:///srv/t/../evil"), entry("file:///srv/t/%2e%2e/evil"),
                entry("file:///srv/t/a%2f..%2f..%2fevil"), entry("file:///etc/evil"),
                entry("/evil"), entry("file:///srv/t/"), entry("file:///srv/evil")
            ], "errors": [], "truncated": false})
        }
        "fs/readDirectory" => {
            let entry =
                |name: &str| json!({"fileName": name, "isDirectory": false, "isFile": true});
            json!({"entries": [entry("good"), entry("../evil"), entry("/evil"), entry(".."),
                entry("."), entry(""), entry("a/../../evil"), entry("uplink"), entry("rootlink")]})
        }
        "fs/readFile" => json!({"dataBase64": "ZXZpbA=="}),
        other => panic!("{other} {params}"),
    }
}

#[tokio::test]
async fn a_hostile_server_writes_nothing_outside_of_the_destination() {
    let liar = Liar::start(hostile).await;
    let directory = tempfile::tempdir().unwrap();
    let destination = directory.path().join("in/dest");
    fs::create_dir(directory.path().join("in")).unwrap();
    let source = uri(Path::new("/srv/t"));
    let options = TreeOptions::default();
    let report =
        soon(liar.client.files().download(&source, &destination, options, &|_| {})).await.unwrap();
    let names = |path: &Path| -> Vec<_> {
        fs::read_dir(path).unwrap().map(|entry| entry.unwrap().file_name()).collect()
    };
    assert_eq!(names(directory.path()), ["in"]);
    assert_eq!(names(&directory.path().join("in")), ["dest"]);
    assert_eq!(names(&destination), ["good"], "{report:?}");
    assert_eq!((report.files, report.links), (1, 0));
    // Eight of the walk, six of the listing, two links that lead out.
    assert_eq!(report.failures_total, 16, "{:#?}", report.failures);
    assert_eq!(liar.called.lock().unwrap().iter().filter(|one| *one == "fs/readFile").count(), 1);
    liar.stop().await;
}

#[tokio::test]
async fn a_body_out_of_order_and_a_block_of_another_size_are_refused() {
    let liar = Liar::start(|method, params| match method {
        "http/request" => {
            let piece = |seq: u64| {
                json!({"method": "http/request/bodyDelta", "params": {
                    "requestId": params["requestId"], "seq": seq, "deltaBase64": "eA==", "done": false}})
            };
            json!({"before": [piece(1), piece(3)],
                "result": {"status": 200, "headers": [], "bodyBase64": ""}})
        }
        "fs/getMetadata" => json!({"isDirectory": false, "isFile": true, "isSymlink": false,
            "size": 10, "createdAtMs": 0, "modifiedAtMs": 1}),
        "fs/readBlock" => json!({"chunk": "ZXZpbA==", "eof": false}),
        _ => json!({"handleId": params["handleId"]}),
    })
    .await;
    let params: HttpRequestParams =
        serde_json::from_value(json!({"method": "GET", "url": "http://x/", "requestId": ""}))
            .unwrap();
    let (_, mut body) = soon(liar.client.http_request_streamed(params)).await.unwrap();
    assert_eq!(soon(body.next()).await, Ok(Some(b"x".to_vec())));
    let expected = ExecServerError::Body("piece 3 came instead of 2".to_owned());
    assert_eq!(soon(body.next()).await, Err(expected));
    assert_eq!(soon(body.next()).await, Ok(None));
    let mut stream =
        liar.client.files().read_stream(&uri(Path::new("/x")), ByteRange::from(0)).await.unwrap();
    let short = soon(stream.next()).await.unwrap_err();
    assert!(matches!(short, ExecServerError::Protocol(_)), "{short}");
    let unsupported =
        liar.client.files().write_stream(&uri(Path::new("/x")), WriteFrom::Start).await;
    assert!(matches!(unsupported.unwrap_err(), ExecServerError::Unsupported(_)));
    drop(stream);
    liar.stop().await;
}
