//! A server, commands on it, and a line between them that is cut after a number of bytes.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::Arc;
use std::sync::Mutex;

use exec_testkit::server::ServerUnderTest;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

/// Our binary, without anybody's configuration.
pub(crate) fn exec_server() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_exec-server"));
    command.env("EXEC_SERVER_HOME", env!("CARGO_TARGET_TMPDIR")).env_remove("EXEC_SERVER_URL");
    command
}

/// A server and a directory of one's own.
pub(crate) struct Stage {
    server: ServerUnderTest,
    directory: TempDir,
}

impl Stage {
    pub(crate) fn new() -> Self {
        let mut command = exec_server();
        command.args(["--listen", "ws://127.0.0.1:0"]);
        Self {
            server: ServerUnderTest::start(command).unwrap(),
            directory: TempDir::new().unwrap(),
        }
    }

    pub(crate) fn url(&self) -> &str {
        self.server.url()
    }

    pub(crate) fn at(&self, name: impl AsRef<Path>) -> PathBuf {
        self.directory.path().join(name)
    }

    /// The same, as a place on the executor for `cp`.
    pub(crate) fn there(&self, name: &str) -> String {
        format!(":{}", self.at(name).display())
    }

    pub(crate) fn write(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.at(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, content).unwrap();
        path
    }

    /// A command on the server, in the directory.
    pub(crate) fn command<A: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = A>) -> Command {
        self.command_by(self.url(), args)
    }

    /// The same by another address.
    pub(crate) fn command_by<A: AsRef<OsStr>>(
        &self,
        url: &str,
        args: impl IntoIterator<Item = A>,
    ) -> Command {
        let mut command = exec_server();
        command.args(args).args(["--url", url]).current_dir(self.directory.path());
        command.stdin(Stdio::null());
        command
    }

    pub(crate) fn run<A: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = A>) -> Done {
        Done::of(self.command(args).output().unwrap())
    }
}

/// A command that has ended.
#[derive(Debug)]
pub(crate) struct Done {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: Vec<u8>,
    pub(crate) stderr: String,
}

impl Done {
    pub(crate) fn of(output: Output) -> Self {
        let stderr = String::from_utf8(output.stderr).unwrap();
        Self { code: output.status.code(), stdout: output.stdout, stderr }
    }

    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.stdout).unwrap()
    }

    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.stdout).unwrap()
    }

    /// It went well and had nothing to complain about.
    #[track_caller]
    pub(crate) fn well(self) -> Self {
        assert_eq!((self.code, self.stderr.as_str()), (Some(0), ""));
        self
    }
}

/// Bytes that no compression, no zero page and no shifted block can hide.
pub(crate) fn noise(len: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut bytes = Vec::with_capacity(len + 8);
    while bytes.len() < len {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        bytes.extend_from_slice(&state.to_le_bytes());
    }
    bytes.truncate(len);
    bytes
}

/// A line that breaks each time a number of bytes has passed, in both directions together.
pub(crate) struct FrailLine {
    url: String,
    cuts: Arc<Mutex<Vec<u64>>>,
    task: JoinHandle<()>,
}

impl FrailLine {
    /// Breaks after the first number of bytes, then after the next, and then no more.
    pub(crate) async fn start(upstream: &str, mut cuts: Vec<u64>) -> Self {
        cuts.reverse();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("ws://{}", listener.local_addr().unwrap());
        let cuts = Arc::new(Mutex::new(cuts));
        let upstream = upstream.strip_prefix("ws://").unwrap().to_owned();
        let task = tokio::spawn({
            let cuts = Arc::clone(&cuts);
            async move {
                loop {
                    let (client, _) = listener.accept().await.unwrap();
                    let server = TcpStream::connect(&upstream).await.unwrap();
                    let left = cuts.lock().unwrap().last().copied();
                    if carry(client, server, left).await {
                        cuts.lock().unwrap().pop();
                    }
                }
            }
        });
        Self { url, cuts, task }
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// Breaks that have not happened.
    pub(crate) fn left(&self) -> usize {
        self.cuts.lock().unwrap().len()
    }
}

impl Drop for FrailLine {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Carries bytes until one end closes or the limit is reached. Tells whether it was reached.
async fn carry(mut client: TcpStream, mut server: TcpStream, left: Option<u64>) -> bool {
    let mut left = left.unwrap_or(u64::MAX);
    let (mut up, mut down) = (vec![0; 64 << 10], vec![0; 64 << 10]);
    loop {
        let moved = tokio::select! {
            read = client.read(&mut up) => match read {
                Ok(0) | Err(_) => return false,
                Ok(bytes) => server.write_all(&up[..bytes]).await.map(|()| bytes),
            },
            read = server.read(&mut down) => match read {
                Ok(0) | Err(_) => return false,
                Ok(bytes) => client.write_all(&down[..bytes]).await.map(|()| bytes),
            },
        };
        let Ok(bytes) = moved else { return false };
        left = left.saturating_sub(bytes as u64);
        if left == 0 {
            return true;
        }
    }
}
