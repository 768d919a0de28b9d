//! Many lives, short and long: each ends exactly once, and nothing of them stays.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod support;

use std::time::{Duration, Instant};

use exec_process::sys::raise_descriptor_limit;
use exec_server::Server;
use exec_testkit::leaks;
use serde_json::json;

use support::{Client, Marker, config, eventually, resident_bytes, start_params};

const SHORT_LIVES: usize = 10_000;
const IN_FLIGHT: usize = 64;
const LONG_LIVES: usize = 1_000;

/// Closed processes can be read for half a minute, so all of them may be in memory at the end.
const BYTES_PER_CLOSED_PROCESS: usize = 8 << 10;
/// The allocator keeps what it got; the test's own books are in here, too.
const OTHER_BYTES: usize = 48 << 20;

/// One test, since descriptors and threads are counted for the whole process.
#[tokio::test]
async fn many_processes_end_once_each_and_leave_nothing() {
    raise_descriptor_limit();
    // Whatever is made once and kept is made before the counting.
    one_life().await;
    let held = Held::now();
    let resident = resident_bytes();
    let config = config(|config| config.detached_life = Duration::ZERO);
    let server = Server::new(config);
    let mut client = Client::connect(&server).await;
    let started = Instant::now();
    short_lives(&mut client).await;
    println!("{SHORT_LIVES} short lives in {:?}", started.elapsed());
    let growth = resident_bytes().saturating_sub(resident);
    println!("resident memory grew by {} KiB", growth >> 10);
    assert!(growth < SHORT_LIVES * BYTES_PER_CLOSED_PROCESS + OTHER_BYTES, "{growth}");

    let started = Instant::now();
    long_lives(&mut client).await;
    println!("{LONG_LIVES} long lives in {:?}", started.elapsed());
    client.hang_up().await;
    assert_eq!(server.session_count(), 0);
    server.shut_down().await;
    drop(server);
    let mut now = Held::now();
    eventually(&format!("{held:?} again, not {now:?}"), || {
        now = Held::now();
        now.descriptors <= held.descriptors && now.threads <= held.threads && now.children == 0
    })
    .await;
}

async fn one_life() {
    let server = Server::new(config(|config| config.detached_life = Duration::ZERO));
    let mut client = Client::connect(&server).await;
    client.start("p", &["/bin/true"], json!({})).await;
    client.closed("p").await;
    client.hang_up().await;
    server.shut_down().await;
}

/// What this process holds of the system.
#[derive(Debug)]
struct Held {
    descriptors: usize,
    threads: usize,
    children: usize,
}

impl Held {
    fn now() -> Self {
        let pid = std::process::id();
        Held {
            descriptors: leaks::descriptor_count(pid).unwrap(),
            threads: leaks::thread_count(pid).unwrap(),
            children: leaks::descendants(pid).len(),
        }
    }
}

async fn short_lives(client: &mut Client) {
    let name = |number: usize| format!("short{number}");
    let mut requests = Vec::new();
    // The oldest that has not closed; those before it have.
    let mut oldest = 0;
    for number in 0..SHORT_LIVES {
        while number - oldest >= IN_FLIGHT {
            check_ended(&client.closed(&name(oldest)).await);
            oldest += 1;
        }
        let params = start_params(&name(number), &["/bin/true"], json!({}));
        requests.push(client.send("process/start", params).await);
    }
    for number in oldest..SHORT_LIVES {
        check_ended(&client.closed(&name(number)).await);
    }
    for request in requests {
        assert!(client.answer(request).await.get("result").is_some());
    }
}

/// One `exited` and one `closed`, which the client has checked, and nothing else.
fn check_ended(followed: &support::Followed) {
    assert_eq!((followed.exit, followed.last_seq), (Some((0, 1)), 2));
}

async fn long_lives(client: &mut Client) {
    let marker = Marker::new();
    let name = |number: usize| format!("long{number}");
    for number in 0..LONG_LIVES {
        client.start(&name(number), &["sleep", "1000"], marker.extra()).await;
    }
    assert_eq!(marker.carriers().len(), LONG_LIVES);
    let mut requests = Vec::new();
    for number in 0..LONG_LIVES {
        let params = json!({"processId": name(number)});
        requests.push(client.send("process/terminate", params).await);
    }
    for request in requests {
        assert_eq!(client.answer(request).await["result"], json!({"running": true}));
    }
    for number in 0..LONG_LIVES {
        let followed = client.closed(&name(number)).await;
        assert_eq!((followed.exit, followed.last_seq), (Some((137, 1)), 2));
    }
    assert_eq!(marker.carriers(), [0; 0]);
}
