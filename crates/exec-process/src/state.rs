//! What a process and the task that owns its child share, under one lock: the log, the way to stdin,
//! and what has been asked about the end.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use exec_protocol::process::Stream;
use exec_sandbox::denial::{self, Scanner};

use crate::log::OutputLog;
use crate::stdin::{StdinQueue, WriteIds};
use crate::sys::{self, ContainedGroup};

pub(crate) struct State {
    pub(crate) log: OutputLog,
    pub(crate) stdin: Stdin,
    pub(crate) stdin_queue: StdinQueue,
    pub(crate) group: Option<Arc<ContainedGroup>>,
    pub(crate) ending: Ending,
    /// The child has been waited for: its number may belong to somebody else.
    pub(crate) reaped: bool,
    /// Who passes signals on to the command, if that is not the child itself; none once it is reaped.
    pub(crate) signals: Option<OwnedFd>,
    pub(crate) write_ids: WriteIds,
    /// Its time was up before its exit.
    pub(crate) deadline_passed: bool,
    /// Of a confined command only.
    pub(crate) confined: Option<Confined>,
}

/// What there is besides for a confined command.
pub(crate) struct Confined {
    /// Looks for signs that the sandbox said no.
    pub(crate) scanner: Scanner,
    /// Dropped when nothing of the command is left.
    pub(crate) keep: Keep,
}

/// Something that has to exist as long as a confined command.
pub type Keep = Box<dyn Send>;

impl Confined {
    pub(crate) fn new(keep: Keep) -> Self {
        Self { scanner: Scanner::new(), keep }
    }

    /// Output of the command.
    pub(crate) fn saw(&mut self, stream: Stream, data: &[u8]) {
        let stream = match stream {
            Stream::Stdout | Stream::Pty => denial::Stream::Stdout,
            Stream::Stderr => denial::Stream::Stderr,
        };
        self.scanner.feed(stream, data);
    }
}

/// Where writes go.
#[derive(Debug)]
pub(crate) enum Stdin {
    /// A pipe or a terminal.
    Open(Arc<OwnedFd>),
    /// Somebody closed it, or nobody reads: further bytes vanish.
    Gone,
    /// There never was one.
    Never,
}

/// What has been asked about the end of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ending {
    /// Nothing.
    No,
    /// SIGTERM is sent; SIGKILL to all follows after this time.
    Graceful(Duration),
    /// SIGKILL to all is sent.
    Killed,
}

impl State {
    /// SIGKILL to the process group now, and to every other descendant.
    pub(crate) fn kill(&mut self, pid: i32) {
        self.ending = Ending::Killed;
        if !self.reaped {
            // Gone already: then there is nothing to kill.
            sys::signal_group(pid, libc::SIGKILL).ok();
        }
        let Some(group) = self.group.clone() else { return };
        if group.mechanism().is_instant() {
            if let Err(error) = group.kill() {
                tracing::warn!(%error, pid, "cannot kill the descendants");
            }
        } else {
            // Looks through all processes of the machine, which takes milliseconds.
            tokio::task::spawn_blocking(move || {
                if let Err(error) = group.kill() {
                    tracing::warn!(%error, pid, "cannot kill the descendants");
                }
            });
        }
    }

    /// Writes what the child takes now. Returns the places that became free, and whether the rest
    /// has to wait for the child.
    pub(crate) fn write_queued(&mut self) -> (u32, bool) {
        let mut freed = 0;
        let Stdin::Open(target) = &self.stdin else {
            return (self.stdin_queue.discard(), false);
        };
        while let Some(data) = self.stdin_queue.front() {
            match sys::write(target.as_fd(), data) {
                Ok(bytes) => freed += self.stdin_queue.wrote(bytes),
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
                    return (freed, true);
                }
                // The child closed its end: what is written now vanishes, as it would in a pipe.
                Err(_) => {
                    freed += self.stdin_queue.discard();
                    self.stdin = Stdin::Gone;
                    return (freed, false);
                }
            }
        }
        if self.stdin_queue.should_close() {
            self.stdin = Stdin::Gone;
        }
        (freed, false)
    }
}
