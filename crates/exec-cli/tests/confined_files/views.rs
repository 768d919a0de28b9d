//! Large files, watches, capabilities, and a disk that changes what a policy means.

use exec_testkit::peer::{RawPeer, Received};
use serde_json::{Value, json};

use crate::bench::{PATIENCE, benches, code, special, uri};

fn content(bytes: usize) -> Vec<u8> {
    (0..bytes).map(|index| u8::try_from(index * 31 % 251).unwrap()).collect()
}

fn encoded(bytes: &[u8]) -> String {
    let mut text = Vec::new();
    exec_protocol::bytes::encode_into(&mut text, bytes);
    String::from_utf8(text).unwrap()
}

#[tokio::test]
async fn large_files_come_out_and_go_in_whole() {
    for bench in benches().await {
        let mut peer = bench.connect().await;
        let (reading, writing) = (bench.read_only(), bench.workspace_write());
        for size in [0, 1, 200_000, 300_000, 5_000_000] {
            let path = uri(&bench.file("large"));
            let data = content(size);
            let write = json!({"path": path, "dataBase64": encoded(&data), "sandbox": writing});
            peer.call_ok("fs/writeFile", write).await.unwrap();
            assert_eq!(std::fs::read(bench.file("large")).unwrap(), data);
            let read = json!({"path": path, "sandbox": reading});
            let read = peer.call_ok("fs/readFile", read).await.unwrap();
            assert_eq!(read["dataBase64"].as_str().unwrap(), encoded(&data), "{size} bytes");
        }
        let data = content(5_000_000);
        let open = json!({"path": uri(&bench.file("large")), "handleId": "r", "sandbox": reading});
        peer.call_ok("fs/open", open).await.unwrap();
        let copy = json!({"path": uri(&bench.file("copy")), "handleId": "w", "mode": "replace", "sandbox": writing});
        peer.call_ok("fs/open", copy).await.unwrap();
        for (index, expected) in data.chunks(1 << 20).enumerate() {
            let offset = index << 20;
            let block = json!({"handleId": "r", "offset": offset, "len": 1 << 20});
            let block = peer.call_ok("fs/readBlock", block).await.unwrap();
            assert_eq!(block["chunk"].as_str().unwrap(), encoded(expected));
            let write = json!({"handleId": "w", "offset": offset, "chunk": block["chunk"]});
            peer.call_ok("fs/writeBlock", write).await.unwrap();
        }
        for handle in ["r", "w"] {
            peer.call_ok("fs/close", json!({"handleId": handle})).await.unwrap();
        }
        assert_eq!(std::fs::read(bench.file("copy")).unwrap(), data);
    }
}

#[tokio::test]
async fn handles_of_both_kinds_share_one_table() {
    for bench in benches().await {
        let mut peer = bench.connect().await;
        std::fs::write(bench.file("f"), "x").unwrap();
        let open = |id: usize, context: Value| json!({"path": uri(&bench.file("f")), "handleId": id.to_string(), "sandbox": context});
        for id in 0..128 {
            let context = if id % 2 == 0 { bench.read_only() } else { Value::Null };
            peer.call_ok("fs/open", open(id, context)).await.unwrap();
        }
        for context in [bench.read_only(), Value::Null] {
            let full = peer.call("fs/open", open(999, context)).await.unwrap();
            assert_eq!(code(&full), -32600, "{full}");
        }
        let twice = peer.call("fs/open", open(1, bench.read_only())).await.unwrap();
        assert_eq!(code(&twice), -32600, "{twice}");
    }
}

#[tokio::test]
async fn what_a_policy_means_follows_the_disk() {
    for bench in benches().await {
        let mut peer = bench.connect().await;
        let context = bench.workspace_write();
        let write = |name: &str| json!({"path": uri(&bench.file(name)), "dataBase64": "eA==", "sandbox": context});
        let read = |name: &str| json!({"path": uri(&bench.file(name)), "sandbox": context});
        for _ in 0..3 {
            assert_eq!(code(&peer.call("fs/readFile", read(".git/HEAD")).await.unwrap()), -32004);
            std::fs::create_dir(bench.file(".git")).unwrap();
            std::fs::write(bench.file(".git/HEAD"), "ref").unwrap();
            peer.call_ok("fs/readFile", read(".git/HEAD")).await.unwrap();
            assert_eq!(code(&peer.call("fs/writeFile", write(".git/HEAD")).await.unwrap()), -32603);
            std::fs::remove_dir_all(bench.file(".git")).unwrap();
            assert_eq!(code(&peer.call("fs/writeFile", write(".git")).await.unwrap()), -32603);
        }
        // A pattern finds what has come since.
        let pattern = json!({"path": {"type": "glob_pattern", "pattern": "codex-project-roots://**/*.env"}, "access": "deny"});
        let entries = [special("root", "read"), special("project_roots", "write"), pattern];
        let denying = bench.context(&entries);
        let read = json!({"path": uri(&bench.file("a.env")), "sandbox": denying});
        assert_eq!(code(&peer.call("fs/readFile", read.clone()).await.unwrap()), -32004);
        std::fs::write(bench.file("a.env"), "secret").unwrap();
        assert_eq!(code(&peer.call("fs/readFile", read).await.unwrap()), -32600);
    }
}

/// Another process may need something to mount on where nothing is, and put a directory there.
#[tokio::test]
async fn a_placeholder_of_somebody_else_is_neither_filled_nor_taken_away() {
    for bench in benches().await {
        let mut peer = bench.connect().await;
        let context = bench.workspace_write();
        let call = |path: &str| json!({"path": uri(&bench.file(path)), "recursive": true, "sandbox": context});
        peer.call_ok("fs/createDirectory", call("warm")).await.unwrap();
        for _ in 0..20 {
            std::fs::create_dir(bench.file(".codex")).unwrap();
            for (method, path) in [
                ("fs/createDirectory", ".codex/x/y"),
                ("fs/createDirectory", "warm/../.codex/z"),
                ("fs/remove", ".codex"),
            ] {
                let answer = peer.call(method, call(path)).await.unwrap();
                assert_eq!(code(&answer), -32603, "{method} {path}: {answer}");
            }
            std::fs::remove_dir(bench.file(".codex")).unwrap();
            let answer = peer.call("fs/createDirectory", call(".codex")).await.unwrap();
            assert_eq!(code(&answer), -32603, "{answer}");
        }
        assert_eq!(bench.names(), ["warm"]);
    }
}

async fn next_change(peer: &mut RawPeer) -> Value {
    loop {
        match peer.recv_within(PATIENCE).await.unwrap() {
            Received::Message(message) if message["method"] == "fs/changed" => {
                return message["params"].clone();
            }
            Received::Message(_) => {}
            Received::Closed | Received::Nothing => panic!("no change was told"),
        }
    }
}

#[tokio::test]
async fn a_watch_tells_what_its_policy_lets_it_see() {
    for bench in benches().await {
        let mut peer = bench.connect().await;
        std::fs::create_dir_all(bench.file("secret")).unwrap();
        let watch = |context: Value| {
            let path = uri(&bench.workspace());
            json!({"watchId": "w", "path": path, "recursive": true, "sandbox": context})
        };
        // A tree with something denied in it cannot be watched as a whole, and that is said.
        let denied = peer.call("fs/watch", watch(bench.denying(&bench.file("secret")))).await;
        assert_eq!(code(&denied.unwrap()), -32600);
        peer.call_ok("fs/watch", watch(bench.minimal())).await.unwrap();
        let twice = peer.call("fs/watch", watch(bench.minimal())).await.unwrap();
        assert_eq!(code(&twice), -32600, "{twice}");
        let twice = peer.call("fs/watch", watch(Value::Null)).await.unwrap();
        assert_eq!(code(&twice), -32600, "{twice}");
        std::fs::write(bench.at("outside/unseen"), "x").unwrap();
        std::fs::write(bench.file("seen"), "x").unwrap();
        let changed = next_change(&mut peer).await;
        assert_eq!(changed["watchId"], "w");
        assert!(!changed.to_string().contains("/unseen"), "{changed}");
        assert!(changed.to_string().contains("/seen"), "{changed}");
        peer.call_ok("fs/unwatch", json!({"watchId": "w"})).await.unwrap();
        let unknown = peer.call("fs/unwatch", json!({"watchId": "w"})).await.unwrap();
        assert_eq!(code(&unknown), -32004);
        crate::bench::eventually("the watch's worker is gone", || bench.workers().is_empty()).await;
    }
}

#[tokio::test]
async fn capabilities_are_looked_for_in_the_roots_own_sandbox() {
    for bench in benches().await {
        let mut peer = bench.connect().await;
        let skill = |name: &str| {
            let directory = bench.file(&format!("{name}/skills/s"));
            std::fs::create_dir_all(&directory).unwrap();
            let text = "---\nname: s\ndescription: d\n---\nBody.\n";
            std::fs::write(directory.join("SKILL.md"), text).unwrap();
        };
        skill("one");
        skill("two");
        let root = |id: &str, context: Value| json!({"id": id, "path": uri(&bench.file(id)), "sandbox": context});
        let denying = bench.denying(&bench.file("two/skills/s"));
        let params = json!({"roots": [root("one", denying.clone()), root("two", denying), root("two", Value::Null)]});
        let found = peer.call_ok("capabilityRoots/discoverV1", params).await.unwrap();
        let skills: Vec<usize> = found["roots"]
            .as_array()
            .unwrap()
            .iter()
            .map(|root| root["skills"].as_array().unwrap().len())
            .collect();
        assert_eq!(skills, [1, 0, 1], "{found}");
    }
}
