//! A directory with a home, a Codex home and whatever a test puts there; and codex, which sees the
//! same.
#![allow(
    dead_code,
    clippy::unwrap_used,
    reason = "a part of each test binary, which uses its part"
)]

use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;

use exec_environment::{Error, ErrorKind, Places};
use exec_protocol::path_uri::PathUri;
use exec_testkit::codex::{codex_binary, workspace_dir};
use exec_testkit::peer::RawPeer;
use exec_testkit::skip;
use serde::Serialize;
use serde_json::{Value, json};

/// `codex` is the Codex home, `user` the home of the user, `system` the administrator's directory.
pub(crate) struct Fixture(tempfile::TempDir);

impl Fixture {
    pub(crate) fn new() -> Self {
        // Codex does not accept a home below the directory for temporary files.
        let homes = workspace_dir().join(".cache/homes");
        fs::create_dir_all(&homes).unwrap();
        let directory = tempfile::Builder::new().prefix("environment-").tempdir_in(homes).unwrap();
        for name in ["codex", "user", "system"] {
            fs::create_dir(directory.path().join(name)).unwrap();
        }
        Self(directory)
    }

    pub(crate) fn at(&self, path: &str) -> PathBuf {
        self.0.path().canonicalize().unwrap().join(path)
    }

    /// `@` stands for this directory.
    pub(crate) fn expand(&self, text: &str) -> String {
        text.replace('@', self.at("").to_str().unwrap().trim_end_matches('/'))
    }

    pub(crate) fn write(&self, path: &str, text: impl AsRef<[u8]>) {
        let path = self.at(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// With `@` expanded.
    pub(crate) fn write_text(&self, path: &str, text: &str) {
        self.write(path, self.expand(text));
    }

    pub(crate) fn link(&self, path: &str, target: &str) {
        let path = self.at(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        symlink(self.at(target), path).unwrap();
    }

    pub(crate) fn uri(&self, path: &str) -> PathUri {
        PathUri::from_native(&self.at(path)).unwrap()
    }

    pub(crate) fn places(&self) -> Places {
        Places {
            codex_home: Some(self.at("codex")),
            user_home: Some(self.at("user")),
            system: self.at("system"),
        }
    }

    /// What codex, which knows only one administrator's directory, would use.
    pub(crate) fn codex_places(&self) -> Places {
        Places { system: "/etc/codex".into(), ..self.places() }
    }

    /// None, with a word about it, where there is no codex.
    pub(crate) async fn codex(&self) -> Option<RawPeer> {
        let binary = codex_binary().map_err(skip).ok()?;
        let mut command = tokio::process::Command::new(binary);
        command.args(["exec-server", "--listen", "stdio"]).stderr(std::process::Stdio::null());
        command.env("CODEX_HOME", self.at("codex")).env("HOME", self.at("user"));
        let mut peer = RawPeer::stdio(command).unwrap();
        peer.handshake().await.unwrap();
        Some(peer)
    }
}

/// An answer as it is on the wire, without its id.
pub(crate) fn answer(result: Result<impl Serialize, Error>) -> Value {
    match result {
        Ok(result) => json!({ "result": result }),
        Err(error) => {
            let code = match error.kind() {
                ErrorKind::Params => -32602,
                ErrorKind::Request => -32600,
                ErrorKind::Failed => -32603,
            };
            json!({"error": {"code": code, "message": error.to_string()}})
        }
    }
}

/// Codex's answer, likewise.
pub(crate) async fn call(codex: &mut RawPeer, method: &str, params: &Value) -> Value {
    let mut answer = codex.call(method, params.clone()).await.unwrap();
    answer.as_object_mut().unwrap().remove("id");
    answer
}
