//! Sessions outlive connections: what is lost on the way is read again, what is gone is counted,
//! and whoever does not come back in time finds nothing.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod support;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use exec_server::Server;
use exec_testkit::peer::{RawPeer, Received};
use serde_json::{Value, json};

use support::{
    Client, Failing, Listener, Marker, NEVER, PATIENCE, Random, config, decode, encode, eventually,
    link, start_params,
};

const SEEDS: u64 = 48;

/// Seeds that run at once: each mostly waits for its children.
const AT_ONCE: u64 = 8;

/// As little as the server's other limits allow, so that absence costs output.
const RETAINED_BYTES: usize = 320 << 10;

#[tokio::test]
async fn whatever_the_link_does_delivered_bytes_and_gaps_are_what_was_written() {
    let server = Server::new(config(|config| config.retained_output_bytes = RETAINED_BYTES));
    let (mut lost, mut resumed) = (0, 0);
    for first in (0..SEEDS).step_by(usize::try_from(AT_ONCE).unwrap()) {
        let seeds: Vec<_> = (first..first + AT_ONCE)
            .map(|seed| {
                let server = server.clone();
                tokio::spawn(async move { (seed, Conversation::new(seed).run(&server).await) })
            })
            .collect();
        for outcome in seeds {
            let (_, (gaps, connections)) = outcome.await.unwrap();
            lost += gaps;
            resumed += connections - 1;
        }
    }
    println!("{SEEDS} sessions resumed {resumed} times, {lost} bytes reported lost");
    // How many there are depends on the machine, but without any there would be nothing to see.
    assert!(resumed > SEEDS / 4 && lost > 0);
    server.shut_down().await;
}

/// What a client has of one process that writes only to stdout.
struct Tracked {
    expected: Vec<u8>,
    last_seq: u64,
    position: usize,
    lost: usize,
    /// Events that came before those that precede them were read.
    early: BTreeMap<u64, Value>,
    exited: bool,
    closed: bool,
}

impl Tracked {
    fn new(expected: Vec<u8>) -> Self {
        let early = BTreeMap::new();
        Tracked { expected, last_seq: 0, position: 0, lost: 0, early, exited: false, closed: false }
    }

    fn chunk(&mut self, data: &[u8]) {
        let place = &self.expected[self.position..self.position + data.len()];
        assert!(place == data, "other bytes at {}", self.position);
        self.position += data.len();
    }

    fn event(&mut self, message: Value) {
        let seq = message["params"]["seq"].as_u64().unwrap();
        if seq > self.last_seq {
            self.early.insert(seq, message);
        }
        self.settle();
    }

    fn settle(&mut self) {
        while let Some(message) = self.early.remove(&(self.last_seq + 1)) {
            assert!(!self.closed, "closed is the last event");
            self.last_seq += 1;
            match message["method"].as_str().unwrap() {
                "process/output" => self.chunk(&decode(&message["params"]["chunk"])),
                "process/exited" => self.exited = true,
                _ => self.closed = true,
            }
        }
    }

    /// Takes a page that was asked for with `afterSeq = last_seq`. Whether more is to be read.
    fn page(&mut self, page: &Value) -> bool {
        let offset = usize::try_from(page["outputOffset"].as_u64().unwrap()).unwrap();
        assert!(offset >= self.position);
        self.lost += offset - self.position;
        self.position = offset;
        let chunks = page["chunks"].as_array().unwrap();
        for chunk in chunks {
            assert!(chunk["seq"].as_u64().unwrap() > self.last_seq);
            self.chunk(&decode(&chunk["chunk"]));
        }
        self.last_seq = page["nextSeq"].as_u64().unwrap() - 1;
        self.exited = page["exited"] == true;
        // A page with a limit that holds chunks may not be the last.
        let last = chunks.is_empty();
        self.closed = page["closed"] == true && last;
        self.early.retain(|seq, _| *seq > self.last_seq);
        if !self.closed {
            self.settle();
        }
        !last
    }
}

/// One session: three processes, and a client whose connections break.
struct Conversation {
    random: Random,
    processes: BTreeMap<String, Tracked>,
    failing: Failing,
}

impl Conversation {
    fn new(seed: u64) -> Self {
        Conversation {
            random: Random::new(seed),
            processes: BTreeMap::new(),
            failing: Failing(seed),
        }
    }

    /// Bytes reported lost, and connections made.
    async fn run(mut self, server: &Arc<Server>) -> (usize, u64) {
        let mut client = Client::connect(server).await;
        let session = client.session.clone();
        for number in 0..3 {
            self.start(&mut client, number).await;
        }
        let mut peer = client.peer;
        let mut connections = 1;
        while !self.follow(&mut peer).await {
            drop(peer);
            let pause = if self.random.one_in(5) { 250 } else { self.random.next() % 10 };
            tokio::time::sleep(Duration::from_millis(pause)).await;
            peer = self.resume(server, &session).await;
            connections += 1;
        }
        for tracked in self.processes.values() {
            assert_eq!(tracked.position, tracked.expected.len());
            assert!(tracked.exited);
        }
        drop(self.failing);
        (self.processes.values().map(|tracked| tracked.lost).sum(), connections)
    }

    async fn start(&mut self, client: &mut Client, number: u32) {
        let id = format!("p{number}");
        let bursts = 8 + self.random.below(12);
        let lines = *self.random.pick(&[5, 5, 60, 60, 600, 9_000]);
        let script = format!(
            "i=0; while [ $i -lt {bursts} ]; do seq $((i*{lines}+1)) $(((i+1)*{lines})); \
             i=$((i+1)); sleep 0.0{}; done",
            1 + self.random.below(3),
        );
        let expected = (1..=bursts * lines).flat_map(|n| format!("{n}\n").into_bytes()).collect();
        self.processes.insert(id.clone(), Tracked::new(expected));
        // Not through the client's own book: the connection may break before it has read this.
        let params = start_params(&id, &["/bin/sh", "-c", &script], json!({}));
        let request = json!({"id": 1000 + number, "method": "process/start", "params": params});
        client.peer.send_text(&request.to_string()).await.unwrap();
    }

    /// Takes a random number of messages. Whether everything is known.
    async fn follow(&mut self, peer: &mut RawPeer) -> bool {
        let messages = 1 + self.random.below(5);
        for _ in 0..messages {
            if self.processes.values().all(|tracked| tracked.closed) {
                return true;
            }
            match peer.recv_within(PATIENCE).await.unwrap() {
                Received::Message(message) => self.take(message),
                Received::Closed => panic!("the server hung up"),
                Received::Nothing => panic!("nothing more came"),
            }
        }
        false
    }

    fn take(&mut self, message: Value) {
        if message.get("method").is_none() {
            assert!(message.get("error").is_none(), "{message}");
            return;
        }
        let id = message["params"]["processId"].as_str().unwrap();
        self.processes.get_mut(id).unwrap().event(message);
    }

    async fn resume(&mut self, server: &Arc<Server>, session: &str) -> RawPeer {
        let link_bytes = [1 << 10, 8 << 10, 64 << 10][self.random.below(3)];
        let (mut peer, _served) = link(server, link_bytes);
        for tracked in self.processes.values_mut() {
            tracked.early.clear();
        }
        let params = json!({"clientName": "again", "resumeSessionId": session});
        let answer = peer.call("initialize", params).await.unwrap();
        assert_eq!(answer["result"]["sessionId"], session, "{answer}");
        peer.notify("initialized", json!({})).await.unwrap();
        let ids: Vec<String> = self.processes.keys().cloned().collect();
        for id in ids {
            let bytes_max =
                if self.random.one_in(2) { Value::Null } else { json!(self.random.below(90_000)) };
            loop {
                let tracked = self.processes.get_mut(&id).unwrap();
                let params = json!({"processId": id, "afterSeq": tracked.last_seq,
                    "maxBytes": bytes_max, "waitMs": 0});
                let answer = peer.call("process/read", params).await.unwrap();
                // Everything up to the end in one page, or page after page.
                if !tracked.page(&answer["result"]) {
                    break;
                }
            }
        }
        peer
    }
}

#[tokio::test]
async fn a_session_that_has_a_living_owner_is_not_given_away() {
    let server = Server::new(config(|_| {}));
    let mut owner = Client::connect(&server).await;
    owner.start("p", &["cat"], json!({"pipeStdin": true})).await;
    let (peer, _served) = link(&server, 4096);
    let mut other = Client::on(peer);
    let params = json!({"clientName": "other", "resumeSessionId": owner.session});
    let (code, text) = other.refused("initialize", params.clone()).await;
    let expected = format!("session {} is already attached to another connection", owner.session);
    assert_eq!((code, text), (-32010, expected));
    owner.write("p", b"undisturbed").await;
    owner.output_has("p", "undisturbed").await;
    // The refused one may try again on the same connection.
    owner.hang_up().await;
    other.ok("initialize", params).await;
    server.shut_down().await;
}

#[tokio::test]
async fn an_owner_that_answers_pings_keeps_its_session() {
    let listener = Listener::start(config(|_| {})).await;
    let owner = listener.connect().await;
    let session = owner.session.clone();
    let mut peer = owner.peer;
    // Reading is what answers pings.
    let reading = tokio::spawn(async move { peer.recv_within(Duration::from_secs(600)).await });
    let mut other = Client::on(RawPeer::websocket(&listener.url).await.unwrap());
    let params = json!({"clientName": "other", "resumeSessionId": session});
    assert_eq!(other.refused("initialize", params).await.0, -32010);
    assert!(!reading.is_finished(), "the old connection is not disturbed");
    reading.abort();
    listener.stop().await;
}

#[tokio::test]
async fn an_owner_that_works_on_one_long_request_at_a_time_keeps_its_session() {
    let listener = Listener::start(config(|config| config.concurrent_requests = 1)).await;
    let mut owner = listener.connect().await;
    owner.start("p", &["sleep", "1000"], json!({})).await;
    owner.send("process/read", json!({"processId": "p", "waitMs": 600_000})).await;
    let session = owner.session.clone();
    let mut peer = owner.peer;
    let reading = tokio::spawn(async move { peer.recv_within(Duration::from_secs(600)).await });
    let mut other = Client::on(RawPeer::websocket(&listener.url).await.unwrap());
    let params = json!({"clientName": "other", "resumeSessionId": session});
    assert_eq!(other.refused("initialize", params).await.0, -32010, "it answers pings");
    assert!(!reading.is_finished());
    reading.abort();
    listener.stop().await;
}

#[tokio::test]
async fn a_silent_owner_loses_its_session() {
    let listener = Listener::start(config(|_| {})).await;
    let mut owner = listener.connect().await;
    owner.start("p", &["cat"], json!({"pipeStdin": true})).await;
    // From now on it neither reads nor answers, but its connection stays open.
    let mut other = Client::on(RawPeer::websocket(&listener.url).await.unwrap());
    let started = Instant::now();
    other.shake_hands(json!({"resumeSessionId": owner.session})).await;
    assert!(started.elapsed() >= Duration::from_millis(900), "it had its second");
    assert_eq!(other.session, owner.session);
    other.write("p", b"mine now").await;
    other.output_has("p", "mine now").await;
    let owner = owner.ended().await;
    drop(owner);
    // The old connection's end does not detach the new one.
    other.write("p", b", still").await;
    other.output_has("p", "mine now, still").await;
    listener.stop().await;
}

#[tokio::test]
async fn of_two_who_want_the_session_of_a_silent_owner_one_gets_it() {
    let listener = Listener::start(config(|_| {})).await;
    let owner = listener.connect().await;
    let params = json!({"clientName": "", "resumeSessionId": owner.session});
    let mut first = Client::on(RawPeer::websocket(&listener.url).await.unwrap());
    let mut second = Client::on(RawPeer::websocket(&listener.url).await.unwrap());
    let (one, other) = tokio::join!(
        first.call("initialize", params.clone()),
        second.call("initialize", params.clone()),
    );
    let won = |answer: &Value| answer.get("result").is_some();
    assert!(won(&one) != won(&other), "{one} {other}");
    let (mut winner, refused) = if won(&one) { (first, other) } else { (second, one) };
    assert_eq!(refused["error"]["code"], -32010);
    winner.peer.notify("initialized", json!({})).await.unwrap();
    winner.ok("environment/status", Value::Null).await;
    listener.stop().await;
}

#[tokio::test]
async fn unknown_sessions_are_refused() {
    let server = Server::new(config(|_| {}));
    for session in ["", "nobody", "01a1e0a8-c545-7582-92f9-3695de8f6521"] {
        for attach in ["owner", "observer"] {
            let (peer, _served) = link(&server, 4096);
            let mut client = Client::on(peer);
            let params = json!({"clientName": "", "resumeSessionId": session, "attach": attach});
            let refused = client.refused("initialize", params).await;
            assert_eq!(refused, (-32600, format!("unknown session id {session}")));
        }
    }
    assert_eq!(server.session_count(), 0);
}

#[tokio::test]
async fn a_session_nobody_resumes_ends_with_everything_in_it() {
    let server = Server::new(config(|config| config.detached_life = Duration::from_millis(300)));
    let marker = Marker::new();
    let mut client = Client::connect(&server).await;
    client.shell("p", "(setsid sleep 1000 &); echo ready; sleep 1000", marker.extra()).await;
    client.output_has("p", "ready").await;
    let session = client.session.clone();
    let left = Instant::now();
    client.hang_up().await;
    eventually("nobody is left", || marker.carriers().is_empty()).await;
    assert!(left.elapsed() >= Duration::from_millis(300), "not before its time");
    eventually("the session is gone", || server.session_count() == 0).await;
    let (peer, _served) = link(&server, 4096);
    let mut late = Client::on(peer);
    let params = json!({"clientName": "", "resumeSessionId": session});
    assert_eq!(late.refused("initialize", params).await.0, -32600);
    server.shut_down().await;
}

#[tokio::test]
async fn each_absence_has_its_own_time() {
    let life = Duration::from_millis(400);
    let server = Server::new(config(|config| config.detached_life = life));
    let marker = Marker::new();
    let mut client = Client::connect(&server).await;
    client.start("p", &["sleep", "1000"], marker.extra()).await;
    let started = Instant::now();
    let mut absences = 0;
    // Far beyond one life in all, but never away for as long.
    while started.elapsed() < life * 3 {
        let session = client.session.clone();
        client.hang_up().await;
        client = Client::resume(&server, &session).await;
        absences += 1;
        tokio::time::sleep(life / 4).await;
    }
    assert!(absences > 3);
    assert_eq!(marker.carriers().len(), 1);
    assert_eq!(client.listed("p").await.unwrap()["running"], true);
    server.shut_down().await;
    assert_eq!(marker.carriers(), [0; 0]);
}

#[tokio::test]
async fn without_a_detached_life_the_end_of_the_connection_is_the_end() {
    let server = Server::new(config(|config| config.detached_life = Duration::ZERO));
    let marker = Marker::new();
    let mut client = Client::connect(&server).await;
    client.shell("p", "(setsid sleep 1000 &); echo ready; sleep 1000", marker.extra()).await;
    client.output_has("p", "ready").await;
    client.hang_up().await;
    assert_eq!(server.session_count(), 0);
    marker.gone_within(Duration::from_secs(2), "nobody is left").await;
    server.shut_down().await;
}

#[tokio::test]
async fn a_resumed_session_does_not_wait_for_requests_of_the_old_connection() {
    for slots in [1, 128] {
        let server = Server::new(config(|config| config.concurrent_requests = slots));
        let mut client = Client::connect(&server).await;
        client.start("p", &["cat"], json!({"pipeStdin": true})).await;
        client.send("process/read", json!({"processId": "p", "waitMs": u64::MAX})).await;
        // The long poll is being worked on once this is, or would be, behind it.
        tokio::task::yield_now().await;
        let session = client.session.clone();
        client.hang_up().await;
        let mut client = Client::resume(&server, &session).await;
        client.write("p", b"again").await;
        client.output_has("p", "again").await;
        server.shut_down().await;
    }
}

#[tokio::test]
async fn a_client_that_leaves_behind_a_thousand_blocked_writes_is_missed() {
    let server = Server::new(config(|_| {}));
    let mut client = Client::connect_through(&server, 4 << 20, json!({})).await;
    client.start("p", &["sleep", "1000"], json!({"pipeStdin": true})).await;
    client.write("p", &[b'x'; 80 << 10]).await;
    for _ in 0..1_500 {
        client.send("process/write", json!({"processId": "p", "chunk": "eA=="})).await;
    }
    client.hang_up().await;
    server.shut_down().await;
}

#[tokio::test]
async fn output_goes_to_the_new_connection_before_it_says_initialized() {
    let server = Server::new(config(|_| {}));
    let mut client = Client::connect(&server).await;
    let script = "while read word; do echo $word; done";
    client.shell("p", script, json!({"pipeStdin": true})).await;
    let session = client.session.clone();
    client.hang_up().await;
    let mut observer = Client::observe(&server, &session).await;
    let (mut peer, _served) = link(&server, 4096);
    let params = json!({"clientName": "", "resumeSessionId": session});
    peer.call_ok("initialize", params).await.unwrap();
    observer.write("p", b"early\n").await;
    let message = peer.recv().await.unwrap().unwrap();
    assert_eq!(message["method"], "process/output");
    assert_eq!(decode(&message["params"]["chunk"]), b"early\n");
    server.shut_down().await;
}

#[tokio::test]
async fn an_observer_sees_everything_and_disturbs_nobody() {
    let server = Server::new(config(|_| {}));
    let mut owner = Client::connect(&server).await;
    let script = "echo begin; read word; echo $word; sleep 1000";
    owner.shell("p", script, json!({"pipeStdin": true})).await;
    owner.output_has("p", "begin").await;
    let mut observer = Client::observe(&server, &owner.session).await;
    assert_eq!(observer.session, owner.session);
    assert_eq!(observer.listed("p").await.unwrap()["running"], true);
    let page = observer.ok("process/read", json!({"processId": "p"})).await;
    assert_eq!(decode(&page["chunks"][0]["chunk"]), b"begin\n");
    let poll = json!({"processId": "p", "afterSeq": 1, "waitMs": 600_000});
    let poll = observer.send("process/read", poll).await;
    owner.write("p", b"word\n").await;
    owner.output_has("p", "begin\nword\n").await;
    let page = observer.answer(poll).await;
    assert_eq!(decode(&page["result"]["chunks"][0]["chunk"]), b"word\n");
    let snapshot = observer.ok("process/snapshot", json!({"processId": "p"})).await;
    assert_eq!(decode(&snapshot["stdoutBase64"]), b"begin\nword\n");
    assert!(observer.terminate("p").await);
    assert_eq!(owner.closed("p").await.code(), Some(137));
    assert!(!observer.receive_within(NEVER).await, "no notifications");
    assert_eq!(observer.followed("p").last_seq, 0);
    // It comes and goes without a trace.
    observer.hang_up().await;
    owner.shell("q", "echo fine", json!({})).await;
    assert_eq!(owner.closed("q").await.text(), "fine\n");
    assert_eq!(server.session_count(), 1);
    server.shut_down().await;
}

#[tokio::test]
async fn an_observer_does_not_keep_a_session_alive() {
    let server = Server::new(config(|config| config.detached_life = Duration::from_millis(100)));
    let mut owner = Client::connect(&server).await;
    owner.start("p", &["sleep", "1000"], json!({})).await;
    let mut observer = Client::observe(&server, &owner.session).await;
    owner.hang_up().await;
    eventually("the session is gone", || server.session_count() == 0).await;
    let refused = observer.refused("process/read", json!({"processId": "p"})).await;
    assert_eq!(refused, (-32600, "unknown process id p".to_owned()));
    assert_eq!(observer.ok("process/list", Value::Null).await, json!({"processes": []}));
    let start = start_params("q", &["true"], json!({}));
    assert_eq!(observer.refused("process/start", start).await.0, -32600);
    server.shut_down().await;
}

#[tokio::test]
async fn an_observer_of_nothing_leaves_no_session_behind() {
    let server = Server::new(config(|config| config.detached_life = Duration::from_millis(50)));
    let (peer, served) = link(&server, 4096);
    let mut client = Client::on(peer);
    let params = json!({"clientName": "", "attach": "observer"});
    // Refused or not: without an owner there is nobody whose leaving would end it.
    client.call("initialize", params).await;
    drop(client);
    served.await.unwrap();
    eventually("no session is left", || server.session_count() == 0).await;
}

#[tokio::test]
async fn a_repeated_write_after_a_lost_connection_is_written_once() {
    let server = Server::new(config(|_| {}));
    let mut client = Client::connect(&server).await;
    client.start("p", &["cat"], json!({"pipeStdin": true})).await;
    let write = json!({"processId": "p", "chunk": encode(b"once"), "writeId": "1"});
    client.send("process/write", write.clone()).await;
    client.until(|client| client.followed("p").text() == "once").await;
    let session = client.session.clone();
    client.hang_up().await;
    let mut client = Client::resume(&server, &session).await;
    client.followed("p").last_seq = 1;
    assert_eq!(client.ok("process/write", write).await, json!({"status": "accepted"}));
    client.ok("process/closeStdin", json!({"processId": "p"})).await;
    client.ok("process/wait", json!({"processId": "p"})).await;
    let snapshot = client.ok("process/snapshot", json!({"processId": "p"})).await;
    assert_eq!(decode(&snapshot["stdoutBase64"]), b"once");
    server.shut_down().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_never_stops_asking_is_cut_off_when_the_server_stops() {
    let server = Server::new(config(|_| {}));
    let (ours, theirs) = tokio::io::duplex(1 << 20);
    let (reader, writer) = tokio::io::split(theirs);
    let connection = exec_transport::stdio(reader, writer);
    let serving = server.clone();
    let served = tokio::spawn(async move { serving.serve_connection(connection).await });
    let (mut reader, mut writer) = tokio::io::split(ours);
    let flood = tokio::spawn(async move {
        use tokio::io::AsyncWriteExt as _;
        let hello = "{\"id\":1,\"method\":\"initialize\",\"params\":{\"clientName\":\"\"}}\n\
            {\"method\":\"initialized\"}\n";
        writer.write_all(hello.as_bytes()).await?;
        let many = "{\"id\":2,\"method\":\"environment/status\"}\n".repeat(1000);
        loop {
            writer.write_all(many.as_bytes()).await?;
        }
        #[allow(unreachable_code, reason = "names the error")]
        Ok::<(), std::io::Error>(())
    });
    let swallow =
        tokio::spawn(async move { tokio::io::copy(&mut reader, &mut tokio::io::sink()).await });
    eventually("the flood is on", || server.session_count() == 1).await;
    server.shut_down().await;
    let ended = tokio::time::timeout(Duration::from_secs(5), served).await;
    flood.abort();
    swallow.abort();
    ended.expect("the connection ends with the server").unwrap();
}
