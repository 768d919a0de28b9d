//! What a process writes, in which order it arrives, and what happens when nobody takes it.

use std::time::Duration;

use exec_server::Server;
use serde_json::{Value, json};

use crate::support::{Client, NEVER, config, decode, eventually};

#[tokio::test]
async fn output_before_exit_arrives_before_exited() {
    let server = Server::new(config(|_| {}));
    let mut client = Client::connect(&server).await;
    for round in 0..64 {
        let id = format!("p{round}");
        client.shell(&id, "printf out; printf err >&2; exit 3", json!({})).await;
    }
    for round in 0..64 {
        let all = client.closed(&format!("p{round}")).await;
        assert_eq!((all.stdout.as_slice(), all.stderr.as_slice()), (&b"out"[..], &b"err"[..]));
        // Only `closed` comes after it.
        assert_eq!(all.exit, Some((3, all.last_seq - 1)));
    }
    server.shut_down().await;
}

#[tokio::test]
async fn late_output_of_a_grandchild_arrives_after_exited_and_before_closed() {
    let server = Server::new(config(|_| {}));
    let mut client = Client::connect(&server).await;
    let script = "exec 3<&0; (read word <&3; echo late $word) & echo early; exit 5";
    client.shell("p", script, json!({"pipeStdin": true})).await;
    client.until(|client| client.followed("p").exit.is_some()).await;
    assert_eq!(client.followed("p").text(), "early\n");
    assert!(!client.receive_within(NEVER).await, "a stream is still open");
    // Its input, too, is the grandchild's now.
    client.write("p", b"word\n").await;
    let all = client.closed("p").await;
    assert_eq!(all.text(), "early\nlate word\n");
    assert_eq!(all.exit, Some((5, 2)));
    assert_eq!(all.last_seq, 4);
    server.shut_down().await;
}

#[tokio::test]
async fn a_child_that_closes_its_streams_is_closed_when_it_exits() {
    let server = Server::new(config(|_| {}));
    let mut client = Client::connect(&server).await;
    let script = "echo last; exec >&- 2>&-; read word; exit 4";
    client.shell("p", script, json!({"pipeStdin": true})).await;
    client.output_has("p", "last").await;
    assert!(!client.receive_within(NEVER).await, "it lives");
    client.write("p", b"end\n").await;
    let all = client.closed("p").await;
    assert_eq!((all.exit, all.last_seq), (Some((4, 2)), 3));
    server.shut_down().await;
}

#[tokio::test]
async fn nothing_follows_closed() {
    let server = Server::new(config(|_| {}));
    let mut client = Client::connect(&server).await;
    for tty in [false, true] {
        let id = format!("tty-{tty}");
        client.shell(&id, "echo a; echo b >&2", json!({"tty": tty})).await;
        let all = client.closed(&id).await;
        assert_eq!(all.code(), Some(0));
        let expected = if tty { "a\r\nb\r\n" } else { "a\nb\n" };
        assert_eq!(all.text(), expected);
        client.terminate(&id).await;
    }
    // A later event would have failed its check on the way here.
    assert!(!client.receive_within(NEVER).await);
    server.shut_down().await;
}

#[tokio::test]
async fn megabytes_on_both_streams_arrive_whole_and_in_order() {
    let server = Server::new(config(|_| {}));
    let mut client = Client::connect(&server).await;
    client.shell("p", "seq 1 200000 & seq 200001 400000 >&2; wait", json!({})).await;
    let all = client.closed("p").await;
    assert_eq!(all.stdout, numbers(1, 200_000));
    assert_eq!(all.stderr, numbers(200_001, 400_000));
    server.shut_down().await;
}

pub(crate) fn numbers(first: u32, last: u32) -> Vec<u8> {
    (first..=last).flat_map(|number| format!("{number}\n").into_bytes()).collect()
}

#[tokio::test]
async fn a_process_that_floods_does_not_silence_another() {
    let server = Server::new(config(|_| {}));
    let mut client = Client::connect(&server).await;
    client.start("flood", &["yes"], json!({})).await;
    client.until(|client| client.followed("flood").output.len() > 1 << 20).await;
    for round in 0..5 {
        let id = format!("quiet{round}");
        client.shell(&id, "echo heard", json!({})).await;
        assert_eq!(client.closed(&id).await.text(), "heard\n");
    }
    assert!(client.terminate("flood").await);
    assert_eq!(client.closed("flood").await.code(), Some(137));
    server.shut_down().await;
}

/// Bytes a process has written so far.
fn written_by(pid: u32) -> u64 {
    let io = std::fs::read_to_string(format!("/proc/{pid}/io")).unwrap();
    io.lines().find_map(|line| line.strip_prefix("wchar: ")).unwrap().parse().unwrap()
}

/// Waits until a process does not get rid of its output any more; how much it has written by then.
async fn stalled(pid: u32) -> u64 {
    let (mut last, mut same) = (0, 0);
    eventually("the writer stalls", || {
        let now = written_by(pid);
        same = if now == last && now > 0 { same + 1 } else { 0 };
        last = now;
        same >= 30
    })
    .await;
    last
}

#[tokio::test]
async fn a_client_that_does_not_read_slows_the_child_and_can_still_terminate_it() {
    let server = Server::new(config(|_| {}));
    let mut client = Client::connect(&server).await;
    client.start("p", &["yes"], json!({})).await;
    let pid = client.pid("p").await;
    let written = stalled(pid).await;
    // The log's 256 KiB, as much again in the connection, the pipe, the link, and a read of each.
    assert!(written < 2 << 20, "{written} bytes written that nobody takes");
    let terminate = client.send("process/terminate", json!({"processId": "p"})).await;
    eventually("it is dead", || !exec_testkit::leaks::is_alive(pid)).await;
    assert_eq!(client.answer(terminate).await["result"], json!({"running": true}));
    let all = client.closed("p").await;
    assert_eq!(all.code(), Some(137));
    assert!(all.output.chunks(2).all(|line| b"y\n".starts_with(line)), "nothing is missing inside");
    server.shut_down().await;
}

#[tokio::test]
async fn a_slow_client_goes_on_where_it_stopped() {
    let server = Server::new(config(|_| {}));
    let mut client = Client::connect(&server).await;
    client.start("p", &["seq", "1", "400000"], json!({})).await;
    let pid = client.pid("p").await;
    assert!(stalled(pid).await < 2 << 20);
    let all = client.closed("p").await;
    assert_eq!((all.code(), all.stdout), (Some(0), numbers(1, 400_000)));
    server.shut_down().await;
}

#[tokio::test]
async fn single_bytes_on_both_streams_wait_for_a_client_that_does_not_read() {
    // More events than are retained, though few bytes.
    const PAIRS: usize = 40_000;
    let server = Server::new(config(|_| {}));
    let mut client = Client::connect(&server).await;
    let script =
        format!("import os\nfor i in range({PAIRS}):\n os.write(1, b'o')\n os.write(2, b'e')\n",);
    if !std::path::Path::new("/usr/bin/python3").exists() {
        exec_testkit::skip("no python3 to write single bytes fast");
        return;
    }
    client.start("p", &["/usr/bin/python3", "-c", &script], json!({})).await;
    let wait = client.send("process/wait", json!({"processId": "p", "timeoutMs": 3000})).await;
    client.answer(wait).await;
    let all = client.closed("p").await;
    assert_eq!((all.stdout.len(), all.stderr.len()), (PAIRS, PAIRS));
    server.shut_down().await;
}

#[tokio::test]
async fn without_a_client_the_oldest_output_goes_and_the_gap_is_told() {
    let server = Server::new(config(|_| {}));
    let mut client = Client::connect(&server).await;
    let script = "echo first; read word; seq 1 500000; echo last";
    client.shell("p", script, json!({"pipeStdin": true})).await;
    client.output_has("p", "first").await;
    let (session, last_seq) = (client.session.clone(), client.followed("p").last_seq);
    client.send("process/write", json!({"processId": "p", "chunk": "Cg=="})).await;
    client.hang_up().await;
    let mut observer = Client::observe(&server, &session).await;
    observer.ok("process/wait", json!({"processId": "p"})).await;
    let mut client = Client::resume(&server, &session).await;
    let read = json!({"processId": "p", "afterSeq": last_seq});
    let page = client.ok("process/read", read).await;
    let all = [b"first\n".as_slice(), &numbers(1, 500_000), b"last\n"].concat();
    let kept: Vec<u8> =
        page["chunks"].as_array().unwrap().iter().flat_map(|c| decode(&c["chunk"])).collect();
    let offset = usize::try_from(page["outputOffset"].as_u64().unwrap()).unwrap();
    assert!(kept.len() <= 1 << 20 && kept.len() > (1 << 20) - (64 << 10), "{}", kept.len());
    assert!(offset > 6, "something is lost");
    assert_eq!(offset + kept.len(), all.len());
    assert_eq!(kept, all[offset..]);
    assert_eq!((&page["exitCode"], &page["closed"]), (&json!(0), &json!(true)));
    assert_eq!(page["failure"], Value::Null);
    server.shut_down().await;
}

#[tokio::test]
async fn a_snapshot_is_head_and_tail_and_says_what_is_missing() {
    let server = Server::new(config(|_| {}));
    let mut client = Client::connect(&server).await;
    client.shell("p", "echo oops >&2; seq 1 320000; read word", json!({"pipeStdin": true})).await;
    let all = numbers(1, 320_000);
    assert!(all.len() > 2 << 20);
    client.until(|client| client.followed("p").stdout.len() == all.len()).await;
    let snapshot = client.ok("process/snapshot", json!({"processId": "p"})).await;
    let stdout = decode(&snapshot["stdoutBase64"]);
    let half = 128 << 10;
    assert_eq!(stdout, [&all[..half], &all[all.len() - half..]].concat());
    assert_eq!(decode(&snapshot["stderrBase64"]), b"oops\n");
    assert_eq!(decode(&snapshot["terminalBase64"]), b"");
    assert_eq!(snapshot["truncated"], true);
    assert_eq!(snapshot["omittedBytes"], json!(all.len() - 2 * half));
    assert_eq!((&snapshot["running"], &snapshot["exitCode"]), (&json!(true), &Value::Null));
    client.write("p", b"\n").await;
    client.closed("p").await;
    let snapshot = client.ok("process/snapshot", json!({"processId": "p"})).await;
    assert_eq!((&snapshot["running"], &snapshot["exitCode"]), (&json!(false), &json!(0)));

    client.shell("t", "echo tty", json!({"tty": true})).await;
    client.closed("t").await;
    let snapshot = client.ok("process/snapshot", json!({"processId": "t"})).await;
    assert_eq!(decode(&snapshot["terminalBase64"]), b"tty\r\n");
    assert_eq!((&snapshot["truncated"], &snapshot["omittedBytes"]), (&json!(false), &json!(0)));
    server.shut_down().await;
}

#[tokio::test]
async fn pages_follow_the_selection_rules_and_add_up() {
    let server = Server::new(config(|_| {}));
    let mut client = Client::connect(&server).await;
    client.shell("p", "seq 1 30000; echo oops >&2; exit 2", json!({})).await;
    let all = client.closed("p").await;
    let (mut after, mut collected, mut pages) = (0, Vec::new(), 0);
    loop {
        let read = json!({"processId": "p", "afterSeq": after, "maxBytes": 10_000});
        let page = client.ok("process/read", read).await;
        let chunks = page["chunks"].as_array().unwrap();
        assert_eq!(page["outputOffset"], json!(collected.len()));
        collected.extend(chunks.iter().flat_map(|chunk| decode(&chunk["chunk"])));
        let next = page["nextSeq"].as_u64().unwrap();
        if chunks.is_empty() {
            assert_eq!(next, all.last_seq + 1);
            break;
        }
        assert_eq!(next, chunks.last().unwrap()["seq"].as_u64().unwrap() + 1);
        assert_eq!((&page["exited"], &page["closed"]), (&json!(true), &json!(true)));
        after = next - 1;
        pages += 1;
    }
    assert!(pages >= 2);
    assert_eq!(collected, all.output);
    let one = client.ok("process/read", json!({"processId": "p", "maxBytes": 0})).await;
    assert_eq!(one["chunks"].as_array().unwrap().len(), 1, "the first in any case");
    let refused = client.refused("process/read", json!({"processId": "nobody"})).await;
    assert_eq!(refused, (-32600, "unknown process id nobody".to_owned()));
    server.shut_down().await;
}

#[tokio::test]
async fn a_long_poll_wakes_on_output_and_on_exit() {
    let server = Server::new(config(|_| {}));
    let mut client = Client::connect(&server).await;
    let script = "read word; echo $word; read word; exit 6";
    client.shell("p", script, json!({"pipeStdin": true})).await;
    let poll = |after: u64| json!({"processId": "p", "afterSeq": after, "waitMs": u64::MAX});
    let first = client.send("process/read", poll(0)).await;
    assert!(!client.receive_within(NEVER).await, "there is nothing to say yet");
    client.write("p", b"word\n").await;
    let page = client.answer(first).await;
    assert_eq!(decode(&page["result"]["chunks"][0]["chunk"]), b"word\n");
    assert_eq!((&page["result"]["nextSeq"], &page["result"]["exited"]), (&json!(2), &json!(false)));
    let second = client.send("process/read", poll(1)).await;
    client.until(|client| client.followed("p").last_seq == 1).await;
    assert!(!client.receive_within(NEVER).await);
    client.write("p", b"end\n").await;
    let page = client.answer(second).await;
    assert_eq!((&page["result"]["exitCode"], &page["result"]["chunks"]), (&json!(6), &json!([])));
    client.closed("p").await;
    // Nothing more can come, so nothing is waited for.
    let page = client.ok("process/read", poll(99)).await;
    assert_eq!((&page["closed"], &page["nextSeq"]), (&json!(true), &json!(4)));
    server.shut_down().await;
}

#[tokio::test]
async fn a_long_poll_past_the_exit_waits_while_a_stream_is_open() {
    let server = Server::new(config(|_| {}));
    let mut client = Client::connect(&server).await;
    let script = "exec 3<&0; (read word <&3; echo late) & exit 0";
    client.shell("p", script, json!({"pipeStdin": true})).await;
    client.until(|client| client.followed("p").exit.is_some()).await;
    let at_once = json!({"processId": "p", "afterSeq": 0, "waitMs": 60_000});
    let page = client.ok("process/read", at_once).await;
    assert_eq!((&page["exited"], &page["closed"]), (&json!(true), &json!(false)));
    let past = json!({"processId": "p", "afterSeq": 1, "waitMs": 60_000});
    let past = client.send("process/read", past).await;
    assert!(!client.receive_within(NEVER).await);
    client.write("p", b"\n").await;
    let page = client.answer(past).await;
    assert_eq!(decode(&page["result"]["chunks"][0]["chunk"]), b"late\n");
    let short = json!({"processId": "p", "afterSeq": 2, "waitMs": 1});
    client.closed("p").await;
    assert_eq!(client.ok("process/read", short).await["closed"], true);
    server.shut_down().await;
}

#[tokio::test]
async fn a_long_poll_ends_when_its_time_is_up() {
    let server = Server::new(config(|_| {}));
    let mut client = Client::connect(&server).await;
    client.start("p", &["sleep", "1000"], json!({})).await;
    let started = std::time::Instant::now();
    let page = client.ok("process/read", json!({"processId": "p", "waitMs": 80})).await;
    assert!(started.elapsed() >= Duration::from_millis(80));
    assert_eq!((&page["chunks"], &page["nextSeq"]), (&json!([]), &json!(1)));
    server.shut_down().await;
}
