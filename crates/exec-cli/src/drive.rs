//! Between a process on an executor and the standard streams and signals of this program.

use std::io::{Read, Write};
use std::time::Duration;

use anyhow::Context;
use exec_client::{ExecServerError, Process, ProcessEvent};
use exec_protocol::process::{Stream, TerminalSize, TerminateMode};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;

use crate::terminal;

/// Pieces of our stdin that wait to be sent.
const INPUT_QUEUE: usize = 16;

/// Bytes read from our stdin at once.
const INPUT_BYTES: usize = 32 << 10;

/// What a polite SIGTERM gives the command.
const TERMINATE_GRACE_MS: u64 = 2000;

/// How often, and for how long, a terminal is told that our input has ended.
const END_STEP: Duration = Duration::from_millis(500);
const ENDS_MAX: u32 = 120;

/// What reaches the process besides its own events.
enum Outside {
    Input(Option<Vec<u8>>),
    EndAgain,
    Interrupt,
    Terminate,
    Resize,
}

/// Passes everything through until the process has closed; returns its exit code.
pub(crate) async fn drive(
    process: &Process,
    stdin: bool,
    resize: bool,
    watch: impl FnMut(&ProcessEvent),
) -> anyhow::Result<i32> {
    let output = copy_output(process, watch);
    let input = pass_in(process, stdin, resize);
    tokio::select! {
        code = output => code,
        error = input => Err(error),
    }
}

/// Writes the process's output here until it has closed.
async fn copy_output(
    process: &Process,
    mut watch: impl FnMut(&ProcessEvent),
) -> anyhow::Result<i32> {
    let mut code = None;
    while let Some(event) = process.next_event().await {
        watch(&event);
        match event {
            ProcessEvent::Output { stream: Stream::Stderr, bytes, .. } => {
                put(std::io::stderr().lock(), &bytes)?;
            }
            ProcessEvent::Output { bytes, .. } => put(std::io::stdout().lock(), &bytes)?,
            ProcessEvent::Gap { bytes: Some(bytes) } => {
                eprintln!("exec-server: {bytes} bytes of output were lost");
            }
            ProcessEvent::Gap { bytes: None } => eprintln!("exec-server: output was lost"),
            ProcessEvent::Exited { code: exited, .. } => code = Some(exited),
            ProcessEvent::Closed => break,
            ProcessEvent::Lost(reason) => return Err(ExecServerError::from(reason).into()),
        }
    }
    code.context("the process ended without an exit code")
}

fn put(mut target: impl Write, bytes: &[u8]) -> anyhow::Result<()> {
    target.write_all(bytes).and_then(|()| target.flush()).context("cannot write the output")
}

/// Sends our input and signals to the process. Returns only when that fails.
async fn pass_in(process: &Process, stdin: bool, resize: bool) -> anyhow::Error {
    let mut signals = match Signals::new() {
        Ok(signals) => signals,
        Err(error) => return anyhow::Error::new(error).context("cannot watch signals"),
    };
    let mut input = stdin.then(read_stdin);
    let mut interrupts = 0;
    let mut ends = None;
    loop {
        let outside = tokio::select! {
            piece = next_input(&mut input) => Outside::Input(piece),
            () = tokio::time::sleep(END_STEP), if ends.is_some_and(|ends| ends < ENDS_MAX) => {
                Outside::EndAgain
            }
            outside = signals.next() => outside,
        };
        let passed = match outside {
            Outside::Input(Some(bytes)) => match process.write(&bytes).await {
                // It does not read any more: its exit is about to be seen.
                Err(ExecServerError::Rpc { .. } | ExecServerError::WriteRefused(_)) => {
                    input = None;
                    Ok(())
                }
                other => other,
            },
            Outside::Input(None) => {
                input = None;
                // A shell that is only just starting misses the first.
                ends = resize.then_some(0);
                end_input(process, resize).await
            }
            Outside::EndAgain => {
                ends = ends.map(|ends| ends + 1);
                end_input(process, resize).await
            }
            Outside::Interrupt => {
                interrupts += 1;
                // Whoever insists wants it gone.
                if interrupts < 3 { process.interrupt().await } else { kill(process).await }
            }
            Outside::Terminate => {
                let mode = TerminateMode::Graceful { timeout_ms: TERMINATE_GRACE_MS };
                process.terminate(mode).await.map(drop)
            }
            Outside::Resize if resize => match terminal::size() {
                Some((rows, cols)) => process.resize(TerminalSize { rows, cols }).await,
                None => Ok(()),
            },
            Outside::Resize => Ok(()),
        };
        if let Err(error) = passed {
            return error.into();
        }
    }
}

async fn kill(process: &Process) -> Result<(), ExecServerError> {
    process.terminate(TerminateMode::Force).await.map(drop)
}

/// The end of our input is the end of the command's.
async fn end_input(process: &Process, terminal: bool) -> Result<(), ExecServerError> {
    // A terminal has no end; 0x04 at the beginning of a line is how a person says it.
    let ended = if terminal { process.write(b"\x04").await } else { process.close_stdin().await };
    match ended {
        Err(ExecServerError::Rpc { .. } | ExecServerError::WriteRefused(_)) => Ok(()),
        other => other,
    }
}

async fn next_input(input: &mut Option<mpsc::Receiver<Vec<u8>>>) -> Option<Vec<u8>> {
    match input {
        Some(pieces) => pieces.recv().await,
        None => std::future::pending().await,
    }
}

/// Our stdin, read by a thread: a terminal or a file cannot be polled.
fn read_stdin() -> mpsc::Receiver<Vec<u8>> {
    let (sender, pieces) = mpsc::channel(INPUT_QUEUE);
    std::thread::spawn(move || {
        let mut stdin = std::io::stdin().lock();
        let mut buffer = vec![0; INPUT_BYTES];
        while let Ok(bytes @ 1..) = stdin.read(&mut buffer) {
            if sender.blocking_send(buffer[..bytes].to_vec()).is_err() {
                return;
            }
        }
    });
    pieces
}

struct Signals {
    interrupt: tokio::signal::unix::Signal,
    terminate: tokio::signal::unix::Signal,
    hang_up: tokio::signal::unix::Signal,
    window: tokio::signal::unix::Signal,
}

impl Signals {
    fn new() -> std::io::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hang_up: signal(SignalKind::hangup())?,
            window: signal(SignalKind::window_change())?,
        })
    }

    async fn next(&mut self) -> Outside {
        tokio::select! {
            _ = self.interrupt.recv() => Outside::Interrupt,
            _ = self.terminate.recv() => Outside::Terminate,
            _ = self.hang_up.recv() => Outside::Terminate,
            _ = self.window.recv() => Outside::Resize,
        }
    }
}
