//! What is answered inside: the system's own words, under the reference's codes.

use std::os::unix::fs::symlink;

use exec_testkit::peer::RawPeer;
use serde_json::{Value, json};

use crate::bench::{SERVER_SECRET, benches, code, special, uri};

const READ_ONLY: &str = "Read-only file system (os error 30)";
const DENIED: &str = "Permission denied (os error 13)";
const MISSING: &str = "No such file or directory (os error 2)";

async fn check(peer: &mut RawPeer, method: &str, params: Value, expected: (i64, &str)) {
    let answer = peer.call(method, params.clone()).await.unwrap();
    let message = answer["error"]["message"].as_str().unwrap_or_default();
    assert_eq!((code(&answer), message), expected, "{method} {params}: {answer}");
}

#[tokio::test]
async fn what_lies_outside_the_writable_roots_is_read_only() {
    for bench in benches().await {
        let mut peer = bench.connect().await;
        let context = bench.workspace_write();
        symlink(bench.at("outside/f"), bench.file("link")).unwrap();
        symlink(bench.at("outside"), bench.file("out")).unwrap();
        std::fs::write(bench.file("own"), "own").unwrap();
        let read_only = (-32603, READ_ONLY);
        for path in [bench.at("outside/new"), bench.at("outside/f"), bench.file("link")] {
            let write = |atomic| json!({"path": uri(&path), "dataBase64": "eA==", "atomic": atomic, "sandbox": context});
            check(&mut peer, "fs/writeFile", write(false), read_only).await;
            check(&mut peer, "fs/writeFile", write(true), read_only).await;
            let open =
                json!({"path": uri(&path), "handleId": "h", "mode": "replace", "sandbox": context});
            check(&mut peer, "fs/open", open, read_only).await;
        }
        let inner = uri(&bench.file("out/new"));
        let make = json!({"path": inner, "recursive": true, "sandbox": context});
        check(&mut peer, "fs/createDirectory", make, read_only).await;
        for method in ["fs/rename", "fs/copy"] {
            let params = json!({"sourcePath": uri(&bench.file("own")), "destinationPath": inner,
                "recursive": false, "sandbox": context});
            check(
                &mut peer,
                method,
                params,
                if method == "fs/rename" {
                    (-32603, "Cross-device link (os error 18)")
                } else {
                    read_only
                },
            )
            .await;
        }
        let remove = json!({"path": uri(&bench.at("outside/f")), "sandbox": context});
        check(&mut peer, "fs/remove", remove, read_only).await;
        assert_eq!(std::fs::read(bench.at("outside/f")).unwrap(), b"outside");
        assert_eq!(crate::bench::names(&bench.at("outside")), ["f"]);
        assert_eq!(bench.names(), ["link", "out", "own"]);
    }
}

/// Metadata that is there, and metadata that is not.
#[tokio::test]
async fn protected_names_are_read_only_and_stay_missing() {
    for bench in benches().await {
        let mut peer = bench.connect().await;
        let context = bench.workspace_write();
        std::fs::create_dir(bench.file(".git")).unwrap();
        std::fs::write(bench.file(".git/config"), "old").unwrap();
        std::fs::write(bench.file("own"), "own").unwrap();
        symlink(".codex", bench.file("dangling")).unwrap();
        symlink(".", bench.file("here")).unwrap();
        let read_only = (-32603, READ_ONLY);
        for name in [".git/config", ".git/new", ".codex", ".aws", "dangling", "here/.codex"] {
            let path = uri(&bench.file(name));
            for atomic in [false, true] {
                let write = json!({"path": path, "dataBase64": "eA==", "atomic": atomic, "sandbox": context});
                check(&mut peer, "fs/writeFile", write, read_only).await;
            }
            let open =
                json!({"path": path, "handleId": "h", "mode": "replace", "sandbox": context});
            check(&mut peer, "fs/open", open, read_only).await;
            let copy = json!({"sourcePath": uri(&bench.file("own")), "destinationPath": path,
                "recursive": false, "sandbox": context});
            check(&mut peer, "fs/copy", copy, read_only).await;
        }
        for name in [".agents", ".agents/skills/x", "here/.aws/y", "here/here/.codex"] {
            let make =
                json!({"path": uri(&bench.file(name)), "recursive": true, "sandbox": context});
            check(&mut peer, "fs/createDirectory", make, read_only).await;
        }
        for name in [".codex", "here/.aws"] {
            let rename = json!({"sourcePath": uri(&bench.file("own")),
                "destinationPath": uri(&bench.file(name)), "sandbox": context});
            check(&mut peer, "fs/rename", rename, read_only).await;
        }
        for name in [".git", ".git/config"] {
            let remove =
                json!({"path": uri(&bench.file(name)), "recursive": true, "sandbox": context});
            let answer = peer.call("fs/remove", remove).await.unwrap();
            assert_eq!(code(&answer), -32603, "{answer}");
        }
        // A repository further down is the command's own.
        let nested = json!({"path": uri(&bench.file("sub/.git/hooks")), "recursive": true, "sandbox": context});
        check(&mut peer, "fs/createDirectory", nested, (0, "")).await;
        assert_eq!(std::fs::read(bench.file(".git/config")).unwrap(), b"old");
        assert_eq!(bench.names(), [".git", "dangling", "here", "own", "sub"]);
    }
}

#[tokio::test]
async fn what_is_denied_is_neither_read_nor_copied_nor_found() {
    for bench in benches().await {
        let mut peer = bench.connect().await;
        std::fs::create_dir_all(bench.file("deep/secret")).unwrap();
        std::fs::write(bench.file("deep/secret/key"), "the key").unwrap();
        std::fs::write(bench.file("deep/open"), "nothing to hide").unwrap();
        let context = bench.denying(&bench.file("deep/secret"));
        let denied = (-32600, DENIED);
        let key = uri(&bench.file("deep/secret/key"));
        check(&mut peer, "fs/readFile", json!({"path": key, "sandbox": context}), denied).await;
        let open = json!({"path": key, "handleId": "h", "sandbox": context});
        check(&mut peer, "fs/open", open, denied).await;
        let copy = json!({"sourcePath": key, "destinationPath": uri(&bench.file("copy")),
            "recursive": false, "sandbox": context});
        check(&mut peer, "fs/copy", copy, denied).await;
        let list = json!({"path": uri(&bench.file("deep/secret")), "sandbox": context});
        check(&mut peer, "fs/readDirectory", list, denied).await;
        let search = json!({"path": uri(&bench.workspace()), "pattern": "the key", "noIgnore": true, "sandbox": context});
        let found = peer.call_ok("fs/search", search).await.unwrap();
        assert_eq!(found["matches"], json!([]));
        // Its parent cannot be moved out from under the rule (row 69).
        let rename = json!({"sourcePath": uri(&bench.file("deep")),
            "destinationPath": uri(&bench.file("moved")), "sandbox": context});
        check(&mut peer, "fs/rename", rename, (-32603, "Resource busy (os error 16)")).await;
        let remove =
            json!({"path": uri(&bench.file("deep")), "recursive": true, "sandbox": context});
        assert_ne!(code(&peer.call("fs/remove", remove).await.unwrap()), 0);
        assert_eq!(std::fs::read(bench.file("deep/secret/key")).unwrap(), b"the key");
    }
}

#[tokio::test]
async fn what_is_outside_every_root_does_not_exist() {
    for bench in benches().await {
        let mut peer = bench.connect().await;
        let context = bench.minimal();
        std::fs::write(bench.file("own"), "own").unwrap();
        let read = |path: &std::path::Path| json!({"path": uri(path), "sandbox": context});
        check(&mut peer, "fs/readFile", read(&bench.at("outside/f")), (-32004, MISSING)).await;
        check(&mut peer, "fs/getMetadata", read(&bench.at("outside")), (-32004, MISSING)).await;
        let own = peer.call_ok("fs/readFile", read(&bench.file("own"))).await.unwrap();
        assert_eq!(own, json!({"dataBase64": "b3du"}));
        let real = peer.call_ok("fs/canonicalize", read(&bench.file("own"))).await.unwrap();
        assert_eq!(real["path"], uri(&bench.file("own")));
    }
}

/// Row 68: the reference gives away its own environment here.
#[tokio::test]
async fn nothing_of_the_server_is_in_its_proc() {
    for bench in benches().await {
        let mut peer = bench.connect().await;
        let context = bench.read_only();
        let secret = base64(SERVER_SECRET.as_bytes());
        let own = peer
            .call_ok(
                "fs/readFile",
                json!({"path": "file:///proc/self/environ", "sandbox": context}),
            )
            .await
            .unwrap();
        assert_eq!(own, json!({"dataBase64": ""}));
        let open =
            json!({"path": "file:///proc/self/environ", "handleId": "h", "sandbox": context});
        peer.call_ok("fs/open", open).await.unwrap();
        let block = json!({"handleId": "h", "offset": 0, "len": 1000});
        let read = peer.call_ok("fs/readBlock", block).await.unwrap();
        assert_eq!(read, json!({"chunk": "", "eof": true}));
        let status =
            json!({"path": "file:///proc/self/status", "handleId": "s", "sandbox": context});
        peer.call_ok("fs/open", status).await.unwrap();
        let block = json!({"handleId": "s", "offset": 0, "len": 10_000});
        let read = peer.call_ok("fs/readBlock", block).await.unwrap();
        assert_ne!(read["chunk"], "", "what the kernel makes up is copied for the handle");
        let path = format!("file:///proc/{}/environ", bench.server.pid());
        let other =
            peer.call("fs/readFile", json!({"path": path, "sandbox": context})).await.unwrap();
        assert_ne!(code(&other), 0);
        let walk = json!({"path": "file:///proc/self", "sandbox": context, "options": {"maxDepth": 1,
            "maxDirectories": 10, "maxEntries": 1000, "followDirectorySymlinks": false}});
        let walked = peer.call_ok("fs/walk", walk).await.unwrap();
        assert!(!walked.to_string().contains(&secret));
    }
}

fn base64(bytes: &[u8]) -> String {
    let mut text = Vec::new();
    exec_protocol::bytes::encode_into(&mut text, bytes);
    String::from_utf8(text).unwrap()
}

#[tokio::test]
async fn what_cannot_be_prepared_is_refused_before_anything_happens() {
    for bench in benches().await {
        let mut peer = bench.connect().await;
        let path = uri(&bench.file("new"));
        let write =
            |context: Value| json!({"path": path, "dataBase64": "eA==", "sandbox": context});
        let mut unbound = bench.workspace_write();
        unbound.as_object_mut().unwrap().remove("cwd");
        let answer = peer.call("fs/writeFile", write(unbound)).await.unwrap();
        assert_eq!(code(&answer), -32602, "{answer}");
        let foreign = json!({"path": {"type": "path", "path": "file://C:/x"}, "access": "read"});
        let foreign = bench.context(&[special("root", "read"), foreign]);
        let answer = peer.call("fs/writeFile", write(foreign)).await.unwrap();
        assert_eq!(code(&answer), -32602, "{answer}");
        assert_eq!(bench.names(), Vec::<String>::new());
        assert_eq!(bench.workers(), Vec::<u32>::new());
        // What restricts no file needs no worker.
        for permissions in [
            json!({"type": "disabled"}),
            json!({"type": "external", "network": "restricted"}),
            json!({"type": "managed", "file_system": {"type": "unrestricted"}, "network": "restricted"}),
        ] {
            let context = json!({"permissions": permissions, "windowsSandboxLevel": "disabled"});
            peer.call_ok("fs/writeFile", write(context)).await.unwrap();
        }
        assert_eq!(bench.workers(), Vec::<u32>::new());
    }
}

#[tokio::test]
async fn the_environment_says_what_can_be_confined() {
    for bench in benches().await {
        let mut peer = bench.connect().await;
        let info = peer.call_ok("environment/info", json!({})).await.unwrap();
        assert_eq!(info["capabilities"]["sandboxedFileStreaming"], true);
        assert_eq!(info["capabilities"]["capabilityDiscoverySandbox"], true);
    }
}
