//! What is written to a process, once, in order, and without holding up anything else.

use exec_server::Server;
use serde_json::json;

use crate::support::{Client, NEVER, config, encode};

/// A child that reads nothing until it is interrupted, and then repeats its input.
const RELUCTANT: &str =
    "trap go=1 INT; echo ready; while [ -z \"$go\" ]; do sleep 0.01; done; exec cat";

/// A link so large that a whole burst is there when the server looks.
const BURST_BYTES: usize = 4 << 20;

async fn burst_client(server: &std::sync::Arc<Server>) -> Client {
    Client::connect_through(server, BURST_BYTES, json!({})).await
}

async fn start_reluctant(client: &mut Client) {
    client.shell("p", RELUCTANT, json!({"pipeStdin": true})).await;
    client.output_has("p", "ready\n").await;
}

async fn interrupt(client: &mut Client) {
    let params = json!({"processId": "p", "signal": "interrupt"});
    assert_eq!(client.ok("process/signal", params).await, json!({}));
}

#[tokio::test]
async fn input_reaches_the_child_and_its_end_too() {
    let server = Server::new(config(|_| {}));
    let mut client = Client::connect(&server).await;
    client.start("p", &["cat"], json!({"pipeStdin": true})).await;
    assert_eq!(client.write("p", b"one ").await, json!({"status": "accepted"}));
    assert_eq!(client.write("p", b"").await, json!({"status": "accepted"}));
    client.write("p", b"two").await;
    client.output_has("p", "one two").await;
    for _ in 0..2 {
        let closed = client.ok("process/closeStdin", json!({"processId": "p"})).await;
        assert_eq!(closed, json!({"status": "accepted"}), "repeating it is harmless");
    }
    assert_eq!(client.closed("p").await.code(), Some(0));
    server.shut_down().await;
}

#[tokio::test]
async fn a_terminal_takes_input_and_end_of_file_as_a_byte() {
    let server = Server::new(config(|_| {}));
    let mut client = Client::connect(&server).await;
    client.start("p", &["cat"], json!({"tty": true})).await;
    client.write("p", b"hello\n").await;
    client.output_has("p", "hello\r\nhello\r\n").await;
    let refused = client.refused("process/closeStdin", json!({"processId": "p"})).await;
    assert_eq!(refused.0, -32600);
    client.write("p", b"\x04").await;
    assert_eq!(client.closed("p").await.code(), Some(0));
    server.shut_down().await;
}

#[tokio::test]
async fn blocked_writes_hold_up_only_themselves() {
    let server = Server::new(config(|_| {}));
    let mut client = burst_client(&server).await;
    client.start("p", &["sleep", "1000"], json!({"pipeStdin": true})).await;
    let mut writes = Vec::new();
    for _ in 0..300 {
        let params = json!({"processId": "p", "chunk": encode(&[b'x'; 8 << 10])});
        writes.push(client.send("process/write", params).await);
    }
    let status = client.ok("environment/status", json!(null)).await;
    assert_eq!(status, json!({"status": "ready"}));
    client.listed("p").await.expect("listed");
    while client.receive_within(NEVER).await {}
    // A pipe holds 64 KiB and the queue has 128 places.
    assert_eq!(client.answers_waiting(), 8 + 128);
    assert!(client.terminate("p").await);
    for write in writes {
        let answer = client.answer(write).await;
        assert!(
            answer["result"]["status"] == "accepted" || answer["error"]["code"] == -32603,
            "{answer}"
        );
    }
    client.closed("p").await;
    server.shut_down().await;
}

#[tokio::test]
async fn one_request_at_a_time_a_blocked_write_holds_up_everything() {
    let server = Server::new(config(|config| config.concurrent_requests = 1));
    let mut client = burst_client(&server).await;
    client.start("p", &["sleep", "1000"], json!({"pipeStdin": true})).await;
    for _ in 0..300 {
        let params = json!({"processId": "p", "chunk": encode(&[b'x'; 8 << 10])});
        client.send("process/write", params).await;
    }
    let status = client.send("environment/status", json!(null)).await;
    while client.receive_within(NEVER).await {}
    assert_eq!(client.answers_waiting(), 8 + 128);
    let mut observer = Client::observe(&server, &client.session).await;
    assert!(observer.terminate("p").await);
    let mut last = 0;
    while last != status {
        let message = client.peer.recv().await.unwrap().unwrap();
        if let Some(id) = message["id"].as_u64() {
            assert!(id > last, "answers come in the order of the requests");
            last = id;
        }
    }
    server.shut_down().await;
}

#[tokio::test]
async fn writes_sent_in_one_burst_keep_their_order() {
    let server = Server::new(config(|_| {}));
    let mut client = burst_client(&server).await;
    client.start("p", &["cat"], json!({"pipeStdin": true})).await;
    check_order(&mut client, 1000, b"").await;
    server.shut_down().await;
}

#[tokio::test]
async fn writes_keep_their_order_through_a_full_queue() {
    let server = Server::new(config(|_| {}));
    let mut client = burst_client(&server).await;
    start_reluctant(&mut client).await;
    // More than the pipe holds, so that everything after it waits.
    check_order(&mut client, 300, &[b'\n'; 80 << 10]).await;
    server.shut_down().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn writes_keep_their_order_while_the_child_reads_on_another_thread() {
    let server = Server::new(config(|_| {}));
    let mut client = burst_client(&server).await;
    start_reluctant(&mut client).await;
    check_order(&mut client, 1000, &[b'\n'; 80 << 10]).await;
    server.shut_down().await;
}

/// Sends numbered lines behind a first write, lets the child read, and looks at what it read.
async fn check_order(client: &mut Client, lines: u32, first: &[u8]) {
    let mut expected = first.to_vec();
    let chunk = json!({"processId": "p", "chunk": encode(first)});
    let mut writes = vec![client.send("process/write", chunk).await];
    for number in 0..lines {
        let line = format!("{number:05}\n");
        let params = json!({"processId": "p", "chunk": encode(line.as_bytes())});
        writes.push(client.send("process/write", params).await);
        expected.extend_from_slice(line.as_bytes());
    }
    if !first.is_empty() {
        interrupt(client).await;
    }
    for write in writes {
        assert_eq!(client.answer(write).await["result"]["status"], "accepted");
    }
    client.ok("process/closeStdin", json!({"processId": "p"})).await;
    let all = client.closed("p").await;
    let start = all.stdout.len() - expected.len();
    assert_ordered(&all.stdout[start..], &expected);
}

fn assert_ordered(got: &[u8], expected: &[u8]) {
    let differs = got.iter().zip(expected).position(|(got, expected)| got != expected);
    if let Some(at) = differs {
        let shown = |bytes: &[u8]| {
            String::from_utf8_lossy(&bytes[at / 6 * 6..bytes.len().min(at + 60)]).into_owned()
        };
        panic!("byte {at} on is {:?} instead of {:?}", shown(got), shown(expected));
    }
    assert_eq!(got.len(), expected.len());
}

#[tokio::test]
async fn close_stdin_sent_behind_blocked_writes_comes_after_them() {
    let server = Server::new(config(|_| {}));
    let mut client = burst_client(&server).await;
    start_reluctant(&mut client).await;
    let mut requests = Vec::new();
    // The first fills the pipe; the rest leave in one go, and with them the queue is empty.
    for bytes in std::iter::once(80 << 10).chain(std::iter::repeat_n(1, 200)) {
        let params = json!({"processId": "p", "chunk": encode(&vec![b'x'; bytes])});
        requests.push(client.send("process/write", params).await);
    }
    requests.push(client.send("process/closeStdin", json!({"processId": "p"})).await);
    interrupt(&mut client).await;
    for request in requests {
        assert_eq!(client.answer(request).await["result"]["status"], "accepted");
    }
    let all = client.closed("p").await;
    assert_eq!((all.code(), all.stdout.len()), (Some(0), "ready\n".len() + (80 << 10) + 200));
    server.shut_down().await;
}

#[tokio::test]
async fn close_stdin_lets_what_is_queued_through_first() {
    let server = Server::new(config(|_| {}));
    let mut client = Client::connect(&server).await;
    start_reluctant(&mut client).await;
    for _ in 0..100 {
        client.write("p", &[b'x'; 4 << 10]).await;
    }
    client.ok("process/closeStdin", json!({"processId": "p"})).await;
    // Later bytes vanish, as they would in a closed pipe.
    client.write("p", b"too late").await;
    interrupt(&mut client).await;
    let all = client.closed("p").await;
    assert_eq!((all.code(), all.stdout.len()), (Some(0), "ready\n".len() + (400 << 10)));
    assert!(!all.text().contains("late"));
    server.shut_down().await;
}

#[tokio::test]
async fn a_write_repeated_under_its_id_is_written_once() {
    let server = Server::new(config(|_| {}));
    let mut client = burst_client(&server).await;
    for id in ["p", "q"] {
        client.start(id, &["cat"], json!({"pipeStdin": true})).await;
    }
    let write = |process: &str, id: u32, data: &[u8]| json!({"processId": process, "chunk": encode(data), "writeId": id.to_string()});
    for (process, id, data) in
        [("p", 0, b"a"), ("p", 1, b"b"), ("p", 0, b"A"), ("q", 0, b"q"), ("p", 1, b"B")]
    {
        let result = client.ok("process/write", write(process, id, data)).await;
        assert_eq!(result, json!({"status": "accepted"}));
    }
    // The last 4096 are remembered: with these, the ids 1 to 4096.
    let mut fillers = Vec::new();
    for id in 2..=4096 {
        fillers.push(client.send("process/write", write("p", id, b"")).await);
    }
    for filler in fillers {
        assert_eq!(client.answer(filler).await["result"]["status"], "accepted");
    }
    client.ok("process/write", write("p", 1, b"B")).await;
    client.ok("process/write", write("p", 0, b"c")).await;
    // Without an id every call writes.
    client.write("p", b"d").await;
    client.write("p", b"d").await;
    for (id, expected) in [("p", "abcdd"), ("q", "q")] {
        client.ok("process/closeStdin", json!({"processId": id})).await;
        assert_eq!(client.closed(id).await.text(), expected);
    }
    server.shut_down().await;
}

#[tokio::test]
async fn a_write_says_what_became_of_it() {
    let server = Server::new(config(|_| {}));
    let mut client = Client::connect(&server).await;
    assert_eq!(client.write("nobody", b"x").await, json!({"status": "unknownProcess"}));
    client.start("closed", &["sleep", "1000"], json!({})).await;
    assert_eq!(client.write("closed", b"x").await, json!({"status": "stdinClosed"}));
    client.start("exited", &["true"], json!({"pipeStdin": true})).await;
    client.closed("exited").await;
    assert_eq!(client.write("exited", b"x").await, json!({"status": "accepted"}));
    client.start("p", &["sleep", "1000"], json!({"pipeStdin": true})).await;
    let named = json!({"processId": "p", "chunk": "eA==", "writeId": "1"});
    assert_eq!(client.ok("process/write", named.clone()).await, json!({"status": "accepted"}));
    assert!(client.terminate("p").await && client.terminate("closed").await);
    let after = client.refused("process/write", json!({"processId": "p", "chunk": "eA=="})).await;
    assert_eq!(after, (-32603, "failed to write to process stdin".to_owned()));
    // What was accepted before stays accepted.
    assert_eq!(client.ok("process/write", named).await, json!({"status": "accepted"}));
    client.closed("closed").await;
    assert_eq!(client.write("closed", b"x").await, json!({"status": "stdinClosed"}));
    let nameless = json!({"processId": "p", "chunk": "", "writeId": ""});
    let refused = client.refused("process/write", nameless).await;
    assert_eq!(refused, (-32602, "writeId must not be empty".to_owned()));
    server.shut_down().await;
}
