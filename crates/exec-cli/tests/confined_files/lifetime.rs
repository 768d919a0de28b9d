//! How workers live and end: with their calls, their connection, their server, or by force.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use exec_testkit::leaks::is_alive;
use serde_json::json;

use crate::bench::{benches, code, eventually, uri, workers_of};

fn signal(pid: u32, signal: rustix::process::Signal) {
    let pid = rustix::process::Pid::from_raw(pid.cast_signed()).unwrap();
    rustix::process::kill_process(pid, signal).unwrap();
}

#[tokio::test]
async fn a_worker_that_is_killed_fails_its_calls_and_is_replaced() {
    for bench in benches().await {
        let mut peer = bench.connect().await;
        let context = bench.workspace_write();
        let write =
            json!({"path": uri(&bench.file("f")), "dataBase64": "eA==", "sandbox": context});
        peer.call_ok("fs/writeFile", write.clone()).await.unwrap();
        let [worker] = bench.workers()[..] else { panic!("{:?}", bench.workers()) };
        signal(worker, rustix::process::Signal::STOP);
        std::fs::remove_file(bench.file("f")).unwrap();
        let text = json!({"id": 77, "method": "fs/writeFile", "params": write}).to_string();
        peer.send_text(&text).await.unwrap();
        // Answered in order of completion: when this one is, the other has been given to the worker.
        let outside = json!({"path": uri(&bench.file("none")), "sandbox": null});
        assert_eq!(code(&peer.call("fs/readFile", outside).await.unwrap()), -32004);
        signal(worker, rustix::process::Signal::KILL);
        let failed = peer.recv().await.unwrap().unwrap();
        if code(&failed) != 0 {
            assert_eq!((&failed["id"], code(&failed)), (&json!(77), -32603), "{failed}");
            let message = failed["error"]["message"].as_str().unwrap();
            assert!(message.contains("exit status 137"), "{message}");
        }
        peer.call_ok("fs/writeFile", write).await.unwrap();
        assert!(bench.file("f").exists());
        assert_ne!(bench.workers(), [worker]);
    }
}

#[tokio::test]
async fn nothing_is_left_of_a_server_that_stops_or_is_killed() {
    for how in [rustix::process::Signal::TERM, rustix::process::Signal::KILL] {
        for bench in benches().await {
            let mut peer = bench.connect().await;
            for context in [bench.workspace_write(), bench.read_only(), bench.minimal()] {
                let read = json!({"path": uri(&bench.workspace()), "sandbox": context});
                peer.call_ok("fs/readDirectory", read).await.unwrap();
            }
            let watch = json!({"watchId": "w", "path": uri(&bench.workspace()), "recursive": true,
                "sandbox": bench.read_only()});
            peer.call_ok("fs/watch", watch).await.unwrap();
            let workers = bench.workers();
            assert_eq!(workers.len(), 4);
            signal(bench.server.pid(), how);
            eventually("all workers are gone", || !workers.iter().any(|pid| is_alive(*pid))).await;
            assert_eq!(bench.names(), Vec::<String>::new());
        }
    }
}

/// Threads of the process that are running or about to.
fn busy_threads(pid: u32) -> usize {
    let Ok(threads) = std::fs::read_dir(format!("/proc/{pid}/task")) else { return 0 };
    let is_busy = |thread: std::io::Result<std::fs::DirEntry>| {
        let stat = std::fs::read_to_string(thread.ok()?.path().join("stat")).ok()?;
        let state = stat.rsplit_once(')')?.1.trim_start().chars().next()?;
        (state == 'R' || state == 'D').then_some(())
    };
    threads.filter_map(is_busy).count()
}

/// One search is timed; when 64 are under way nobody waits for them any more.
#[tokio::test]
async fn work_stops_when_its_connection_is_gone() {
    for bench in benches().await {
        let mut peer = bench.connect().await;
        for number in 0..100 {
            let text = format!("a line of file {number}\n").repeat(25_000);
            std::fs::write(bench.file(&number.to_string()), text).unwrap();
        }
        let search = json!({"path": uri(&bench.workspace()), "pattern": "no such text anywhere",
            "includeHidden": true, "noIgnore": true, "sandbox": bench.read_only()});
        peer.call_ok("fs/search", search.clone()).await.unwrap();
        let begun = Instant::now();
        peer.call_ok("fs/search", search.clone()).await.unwrap();
        let one = begun.elapsed();
        let [worker] = bench.workers()[..] else { panic!("{:?}", bench.workers()) };
        for id in 0..64 {
            let call = json!({"id": 1000 + id, "method": "fs/search", "params": search});
            peer.send_text(&call.to_string()).await.unwrap();
        }
        eventually("the worker is busy", || busy_threads(worker) > 0).await;
        drop(peer);
        let (closed, mut idle) = (Instant::now(), 0);
        eventually("the worker stops", || {
            idle = if busy_threads(worker) == 0 { idle + 1 } else { 0 };
            idle >= 10
        })
        .await;
        // All of them would take as long as 64 on one processor.
        let cores = u32::try_from(std::thread::available_parallelism().unwrap().get()).unwrap();
        let all = one * 64 / cores;
        assert!(closed.elapsed() < all / 2, "{:?} of {all:?}", closed.elapsed());
    }
}

#[tokio::test]
async fn sixteen_connections_work_at_once_and_nobody_sees_a_placeholder() {
    for bench in benches().await {
        let seen = Arc::new(AtomicBool::new(false));
        let stop = Arc::new(AtomicBool::new(false));
        let watcher = std::thread::spawn({
            let (seen, stop, git) = (seen.clone(), stop.clone(), bench.file(".git"));
            move || {
                while !stop.load(Ordering::Relaxed) {
                    seen.fetch_or(git.symlink_metadata().is_ok(), Ordering::Relaxed);
                }
            }
        });
        let mut tasks = tokio::task::JoinSet::new();
        for number in 0..16 {
            let mut peer = bench.connect().await;
            let path = uri(&bench.file(&format!("f{number}")));
            let contexts =
                [bench.workspace_write(), bench.denying(&bench.file("none")), bench.minimal()];
            tasks.spawn(async move {
                for round in 0..10 {
                    let context = &contexts[(number + round) % contexts.len()];
                    let write = json!({"path": path, "dataBase64": "eA==", "sandbox": context});
                    peer.call_ok("fs/writeFile", write).await.unwrap();
                    let read = json!({"path": path, "sandbox": context});
                    let read = peer.call_ok("fs/readFile", read).await.unwrap();
                    assert_eq!(read, json!({"dataBase64": "eA=="}));
                }
            });
        }
        while let Some(done) = tasks.join_next().await {
            done.unwrap();
        }
        assert!(bench.workers().len() <= 3, "one for each policy: {:?}", bench.workers());
        stop.store(true, Ordering::Relaxed);
        watcher.join().unwrap();
        assert!(!seen.load(Ordering::Relaxed), "a placeholder was in the workspace");
        assert_eq!(bench.names().len(), 16);
    }
}

/// More policies than workers are kept.
#[tokio::test]
async fn the_least_used_worker_goes_first() {
    for bench in benches().await {
        let mut peer = bench.connect().await;
        for number in 0..12 {
            let directory = bench.file(&format!("d{number}"));
            std::fs::create_dir(&directory).unwrap();
            let context = bench.denying(&directory);
            let list = json!({"path": uri(&directory), "sandbox": context});
            assert_eq!(code(&peer.call("fs/readDirectory", list).await.unwrap()), -32600);
        }
        let server = bench.server.pid();
        eventually("eight are left", || workers_of(server).len() == 8).await;
    }
}
