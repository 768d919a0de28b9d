//! What a sandbox leaves behind, how its commands behave as processes, and what is called a denial.

use std::time::Duration;

use exec_sandbox::linux::probe::Engine;
use exec_testkit::leaks;
use exec_testkit::peer::RawPeer;
use serde_json::{Value, json};

use super::policy::{Policy, uri};
use super::refusals::closed;
use super::serving::{RealServer, Role, play_if_told};
use super::world::World;
use super::{block_on, can_play};
use crate::support::{PATH, decode, encode, merged};

const PATIENCE: Duration = Duration::from_secs(20);

/// Both engines, as root and as somebody else.
fn roles() -> Vec<Role> {
    let all = [
        (Engine::Builtin, false),
        (Engine::Builtin, true),
        (Engine::Bwrap, false),
        (Engine::Bwrap, true),
    ];
    let roles = all.map(|(engine, ordinary)| Role { engine, ordinary, forbidden: false });
    roles.into_iter().filter(|role| can_play(*role)).collect()
}

async fn connect(server: &RealServer) -> RawPeer {
    let mut peer = RawPeer::websocket(&server.url).await.unwrap();
    peer.handshake().await.unwrap();
    peer
}

fn params(world: &World, policy: Policy, id: &str, script: &str, extra: Value) -> Value {
    let basis = json!({
        "processId": id,
        "argv": ["/bin/sh", "-c", script],
        "cwd": uri(&world.join("ws")),
        "env": {"PATH": PATH, "NONCE": world.nonce, "OUT": world.join("out")},
        "tty": false,
        "sandbox": policy.context(world, world.path()),
    });
    merged(basis, extra)
}

/// Output, exit code, and whether it counts as denied.
async fn follow(peer: &mut RawPeer, id: &str) -> (String, i64, bool) {
    let (mut output, mut exit) = (String::new(), None);
    loop {
        let message = peer.recv().await.unwrap().expect("the connection lives");
        let params = &message["params"];
        if params["processId"] != id {
            continue;
        }
        match message["method"].as_str() {
            Some("process/output") => output += &String::from_utf8_lossy(&decode(&params["chunk"])),
            Some("process/exited") => {
                exit =
                    Some((params["exitCode"].as_i64().unwrap(), params["sandboxDenied"] == true));
            }
            Some("process/closed") => {
                let (code, denied) = exit.expect("it exits before it closes");
                return (output, code, denied);
            }
            _ => {}
        }
    }
}

/// Waits until the output of a process has this.
async fn until_output(peer: &mut RawPeer, id: &str, text: &str) {
    let mut output = String::new();
    while !output.contains(text) {
        let message = peer.recv().await.unwrap().expect("the connection lives");
        if message["method"] == "process/output" && message["params"]["processId"] == id {
            output += &String::from_utf8_lossy(&decode(&message["params"]["chunk"]));
        }
    }
}

/// A workspace without any of the protected names.
const BARE: &str = "rm -rf ws/.git ws/.codex ws/.agents ws/.aws";

async fn nothing_is_left(world: &World, what: &str) {
    let names = [".git", ".codex", ".agents", ".aws"];
    let clean = || names.iter().all(|name| !world.join("ws").join(name).exists());
    leaks::wait_until(PATIENCE, what, clean).await.unwrap();
    let gone = || leaks::marked(&world.nonce).is_empty();
    leaks::wait_until(PATIENCE, what, gone).await.unwrap();
}

#[test]
fn nothing_is_left_in_a_workspace_however_a_command_ends() {
    play_if_told();
    let test = "lifetimes::nothing_is_left_in_a_workspace_however_a_command_ends";
    for role in roles() {
        let mut server = RealServer::start(test, role);
        let world = World::new(Policy::Workspace, server.owner(), BARE);
        block_on(async {
            let mut peer = connect(&server).await;
            let policy = Policy::Workspace;
            for script in ["true", "exit 3", "kill -9 $$"] {
                let params = params(&world, policy, script, script, json!({}));
                peer.call_ok("process/start", params).await.unwrap();
                closed(&mut peer, script).await;
            }
            nothing_is_left(&world, "after an end of its own").await;
            let wait =
                "trap '' TERM; (setsid sleep 1000 &); echo ready; while :; do sleep 0.1; done";
            for (id, method, extra) in [
                ("terminated", "process/terminate", json!({})),
                (
                    "gracefully",
                    "process/terminate",
                    json!({"mode": {"type": "graceful", "timeoutMs": 50}}),
                ),
            ] {
                let params = params(&world, policy, id, wait, json!({}));
                peer.call_ok("process/start", params).await.unwrap();
                until_output(&mut peer, id, "ready").await;
                peer.call_ok(method, merged(json!({"processId": id}), extra)).await.unwrap();
                closed(&mut peer, id).await;
                nothing_is_left(&world, id).await;
            }
            let params = params(&world, policy, "orphan", wait, json!({}));
            peer.call_ok("process/start", params).await.unwrap();
            until_output(&mut peer, "orphan", "ready").await;
            server.signal(libc::SIGKILL);
            server.wait();
            let gone = || leaks::marked(&world.nonce).is_empty();
            leaks::wait_until(PATIENCE, "no process outlives the server", gone).await.unwrap();
        });
        // What a killed server left, the next one clears away when it confines something.
        let server = server.again(test);
        block_on(async {
            let mut peer = connect(&server).await;
            let params = params(&world, Policy::Workspace, "next", "true", json!({}));
            peer.call_ok("process/start", params).await.unwrap();
            closed(&mut peer, "next").await;
            nothing_is_left(&world, "after a killed server").await;
        });
    }
}

#[test]
fn sixteen_at_once_in_one_workspace() {
    play_if_told();
    for role in roles() {
        let server = RealServer::start("lifetimes::sixteen_at_once_in_one_workspace", role);
        let world = World::new(Policy::Workspace, server.owner(), BARE);
        block_on(async {
            let mut peer = connect(&server).await;
            let mut before = None;
            // Twice: the second time the server has opened all it keeps open.
            for round in 0..2 {
                for number in 0..16 {
                    let id = format!("{round}-{number}");
                    let script = format!(
                        "echo {id} > f{number} && sleep 0.0{number} && mkdir .git; echo x > .codex; \
                         [ \"$(cat f{number})\" = {id} ] && echo ok"
                    );
                    let params = params(&world, Policy::Workspace, &id, &script, json!({}));
                    peer.send_text(
                        &json!({"id": 1000 + number, "method": "process/start", "params": params})
                            .to_string(),
                    )
                    .await
                    .unwrap();
                }
                let mut open = 16;
                let (mut output, mut codes) = (String::new(), Vec::new());
                while open > 0 {
                    let message = peer.recv().await.unwrap().unwrap();
                    assert!(message.get("error").is_none(), "{role:?}: {message}");
                    let params = &message["params"];
                    match message["method"].as_str() {
                        Some("process/output") => {
                            output += &String::from_utf8_lossy(&decode(&params["chunk"]))
                        }
                        Some("process/exited") => codes.push(params["exitCode"].as_i64().unwrap()),
                        Some("process/closed") => open -= 1,
                        _ => {}
                    }
                }
                assert_eq!(output.matches("ok\n").count(), 16, "{role:?}: {output}");
                assert_eq!(codes, [0; 16], "{role:?}");
                nothing_is_left(&world, "after sixteen").await;
                let now = leaks::descriptor_count(server.pid()).unwrap();
                let before = *before.get_or_insert(now);
                let as_many = || leaks::descriptor_count(server.pid()).unwrap() <= before;
                leaks::wait_until(PATIENCE, "no descriptor is lost", as_many).await.unwrap();
            }
        });
    }
}

#[test]
fn commands_in_a_sandbox_behave_like_processes() {
    play_if_told();
    for role in roles() {
        let server =
            RealServer::start("lifetimes::commands_in_a_sandbox_behave_like_processes", role);
        let world = World::new(Policy::Workspace, server.owner(), "");
        block_on(async {
            let mut peer = connect(&server).await;
            for (script, code) in [
                ("exit 0", 0),
                ("exit 7", 7),
                ("exit 255", 255),
                ("kill -9 $$", 137),
                ("kill -TERM $$", 143),
                ("kill -SEGV $$", 139),
                ("exec no-such-program", 127),
            ] {
                let params = params(&world, Policy::Workspace, script, script, json!({}));
                peer.call_ok("process/start", params).await.unwrap();
                let (_, got, _) = follow(&mut peer, script).await;
                assert_eq!(got, code, "{role:?}: {script}");
            }
            traps_run(&mut peer, &world, role).await;
            let named = params(
                &world,
                Policy::Workspace,
                "named",
                "",
                json!({"argv": ["/bin/sh", "-c", "echo $0"], "arg0": "another"}),
            );
            peer.call_ok("process/start", named).await.unwrap();
            let (output, _, _) = follow(&mut peer, "named").await;
            assert_eq!(output, "another\n", "{role:?}");
            let terminal = params(
                &world,
                Policy::Workspace,
                "tty",
                "echo x > /dev/tty; stty size < /dev/tty; set -m; sleep 0.01 & fg && echo job",
                json!({"tty": true, "size": {"rows": 33, "cols": 99}}),
            );
            peer.call_ok("process/start", terminal).await.unwrap();
            let (output, code, _) = follow(&mut peer, "tty").await;
            assert!(
                code == 0 && output.contains("33 99") && output.contains("job"),
                "{role:?}: {output}"
            );
            for argv in [
                json!(["/no/such"]),
                json!(["no-such-program"]),
                json!(["/etc"]),
                json!(["/etc/passwd"]),
            ] {
                let missing =
                    params(&world, Policy::Workspace, "missing", "", json!({"argv": argv}));
                let answer = peer.call("process/start", missing).await.unwrap();
                assert_eq!(answer["error"]["code"], -32603, "{role:?}: {answer}");
            }
        });
    }
}

/// 64: with and without a terminal.
async fn traps_run(peer: &mut RawPeer, world: &World, role: Role) {
    for tty in [false, true] {
        let id = format!("trap {tty}");
        let script = "trap 'echo trapped; exit 9' INT; echo ready; while :; do sleep 0.05; done";
        let params = params(world, Policy::Workspace, &id, script, json!({"tty": tty}));
        peer.call_ok("process/start", params).await.unwrap();
        until_output(peer, &id, "ready").await;
        if tty {
            let typed = json!({"processId": id, "chunk": encode(b"\x03")});
            peer.call_ok("process/write", typed).await.unwrap();
        } else {
            let signal = json!({"processId": id, "signal": "interrupt"});
            peer.call_ok("process/signal", signal).await.unwrap();
        }
        let (output, code, denied) = follow(peer, &id).await;
        assert!(output.contains("trapped"), "{role:?} {tty}: {output}");
        assert_eq!((code, denied), (9, false), "{role:?} {tty}");
    }
}

/// 5.1 with the qualifications of 5.2.
const DENIALS: &[(&str, i64, bool)] = &[
    ("echo fine", 0, false),
    ("echo permission denied", 0, false),
    ("echo Operation not permitted >&2; exit 1", 1, true),
    ("echo Permission Denied; exit 1", 1, true),
    ("echo READ-ONLY FILE SYSTEM >&2; exit 2", 2, true),
    ("echo failed to write file; exit 126", 126, true),
    ("echo permission denied; exit 127", 127, true),
    ("printf 'permission '; sleep 0.05; echo denied; exit 1", 1, true),
    ("echo oh no; exit 1", 1, false),
    ("exit 2", 2, false),
    ("exit 126", 126, false),
    ("exit 127", 127, false),
    ("exit 137", 137, false),
    ("kill -SEGV $$", 139, false),
    ("kill -SYS $$", 159, true),
    ("exit 159", 159, true),
    ("echo permission denied; head -c 2000000 /dev/zero; exit 0", 0, false),
    ("echo x > $OUT/canary", 2, true),
    ("cat /no/such/file", 1, false),
    ("mkdir $OUT/new", 1, true),
];

#[test]
fn denials_are_told_from_other_failures() {
    play_if_told();
    for role in roles().into_iter().filter(|role| !role.ordinary) {
        let server = RealServer::start("lifetimes::denials_are_told_from_other_failures", role);
        let world = World::new(Policy::Workspace, server.owner(), "");
        block_on(async {
            let mut peer = connect(&server).await;
            for (script, code, denied) in DENIALS {
                let params = params(&world, Policy::Workspace, script, script, json!({}));
                peer.call_ok("process/start", params).await.unwrap();
                let (_, got, told) = follow(&mut peer, script).await;
                assert_eq!((got, told), (*code, *denied), "{role:?}: {script}");
                let read =
                    peer.call_ok("process/read", json!({"processId": script})).await.unwrap();
                assert_eq!(read["sandboxDenied"], json!(denied), "{role:?}: {script}");
                // Never without a sandbox.
                let id = format!("free {script}");
                let free = merged(json!({}), params_free(&world, &id, script));
                peer.call_ok("process/start", free).await.unwrap();
                assert!(!follow(&mut peer, &id).await.2, "{script}");
            }
        });
    }
}

fn params_free(world: &World, id: &str, script: &str) -> Value {
    params(world, Policy::Workspace, id, script, json!({"sandbox": null}))
}
