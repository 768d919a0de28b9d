//! Attempts to get out of a sandbox, over the wire, with both engines, as root and as an ordinary
//! user. What the host sees decides, not what a command says of itself; and each attempt is also
//! made without a sandbox, where it has to succeed, so that a suite that tried nothing would fail.

#![cfg(target_os = "linux")]
#![allow(unreachable_pub, clippy::unwrap_used, reason = "a test may panic")]
#![allow(clippy::wildcard_enum_match_arm, clippy::too_many_lines, reason = "tables")]

mod support;

#[path = "escape/attempt.rs"]
mod attempt;
#[path = "escape/host.rs"]
mod host;
#[path = "escape/lifetimes.rs"]
mod lifetimes;
#[path = "escape/policy.rs"]
mod policy;
#[path = "escape/refusals.rs"]
mod refusals;
#[path = "escape/serving.rs"]
mod serving;
#[path = "escape/table_files.rs"]
mod table_files;
#[path = "escape/table_kernel.rs"]
mod table_kernel;
#[path = "escape/table_names.rs"]
mod table_names;
#[path = "escape/table_network.rs"]
mod table_network;
#[path = "escape/world.rs"]
mod world;

use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

use exec_sandbox::linux::probe::Engine;
use exec_testkit::leaks;

use attempt::{Attempt, Free, Stage};
use host::Host;
use serving::{RealServer, Role, play_if_told};

/// Attempts under way at once, each in a thread of its own: they wait for the disk most of the time.
const AT_ONCE: usize = 8;

fn attempts() -> Vec<&'static Attempt> {
    let tables = [
        table_files::ATTEMPTS,
        table_names::METADATA,
        table_names::DENIES,
        table_names::ROOTS,
        table_kernel::CALLS,
        table_kernel::PROCESSES,
        table_network::NETWORK,
        table_network::REQUESTS,
    ];
    let only = std::env::var("ESCAPE_ONLY").unwrap_or_default();
    tables.iter().copied().flatten().filter(|attempt| attempt.name.contains(&only)).collect()
}

/// Where tests share a process, these take turns: each looks for what is left of all.
static TURN: Mutex<()> = Mutex::new(());

/// Libraries and scripts that make the file `$PLANTED` wherever somebody loads them.
fn plant(folder: &Path) {
    std::fs::write(folder.join("planted.sh"), "echo x > \"$PLANTED\"\n").unwrap();
    let source = "#include <stdlib.h>\n#include <fcntl.h>\n\
        __attribute__((constructor)) static void begin(void) {\n\
        const char *path = getenv(\"PLANTED\"); if (path) open(path, O_CREAT | O_WRONLY, 0600); }\n\
        unsigned la_version(unsigned version) { return version; }\n";
    let file = folder.join("planted.c");
    std::fs::write(&file, source).unwrap();
    let library = folder.join("planted.so");
    let compiled =
        Command::new("cc").args(["-shared", "-fPIC", "-o"]).arg(&library).arg(&file).status();
    assert!(compiled.is_ok_and(|status| status.success()), "there is a C compiler where Rust is");
    let libraries = folder.join("libraries");
    std::fs::create_dir(&libraries).unwrap();
    for name in ["libcap.so.2", "libselinux.so.1", "libc.so.6.planted"] {
        std::fs::copy(&library, libraries.join(name)).unwrap();
    }
}

/// Whether this host can play the role; says why when it cannot.
fn can_play(role: Role) -> bool {
    // SAFETY: takes no arguments.
    let root = unsafe { libc::geteuid() } == 0;
    if !root {
        exec_testkit::skip("escape: it takes root to be root and to become somebody else");
        return false;
    }
    if role.engine == Engine::Bwrap && !Path::new("/usr/bin/bwrap").exists() {
        exec_testkit::skip("escape: there is no bubblewrap");
        return false;
    }
    true
}

fn role(engine: Engine, ordinary: bool) -> Role {
    Role { engine, ordinary, forbidden: false }
}

/// Not in a `tokio::test`, within which the role of a server could not start a runtime.
fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}

/// Makes attempts side by side.
fn play_all<'a, T: Send>(
    attempts: &[&'a Attempt],
    play: impl AsyncFn(&'a Attempt) -> T + Sync,
) -> Vec<T> {
    let next = AtomicUsize::new(0);
    let results = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                block_on(async {
                    while let Some(attempt) = attempts.get(next.fetch_add(1, Ordering::Relaxed)) {
                        let result = play(attempt).await;
                        results.lock().unwrap().push(result);
                    }
                });
            });
        }
    });
    results.into_inner().unwrap()
}

/// All attempts in the sandbox.
fn check_confined(test: &str, role: Role) {
    play_if_told();
    if !can_play(role) {
        return;
    }
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap();
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
    let host = Host::new();
    plant(&host.folder());
    let probe = exec_testkit::probe::install(&host.folder()).unwrap();
    let server = RealServer::start(test, role);
    let stage = Stage { host: &host, server: &server, probe };
    let attempts = attempts();
    // The first finds out what the host can do, and opens what the server keeps open.
    block_on(stage.play(attempts[0], true));
    let before = leaks::descriptor_count(server.pid()).unwrap();
    let objections = play_all(&attempts, async |attempt| {
        stage.play(attempt, true).await.objection(attempt, role)
    });
    let objections: Vec<String> = objections.into_iter().flatten().collect();
    assert!(objections.is_empty(), "{}\n{} rows", objections.join("\n"), objections.len());
    block_on(support::eventually("no descriptor is lost", || {
        leaks::descriptor_count(server.pid()).unwrap() <= before
    }));
    assert_eq!(std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap(), name);
    let after = std::fs::read_to_string("/proc/self/mountinfo").unwrap();
    assert_eq!(mounts, after, "no mount of the host has changed");
    drop(stage);
    drop(server);
    let left = leaks::marked(&format!("escape-{}-", std::process::id()));
    assert_eq!(left, [0; 0], "nobody is left");
}

/// All attempts without a sandbox.
fn check_free(test: &str, role: Role) {
    play_if_told();
    if !can_play(role) {
        return;
    }
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap();
    let host = Host::new();
    plant(&host.folder());
    let probe = exec_testkit::probe::install(&host.folder()).unwrap();
    let server = RealServer::start(test, role);
    let stage = Stage { host: &host, server: &server, probe };
    let attempts = attempts();
    let tried = attempts.iter().filter(|attempt| attempt.free != Free::NotTried);
    let tried: Vec<&Attempt> = tried.copied().collect();
    let results =
        play_all(&tried, async |attempt| stage.play(attempt, false).await.free_objection(attempt));
    let through = results.iter().filter(|(_, through)| *through).count();
    let objections: Vec<&String> = results.iter().filter_map(|(wrong, _)| wrong.as_ref()).collect();
    assert!(objections.is_empty(), "{objections:#?}");
    println!("{through} of {} get through without a sandbox", attempts.len());
    let after = std::fs::read_to_string("/proc/self/mountinfo").unwrap();
    assert_eq!(mounts, after, "what is mounted is unmounted again");
    assert!(through * 3 > attempts.len() * 2, "{through} of {}", attempts.len());
}

#[test]
fn there_are_many_attempts_and_each_has_a_name_of_its_own() {
    let attempts = attempts();
    let mut names: Vec<&str> = attempts.iter().map(|attempt| attempt.name).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), attempts.len());
    assert!(names.len() >= 300, "{}", names.len());
}

#[test]
fn builtin_as_root() {
    check_confined("builtin_as_root", role(Engine::Builtin, false));
}

#[test]
fn builtin_as_an_ordinary_user() {
    check_confined("builtin_as_an_ordinary_user", role(Engine::Builtin, true));
}

#[test]
fn bubblewrap_as_root() {
    check_confined("bubblewrap_as_root", role(Engine::Bwrap, false));
}

#[test]
fn bubblewrap_as_an_ordinary_user() {
    check_confined("bubblewrap_as_an_ordinary_user", role(Engine::Bwrap, true));
}

#[test]
fn without_a_sandbox_as_root() {
    check_free("without_a_sandbox_as_root", role(Engine::Builtin, false));
}

#[test]
fn without_a_sandbox_as_an_ordinary_user() {
    check_free("without_a_sandbox_as_an_ordinary_user", role(Engine::Builtin, true));
}
