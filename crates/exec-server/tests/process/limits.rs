//! What a process may use: real hogs, ended or refused; and what is told of them.

use std::time::Duration;

use exec_server::Server;
use serde_json::{Value, json};

use crate::support::{Client, Marker, PATIENCE, config, containments, merged, start_params};

fn limits(limits: Value) -> Value {
    json!({ "limits": limits })
}

/// Starts it, whatever confines it.
async fn start(client: &mut Client, process: &str, argv: &[&str], extra: Value) {
    client.ok("process/start", start_params(process, argv, extra)).await;
}

fn read_only() -> Value {
    json!({ "sandbox": {
        "permissions": { "type": "managed", "network": "restricted", "file_system": {
            "type": "restricted",
            "entries": [{ "access": "read", "path": { "type": "special", "value": { "kind": "root" } } }],
        } },
        "windowsSandboxLevel": "disabled",
    } })
}

#[tokio::test]
async fn memory_files_descriptors_and_processor_time_have_an_end() {
    for confined in [false, true] {
        let server = Server::new(config(|_| {}));
        let mut client = Client::connect(&server).await;
        let extra =
            |wanted| if confined { merged(read_only(), limits(wanted)) } else { limits(wanted) };
        let hog = "import sys\ntry: bytearray(400 << 20)\nexcept MemoryError: sys.exit(9)";
        start(
            &mut client,
            "memory",
            &["python3", "-c", hog],
            extra(json!({"memoryBytes": 200 << 20})),
        )
        .await;
        let code = client.closed("memory").await.code();
        // By resource limit, or by cgroup.
        assert!(matches!(code, Some(9 | 137)), "{confined} {code:?}");
        start(&mut client, "files", &["sh", "-c", "ulimit -n"], extra(json!({"openFiles": 33})))
            .await;
        assert_eq!(client.closed("files").await.text().trim(), "33", "{confined}");
        let write =
            "cd /dev/shm; f=exec-server-limit.$$; head -c 100000 /dev/zero > $f; wc -c < $f; rm $f";
        start(&mut client, "size", &["sh", "-c", write], extra(json!({"fileBytes": 4096}))).await;
        assert!(client.closed("size").await.text().starts_with("4096\n"), "{confined}");
        start(
            &mut client,
            "cpu",
            &["sh", "-c", "while :; do :; done"],
            extra(json!({"cpuSeconds": 1})),
        )
        .await;
        let ended = client.closed("cpu").await;
        // SIGXCPU.
        assert_eq!(ended.code(), Some(128 + 24), "{confined}");
        let read = client.ok("process/read", json!({"processId": "cpu"})).await;
        let cpu = read["usage"]["cpuMs"].as_u64().unwrap();
        assert!(
            (300..5000).contains(&cpu) && read["usage"]["memoryBytesMax"].as_u64() > Some(0),
            "{read}"
        );
        assert_eq!(read.get("limitReached"), None, "{read}");
        client.hang_up().await;
        server.shut_down().await;
    }
}

#[tokio::test]
async fn usage_is_told_only_to_whoever_set_limits() {
    let server = Server::new(config(|config| config.limits.open_files = Some(50)));
    let mut client = Client::connect(&server).await;
    client.shell("plain", "ulimit -n", json!({})).await;
    assert_eq!(client.closed("plain").await.text().trim(), "50");
    let read = client.ok("process/read", json!({"processId": "plain"})).await;
    assert_eq!(read.get("usage"), None, "{read}");
    // A caller may ask for less than the operator allows, not for more.
    client.shell("more", "ulimit -n", limits(json!({"openFiles": 4000}))).await;
    assert_eq!(client.closed("more").await.text().trim(), "50");
    client.shell("less", "ulimit -n", limits(json!({"openFiles": 20}))).await;
    assert_eq!(client.closed("less").await.text().trim(), "20");
    client.hang_up().await;
    server.shut_down().await;
}

#[tokio::test]
async fn what_cannot_be_limited_is_refused_and_nothing_runs() {
    let server = Server::new(config(|_| {}));
    let mut client = Client::connect(&server).await;
    for name in ["memoryBytes", "pids", "cpuSeconds", "fileBytes", "openFiles", "deadlineMs"] {
        let params = start_params("p", &["true"], limits(json!({ name: 0 })));
        let (code, message) = client.refused("process/start", params).await;
        assert_eq!((code, message), (-32602, format!("limit `{name}` must be at least 1")));
    }
    let containment = exec_process::sys::Containment::detect();
    if containment.controllers().processes {
        client
            .shell("p", "exec sh -c '(:; :) | (:; :); echo unreached'", limits(json!({"pids": 1})))
            .await;
        assert!(!client.closed("p").await.text().contains("unreached"));
    } else {
        let params = start_params("p", &["true"], limits(json!({"pids": 10})));
        let (code, message) = client.refused("process/start", params).await;
        assert_eq!(code, -32602);
        assert!(message.contains("controller `pids`"), "{message}");
    }
    client.hang_up().await;
    server.shut_down().await;
}

#[tokio::test]
async fn a_deadline_ends_every_descendant() {
    for containment in containments() {
        let server = Server::with_containment(config(|_| {}), containment);
        let mut client = Client::connect(&server).await;
        let marker = Marker::new();
        // One that waits, one in a session of its own, and one that has left the streams too.
        let script =
            "setsid sleep 1000 & setsid sleep 1000 > /dev/null 2>&1 < /dev/null & sleep 1000";
        let extra = merged(marker.extra(), limits(json!({"deadlineMs": 400})));
        client.shell("late", script, extra).await;
        assert_eq!(client.closed("late").await.code(), Some(137));
        let read = client.ok("process/read", json!({"processId": "late"})).await;
        assert_eq!(read["limitReached"], "deadlineMs", "{read}");
        marker.gone_within(PATIENCE, "what the deadline ended").await;

        // The command and its streams end before; who is left does not live longer for it.
        let marker = Marker::new();
        let script = "setsid sleep 1000 > /dev/null 2>&1 < /dev/null & exit 3";
        let extra = merged(marker.extra(), limits(json!({"deadlineMs": 400})));
        client.shell("early", script, extra).await;
        assert_eq!(client.closed("early").await.code(), Some(3));
        let read = client.ok("process/read", json!({"processId": "early"})).await;
        assert_eq!(read.get("limitReached"), None, "{read}");
        marker.gone_within(PATIENCE, "what outlived its command").await;

        client.shell("quick", "exit 4", limits(json!({"deadlineMs": u64::MAX}))).await;
        assert_eq!(client.closed("quick").await.code(), Some(4));
        client.hang_up().await;
        tokio::time::timeout(Duration::from_secs(20), server.shut_down()).await.unwrap();
    }
}
