//! A server binary, started for a test and gone with it.
//!
//! Its stdout and stderr go to files rather than pipes: nobody has to drain them, and a test can
//! look at the whole of them afterwards.

use std::fs::File;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};

/// Time for the URL line to appear.
const START_PATIENCE: Duration = Duration::from_secs(20);
/// Time between SIGTERM and SIGKILL when the server is dropped.
const STOP_PATIENCE: Duration = Duration::from_secs(5);
const POLL_INTERVAL: Duration = Duration::from_millis(2);

/// A running server that listens on a WebSocket.
pub struct ServerUnderTest {
    child: Child,
    url: String,
    logs: tempfile::TempDir,
}

impl ServerUnderTest {
    /// Starts the server and waits for the first line on its stdout, a `ws://` URL.
    pub fn start(mut command: Command) -> Result<Self> {
        let logs = tempfile::tempdir()?;
        let child = command
            .stdin(Stdio::null())
            .stdout(File::create(logs.path().join("stdout"))?)
            .stderr(File::create(logs.path().join("stderr"))?)
            .spawn()
            .with_context(|| format!("cannot start {command:?}"))?;
        let mut server = Self { child, url: String::new(), logs };
        server.url = server.wait_for_url()?;
        Ok(server)
    }

    fn wait_for_url(&mut self) -> Result<String> {
        let deadline = Instant::now() + START_PATIENCE;
        loop {
            // Looked at before stdout is read, so that a last line is never missed.
            let exited = self.child.try_wait()?;
            if let Some((line, _rest)) = self.stdout().split_once('\n') {
                if !line.starts_with("ws://") && !line.starts_with("wss://") {
                    bail!("the first line on stdout is {line:?}, not a ws:// URL");
                }
                return Ok(line.to_owned());
            }
            if let Some(status) = exited {
                bail!("server ended with {status} before it listened: {}", self.stderr());
            }
            if Instant::now() > deadline {
                bail!("no URL within {START_PATIENCE:?}: {}", self.stderr());
            }
            sleep(POLL_INTERVAL);
        }
    }

    /// The URL it printed.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Everything it has written to stdout.
    pub fn stdout(&self) -> String {
        self.log("stdout")
    }

    /// Everything it has written to stderr.
    pub fn stderr(&self) -> String {
        self.log("stderr")
    }

    /// Where its stderr goes, for tests that want to keep it.
    pub fn stderr_path(&self) -> PathBuf {
        self.logs.path().join("stderr")
    }

    fn log(&self, name: &str) -> String {
        let bytes = std::fs::read(self.logs.path().join(name)).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// Sends a signal to the server alone, not to its children.
    pub fn signal(&self, signal: i32) {
        let pid = libc::pid_t::try_from(self.child.id()).expect("a pid fits pid_t");
        // SAFETY: `kill` takes no pointers. The child is not reaped while we hold it, unless
        // `try_wait` saw its end, and then no caller signals any more or the pid is merely unknown.
        unsafe { libc::kill(pid, signal) };
    }

    /// Waits for the server to end by itself; `None` when it did not.
    pub fn wait_for_exit(&mut self, patience: Duration) -> Result<Option<ExitStatus>> {
        let deadline = Instant::now() + patience;
        loop {
            let status = self.child.try_wait()?;
            if status.is_some() || Instant::now() > deadline {
                return Ok(status);
            }
            sleep(POLL_INTERVAL);
        }
    }
}

impl Drop for ServerUnderTest {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(Some(_))) {
            return;
        }
        self.signal(libc::SIGTERM);
        if !matches!(self.wait_for_exit(STOP_PATIENCE), Ok(Some(_))) {
            // It may have ended in between; there is nothing left to do about it either way.
            self.child.kill().ok();
            self.child.wait().ok();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn the_first_line_is_the_url() {
        let server =
            ServerUnderTest::start(shell("echo ws://127.0.0.1:1; exec sleep 100")).unwrap();
        assert_eq!(server.url(), "ws://127.0.0.1:1");
        let pid = server.pid();
        drop(server);
        assert!(!crate::leaks::is_alive(pid));
    }

    #[test]
    fn a_server_that_fails_shows_its_stderr() {
        let error = ServerUnderTest::start(shell("echo no such flag >&2; exit 3")).err().unwrap();
        assert!(error.to_string().contains("no such flag"), "{error}");
    }
}
