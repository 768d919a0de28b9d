//! Files that leave in pieces: whole, in order with everything else, and within what the client
//! takes.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::fs::File;
use std::io::Write;
use std::path::Path;

use exec_server::{ExecServerConfig, Server};
use serde_json::{Value, json};
use support::{Client, Random, decode, resident_bytes};

fn uri(path: &Path) -> Value {
    json!({"path": format!("file://{}", path.display())})
}

fn noise(length: usize) -> Vec<u8> {
    let mut random = Random::new(length as u64);
    (0..length.div_ceil(8)).flat_map(|_| random.next().to_le_bytes()).take(length).collect()
}

#[tokio::test]
async fn a_file_of_any_length_arrives_whole() {
    let server = Server::new(ExecServerConfig::default());
    let home = tempfile::tempdir().unwrap();
    let mut client = Client::connect(&server).await;
    let piece = 3 << 19;
    for length in [1 << 20, piece - 1, piece, piece + 1, 2 * piece, 3 * piece + 2] {
        let path = home.path().join("file");
        let content = noise(length);
        std::fs::write(&path, &content).unwrap();
        let answer = client.ok("fs/readFile", uri(&path)).await;
        assert!(decode(&answer["dataBase64"]) == content, "{length} bytes came back otherwise");
    }
    server.shut_down().await;
}

#[tokio::test]
async fn what_is_asked_meanwhile_is_answered_behind_the_file() {
    let server = Server::new(ExecServerConfig::default());
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("file");
    std::fs::write(&path, noise(8 << 20)).unwrap();
    let mut client = Client::connect(&server).await;
    client.start("p", &["/bin/sh", "-c", "echo said"], json!({})).await;
    let first = client.send("fs/readFile", uri(&path)).await;
    let second = client.send("fs/readFile", uri(&path)).await;
    let third = client.send("fs/getMetadata", uri(&path)).await;
    assert_eq!(client.answer(third).await["result"]["size"], 8 << 20);
    for id in [second, first] {
        let content = decode(&client.answer(id).await["result"]["dataBase64"]);
        assert!(content == noise(8 << 20));
    }
    assert_eq!(client.closed("p").await.text(), "said\n");
    server.shut_down().await;
}

#[tokio::test]
async fn a_file_that_shrinks_meanwhile_ends_earlier() {
    let server = Server::new(ExecServerConfig::default());
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("file");
    let content = noise(32 << 20);
    File::create(&path).unwrap().write_all(&content).unwrap();
    // A link that holds little, so that the server cannot be done before the file shrinks.
    let mut client = Client::connect_through(&server, 4 << 10, json!({})).await;
    let id = client.send("fs/readFile", uri(&path)).await;
    let other = client.send("fs/getMetadata", uri(&path)).await;
    tokio::task::spawn_blocking(move || {
        File::options().write(true).open(path).unwrap().set_len(20 << 20).unwrap();
    })
    .await
    .unwrap();
    let read = decode(&client.answer(id).await["result"]["dataBase64"]);
    assert!(read.len() <= content.len() && read == content[..read.len()]);
    assert_eq!(client.answer(other).await["result"]["isFile"], true);
    server.shut_down().await;
}

/// A client that says what it takes is never sent more; codex's own is known to take 64 MiB.
#[tokio::test]
async fn what_is_too_large_depends_on_the_client() {
    let server = Server::new(ExecServerConfig::default());
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("file");
    File::create(&path).unwrap().set_len(49 << 20).unwrap();
    let stated = json!({"maxMessageBytes": 2 << 20});
    for (who, limit) in
        [(json!({"clientName": "codex-environment"}), 50_330_880), (stated, 1_572_096)]
    {
        let mut client = Client::connect_with(&server, who).await;
        let (code, text) = client.refused("fs/readFile", uri(&path)).await;
        let expected = format!("file is too large to read: limit is {limit} bytes");
        assert_eq!((code, text), (-32600, expected));
    }
    server.shut_down().await;
}

/// 96 MiB pass through a server that holds a few of them.
#[tokio::test]
async fn a_file_is_never_held_as_a_whole() {
    let server = Server::new(ExecServerConfig::default());
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("file");
    File::create(&path).unwrap().set_len(96 << 20).unwrap();
    let (ours, theirs) = tokio::io::duplex(1 << 16);
    let (read, write) = tokio::io::split(theirs);
    let serving = server.clone();
    tokio::spawn(async move {
        serving.serve_connection(exec_transport::stdio(read, write)).await;
    });
    let (mut read, mut write) = tokio::io::split(ours);
    let ask = format!(
        "{}\n{}\n{}\n",
        json!({"id": 1, "method": "initialize", "params": {"clientName": "t"}}),
        json!({"method": "initialized"}),
        json!({"id": 2, "method": "fs/readFile", "params": uri(&path)}),
    );
    tokio::io::AsyncWriteExt::write_all(&mut write, ask.as_bytes()).await.unwrap();
    let before = resident_bytes();
    let (mut lines, mut total, mut peak) = (0, 0, 0);
    let mut buffer = vec![0; 1 << 20];
    while lines < 2 {
        let got = tokio::io::AsyncReadExt::read(&mut read, &mut buffer).await.unwrap();
        assert_ne!(got, 0, "the connection ended after {total} bytes");
        if buffer[..got].contains(&b'\n') {
            lines += buffer[..got].iter().filter(|&&byte| byte == b'\n').count();
        }
        total += got;
        peak = peak.max(resident_bytes());
    }
    assert!(total > (96 << 20) / 3 * 4, "{total}");
    assert!(peak - before < 24 << 20, "{} MiB were held", (peak - before) >> 20);
    server.shut_down().await;
}
