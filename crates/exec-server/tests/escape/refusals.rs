//! Contexts that are refused: what does not decode, what this host cannot enforce, and what would
//! take too long. Nothing runs then.

use std::os::unix::fs::symlink;
use std::time::{Duration, Instant};

use exec_sandbox::linux::probe::Engine;
use exec_testkit::leaks;
use exec_testkit::peer::RawPeer;
use serde_json::{Value, json};

use super::policy::{Policy, entry, special, uri};
use super::serving::{RealServer, Role, play_if_told};
use super::world::World;
use super::{block_on, can_play};
use crate::support::{PATH, merged};

const INVALID_PARAMS: i64 = -32602;

/// A command that leaves a file if it runs at all.
fn start(world: &World, context: &Value, extra: Value) -> Value {
    let script = format!("echo ran > {0}/ws/ran; echo ran > {0}/out/ran", world.path().display());
    let basis = json!({
        "processId": "p",
        "argv": ["/bin/sh", "-c", script],
        "cwd": uri(&world.join("ws")),
        "env": {"PATH": PATH, "NONCE": world.nonce},
        "tty": false,
        "sandbox": context,
    });
    merged(basis, extra)
}

async fn connect(server: &RealServer) -> RawPeer {
    let mut peer = RawPeer::websocket(&server.url).await.unwrap();
    peer.handshake().await.unwrap();
    peer
}

/// The answer is this error, and nothing has run.
async fn refused(peer: &mut RawPeer, world: &World, params: Value, what: &str) -> String {
    let answer = peer.call("process/start", params).await.unwrap();
    assert_eq!(answer["error"]["code"], INVALID_PARAMS, "{what}: {answer}");
    assert!(!world.join("ws/ran").exists() && !world.join("out/ran").exists(), "{what}");
    answer["error"]["message"].as_str().unwrap().to_owned()
}

/// A context of a workspace with its permissions replaced.
fn with(world: &World, file_system: Value, network: &str) -> Value {
    let mut context = Policy::Workspace.context(world, world.path());
    context["permissions"] =
        json!({"type": "managed", "file_system": file_system, "network": network});
    context
}

fn with_entries(world: &World, entries: &[Value]) -> Value {
    with(world, json!({"type": "restricted", "entries": entries}), "restricted")
}

/// Every row of 2.9, and the like.
#[rustfmt::skip]
fn malformed(world: &World) -> Vec<(&'static str, Value, Value)> {
    let good = || Policy::Workspace.context(world, world.path());
    let changed = |change: &dyn Fn(&mut Value)| {
        let mut context = good();
        change(&mut context);
        context
    };
    let one =
        |path: Value, access: &str| with_entries(world, &[json!({"path": path, "access": access})]);
    let at = |text: &str| one(json!({"type": "path", "path": text}), "write");
    let nothing = || json!({});
    vec![
        ("no object", json!(5), nothing()),
        ("a text", json!("read-only"), nothing()),
        ("empty", json!({}), nothing()),
        (
            "no level",
            changed(&|it| drop(it.as_object_mut().unwrap().remove("windowsSandboxLevel"))),
            nothing(),
        ),
        (
            "no permissions",
            changed(&|it| drop(it.as_object_mut().unwrap().remove("permissions"))),
            nothing(),
        ),
        ("unknown level", changed(&|it| it["windowsSandboxLevel"] = json!("some")), nothing()),
        ("unknown override", changed(&|it| it["sandboxOverride"] = json!("please")), nothing()),
        ("unknown type", changed(&|it| it["permissions"]["type"] = json!("open")), nothing()),
        ("unknown network", with(world, json!({"type": "unrestricted"}), "some"), nothing()),
        ("unknown file system", with(world, json!({"type": "some"}), "restricted"), nothing()),
        ("no entries", with(world, json!({"type": "restricted"}), "restricted"), nothing()),
        (
            "depth 0",
            with(
                world,
                json!({"type": "restricted", "entries": [], "glob_scan_max_depth": 0}),
                "restricted",
            ),
            nothing(),
        ),
        ("unknown access", one(special("root"), "execute"), nothing()),
        ("unknown kind", one(special("everything"), "write"), nothing()),
        (
            "unknown path type",
            one(json!({"type": "inode", "path": "file:///"}), "write"),
            nothing(),
        ),
        ("a native path", at("/etc"), nothing()),
        ("a relative path", at("etc"), nothing()),
        ("a Windows path", at("file:///C:/x"), nothing()),
        ("a path of another host", at("file://elsewhere/etc"), nothing()),
        ("another scheme", at("http://localhost/etc"), nothing()),
        ("a NUL in a path", at("file:///etc%00/x"), nothing()),
        (
            "a legacy policy",
            changed(&|it| {
                it["permissions"] = json!({"type": "read-only", "network_access": false})
            }),
            nothing(),
        ),
        (
            "a legacy workspace",
            changed(&|it| {
                it["permissions"] = json!({"type": "workspace-write", "writable_roots": ["/"]})
            }),
            nothing(),
        ),
        ("a foreign cwd", changed(&|it| it["cwd"] = json!("relative")), nothing()),
        (
            "a foreign root",
            changed(&|it| it["workspaceRoots"] = json!(["http://localhost/"])),
            nothing(),
        ),
        ("a flag that is none", changed(&|it| it["useLegacyLandlock"] = json!("no")), nothing()),
        ("a managed network without a proxy", good(), json!({"enforceManagedNetwork": true})),
        (
            "a managed network elsewhere",
            good(),
            json!({"enforceManagedNetwork": true, "managedNetwork":
            {"loopbackPorts": [1], "allowLocalBinding": false, "dangerouslyAllowAllUnixSockets": false}}),
        ),
        ("MXC", changed(&|it| it["windowsSandboxLevel"] = json!("mxc")), nothing()),
    ]
}

/// What decodes and cannot be enforced.
fn unenforceable(world: &World) -> Vec<(&'static str, Value, Value)> {
    let workspace = |more: Value| {
        let mut context = Policy::Workspace.context(world, world.path());
        context["permissions"]["file_system"]["entries"].as_array_mut().unwrap().push(more);
        context
    };
    let glob = |pattern: &str| json!({"path": {"type": "glob_pattern", "pattern": pattern}, "access": "deny"});
    let nothing = || json!({});
    vec![
        ("a pattern over everything", workspace(glob("/**/*.pem")), nothing()),
        (
            "a denied path behind a link that a command can change",
            workspace(entry(&world.join("ws/way/x"), "deny")),
            nothing(),
        ),
        (
            "a denied workspace as the working directory",
            workspace(entry(&world.join("ws"), "deny")),
            nothing(),
        ),
    ]
}

#[test]
fn what_does_not_decode_or_cannot_be_enforced_is_refused() {
    play_if_told();
    let role = Role { engine: Engine::Builtin, ordinary: false, forbidden: false };
    if !can_play(role) {
        return;
    }
    let test = "refusals::what_does_not_decode_or_cannot_be_enforced_is_refused";
    let server = RealServer::start(test, role);
    let world = World::new(Policy::Workspace, 0, "mkdir ws/target; ln -s target ws/way");
    block_on(async {
        let mut peer = connect(&server).await;
        for (what, context, extra) in malformed(&world).into_iter().chain(unenforceable(&world)) {
            refused(&mut peer, &world, start(&world, &context, extra), what).await;
        }
        // The same without a mistake runs: the workspace is written, and nothing else.
        let good = Policy::Workspace.context(&world, world.path());
        peer.call_ok("process/start", start(&world, &good, json!({}))).await.unwrap();
        leaks::wait_until(Duration::from_secs(20), "it runs", || world.join("ws/ran").exists())
            .await
            .unwrap();
        assert!(!world.join("out/ran").exists());
    });
}

#[test]
fn without_user_namespaces_everything_that_restricts_is_refused_with_a_reason() {
    play_if_told();
    let test =
        "refusals::without_user_namespaces_everything_that_restricts_is_refused_with_a_reason";
    for (engine, ordinary) in [
        (Engine::Builtin, false),
        (Engine::Builtin, true),
        (Engine::Bwrap, false),
        (Engine::Bwrap, true),
    ] {
        let role = Role { engine, ordinary, forbidden: true };
        if !can_play(role) {
            continue;
        }
        let server = RealServer::start(test, role);
        block_on(async {
            let mut peer = connect(&server).await;
            for policy in Policy::ALL {
                let world = World::new(policy, server.owner(), "");
                let context = policy.context(&world, world.path());
                let what = format!("{role:?} {policy:?}");
                let params = start(&world, &context, json!({}));
                let said = refused(&mut peer, &world, params, &what).await;
                let says_why = said.contains("namespace") || said.contains("bubblewrap");
                assert!(says_why, "{what}: {said}");
            }
            // Without a sandbox the same server runs commands as ever.
            let world = World::new(Policy::Workspace, server.owner(), "");
            let params = start(&world, &Value::Null, json!({}));
            peer.call_ok("process/start", params).await.unwrap();
            leaks::wait_until(Duration::from_secs(20), "it runs", || {
                world.join("out/ran").exists()
            })
            .await
            .unwrap();
        });
    }
}

#[test]
fn ten_thousand_entries_are_enforced_or_refused_in_time() {
    play_if_told();
    let role = Role { engine: Engine::Builtin, ordinary: false, forbidden: false };
    if !can_play(role) {
        return;
    }
    let server =
        RealServer::start("refusals::ten_thousand_entries_are_enforced_or_refused_in_time", role);
    let world = World::new(
        Policy::Workspace,
        0,
        "mkdir ws/many; for i in $(seq 200); do echo x > ws/many/$i; done",
    );
    block_on(async {
        let mut peer = connect(&server).await;
        let base = Policy::Workspace.context(&world, world.path());
        let base = base["permissions"]["file_system"]["entries"].as_array().unwrap().clone();
        let lists: [(&str, Vec<Value>); 4] = [
            (
                "missing files to be read",
                (0..10_000).map(|i| entry(&world.join(&format!("out/none{i}")), "read")).collect(),
            ),
            (
                "missing files to be denied",
                (0..10_000).map(|i| entry(&world.join(&format!("ws/none{i}")), "deny")).collect(),
            ),
            (
                "the same again and again",
                (0..10_000).map(|_| entry(&world.join("ws/many/1"), "deny")).collect(),
            ),
            (
                "roots in roots",
                (0..10_000)
                    .map(|i| entry(&world.join(&format!("ws{}", "/d".repeat(i % 300))), "write"))
                    .collect(),
            ),
        ];
        for (what, more) in lists {
            let context = with_entries(&world, &[base.clone(), more].concat());
            let begun = Instant::now();
            let answer = peer
                .call("process/start", start(&world, &context, json!({"processId": what})))
                .await
                .unwrap();
            assert!(begun.elapsed() < Duration::from_secs(15), "{what}: {:?}", begun.elapsed());
            if answer.get("error").is_none() {
                closed(&mut peer, what).await;
            }
            assert!(!world.join("out/ran").exists(), "{what}");
        }
        let globs = ["**/*", "**/[!x]*", "*/*/*/*/*", "**/**/**/**/x", &"*".repeat(2000)];
        for pattern in globs {
            let glob = json!({"type": "glob_pattern", "pattern": format!("codex-project-roots://{pattern}")});
            let context = with_entries(
                &world,
                &[base.clone(), vec![json!({"path": glob, "access": "deny"})]].concat(),
            );
            let params = start(&world, &context, json!({"processId": pattern}));
            let answer = peer.call("process/start", params).await.unwrap();
            if answer.get("error").is_none() {
                closed(&mut peer, pattern).await;
            }
            assert!(!world.join("out/ran").exists(), "{pattern}");
        }
    });
}

/// Waits until a process has closed.
pub async fn closed(peer: &mut RawPeer, id: &str) {
    loop {
        let message = peer.recv().await.unwrap().expect("the connection lives");
        if message["method"] == "process/closed" && message["params"]["processId"] == id {
            return;
        }
    }
}

/// A root that is there when the plan is made, and something else when it is carried out: whatever
/// happens, nothing outside is written.
#[test]
fn roots_that_change_while_commands_start_open_nothing() {
    play_if_told();
    for engine in [Engine::Builtin, Engine::Bwrap] {
        let role = Role { engine, ordinary: false, forbidden: false };
        if !can_play(role) {
            continue;
        }
        let test = "refusals::roots_that_change_while_commands_start_open_nothing";
        let server = RealServer::start(test, role);
        let world = World::new(Policy::NestedRoots, 0, "");
        let stop = std::sync::atomic::AtomicBool::new(false);
        let (root, aside, out) = (world.join("ws/sub"), world.join("ws/aside"), world.join("out"));
        let context = Policy::NestedRoots.context(&world, world.path());
        std::thread::scope(|scope| {
            // Now a folder, now a link to the outside, now nothing: as a command could make it.
            scope.spawn(|| {
                while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                    std::fs::rename(&root, &aside).ok();
                    symlink(&out, &root).ok();
                    std::fs::remove_file(&root).ok();
                    std::fs::rename(&aside, &root).ok();
                }
            });
            block_on(async {
                let mut peer = connect(&server).await;
                let script = format!(
                    "echo x > {0}/ws/sub/canary; echo x > {0}/out/canary",
                    world.path().display()
                );
                for number in 0..40 {
                    let id = number.to_string();
                    let argv = json!(["/bin/sh", "-c", script]);
                    let extra = json!({"processId": id, "argv": argv});
                    let answer =
                        peer.call("process/start", start(&world, &context, extra)).await.unwrap();
                    if answer.get("error").is_none() {
                        closed(&mut peer, &id).await;
                    }
                }
            });
            stop.store(true, std::sync::atomic::Ordering::Relaxed);
        });
        let said = std::fs::read_to_string(world.join("out/canary")).unwrap();
        assert_eq!(said, "intact\n", "{engine:?}");
    }
}
