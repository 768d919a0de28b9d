//! What the suites share: a client that checks the rules of numbering as it reads, a source of
//! repeatable chance, and markers by which descendants are found.

#![allow(
    dead_code,
    unreachable_pub,
    clippy::unwrap_used,
    reason = "each test binary uses its own part, and a test may panic"
)]

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use exec_process::sys::{Containment, Mechanism};
use exec_server::listen::{ListenError, ListenOptions, serve};
use exec_server::{ExecServerConfig, Server};
use exec_testkit::leaks;
use exec_testkit::peer::{RawPeer, Received};
use serde_json::{Value, json};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// No wait in a test is longer. Only a failure comes near.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// How long nothing has to happen to count as never. Too short a time can only hide a failure.
pub const NEVER: Duration = Duration::from_millis(150);

/// Where commands are found.
pub const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Bytes under way in each direction of a memory link.
const LINK_BYTES: usize = 64 << 10;

/// A default configuration with a few changes.
pub fn config(change: impl FnOnce(&mut ExecServerConfig)) -> ExecServerConfig {
    let mut config = ExecServerConfig::default();
    change(&mut config);
    config
}

/// Both mechanisms, or the one this host has.
pub fn containments() -> Vec<Containment> {
    let detected = Containment::detect();
    if detected.mechanism() == Mechanism::Tag {
        exec_testkit::skip("with cgroups: none here that can be used");
        return vec![detected];
    }
    vec![Containment::tag_only(), detected]
}

/// A connection in memory: the client's end of it, and the task that serves the other.
pub fn link(server: &Arc<Server>, buffer_bytes: usize) -> (RawPeer, JoinHandle<()>) {
    let (ours, theirs) = tokio::io::duplex(buffer_bytes);
    let (reader, writer) = tokio::io::split(theirs);
    let connection = exec_transport::stdio(reader, writer);
    let server = server.clone();
    let served = tokio::spawn(async move { server.serve_connection(connection).await });
    let (reader, writer) = tokio::io::split(ours);
    (RawPeer::from_io(reader, writer), served)
}

/// A WebSocket listener in this process.
pub struct Listener {
    pub url: String,
    stop: oneshot::Sender<()>,
    task: JoinHandle<Result<(), ListenError>>,
}

impl Listener {
    pub async fn start(config: ExecServerConfig) -> Self {
        let (announce, announced) = oneshot::channel();
        let (stop, stopped) = oneshot::channel();
        let announce = |url: &str| {
            announce.send(url.to_owned()).unwrap();
            Ok(())
        };
        let stopped = async {
            // A listener that is dropped stops too.
            stopped.await.ok();
        };
        let task = tokio::spawn(serve(ListenOptions::default(), config, announce, stopped));
        Listener { url: announced.await.unwrap(), stop, task }
    }

    /// Where it listens, without the scheme.
    pub fn address(&self) -> &str {
        self.url.strip_prefix("ws://").unwrap()
    }

    pub async fn connect(&self) -> Client {
        let mut client = Client::on(RawPeer::websocket(&self.url).await.unwrap());
        client.shake_hands(json!({})).await;
        client
    }

    pub async fn stop(self) {
        self.stop.send(()).unwrap();
        tokio::time::timeout(PATIENCE, self.task).await.expect("it stops").unwrap().unwrap();
    }
}

/// What a client has been told of one process.
#[derive(Debug, Default, Clone)]
pub struct Followed {
    /// The number of the last event.
    pub last_seq: u64,
    pub stdout: Vec<u8>,
    pub stderr: Vec<u8>,
    pub pty: Vec<u8>,
    /// All output, in order.
    pub output: Vec<u8>,
    /// The exit code and the number of the event.
    pub exit: Option<(i32, u64)>,
    pub closed: bool,
}

impl Followed {
    /// Takes the next event. One counter numbers them all, without gaps, and `closed` is the last.
    pub fn take(&mut self, method: &str, params: &Value) {
        let seq = params["seq"].as_u64().expect("every event has a number");
        assert_eq!(seq, self.last_seq + 1, "{method} {params}");
        assert!(!self.closed, "closed is the last event: {method} {params}");
        self.last_seq = seq;
        match method {
            "process/output" => self.chunk(&params["stream"], &decode(&params["chunk"])),
            "process/exited" => {
                let code = i32::try_from(params["exitCode"].as_i64().unwrap()).unwrap();
                assert_eq!(params["sandboxDenied"], json!(false));
                assert_eq!(self.exit.replace((code, seq)), None, "exited once");
            }
            "process/closed" => {
                assert!(self.exit.is_some(), "closed after exited");
                self.closed = true;
            }
            _ => panic!("{method} is not an event of a process"),
        }
    }

    pub fn chunk(&mut self, stream: &Value, data: &[u8]) {
        assert!(!data.is_empty());
        self.output.extend_from_slice(data);
        match stream.as_str().unwrap() {
            "stdout" => self.stdout.extend_from_slice(data),
            "stderr" => self.stderr.extend_from_slice(data),
            "pty" => self.pty.extend_from_slice(data),
            other => panic!("no such stream: {other}"),
        }
    }

    pub fn code(&self) -> Option<i32> {
        self.exit.map(|(code, _)| code)
    }

    /// All output as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.output).into_owned()
    }
}

/// A client of one session.
pub struct Client {
    pub peer: RawPeer,
    pub session: String,
    /// The task that serves it, over memory.
    served: Option<JoinHandle<()>>,
    next_id: u64,
    answers: HashMap<u64, Value>,
    processes: HashMap<String, Followed>,
    /// Notifications without a number.
    pub notices: Vec<Value>,
}

impl Client {
    /// A new session over memory.
    pub async fn connect(server: &Arc<Server>) -> Self {
        Self::connect_with(server, json!({})).await
    }

    /// A session over memory, with more parameters of `initialize`.
    pub async fn connect_with(server: &Arc<Server>, extra: Value) -> Self {
        Self::connect_through(server, LINK_BYTES, extra).await
    }

    /// The same over a link of another size.
    pub async fn connect_through(server: &Arc<Server>, link_bytes: usize, extra: Value) -> Self {
        let (peer, served) = link(server, link_bytes);
        let mut client = Self::on(peer);
        client.served = Some(served);
        client.shake_hands(extra).await;
        client
    }

    /// Continues a session over memory.
    pub async fn resume(server: &Arc<Server>, session: &str) -> Self {
        Self::connect_with(server, json!({"resumeSessionId": session})).await
    }

    /// Looks into a session over memory.
    pub async fn observe(server: &Arc<Server>, session: &str) -> Self {
        let extra = json!({"resumeSessionId": session, "attach": "observer"});
        Self::connect_with(server, extra).await
    }

    /// A peer that has not said anything yet.
    pub fn on(peer: RawPeer) -> Self {
        Self {
            peer,
            session: String::new(),
            served: None,
            next_id: 1,
            answers: HashMap::new(),
            processes: HashMap::new(),
            notices: Vec::new(),
        }
    }

    pub async fn shake_hands(&mut self, extra: Value) {
        let params = merged(json!({"clientName": "tests"}), extra);
        let result = self.ok("initialize", params).await;
        self.session = result["sessionId"].as_str().unwrap().to_owned();
        self.peer.notify("initialized", json!({})).await.unwrap();
    }

    /// Sends a request without waiting for its answer.
    pub async fn send(&mut self, method: &str, params: Value) -> u64 {
        let id = self.next_id;
        self.next_id += 1;
        let request = json!({"id": id, "method": method, "params": params});
        self.peer.send_text(&request.to_string()).await.unwrap();
        id
    }

    /// The answer to a request, result or error.
    pub async fn answer(&mut self, id: u64) -> Value {
        loop {
            if let Some(answer) = self.answers.remove(&id) {
                return answer;
            }
            self.receive().await;
        }
    }

    /// How many answers have come that nobody asked for yet.
    pub fn answers_waiting(&self) -> usize {
        self.answers.len()
    }

    pub async fn call(&mut self, method: &str, params: Value) -> Value {
        let id = self.send(method, params).await;
        self.answer(id).await
    }

    /// The result of a request that has to succeed.
    pub async fn ok(&mut self, method: &str, params: Value) -> Value {
        let answer = self.call(method, params).await;
        assert!(answer.get("result").is_some(), "{method}: {answer}");
        answer["result"].clone()
    }

    /// Code and text of a request that has to fail.
    pub async fn refused(&mut self, method: &str, params: Value) -> (i64, String) {
        let answer = self.call(method, params).await;
        let error = answer.get("error").unwrap_or_else(|| panic!("{method}: {answer}"));
        (error["code"].as_i64().unwrap(), error["message"].as_str().unwrap().to_owned())
    }

    /// Takes one message, whatever it is.
    pub async fn receive(&mut self) {
        let message = self.peer.recv().await.unwrap().expect("the connection lives");
        self.take(message);
    }

    /// Takes one message, if one comes in this time.
    pub async fn receive_within(&mut self, patience: Duration) -> bool {
        match self.peer.recv_within(patience).await.unwrap() {
            Received::Message(message) => {
                self.take(message);
                true
            }
            Received::Closed => panic!("the connection ended"),
            Received::Nothing => false,
        }
    }

    fn take(&mut self, message: Value) {
        if let Some(id) = message["id"].as_u64() {
            assert!(self.answers.insert(id, message).is_none(), "{id} answered once");
            return;
        }
        let method = message["method"].as_str().expect("a notification").to_owned();
        let params = &message["params"];
        match (method.as_str(), params["processId"].as_str()) {
            ("process/output" | "process/exited" | "process/closed", Some(process)) => {
                self.processes.entry(process.to_owned()).or_default().take(&method, params);
            }
            _ => self.notices.push(message),
        }
    }

    /// Takes messages until something is so.
    pub async fn until(&mut self, mut holds: impl FnMut(&mut Self) -> bool) {
        while !holds(self) {
            self.receive().await;
        }
    }

    /// What has been told of a process so far.
    pub fn followed(&mut self, process: &str) -> &mut Followed {
        self.processes.entry(process.to_owned()).or_default()
    }

    /// Takes messages until a process has closed, and tells all of it.
    pub async fn closed(&mut self, process: &str) -> Followed {
        self.until(|client| client.followed(process).closed).await;
        self.followed(process).clone()
    }

    /// Takes messages until the process has written this.
    pub async fn output_has(&mut self, process: &str, text: &str) {
        self.until(|client| client.followed(process).text().contains(text)).await;
    }

    /// Starts a program in `/`, with nothing but a `PATH`.
    pub async fn start(&mut self, process: &str, argv: &[&str], extra: Value) {
        let params = start_params(process, argv, extra);
        let result = self.ok("process/start", params).await;
        assert_eq!(result, json!({"processId": process, "sandboxType": "none"}));
    }

    /// Starts a shell script.
    pub async fn shell(&mut self, process: &str, script: &str, extra: Value) {
        self.start(process, &["/bin/sh", "-c", script], extra).await;
    }

    pub async fn write(&mut self, process: &str, data: &[u8]) -> Value {
        self.ok("process/write", json!({"processId": process, "chunk": encode(data)})).await
    }

    pub async fn terminate(&mut self, process: &str) -> bool {
        let result = self.ok("process/terminate", json!({"processId": process})).await;
        result["running"].as_bool().unwrap()
    }

    /// What `process/list` says of a process.
    pub async fn listed(&mut self, process: &str) -> Option<Value> {
        let list = self.ok("process/list", Value::Null).await;
        let all = list["processes"].as_array().unwrap();
        all.iter().find(|listed| listed["processId"] == process).cloned()
    }

    /// The operating system's number of a process.
    pub async fn pid(&mut self, process: &str) -> u32 {
        let listed = self.listed(process).await.expect("a known process");
        u32::try_from(listed["pid"].as_u64().unwrap()).unwrap()
    }

    /// Cuts the link and waits until the server has noticed.
    pub async fn hang_up(self) {
        drop(self.peer);
        if let Some(served) = self.served {
            tokio::time::timeout(PATIENCE, served).await.expect("the server notices").unwrap();
        }
    }

    /// Waits until the server ends the connection, and gives what it said before.
    pub async fn ended(mut self) -> Self {
        let end = async {
            while let Some(message) = self.peer.recv().await.unwrap() {
                self.take(message);
            }
        };
        tokio::time::timeout(PATIENCE, end).await.expect("the server hangs up");
        self
    }
}

/// Parameters of `process/start`: a program in `/`, with nothing but a `PATH`.
pub fn start_params(process: &str, argv: &[&str], extra: Value) -> Value {
    let basis = json!({
        "processId": process,
        "argv": argv,
        "cwd": "file:///",
        "env": {"PATH": PATH},
        "tty": false,
    });
    merged(basis, extra)
}

/// The members of both, those of the second first.
pub fn merged(mut basis: Value, extra: Value) -> Value {
    let Value::Object(extra) = extra else { panic!("an object: {extra}") };
    basis.as_object_mut().unwrap().extend(extra);
    basis
}

pub fn encode(data: &[u8]) -> String {
    base64_simd::STANDARD.encode_to_string(data)
}

pub fn decode(chunk: &Value) -> Vec<u8> {
    base64_simd::STANDARD.decode_to_vec(chunk.as_str().unwrap()).unwrap()
}

/// A name that a child and all its descendants carry in their environment.
pub struct Marker(String);

impl Marker {
    pub fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        Marker(format!("exec-server-test-{}-{number}-", std::process::id()))
    }

    /// An environment that carries it.
    pub fn env(&self) -> Value {
        json!({"PATH": PATH, "EXEC_SERVER_TEST_MARK": self.0})
    }

    /// Parameters of `process/start` that carry it.
    pub fn extra(&self) -> Value {
        json!({"env": self.env()})
    }

    pub fn text(&self) -> &str {
        &self.0
    }

    pub fn carriers(&self) -> Vec<u32> {
        leaks::marked(&self.0)
    }

    /// Waits until so many carry it.
    pub async fn carried_by(&self, at_least: usize) {
        eventually("marked processes", || self.carriers().len() >= at_least).await;
    }

    /// Nobody is left when this much time has passed.
    pub async fn gone_within(&self, limit: Duration, what: &str) {
        let started = Instant::now();
        eventually(what, || self.carriers().is_empty()).await;
        // Looking takes a while itself on a busy machine, so only a clear excess counts.
        let took = started.elapsed();
        assert!(took < limit + Duration::from_secs(1), "{what}: took {took:?}");
    }
}

/// Waits for something that no message tells.
pub async fn eventually(what: &str, holds: impl FnMut() -> bool) {
    leaks::wait_until(PATIENCE, what, holds).await.unwrap();
}

/// SplitMix64: small, and every seed is a good one.
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Random(seed)
    }

    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.next() % end as u64).unwrap()
    }

    pub fn one_in(&mut self, odds: usize) -> bool {
        self.below(odds) == 0
    }

    pub fn pick<'a, T>(&mut self, all: &'a [T]) -> &'a T {
        &all[self.below(all.len())]
    }
}

/// Names the seed if the test panics while it lives.
pub struct Failing(pub u64);

impl Drop for Failing {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("failing seed: {}", self.0);
        }
    }
}

/// Resident memory of this process, in bytes.
pub fn resident_bytes() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<usize>().unwrap() << 10
}
