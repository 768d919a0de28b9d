//! How soon a waiting `process/read` is answered once the child writes, and whether a request that
//! comes after it has to wait.
//!
//! The child copies a named pipe that we write to. So the moment of its output is known, and no
//! request is needed to bring it about.

use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use tempfile::TempDir;

use super::Stage;
use crate::bare::Bare;
use crate::client::{Event, Start, Stdio};
use crate::report::Report;
use crate::stats::Scale;

const WAKE_UPS: usize = 300;
const WAKE_UP: &str = "from the child's output to the answer";
/// Time for the request to arrive, so that it does wait.
const SETTLE: Duration = Duration::from_millis(2);
const POLL_MS: u64 = 10_000;

const BEHIND: &str = "a request behind a long poll of 300 ms";
const BEHIND_COUNT: usize = 20;
const BEHIND_MS: u64 = 300;

pub(super) async fn on_server(stage: &mut Stage<'_>) -> Result<()> {
    let mut fifo = Fifo::new()?;
    let mut client = stage.connect().await?;
    let argv = &["/bin/cat", fifo.path()?];
    let process = client.started(Start { argv, stdio: Stdio::Pipes }).await?;
    let mut spans = Vec::new();
    for _ in 0..stage.scale.count(WAKE_UPS) {
        let id = client.read(process, POLL_MS)?;
        client.flush().await?;
        tokio::time::sleep(SETTLE).await;
        let want = client.bytes(process) + 1;
        let begin = Instant::now();
        fifo.pipe.write_all(b"x")?;
        client.answer(id).await?;
        spans.push(begin.elapsed());
        client.output(process, want).await?;
    }
    stage.report.latency(WAKE_UP, &spans);

    let mut spans = Vec::new();
    for _ in 0..stage.scale.count(BEHIND_COUNT) {
        let poll = client.read(process, BEHIND_MS)?;
        client.flush().await?;
        tokio::time::sleep(SETTLE).await;
        let begin = Instant::now();
        let id = client.request("environment/status", "{}")?;
        let mut polled = false;
        loop {
            match client.next().await? {
                Event::Answer(answered) if answered == id => break,
                Event::Answer(answered) => polled |= answered == poll,
                Event::Output(_) | Event::Exited(_) | Event::Closed(_) | Event::Other => {}
            }
        }
        spans.push(begin.elapsed());
        if !polled {
            client.answer(poll).await?;
        }
    }
    stage.report.typical(BEHIND, &spans);
    Ok(())
}

pub(super) fn bare(scale: Scale, report: &mut Report) -> Result<()> {
    let mut fifo = Fifo::new()?;
    let mut child = Bare::start(&["/bin/cat", fifo.path()?], Stdio::Pipes)?;
    let mut spans = Vec::new();
    for _ in 0..scale.count(WAKE_UPS) {
        std::thread::sleep(SETTLE);
        let begin = Instant::now();
        fifo.pipe.write_all(b"x")?;
        child.read_exactly(1)?;
        spans.push(begin.elapsed());
    }
    report.latency(WAKE_UP, &spans);
    Ok(())
}

/// A named pipe, open at our end as long as this lives.
struct Fifo {
    pipe: File,
    path: PathBuf,
    /// Where it is; goes with it.
    _directory: TempDir,
}

impl Fifo {
    fn new() -> Result<Self> {
        let directory = tempfile::tempdir()?;
        let path = directory.path().join("fifo");
        let made = Command::new("mkfifo").arg(&path).status().context("cannot run mkfifo")?;
        ensure!(made.success(), "mkfifo failed");
        // For both directions, because to open it only for writing would wait for a reader.
        let pipe = OpenOptions::new().read(true).write(true).open(&path)?;
        Ok(Self { pipe, path, _directory: directory })
    }

    fn path(&self) -> Result<&str> {
        self.path.to_str().context("the temporary directory has an odd name")
    }
}
