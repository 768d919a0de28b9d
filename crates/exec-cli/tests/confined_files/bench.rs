//! A server, a workspace, and contexts for it.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use exec_testkit::leaks::descendants;
use exec_testkit::peer::RawPeer;
use exec_testkit::server::ServerUnderTest;
use serde_json::{Value, json};

/// No wait in a test is longer. Only a failure comes near.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// What the server has in its environment and nobody else may see.
pub(crate) const SERVER_SECRET: &str = "only-the-server-knows";

/// Engines that make file calls. A test runs with each that works here.
const ENGINES: &[&str] = &["builtin", "bwrap"];

pub(crate) struct Bench {
    pub(crate) server: ServerUnderTest,
    pub(crate) directory: tempfile::TempDir,
    _home: tempfile::TempDir,
}

/// A bench for each engine that works on this host.
pub(crate) async fn benches() -> Vec<Bench> {
    let mut benches = Vec::new();
    for engine in ENGINES {
        let bench = Bench::start(engine);
        let mut peer = bench.connect().await;
        let info = peer.call_ok("environment/info", json!({})).await.unwrap();
        if info["sandbox"]["engine"] == *engine {
            benches.push(bench);
        } else {
            exec_testkit::skip(format!("with {engine}: {}", info["sandbox"]));
        }
    }
    benches
}

impl Bench {
    fn start(engine: &str) -> Self {
        let home = tempfile::tempdir().unwrap();
        let config = format!("sandbox_engine = \"{engine}\"\n");
        std::fs::write(home.path().join("exec-server.toml"), config).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_exec-server"));
        command
            .env("EXEC_SERVER_HOME", home.path())
            .env("SERVER_SECRET", SERVER_SECRET)
            .args(["--listen", "ws://127.0.0.1:0"]);
        let server = ServerUnderTest::start(command).unwrap();
        let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let bench = Self { server, directory, _home: home };
        std::fs::create_dir(bench.workspace()).unwrap();
        std::fs::create_dir(bench.at("outside")).unwrap();
        std::fs::write(bench.at("outside/f"), "outside").unwrap();
        bench
    }

    pub(crate) async fn connect(&self) -> RawPeer {
        let mut peer = RawPeer::websocket(self.server.url()).await.unwrap();
        peer.handshake().await.unwrap();
        peer
    }

    /// Below the directory that holds the workspace.
    pub(crate) fn at(&self, name: &str) -> PathBuf {
        self.directory.path().canonicalize().unwrap().join(name)
    }

    pub(crate) fn workspace(&self) -> PathBuf {
        self.at("workspace")
    }

    /// In the workspace.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.workspace().join(name)
    }

    pub(crate) fn read_only(&self) -> Value {
        self.context(&[special("root", "read")])
    }

    pub(crate) fn workspace_write(&self) -> Value {
        self.context(&[special("root", "read"), special("project_roots", "write")])
    }

    /// The workspace can be written to, but for that path, which cannot even be read.
    pub(crate) fn denying(&self, path: &Path) -> Value {
        let denied = json!({"path": {"type": "path", "path": uri(path)}, "access": "deny"});
        self.context(&[special("root", "read"), special("project_roots", "write"), denied])
    }

    /// Only what programs need, and the workspace.
    pub(crate) fn minimal(&self) -> Value {
        self.context(&[special("minimal", "read"), special("project_roots", "write")])
    }

    pub(crate) fn context(&self, entries: &[Value]) -> Value {
        json!({
            "permissions": {
                "type": "managed",
                "file_system": {"type": "restricted", "entries": entries},
                "network": "restricted",
            },
            "cwd": uri(&self.workspace()),
            "workspaceRoots": [uri(&self.workspace())],
            "windowsSandboxLevel": "disabled",
        })
    }

    /// The workers of the server.
    pub(crate) fn workers(&self) -> Vec<u32> {
        workers_of(self.server.pid())
    }

    /// Names in the workspace.
    pub(crate) fn names(&self) -> Vec<String> {
        names(&self.workspace())
    }
}

pub(crate) fn workers_of(server: u32) -> Vec<u32> {
    let is_worker = |pid: &u32| {
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        line.ends_with(b"\0__file-worker\0")
    };
    descendants(server).into_iter().filter(is_worker).collect()
}

pub(crate) fn names(directory: &Path) -> Vec<String> {
    let names = std::fs::read_dir(directory).unwrap();
    let mut names: Vec<_> =
        names.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

pub(crate) fn special(kind: &str, access: &str) -> Value {
    json!({"path": {"type": "special", "value": {"kind": kind}}, "access": access})
}

pub(crate) fn uri(path: &Path) -> String {
    format!("file://{}", path.display())
}

/// The code of an answer; 0 for a result.
pub(crate) fn code(answer: &Value) -> i64 {
    answer["error"]["code"].as_i64().unwrap_or(0)
}

/// Waits until it holds.
pub(crate) async fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < deadline, "never: {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
