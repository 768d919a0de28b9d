//! Children that do what they can to stay, and ends that leave none of them: `process/terminate`,
//! the end of a session, of the server, and of the server's own process by whatever signal.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod support;

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use exec_process::sys::Containment;
use exec_server::listen::{ListenOptions, run_main};
use exec_server::{ExecServerConfig, Server};
use exec_testkit::peer::RawPeer;
use serde_json::json;

use support::{Client, Marker, config, containments, eventually};

/// Nobody may be left when this has passed.
const LIMIT: Duration = Duration::from_secs(2);

/// Each leads a process that lives until it is ended, and prints `ready` once all are there.
const TENACIOUS: [(&str, &str); 8] = [
    ("plain child", "echo ready; exec sleep 1000"),
    ("process group", "sleep 1000 & sleep 1000 & echo ready; wait"),
    ("own session", "setsid sh -c 'echo ready; exec sleep 1000' & wait"),
    (
        "daemon, forked twice",
        "(setsid sh -c 'setsid sleep 1000 & echo ready; exec sleep 1000' &); exec sleep 1000",
    ),
    (
        "deaf to signals",
        "trap '' TERM INT HUP; setsid sh -c 'echo ready; while :; do sleep 0.1; done' & \
         while :; do sleep 0.1; done",
    ),
    (
        "without streams",
        "(exec >&- 2>&-; exec sleep 1000) & echo ready; exec >&- 2>&-; exec sleep 1000",
    ),
    ("stopped", "setsid sleep 1000 & echo ready; kill -STOP $$"),
    // 150 daemons at most, of half a minute at most; it is ended long before.
    (
        "fork bomb",
        "echo ready; i=0; while [ $i -lt 150 ]; do \
         (setsid sh -c 'sleep 30 & sleep 30' &); i=$((i+1)); done; sleep 30",
    ),
];

/// A process that has exited and closed, and a job that it left behind.
const LEFT_BEHIND: &str = "nohup setsid sleep 1000 >/dev/null 2>&1 & echo ready; exit 0";

fn server(containment: Containment, detached_life: Duration) -> Arc<Server> {
    Server::with_containment(config(|config| config.detached_life = detached_life), containment)
}

/// Starts all of them, each with a marker of its own.
async fn start_all(client: &mut Client) -> Vec<(&'static str, Marker)> {
    let mut started = Vec::new();
    for (name, script) in TENACIOUS {
        let marker = Marker::new();
        client.shell(name, script, marker.extra()).await;
        client.output_has(name, "ready").await;
        marker.carried_by(1).await;
        started.push((name, marker));
    }
    started
}

#[tokio::test]
async fn terminate_leaves_no_descendant() {
    for containment in containments() {
        let server = server(containment, Duration::from_secs(30));
        let mut client = Client::connect(&server).await;
        for (name, marker) in start_all(&mut client).await {
            assert!(client.terminate(name).await, "{name}");
            marker.gone_within(LIMIT, name).await;
            assert_eq!(client.closed(name).await.code(), Some(137), "{name}");
        }
        server.shut_down().await;
    }
}

#[tokio::test]
async fn a_graceful_end_leaves_no_descendant() {
    for containment in containments() {
        let server = server(containment, Duration::from_secs(30));
        let mut client = Client::connect(&server).await;
        for (name, marker) in start_all(&mut client).await {
            let mode = json!({"type": "graceful", "timeoutMs": 100});
            let terminate = json!({"processId": name, "mode": mode});
            client.ok("process/terminate", terminate).await;
            marker.gone_within(LIMIT, name).await;
            client.closed(name).await;
        }
        server.shut_down().await;
    }
}

#[tokio::test]
async fn the_end_of_a_session_leaves_no_descendant() {
    for containment in containments() {
        let server = server(containment, Duration::from_millis(50));
        let mut client = Client::connect(&server).await;
        let mut bystander = Client::connect(&server).await;
        let spared = Marker::new();
        bystander.start("p", &["sleep", "1000"], spared.extra()).await;
        let started = start_all(&mut client).await;
        client.hang_up().await;
        for (name, marker) in started {
            marker.gone_within(LIMIT, name).await;
        }
        assert_eq!(spared.carriers().len(), 1, "another session's are spared");
        server.shut_down().await;
        assert_eq!(spared.carriers(), [0; 0]);
    }
}

#[tokio::test]
async fn the_end_of_the_server_leaves_no_descendant() {
    for containment in containments() {
        let server = server(containment, Duration::from_secs(30));
        let mut client = Client::connect(&server).await;
        let started = start_all(&mut client).await;
        let begun = Instant::now();
        server.shut_down().await;
        assert!(begun.elapsed() < LIMIT + Duration::from_secs(1), "{:?}", begun.elapsed());
        for (name, marker) in started {
            assert_eq!(marker.carriers(), [0; 0], "{name}");
        }
        client.ended().await;
    }
}

#[tokio::test]
async fn with_time_to_end_the_polite_end_by_themselves_and_the_rest_is_killed() {
    for containment in containments() {
        let config = config(|config| config.shutdown_grace = Duration::from_millis(300));
        let server = Server::with_containment(config, containment);
        let mut client = Client::connect(&server).await;
        let folder = tempfile::tempdir().unwrap();
        let note = folder.path().join("note");
        let polite = format!(
            "trap 'echo bye > {}; exit 0' TERM; echo ready; while :; do sleep 0.02; done",
            note.display(),
        );
        let marker = Marker::new();
        client.shell("polite", &polite, marker.extra()).await;
        client.output_has("polite", "ready").await;
        let started = start_all(&mut client).await;
        server.shut_down().await;
        assert_eq!(std::fs::read_to_string(note).unwrap(), "bye\n");
        for (name, marker) in started.into_iter().chain([("polite", marker)]) {
            assert_eq!(marker.carriers(), [0; 0], "{name}");
        }
    }
}

#[tokio::test]
async fn a_server_that_is_dropped_leaves_no_descendant() {
    for containment in containments() {
        let server = server(containment, Duration::from_secs(30));
        let mut client = Client::connect(&server).await;
        let started = start_all(&mut client).await;
        client.hang_up().await;
        assert_eq!(Arc::strong_count(&server), 1);
        drop(server);
        for (name, marker) in started {
            assert_eq!(marker.carriers(), [0; 0], "{name}");
        }
    }
}

#[tokio::test]
async fn a_job_left_behind_by_a_clean_exit_lives_as_long_as_its_session() {
    for containment in containments() {
        let server = server(containment, Duration::from_millis(50));
        let marker = Marker::new();
        let mut client = Client::connect(&server).await;
        client.shell("p", LEFT_BEHIND, marker.extra()).await;
        assert_eq!(client.closed("p").await.code(), Some(0));
        assert!(!client.terminate("p").await, "there is nothing left to terminate");
        client.ok("environment/status", json!(null)).await;
        assert_eq!(marker.carriers().len(), 1, "the job is left alone");
        client.hang_up().await;
        marker.gone_within(LIMIT, "the job ends with the session").await;
        server.shut_down().await;
    }
}

#[tokio::test]
async fn a_start_that_fails_leaves_nothing() {
    for containment in containments() {
        let server = server(containment, Duration::ZERO);
        let marker = Marker::new();
        let mut client = Client::connect(&server).await;
        for argv in [&["/no/such"][..], &["/tmp"], &[]] {
            let params = support::start_params("p", argv, marker.extra());
            client.refused("process/start", params).await;
        }
        assert_eq!(marker.carriers(), [0; 0]);
        server.shut_down().await;
    }
}

/// Not in a `tokio::test`, within which the role of a server could not start a runtime.
fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}

/// Tells this test binary that it is started as a server, and as which kind.
const ROLE: &str = "EXEC_SERVER_TEST_ROLE";

/// The real thing in a process of its own: this binary again, which then plays a server.
struct RealServer {
    process: Child,
    url: String,
}

impl RealServer {
    fn start(test: &str, role: &str) -> Self {
        let mut process = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", test, "--nocapture", "--test-threads=1"])
            .env(ROLE, role)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        // libtest has begun the line with the name of the test.
        let mut lines =
            BufReader::new(process.stdout.take().unwrap()).lines().map_while(Result::ok);
        let url = lines.find_map(|line| line.find("ws://").map(|start| line[start..].to_owned()));
        RealServer { process, url: url.expect("it prints its URL") }
    }

    /// Never returns.
    fn play(role: &str) -> ! {
        if role == "unprivileged" {
            // SAFETY: takes numbers only.
            assert_eq!(unsafe { libc::setgid(65534) | libc::setuid(65534) }, 0);
        }
        let mut options = ListenOptions::default();
        if role == "stdio" {
            // SAFETY: takes numbers only; nothing else in this process writes to stdout any more.
            assert_eq!(unsafe { libc::dup2(0, 1) }, 1);
            options.url = "stdio".parse().unwrap();
        }
        let served = block_on(run_main(options, ExecServerConfig::default()));
        std::process::exit(if served.is_ok() { 0 } else { 1 })
    }

    fn signal(&self, signal: i32) {
        let pid = libc::pid_t::try_from(self.process.id()).unwrap();
        // SAFETY: takes numbers only, and the process has not been waited for.
        assert_eq!(unsafe { libc::kill(pid, signal) }, 0);
    }

    async fn exit_code(&mut self) -> Option<i32> {
        let mut status = None;
        eventually("the server ends", || {
            status = self.process.try_wait().unwrap();
            status.is_some()
        })
        .await;
        status.and_then(|status| status.code())
    }
}

impl Drop for RealServer {
    fn drop(&mut self) {
        // It has ended, unless the test failed.
        self.process.kill().ok();
        self.process.wait().ok();
    }
}

/// The kinds of server there can be here: root has cgroups, others may have tags only.
fn roles() -> Vec<&'static str> {
    // SAFETY: takes no arguments.
    if unsafe { libc::geteuid() } == 0 {
        return vec!["detect", "unprivileged"];
    }
    exec_testkit::skip("unprivileged: it takes root to become somebody else");
    vec!["detect"]
}

async fn check_real_server(test: &str, signal: i32, expected: Option<i32>) {
    for role in roles() {
        let mut server = RealServer::start(test, role);
        let mut client = Client::on(RawPeer::websocket(&server.url).await.unwrap());
        client.shake_hands(json!({})).await;
        let mut started = start_all(&mut client).await;
        let left = Marker::new();
        client.shell("left behind", LEFT_BEHIND, left.extra()).await;
        client.closed("left behind").await;
        started.push(("left behind", left));
        // And a session whose client is gone already.
        let mut gone = Client::on(RawPeer::websocket(&server.url).await.unwrap());
        gone.shake_hands(json!({})).await;
        let detached = Marker::new();
        gone.start("p", &["sleep", "1000"], detached.extra()).await;
        drop(gone);
        started.push(("detached", detached));

        server.signal(signal);
        assert_eq!(server.exit_code().await, expected, "{role}");
        for (name, marker) in started {
            if expected.is_some() {
                assert_eq!(marker.carriers(), [0; 0], "{role}: {name}");
            } else {
                marker.gone_within(LIMIT, name).await;
            }
        }
    }
}

#[test]
fn a_terminated_server_exits_cleanly_and_leaves_nothing() {
    if let Ok(role) = std::env::var(ROLE) {
        RealServer::play(&role);
    }
    let test = "a_terminated_server_exits_cleanly_and_leaves_nothing";
    block_on(check_real_server(test, libc::SIGTERM, Some(0)));
}

#[test]
fn an_interrupted_server_exits_cleanly_and_leaves_nothing() {
    if let Ok(role) = std::env::var(ROLE) {
        RealServer::play(&role);
    }
    let test = "an_interrupted_server_exits_cleanly_and_leaves_nothing";
    block_on(check_real_server(test, libc::SIGINT, Some(0)));
}

#[test]
fn a_killed_server_leaves_nothing() {
    if let Ok(role) = std::env::var(ROLE) {
        RealServer::play(&role);
    }
    block_on(check_real_server("a_killed_server_leaves_nothing", libc::SIGKILL, None));
}

#[test]
fn a_server_on_stdio_ends_with_its_client_and_leaves_nothing() {
    if let Ok(role) = std::env::var(ROLE) {
        RealServer::play(&role);
    }
    block_on(check_stdio_server());
}

async fn check_stdio_server() {
    // libtest writes to stdout, so the conversation goes through stdin, in both directions.
    let (ours, theirs) = std::os::unix::net::UnixStream::pair().unwrap();
    let mut process = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "a_server_on_stdio_ends_with_its_client_and_leaves_nothing"])
        .args(["--nocapture", "--test-threads=1"])
        .env(ROLE, "stdio")
        .stdin(Stdio::from(std::os::fd::OwnedFd::from(theirs)))
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    ours.set_nonblocking(true).unwrap();
    let ours = tokio::net::UnixStream::from_std(ours).unwrap();
    let (reader, writer) = tokio::io::split(ours);
    let mut client = Client::on(RawPeer::from_io(reader, writer));
    client.shake_hands(json!({})).await;
    let started = start_all(&mut client).await;
    drop(client);
    let mut status = None;
    eventually("the server ends", || {
        status = process.try_wait().unwrap();
        status.is_some()
    })
    .await;
    assert_eq!(status.unwrap().code(), Some(0));
    for (name, marker) in started {
        assert_eq!(marker.carriers(), [0; 0], "{name}");
    }
}
