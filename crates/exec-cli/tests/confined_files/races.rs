//! A directory of the workspace that becomes a link and back as fast as a thread can do it, while
//! calls go through it. Whatever they answer, nothing outside changes, nothing denied is read, and no
//! protected name comes into being.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;

use exec_testkit::peer::RawPeer;
use rustix::fs::{CWD, RenameFlags};
use serde_json::{Value, json};

use crate::bench::{Bench, benches, names, uri};

/// Of each call.
const ROUNDS: usize = if cfg!(debug_assertions) { 1000 } else { 10_000 };

/// Calls under way.
const PIPELINE: usize = 32;

/// Exchanges two names until it is dropped.
struct Swapper {
    stop: Arc<AtomicBool>,
    swaps: Arc<AtomicU64>,
    thread: Option<JoinHandle<()>>,
}

impl Swapper {
    fn start(one: PathBuf, other: PathBuf) -> Self {
        let (stop, swaps) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let thread = std::thread::spawn({
            let (stop, swaps) = (stop.clone(), swaps.clone());
            move || {
                while !stop.load(Ordering::Relaxed) {
                    let flags = RenameFlags::EXCHANGE;
                    if rustix::fs::renameat_with(CWD, &one, CWD, &other, flags).is_ok() {
                        swaps.fetch_add(1, Ordering::Relaxed);
                    }
                }
            }
        });
        Self { stop, swaps, thread: Some(thread) }
    }
}

impl Drop for Swapper {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take().unwrap().join().unwrap();
    }
}

/// Makes the call that many times, many at once. Gives how often it worked.
async fn flood(
    peer: &mut RawPeer,
    method: &str,
    params: impl Fn(usize) -> Value,
    check: impl Fn(&Value),
) -> usize {
    let (mut sent, mut answered, mut worked) = (0, 0, 0);
    while answered < ROUNDS {
        while sent < ROUNDS && sent - answered < PIPELINE {
            let call = json!({"id": sent, "method": method, "params": params(sent)});
            peer.send_text(&call.to_string()).await.unwrap();
            sent += 1;
        }
        let answer = peer.recv().await.unwrap().expect("the connection is open");
        check(&answer);
        answered += 1;
        worked += usize::from(answer.get("result").is_some());
    }
    worked
}

fn write(path: &Path, context: &Value, round: usize) -> Value {
    let atomic = round.is_multiple_of(8);
    json!({"path": uri(path), "dataBase64": "eA==", "atomic": atomic, "sandbox": context})
}

/// `workspace/d` is a directory, `workspace/alt` a link to somewhere.
fn arena(bench: &Bench, target: &Path) -> (PathBuf, PathBuf) {
    let (directory, link) = (bench.file("d"), bench.file("alt"));
    std::fs::create_dir(&directory).unwrap();
    symlink(target, &link).unwrap();
    (directory, link)
}

#[tokio::test]
async fn nothing_outside_is_changed() {
    for bench in benches().await {
        let mut peer = bench.connect().await;
        let context = bench.workspace_write();
        let (directory, link) = arena(&bench, &bench.at("outside"));
        std::fs::write(bench.file("own"), "own").unwrap();
        let swapper = Swapper::start(directory.clone(), link);
        let file = directory.join("f");
        let worked =
            flood(&mut peer, "fs/writeFile", |round| write(&file, &context, round), |_| {}).await;
        assert!(worked > 0);
        let make = |round: usize| {
            json!({"path": uri(&directory.join(format!("m{}/x", round % 7))),
            "recursive": true, "sandbox": context})
        };
        flood(&mut peer, "fs/createDirectory", make, |_| {}).await;
        let copy = |round: usize| {
            json!({"sourcePath": uri(&bench.file("own")), "recursive": false,
            "destinationPath": uri(&directory.join(format!("c{}", round % 7))), "sandbox": context})
        };
        flood(&mut peer, "fs/copy", copy, |_| {}).await;
        let rename = |round: usize| {
            json!({"sourcePath": uri(&directory.join("f")),
            "destinationPath": uri(&directory.join(format!("r{}", round % 7))), "sandbox": context})
        };
        flood(&mut peer, "fs/rename", rename, |_| {}).await;
        let remove = |_| json!({"path": uri(&file), "recursive": true, "sandbox": context});
        flood(&mut peer, "fs/remove", remove, |_| {}).await;
        let open = |round: usize| {
            json!({"path": uri(&file), "handleId": round.to_string(),
            "mode": "replace", "sandbox": context})
        };
        flood(&mut peer, "fs/open", open, |_| {}).await;
        assert!(swapper.swaps.load(Ordering::Relaxed) > 100, "there was no race");
        drop(swapper);
        assert_eq!(names(&bench.at("outside")), ["f"]);
        assert_eq!(std::fs::read(bench.at("outside/f")).unwrap(), b"outside");
    }
}

#[tokio::test]
async fn no_protected_name_comes_into_being() {
    for bench in benches().await {
        let mut peer = bench.connect().await;
        let context = bench.workspace_write();
        let (directory, link) = arena(&bench, Path::new("."));
        std::fs::write(bench.file("own"), "own").unwrap();
        symlink(".agents", bench.file("dangling")).unwrap();
        let swapper = Swapper::start(directory.clone(), link);
        let (git, deep) = (directory.join(".git"), directory.join(".codex/deep/er"));
        flood(&mut peer, "fs/writeFile", |round| write(&git, &context, round), |_| {}).await;
        let make = |_| json!({"path": uri(&deep), "recursive": true, "sandbox": context});
        flood(&mut peer, "fs/createDirectory", make, |_| {}).await;
        let copy = |_| {
            json!({"sourcePath": uri(&bench.file("own")), "recursive": false,
            "destinationPath": uri(&directory.join(".aws")), "sandbox": context})
        };
        flood(&mut peer, "fs/copy", copy, |_| {}).await;
        let link = |round: usize| {
            json!({"sourcePath": uri(&bench.file("dangling")), "recursive": false,
            "destinationPath": uri(&directory.join([".agents", ".git"][round % 2])), "sandbox": context})
        };
        flood(&mut peer, "fs/copy", link, |_| {}).await;
        let rename = |_| {
            json!({"sourcePath": uri(&bench.file("own")),
            "destinationPath": uri(&directory.join(".aws")), "sandbox": context})
        };
        flood(&mut peer, "fs/rename", rename, |_| {}).await;
        assert!(swapper.swaps.load(Ordering::Relaxed) > 100, "there was no race");
        drop(swapper);
        for name in [".git", ".codex", ".aws", ".agents"] {
            assert!(bench.file(name).symlink_metadata().is_err(), "{name} exists");
        }
    }
}

#[tokio::test]
async fn nothing_denied_is_read() {
    for bench in benches().await {
        let mut peer = bench.connect().await;
        std::fs::create_dir(bench.file("secret")).unwrap();
        std::fs::write(bench.file("secret/f"), "the secret").unwrap();
        let context = bench.denying(&bench.file("secret"));
        let (directory, link) = arena(&bench, &bench.file("secret"));
        std::fs::write(directory.join("f"), "open").unwrap();
        let swapper = Swapper::start(directory.clone(), link);
        let read = |_| json!({"path": uri(&directory.join("f")), "sandbox": context});
        let open_content = |answer: &Value| {
            if let Some(content) = answer["result"].get("dataBase64") {
                assert_eq!(content, "b3Blbg==");
            }
        };
        let worked = flood(&mut peer, "fs/readFile", read, open_content).await;
        assert!(worked > 0);
        let list = |_| json!({"path": uri(&directory), "sandbox": context});
        flood(&mut peer, "fs/readDirectory", list, |_| {}).await;
        let copy = |round: usize| {
            json!({"sourcePath": uri(&directory.join("f")), "recursive": false,
            "destinationPath": uri(&bench.file(&format!("copy{}", round % 7))), "sandbox": context})
        };
        flood(&mut peer, "fs/copy", copy, |_| {}).await;
        assert!(swapper.swaps.load(Ordering::Relaxed) > 100, "there was no race");
        drop(swapper);
        for number in 0..7 {
            let copied = std::fs::read(bench.file(&format!("copy{number}"))).unwrap_or_default();
            assert!(copied.is_empty() || copied == b"open", "{copied:?}");
        }
    }
}
