//! Taking many events at once: until the end, or for a while. Nothing here is a call of its own:
//! it is all made of events, writes and `closeStdin`.

use std::time::Duration;

use exec_protocol::process::Stream;
use futures_util::future::{Either, select};
use tokio::time::{Instant, timeout_at};

use crate::ExecServerError;
use crate::event::ProcessEvent;
use crate::limits::{EXIT_GRACE, TIME_MAX};
use crate::process::{ExitStatus, Process, StdinKind};

/// Everything a process wrote, and how it ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Output {
    /// Of descriptor 1, or of the terminal.
    pub stdout: Vec<u8>,
    /// Of descriptor 2.
    pub stderr: Vec<u8>,
    /// The exit code.
    pub code: i32,
    /// The sandbox was probably the reason for the failure.
    pub sandbox_denied: Option<bool>,
    /// Bytes that are missing above: 0 when it is complete, `None` when something is missing and
    /// the server does not tell how much.
    pub gap_bytes: Option<u64>,
}

/// What a process wrote within a while.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Yielded {
    /// Of all streams, in the order in which it was written.
    pub output: Vec<u8>,
    /// Bytes that are missing above: 0 when it is complete, `None` when something is missing and
    /// the server does not tell how much.
    pub gap_bytes: Option<u64>,
    /// How the process ended, if it has.
    pub exited: Option<ExitStatus>,
    /// Nothing more will come.
    pub closed: bool,
    /// It ended early because `output` was full; more is there already.
    pub full: bool,
}

impl Process {
    /// Waits until the process has closed: it exited, and nothing can write to its streams any
    /// more. Output on the way is discarded; see [`Process::communicate`] to keep it.
    ///
    /// # Errors
    /// When the process was lost. That says nothing of how it ended.
    pub async fn wait(&self) -> Result<ExitStatus, ExecServerError> {
        while self.next_event().await.is_some() {}
        self.outcome()
    }

    /// Writes `input`, closes stdin, and collects everything until the process has closed.
    ///
    /// How the end of the input is told depends on what stdin is:
    /// - a pipe: `process/closeStdin`. Codex has no such thing, so with a piped stdin this fails
    ///   there at once, before anything is written: the child might wait for ever.
    /// - a terminal: end-of-file characters (0x04), as somebody at it would type them.
    /// - nothing: then `input` has to be empty.
    ///
    /// Input that the child does not read is no error: it may exit without it.
    ///
    /// # Errors
    /// When the process was lost, wrote more than `collect_bytes_max`, or a write failed. The
    /// process runs on then; dropping the handle ends it.
    pub async fn communicate(&self, input: &[u8]) -> Result<Output, ExecServerError> {
        match self.stdin_kind() {
            StdinKind::Pipe | StdinKind::Unknown => {
                self.needs_process_control("process/closeStdin, the end of input for a pipe")?;
            }
            StdinKind::Nothing if !input.is_empty() => {
                return Err(ExecServerError::Unsupported("input for a process without stdin"));
            }
            StdinKind::Nothing | StdinKind::Terminal => {}
        }
        let feed = std::pin::pin!(self.feed(input));
        let collect = std::pin::pin!(self.collect());
        match select(feed, collect).await {
            // Whether everything was written no longer matters.
            Either::Right((output, _)) => output,
            Either::Left((fed, collect)) => match fed {
                // The child closed its stdin, or is gone; its output tells the rest.
                Ok(()) | Err(ExecServerError::WriteRefused(_)) => collect.await,
                Err(error) => Err(error),
            },
        }
    }

    async fn feed(&self, input: &[u8]) -> Result<(), ExecServerError> {
        if !input.is_empty() {
            self.write(input).await?;
        }
        match self.stdin_kind() {
            StdinKind::Pipe | StdinKind::Unknown => self.close_stdin().await,
            // In the middle of a line the first one only sends what was typed so far.
            StdinKind::Terminal if input.last().is_none_or(|last| *last == b'\n') => {
                self.write(b"\x04").await
            }
            StdinKind::Terminal => self.write(b"\x04\x04").await,
            StdinKind::Nothing => Ok(()),
        }
    }

    async fn collect(&self) -> Result<Output, ExecServerError> {
        let max = self.client().collect_bytes_max();
        let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
        let mut gap_bytes = Some(0);
        while let Some(event) = self.next_event().await {
            match event {
                ProcessEvent::Output { stream, bytes, .. } => {
                    if stdout.len() + stderr.len() + bytes.len() > max {
                        return Err(ExecServerError::OutputTooLarge { max });
                    }
                    match stream {
                        Stream::Stdout | Stream::Pty => stdout.extend_from_slice(&bytes),
                        Stream::Stderr => stderr.extend_from_slice(&bytes),
                    }
                }
                ProcessEvent::Gap { bytes } => add_gap(&mut gap_bytes, bytes),
                ProcessEvent::Exited { .. } | ProcessEvent::Closed | ProcessEvent::Lost(_) => {}
            }
        }
        let ExitStatus { code, sandbox_denied } = self.outcome()?;
        Ok(Output { stdout, stderr, code, sandbox_denied, gap_bytes })
    }

    /// Collects output for a while: until the window has passed, `max_bytes` are there, or the
    /// process has closed. After an exit the streams get a moment to close as well. What is not
    /// taken is kept for the next call.
    ///
    /// # Errors
    /// When the process was lost. What had been collected is gone with it.
    pub async fn collect_for(
        &self,
        window: Duration,
        max_bytes: usize,
    ) -> Result<Yielded, ExecServerError> {
        let mut deadline = Instant::now() + window.min(TIME_MAX);
        let mut output = Vec::new();
        let mut gap_bytes = Some(0);
        let (mut closed, mut full) = (false, false);
        while !full {
            match timeout_at(deadline, self.next_event()).await {
                Err(_) => break,
                Ok(Some(ProcessEvent::Output { seq, stream, mut bytes })) => {
                    let rest = bytes.split_off(bytes.len().min(max_bytes - output.len()));
                    output.append(&mut bytes);
                    if !rest.is_empty() {
                        self.put_back(ProcessEvent::Output { seq, stream, bytes: rest });
                        full = true;
                    }
                }
                Ok(Some(ProcessEvent::Gap { bytes })) => add_gap(&mut gap_bytes, bytes),
                Ok(Some(ProcessEvent::Exited { .. })) => {
                    deadline = deadline.min(Instant::now() + EXIT_GRACE);
                }
                Ok(Some(ProcessEvent::Closed) | None) => {
                    self.outcome()?;
                    closed = true;
                    break;
                }
                Ok(Some(ProcessEvent::Lost(reason))) => return Err(reason.into()),
            }
        }
        Ok(Yielded { output, gap_bytes, exited: self.exit_status(), closed, full })
    }
}

fn add_gap(sum: &mut Option<u64>, bytes: Option<u64>) {
    *sum = sum.zip(bytes).map(|(sum, bytes)| sum + bytes);
}
