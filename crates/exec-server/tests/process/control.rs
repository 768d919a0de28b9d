//! Signals, ends, sizes, waits and the list: everything but bytes.

use std::time::{Duration, Instant};

use exec_server::Server;
use serde_json::{Value, json};

use crate::support::{Client, NEVER, config, start_params};

#[tokio::test]
async fn an_interrupt_reaches_the_whole_group() {
    let server = Server::new(config(|_| {}));
    let mut client = Client::connect(&server).await;
    for tty in [false, true] {
        let id = format!("tty-{tty}");
        let script = "trap 'echo caught; exit 9' INT; echo ready; while :; do sleep 0.02; done";
        client.shell(&id, script, json!({"tty": tty})).await;
        client.output_has(&id, "ready").await;
        let params = json!({"processId": id, "signal": "interrupt"});
        assert_eq!(client.ok("process/signal", params.clone()).await, json!({}));
        let all = client.closed(&id).await;
        assert!(all.text().contains("caught") && !all.text().contains("^C"), "{}", all.text());
        assert_eq!(all.code(), Some(9));
        assert_eq!(client.ok("process/signal", params).await, json!({}), "exited");
    }
    let nobody = json!({"processId": "nobody", "signal": "interrupt"});
    assert_eq!(client.ok("process/signal", nobody).await, json!({}));
    let kill = json!({"processId": "nobody", "signal": "kill"});
    let refused = client.refused("process/signal", kill).await;
    assert_eq!(refused, (-32602, "unknown variant `kill`, expected `interrupt`".to_owned()));
    server.shut_down().await;
}

#[tokio::test]
async fn terminate_kills_what_runs_and_leaves_the_rest() {
    let server = Server::new(config(|_| {}));
    let mut client = Client::connect(&server).await;
    client.shell("p", "trap '' TERM; sleep 1000 & sleep 1000", json!({})).await;
    assert!(client.terminate("p").await);
    let all = client.closed("p").await;
    assert_eq!(all.code(), Some(137));
    assert!(!client.terminate("p").await, "exited");
    assert!(!client.terminate("nobody").await);
    // Exited but not closed: what it left behind is not touched.
    let script = "exec 3<&0; (read word <&3; echo alive) & exit 0";
    client.shell("left", script, json!({"pipeStdin": true})).await;
    client.until(|client| client.followed("left").exit.is_some()).await;
    assert!(!client.terminate("left").await);
    client.write("left", b"\n").await;
    assert_eq!(client.closed("left").await.text(), "alive\n");
    server.shut_down().await;
}

#[tokio::test]
async fn a_graceful_end_lets_the_process_choose_its_code() {
    let server = Server::new(config(|_| {}));
    let mut client = Client::connect(&server).await;
    let script = "trap 'echo bye; exit 7' TERM; echo ready; while :; do sleep 0.02; done";
    client.shell("p", script, json!({})).await;
    client.output_has("p", "ready").await;
    let graceful = json!({"processId": "p", "mode": {"type": "graceful", "timeoutMs": u64::MAX}});
    assert_eq!(client.ok("process/terminate", graceful.clone()).await, json!({"running": true}));
    let all = client.closed("p").await;
    assert_eq!((all.code(), all.stdout.as_slice()), (Some(7), &b"ready\nbye\n"[..]));
    assert_eq!(client.ok("process/terminate", graceful).await, json!({"running": false}));
    let unknown = json!({"processId": "p", "mode": {"type": "polite"}});
    assert_eq!(client.refused("process/terminate", unknown).await.0, -32602);
    server.shut_down().await;
}

#[tokio::test]
async fn who_ignores_a_graceful_end_is_killed_when_the_time_is_up() {
    let server = Server::new(config(|_| {}));
    let mut client = Client::connect(&server).await;
    client.shell("p", "trap '' TERM; echo ready; while :; do sleep 0.02; done", json!({})).await;
    client.output_has("p", "ready").await;
    let started = Instant::now();
    let graceful = json!({"processId": "p", "mode": {"type": "graceful", "timeoutMs": 200}});
    assert_eq!(client.ok("process/terminate", graceful).await, json!({"running": true}));
    assert_eq!(client.closed("p").await.code(), Some(137));
    assert!(started.elapsed() >= Duration::from_millis(200));
    // A second, forced end does not wait for the first.
    client.shell("q", "trap '' TERM; echo ready; while :; do sleep 0.02; done", json!({})).await;
    client.output_has("q", "ready").await;
    for mode in [json!({"type": "graceful", "timeoutMs": 3_600_000}), json!({"type": "force"})] {
        let terminate = json!({"processId": "q", "mode": mode});
        assert_eq!(client.ok("process/terminate", terminate).await, json!({"running": true}));
    }
    assert_eq!(client.closed("q").await.code(), Some(137));
    server.shut_down().await;
}

#[tokio::test]
async fn a_terminal_has_the_size_it_was_given() {
    let server = Server::new(config(|_| {}));
    let mut client = Client::connect(&server).await;
    client.start("default", &["stty", "size"], json!({"tty": true})).await;
    assert_eq!(client.closed("default").await.text(), "24 80\r\n");
    let script =
        "stty size; trap 'stty size; exit 3' WINCH; echo ready; while :; do sleep 0.02; done";
    let extra = json!({"tty": true, "size": {"rows": 11, "cols": 222}});
    client.shell("p", script, extra).await;
    client.output_has("p", "11 222\r\nready").await;
    let resize = json!({"processId": "p", "rows": 50, "cols": 132});
    assert_eq!(client.ok("process/resize", resize.clone()).await, json!({}));
    let all = client.closed("p").await;
    assert_eq!((all.code(), all.text().as_str()), (Some(3), "11 222\r\nready\r\n50 132\r\n"));

    assert_eq!(client.refused("process/resize", resize).await.0, -32600, "closed");
    client.start("pipes", &["sleep", "1000"], json!({})).await;
    let on_pipes = json!({"processId": "pipes", "rows": 1, "cols": 1});
    assert_eq!(client.refused("process/resize", on_pipes).await.0, -32600);
    let nobody = json!({"processId": "nobody", "rows": 1, "cols": 1});
    let refused = client.refused("process/resize", nobody).await;
    assert_eq!(refused, (-32600, "unknown process id nobody".to_owned()));
    let none = start_params("q", &["true"], json!({"tty": true, "size": {"rows": 0, "cols": 1}}));
    assert_eq!(client.refused("process/start", none).await.0, -32602);
    server.shut_down().await;
}

#[tokio::test]
async fn wait_tells_how_far_a_process_is() {
    let server = Server::new(config(|_| {}));
    let mut client = Client::connect(&server).await;
    let script = "exec 3<&0; (read word <&3) & read word; exit 4";
    client.shell("p", script, json!({"pipeStdin": true})).await;
    let short = json!({"processId": "p", "timeoutMs": 20});
    let result = client.ok("process/wait", short.clone()).await;
    let running = json!({"exited": false, "exitCode": null, "closed": false, "timedOut": true});
    assert_eq!(result, running);
    client.write("p", b"first\n").await;
    client.until(|client| client.followed("p").exit.is_some()).await;
    let result = client.ok("process/wait", short).await;
    let exited = json!({"exited": true, "exitCode": 4, "closed": false, "timedOut": true});
    assert_eq!(result, exited);
    let wait = client.send("process/wait", json!({"processId": "p"})).await;
    assert!(!client.receive_within(NEVER).await);
    client.write("p", b"second\n").await;
    let closed = json!({"exited": true, "exitCode": 4, "closed": true, "timedOut": false});
    assert_eq!(client.answer(wait).await["result"], closed);
    let refused = client.refused("process/wait", json!({"processId": "nobody"})).await;
    assert_eq!(refused, (-32600, "unknown process id nobody".to_owned()));
    server.shut_down().await;
}

#[tokio::test]
async fn waits_never_keep_a_process_from_being_terminated() {
    let server = Server::new(config(|config| config.concurrent_requests = 2));
    let mut client = Client::connect(&server).await;
    client.start("p", &["sleep", "1000"], json!({})).await;
    let mut waits = Vec::new();
    for _ in 0..4 {
        waits.push(client.send("process/wait", json!({"processId": "p"})).await);
    }
    assert!(client.terminate("p").await);
    for wait in waits {
        assert_eq!(client.answer(wait).await["result"]["exitCode"], 137);
    }
    server.shut_down().await;
}

#[tokio::test]
async fn the_list_names_every_process() {
    let server = Server::new(config(|_| {}));
    let mut client = Client::connect(&server).await;
    let list = client.ok("process/list", Value::Null).await;
    assert_eq!(list, json!({"processes": []}));
    client.start("b", &["sleep", "1000"], json!({"cwd": "file:///tmp", "tty": true})).await;
    client.shell("a", "echo x; exit 3", json!({})).await;
    client.closed("a").await;
    let list = client.ok("process/list", Value::Null).await;
    let [a, b] = list["processes"].as_array().unwrap().as_slice() else { panic!("{list}") };
    let expected = json!({
        "processId": "a", "argv": ["/bin/sh", "-c", "echo x; exit 3"], "cwd": "file:///",
        "tty": false, "pid": a["pid"], "running": false, "exitCode": 3, "closed": true, "nextSeq": 4,
    });
    assert_eq!(*a, expected);
    let expected = json!({
        "processId": "b", "argv": ["sleep", "1000"], "cwd": "file:///tmp",
        "tty": true, "pid": b["pid"], "running": true, "exitCode": null, "closed": false, "nextSeq": 1,
    });
    assert_eq!(*b, expected);
    let pid = u32::try_from(b["pid"].as_u64().unwrap()).unwrap();
    assert!(exec_testkit::leaks::is_alive(pid));
    server.shut_down().await;
}

#[tokio::test]
async fn a_name_is_taken_until_its_process_is_forgotten() {
    let server = Server::new(config(|_| {}));
    let mut client = Client::connect(&server).await;
    let taken = (-32600, "process p already exists".to_owned());
    client.start("p", &["cat"], json!({"pipeStdin": true})).await;
    let again = start_params("p", &["true"], json!({}));
    assert_eq!(client.refused("process/start", again.clone()).await, taken);
    client.terminate("p").await;
    client.closed("p").await;
    assert_eq!(client.refused("process/start", again).await, taken);
    // The empty name is a name; another session's names are its own.
    client.start("", &["true"], json!({})).await;
    client.closed("").await;
    let mut other = Client::connect(&server).await;
    other.start("p", &["true"], json!({})).await;
    other.closed("p").await;
    server.shut_down().await;
}

#[tokio::test]
async fn what_cannot_be_started_says_why_and_takes_no_name() {
    let server = Server::new(config(|_| {}));
    let mut client = Client::connect(&server).await;
    let file = tempfile::NamedTempFile::new().unwrap();
    let path = file.path().to_str().unwrap();
    for (argv, extra, code, message) in [
        (vec![], json!({}), -32602, "argv must not be empty"),
        (vec![""], json!({}), -32603, "missing program for pipe spawn"),
        (vec!["/no/such"], json!({}), -32603, "No such file or directory (os error 2)"),
        (vec!["no-such"], json!({}), -32603, "No such file or directory (os error 2)"),
        (
            vec!["true"],
            json!({"cwd": "file:///no/such"}),
            -32603,
            "No such file or directory (os error 2)",
        ),
        (
            vec!["true"],
            json!({"cwd": format!("file://{path}")}),
            -32603,
            "Not a directory (os error 20)",
        ),
        (vec![path], json!({}), -32603, "Permission denied (os error 13)"),
        (vec!["/tmp"], json!({}), -32603, "Permission denied (os error 13)"),
        (vec!["true", "a\0b"], json!({}), -32603, "nul byte found in provided data"),
        (vec!["true"], json!({"env": {"A": "\0"}}), -32603, "data provided contains a nul byte"),
    ] {
        for tty in [false, true] {
            let extra = crate::support::merged(extra.clone(), json!({"tty": tty}));
            let refused = client.refused("process/start", start_params("p", &argv, extra)).await;
            assert_eq!(refused, (code, message.to_owned()), "{argv:?}");
        }
    }
    assert_eq!(client.ok("process/list", Value::Null).await, json!({"processes": []}));
    client.start("p", &["true"], json!({})).await;
    client.closed("p").await;
    server.shut_down().await;
}

#[tokio::test]
async fn a_session_has_no_more_processes_than_configured() {
    let server = Server::new(config(|config| config.processes_max = 2));
    let mut client = Client::connect(&server).await;
    client.start("a", &["sleep", "1000"], json!({})).await;
    client.start("b", &["true"], json!({})).await;
    client.closed("b").await;
    let third = start_params("c", &["true"], json!({}));
    let refused = client.refused("process/start", third).await;
    assert_eq!(refused, (-32600, "too many processes".to_owned()), "closed ones count");
    let mut other = Client::connect(&server).await;
    other.start("c", &["true"], json!({})).await;
    other.closed("c").await;
    server.shut_down().await;
}

#[tokio::test]
async fn modes_can_be_forbidden() {
    let policy = json!({"inherit": "none", "ignoreDefaultExcludes": true, "exclude": [],
        "set": {}, "includeOnly": []});
    let cases = [
        (true, false, json!({"mode": "direct"}), true),
        (true, false, json!({"mode": "prepared"}), false),
        (true, false, json!({}), true),
        (false, true, json!({"mode": "direct"}), false),
        (false, true, json!({"mode": "prepared"}), true),
        (false, true, json!({"envPolicy": policy}), false),
        (true, true, json!({"mode": "direct", "envPolicy": policy}), true),
    ];
    for (direct, prepared, extra, allowed) in cases {
        let server = Server::new(config(|config| {
            config.allow_direct_exec = direct;
            config.allow_prepared_exec = prepared;
        }));
        let mut client = Client::connect(&server).await;
        let params = start_params("p", &["true"], extra.clone());
        if allowed {
            client.ok("process/start", params).await;
            assert_eq!(client.closed("p").await.code(), Some(0));
        } else {
            let (code, text) = client.refused("process/start", params).await;
            assert_eq!(code, -32600, "{extra}");
            assert!(text.contains("is not allowed by this executor"), "{text}");
        }
        server.shut_down().await;
    }
}

#[tokio::test]
async fn one_request_at_a_time_answers_come_in_order() {
    for (slots, in_order) in [(1, true), (2, false)] {
        let server = Server::new(config(|config| config.concurrent_requests = slots));
        let mut client = Client::connect(&server).await;
        client.start("p", &["sleep", "1000"], json!({})).await;
        let poll = json!({"processId": "p", "waitMs": 100});
        let poll = client.send("process/read", poll).await;
        let status = client.send("environment/status", Value::Null).await;
        let first = client.peer.recv().await.unwrap().unwrap();
        let expected = if in_order { poll } else { status };
        assert_eq!(first["id"], expected, "with {slots} at a time");
        server.shut_down().await;
    }
}

#[tokio::test]
async fn who_asks_for_it_is_told_of_starts_and_failures() {
    let server = Server::new(config(|_| {}));
    let extra = json!({"extensions": ["processLifecycle"]});
    let mut client = Client::connect_with(&server, extra).await;
    client.start("p", &["true"], json!({})).await;
    client.closed("p").await;
    client.refused("process/start", start_params("q", &["/no/such"], json!({}))).await;
    client.until(|client| client.notices.len() == 2).await;
    let started = json!({"method": "process/started", "params": {"processId": "p"}});
    let message = "No such file or directory (os error 2)";
    let failed =
        json!({"method": "process/failed", "params": {"processId": "q", "message": message}});
    assert_eq!(client.notices, [started, failed]);
    let mut other = Client::connect(&server).await;
    other.start("p", &["true"], json!({})).await;
    other.closed("p").await;
    assert!(other.notices.is_empty());
    server.shut_down().await;
}
