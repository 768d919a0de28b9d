//! Whatever arrives at a listener: it goes on, and is afterwards as small as before.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod support;

use std::time::Duration;

use exec_testkit::leaks;
use exec_testkit::peer::RawPeer;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use support::{
    Client, Failing, Listener, PATIENCE, Random, config, eventually, resident_bytes, start_params,
};

/// What the largest message may leave in the allocator, and some more.
const GROWTH_MAX: usize = 160 << 20;

const HEAD: &str = "GET / HTTP/1.1\r\nhost: localhost\r\nconnection: upgrade\r\n\
    upgrade: websocket\r\nsec-websocket-version: 13\r\n\
    sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";

/// One test, since descriptors and tasks are counted for the whole process.
#[tokio::test]
async fn bad_input_is_survived_and_costs_nothing_afterwards() {
    let listener = Listener::start(config(|config| config.detached_life = Duration::ZERO)).await;
    // Whatever is made once and kept is made before the counting. (And the task that is to forget
    // the closed process, which sleeps for half a minute even though its session is gone.)
    check_health(&listener).await;
    let held = Held::now();
    let resident = resident_bytes();

    no_http(&listener).await;
    held.settle("after no HTTP").await;
    truncated_heads(&listener).await;
    held.settle("after truncated heads").await;
    bad_frames(&listener).await;
    held.settle("after bad frames").await;
    random_frames(&listener).await;
    held.settle("after random frames").await;
    bad_messages(&listener).await;
    held.settle("after bad messages").await;
    too_large(&listener).await;
    held.settle("after large messages").await;
    crowds(&listener).await;
    held.settle("after crowds").await;

    check_health(&listener).await;
    let growth = resident_bytes().saturating_sub(resident);
    println!("resident memory grew by {} KiB", growth >> 10);
    assert!(growth < GROWTH_MAX, "{growth}");
    listener.stop().await;
}

/// What this process holds: descriptors, and tasks of the runtime.
#[derive(Debug, PartialEq, Eq)]
struct Held {
    descriptors: usize,
    tasks: usize,
}

impl Held {
    fn now() -> Self {
        let tasks = tokio::runtime::Handle::current().metrics().num_alive_tasks();
        Held { descriptors: leaks::descriptor_count(std::process::id()).unwrap(), tasks }
    }

    /// Waits until nothing more is held than at the beginning.
    async fn settle(&self, what: &str) {
        let mut now = Held::now();
        let settled = leaks::wait_until(PATIENCE, what, || {
            now = Held::now();
            now.descriptors <= self.descriptors && now.tasks <= self.tasks
        });
        let settled = settled.await;
        assert!(settled.is_ok(), "{what}: {now:?} instead of {self:?}");
    }
}

/// A client like any other is served.
async fn check_health(listener: &Listener) {
    let mut client = listener.connect().await;
    client.shell("p", "echo fine", json!({})).await;
    assert_eq!(client.closed("p").await.text(), "fine\n");
    client.peer.close().await.unwrap();
    client.ended().await;
}

async fn dial(listener: &Listener) -> TcpStream {
    TcpStream::connect(listener.address()).await.unwrap()
}

/// A WebSocket of which only the bytes are known.
async fn upgraded(listener: &Listener) -> TcpStream {
    let mut stream = dial(listener).await;
    stream.write_all(HEAD.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    while !answer.ends_with(b"\r\n\r\n") {
        answer.push(stream.read_u8().await.unwrap());
    }
    assert!(answer.starts_with(b"HTTP/1.1 101 "));
    stream
}

/// A masked frame; the mask is zero, so the payload is itself.
fn frame(first: u8, payload: &[u8]) -> Vec<u8> {
    let mut frame = vec![first];
    match payload.len() {
        len @ 0..126 => frame.push(0x80 | u8::try_from(len).unwrap()),
        len @ 126..=0xffff => {
            frame.push(0x80 | 126);
            frame.extend(u16::try_from(len).unwrap().to_be_bytes());
        }
        len => {
            frame.push(0x80 | 127);
            frame.extend((len as u64).to_be_bytes());
        }
    }
    frame.extend([0; 4]);
    frame.extend_from_slice(payload);
    frame
}

/// Waits until the server has hung up.
async fn hangs_up(mut stream: TcpStream) {
    let mut rest = Vec::new();
    let end = tokio::time::timeout(PATIENCE, stream.read_to_end(&mut rest)).await;
    // A reset is an end, too.
    end.expect("the server hangs up").ok();
}

async fn no_http(listener: &Listener) {
    let mut random = Random::new(1);
    let noise: Vec<u8> = (0..4096).map(|_| random.next().to_le_bytes()[0]).collect();
    let long = format!("GET /{} HTTP/1.1\r\n", "a".repeat(100_000));
    let headers = format!("GET / HTTP/1.1\r\n{}\r\n", "a: b\r\n".repeat(1000));
    for bytes in [
        noise.as_slice(),
        b"\r\n\r\n\r\n\r\n",
        b"\0\0\0\0\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"DELETE / HTTP/1.1\r\nhost: localhost\r\n\r\n",
        b"GET /no/such HTTP/1.1\r\nhost: localhost\r\n\r\n",
        b"GET / HTTP/1.1\r\nhost: localhost\r\norigin: http://evil\r\n\r\n",
        long.as_bytes(),
        headers.as_bytes(),
    ] {
        let mut stream = dial(listener).await;
        // It may be refused before it has all been sent.
        stream.write_all(bytes).await.ok();
        stream.shutdown().await.ok();
        hangs_up(stream).await;
    }
}

async fn truncated_heads(listener: &Listener) {
    for len in [0, 1, 10, HEAD.len() / 2, HEAD.len() - 1] {
        let mut stream = dial(listener).await;
        stream.write_all(&HEAD.as_bytes()[..len]).await.unwrap();
        stream.shutdown().await.unwrap();
        hangs_up(stream).await;
    }
    // Whole, but gone without waiting for the answer.
    let mut stream = dial(listener).await;
    stream.write_all(HEAD.as_bytes()).await.unwrap();
    drop(stream);
}

async fn bad_frames(listener: &Listener) {
    let unmasked = b"\x81\x02{}".to_vec();
    let reserved_bits = frame(0xf1, b"{}");
    let unknown_kind = frame(0x83, b"{}");
    let lone_continuation = frame(0x80, b"{}");
    let fragmented_ping = frame(0x09, b"");
    let long_ping = frame(0x89, &[0; 126]);
    let not_utf8 = frame(0x81, b"\xff\xfe");
    let long_close = frame(0x88, &[0; 1]);
    let mut endless = vec![0x81, 0xff];
    endless.extend(u64::MAX.to_be_bytes());
    endless.extend([0; 4]);
    let mut large = vec![0x81, 0xff];
    large.extend(((16 << 20) + 1_u64).to_be_bytes());
    large.extend([0; 4]);
    let interrupted = [frame(0x01, b"{"), frame(0x81, b"{}")].concat();
    for bytes in [
        unmasked,
        reserved_bits,
        unknown_kind,
        lone_continuation,
        fragmented_ping,
        long_ping,
        not_utf8,
        long_close,
        endless,
        large,
        interrupted,
    ] {
        println!("a frame that begins with {:02x?}", &bytes[..bytes.len().min(10)]);
        let mut stream = upgraded(listener).await;
        stream.write_all(&bytes).await.unwrap();
        hangs_up(stream).await;
    }
    // Half a frame, and then nothing more.
    let mut stream = upgraded(listener).await;
    stream.write_all(&frame(0x81, b"{\"id\":1}")[..9]).await.unwrap();
    drop(stream);
}

async fn random_frames(listener: &Listener) {
    for seed in 0..60 {
        let failing = Failing(seed);
        let mut random = Random::new(seed);
        let mut stream = upgraded(listener).await;
        for _ in 0..20 {
            let len = random.below(300);
            let payload: Vec<u8> = (0..len).map(|_| random.next().to_le_bytes()[0]).collect();
            let bytes = if random.one_in(3) {
                payload
            } else {
                frame(*random.pick(&[0x81, 0x82, 0x89, 0x8a, 0x01, 0x80]), &payload)
            };
            if stream.write_all(&bytes).await.is_err() {
                break;
            }
        }
        drop((stream, failing));
    }
}

async fn bad_messages(listener: &Listener) {
    let mut client = Client::on(RawPeer::websocket(&listener.url).await.unwrap());
    client.shake_hands(json!({})).await;
    let many = format!(r#"{{"id":1,"method":"m","params":[0{}]}}"#, ",0".repeat(1_000_000));
    let deep = format!("{}{}", "[".repeat(1_000_000), "]".repeat(1_000_000));
    let keys = format!(r#"{{"id":1,"method":"m","params":{{"a":1{}}}}}"#, r#","a":1"#.repeat(1000));
    for text in [many.as_str(), &deep, &keys, "\0", "{\"id\":1,\"method\":\"\0\"}", "", "}{"] {
        client.peer.send_text(text).await.unwrap();
        let error = client.peer.recv().await.unwrap().unwrap();
        assert_eq!((&error["id"], &error["error"]["code"]), (&json!(-1), &json!(-32600)));
    }
    let huge = "x".repeat(3 << 20);
    let crowd = [&["true"][..], &["ten bytes."; 200_000]].concat();
    for (argv, message) in [
        (&["true", &huge][..], "Argument list too long (os error 7)"),
        (&crowd, "Argument list too long (os error 7)"),
        (&["true", "a\0b"], "nul byte found in provided data"),
        (&[&format!("/{huge}")], "File name too long (os error 36)"),
    ] {
        let refused = client.refused("process/start", start_params("p", argv, json!({}))).await;
        assert_eq!(refused, (-32603, message.to_owned()));
    }
    assert_eq!(client.ok("environment/status", Value::Null).await["status"], "ready");
    client.peer.close().await.unwrap();
    client.ended().await;
}

async fn too_large(listener: &Listener) {
    // In one frame, announced as such.
    let mut peer = RawPeer::websocket(&listener.url).await.unwrap();
    peer.send_text(&"x".repeat(70 << 20)).await.ok();
    assert_eq!(peer.recv().await.unwrap(), None);
    // In fragments, each of which is allowed.
    let mut stream = upgraded(listener).await;
    let fragment = vec![b'x'; 10 << 20];
    for number in 0..7 {
        let first = if number == 0 { 0x01 } else { 0x00 };
        if stream.write_all(&frame(first, &fragment)).await.is_err() {
            break;
        }
    }
    hangs_up(stream).await;
}

async fn crowds(listener: &Listener) {
    for _ in 0..300 {
        drop(dial(listener).await);
    }
    let mut waiting = Vec::new();
    for _ in 0..100 {
        let mut stream = dial(listener).await;
        stream.write_all(b"GET / HTTP/1.1\r\n").await.unwrap();
        waiting.push(stream);
    }
    for _ in 0..100 {
        waiting.push(upgraded(listener).await);
    }
    // In the middle of it all somebody else is served.
    let mut client = listener.connect().await;
    assert_eq!(client.ok("environment/status", Value::Null).await["status"], "ready");
    drop((waiting, client));
    for _ in 0..50 {
        let mut client = listener.connect().await;
        client.start("p", &["sleep", "1000"], json!({})).await;
    }
    eventually("their processes are gone", || {
        // The guardian stays.
        leaks::descendants(std::process::id()).len() <= 1
    })
    .await;
}
