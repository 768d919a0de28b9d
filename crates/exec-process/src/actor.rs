//! The task that owns a child: it reads what the child writes, sees it exit, and writes both into
//! the log, so the log's order is the order in which things were seen.
//!
//! ```text
//!   reading ──exit──► exited ──both streams ended──► closed
//!      │                 ▲
//!      └── both ended ───┘   (a child may close its streams and live on)
//! ```
//!
//! One wake-up handles whatever is ready: exit, both streams and stdin. A child that never stops
//! writing is interrupted every [`READ_BUDGET`] bytes, so that a kill is not starved.

use std::cell::RefCell;
use std::future::poll_fn;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use exec_protocol::process::Stream;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::time::Sleep;

use crate::log::Exit;
use crate::process::Process;
use crate::state::{Ending, Stdin};
use crate::sys::{self, Usage};

/// One read, and so the largest chunk. As much as a pipe holds unless it is made larger.
const READ_BYTES: usize = 64 << 10;

/// Bytes read in one wake-up before others get their turn.
const READ_BUDGET: usize = 256 << 10;

/// Wake-ups that read what was written before the exit: together more than a pipe can hold.
const EXIT_TURNS: u32 = 4;

/// After a kill, how long a stream may stay open: something unkillable holds it.
const CLOSE_AFTER_KILL: Duration = Duration::from_millis(200);

thread_local! {
    /// Shared by all children of a thread: an idle child costs no buffer.
    static SCRATCH: RefCell<Vec<u8>> = RefCell::new(vec![0; READ_BYTES]);
}

struct Actor {
    process: Arc<Process>,
    pidfd: Option<AsyncFd<Arc<OwnedFd>>>,
    outputs: [Option<Output>; 2],
    /// Registered only while the child does not take its input as fast as it comes.
    stdin: Option<AsyncFd<Arc<OwnedFd>>>,
    exit: Option<(i32, Usage)>,
    exit_turns: u32,
    deadline: Option<Pin<Box<Sleep>>>,
}

struct Output {
    fd: AsyncFd<Arc<OwnedFd>>,
    stream: Stream,
}

/// Why reading stopped.
enum Drained {
    /// Nothing more for now, or for ever.
    Yes,
    /// The follower is behind.
    NoRoom,
    /// Others first.
    Budget,
}

/// Takes over the descriptors and starts the task.
pub(crate) fn start(
    process: &Arc<Process>,
    pidfd: OwnedFd,
    stdout: Option<Arc<OwnedFd>>,
    stderr: Option<Arc<OwnedFd>>,
    terminal: bool,
) -> io::Result<()> {
    let output = |fd: Option<Arc<OwnedFd>>, stream, interest| {
        let fd = fd.map(|fd| watch(fd, interest)).transpose()?;
        Ok::<_, io::Error>(fd.map(|fd| Output { fd, stream }))
    };
    let first = if terminal {
        output(stdout, Stream::Pty, Interest::READABLE | Interest::WRITABLE)?
    } else {
        output(stdout, Stream::Stdout, Interest::READABLE)?
    };
    let mut actor = Actor {
        process: process.clone(),
        pidfd: Some(watch(Arc::new(pidfd), Interest::READABLE)?),
        outputs: [first, output(stderr, Stream::Stderr, Interest::READABLE)?],
        stdin: None,
        exit: None,
        exit_turns: 0,
        deadline: None,
    };
    tokio::spawn(async move {
        poll_fn(|cx| actor.poll(cx)).await;
        let process = actor.process.clone();
        drop(actor);
        process.announce_closed();
        // The answer is on its way; tidying up can wait for it.
        tokio::task::yield_now().await;
        if process.releases_at_once() {
            process.release_group();
        }
    });
    Ok(())
}

pub(crate) fn watch(fd: Arc<OwnedFd>, interest: Interest) -> io::Result<AsyncFd<Arc<OwnedFd>>> {
    // SAFETY: the descriptor must stay open, and be the same, until it is deregistered. The
    // `AsyncFd` holds an owner of it, which can neither be replaced nor closed before that.
    let watched = unsafe { AsyncFd::register_with_interest(fd, interest) };
    Ok(watched?)
}

impl Actor {
    /// Ready when the process has closed.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.process.actor.register(cx.waker());
        self.poll_stdin(cx);
        let exiting = self.poll_exit(cx);
        let before = self.process.progress();
        let drained = self.read_outputs(cx);
        if let Some(exit) = exiting {
            // What the child itself wrote comes before its exit; what it left behind may write for
            // ever, and is waited for no longer than for a pipe's worth.
            self.exit_turns += 1;
            if !matches!(drained, Drained::Budget) || self.exit_turns > EXIT_TURNS {
                self.exited(exit);
            }
        }
        let closed = self.poll_close(cx);
        if self.process.progress() != before {
            self.process.announce();
        }
        if matches!(drained, Drained::Budget) {
            cx.waker().wake_by_ref();
        }
        closed
    }

    /// The exit code and usage, once the child can be waited for and until they are in the log.
    fn poll_exit(&mut self, cx: &mut Context<'_>) -> Option<(i32, Usage)> {
        if let Some(pidfd) = &self.pidfd
            && let Poll::Ready(ready) = pidfd.poll_read_ready(cx)
        {
            let status = sys::try_wait_with_usage(pidfd.get_ref().as_fd());
            match (status, ready) {
                (Ok(None), Ok(mut guard)) => {
                    guard.clear_ready();
                    return self.poll_exit(cx);
                }
                (Ok(None), Err(_)) => {}
                (Ok(Some((status, usage))), _) => self.reaped(status.code(), usage),
                // Somebody else waited for our child: its code is lost.
                (Err(_), _) => self.reaped(-1, Usage::default()),
            }
        }
        self.exit.filter(|_| self.process.state().exit.is_none())
    }

    fn reaped(&mut self, code: i32, usage: Usage) {
        self.pidfd = None;
        self.exit = Some((code, usage));
        let mut state = self.process.lock();
        state.reaped = true;
        state.signals = None;
        if matches!(state.ending, Ending::Graceful(_)) {
            state.kill(self.process.pid());
        }
    }

    fn exited(&mut self, (code, usage): (i32, Usage)) {
        let mut state = self.process.lock();
        // With the first process of its namespace every other of the command is gone too.
        let confined = state.confined.take();
        let sandbox_denied = confined.as_ref().is_some_and(|it| it.scanner.verdict(code));
        let deadline_passed = state.deadline_passed;
        state.log.exited(Exit { code, sandbox_denied, usage, deadline_passed });
        drop(state);
        if let Some(confined) = confined {
            // May touch the disk.
            tokio::task::spawn_blocking(move || drop(confined.keep));
        }
        self.deadline = None;
    }

    /// Reads both streams until they have nothing more, fairly.
    fn read_outputs(&mut self, cx: &mut Context<'_>) -> Drained {
        let mut budget = READ_BUDGET;
        SCRATCH.with_borrow_mut(|scratch| {
            for slot in &mut self.outputs {
                while let Some(output) = slot {
                    if !self.process.lock().log.has_room() {
                        return Drained::NoRoom;
                    }
                    match output.poll_read(cx, scratch) {
                        Poll::Pending => break,
                        Poll::Ready(0) => *slot = None,
                        Poll::Ready(bytes) => {
                            let mut state = self.process.lock();
                            state.log.append(output.stream, &scratch[..bytes]);
                            if let Some(confined) = &mut state.confined {
                                confined.saw(output.stream, &scratch[..bytes]);
                            }
                            drop(state);
                            budget = budget.saturating_sub(bytes);
                            if budget == 0 {
                                return Drained::Budget;
                            }
                        }
                    }
                }
            }
            Drained::Yes
        })
    }

    /// Writes queued input when the child takes it.
    fn poll_stdin(&mut self, cx: &mut Context<'_>) {
        loop {
            let mut state = self.process.lock();
            let (freed, blocked) = state.write_queued();
            let target = match &state.stdin {
                Stdin::Open(target) if blocked => Some(target.clone()),
                Stdin::Open(_) | Stdin::Gone | Stdin::Never => None,
            };
            drop(state);
            self.process.stdin_places.add_permits(freed as usize);
            let Some(target) = target else {
                self.stdin = None;
                return;
            };
            if self.poll_writable(cx, target).is_pending() {
                return;
            }
        }
    }

    fn poll_writable(&mut self, cx: &mut Context<'_>, target: Arc<OwnedFd>) -> Poll<()> {
        let fd = if self.process.is_terminal() {
            // One descriptor for both directions.
            match &self.outputs[0] {
                Some(output) => &output.fd,
                None => return Poll::Pending,
            }
        } else {
            if self.stdin.is_none() {
                self.stdin = watch(target, Interest::WRITABLE).ok();
            }
            match &self.stdin {
                Some(stdin) => stdin,
                None => return Poll::Pending,
            }
        };
        match ready!(fd.poll_write_ready(cx)) {
            Ok(mut guard) => guard.clear_ready(),
            Err(_) => return Poll::Pending,
        }
        // Readiness may have come between the failed write and the clearing: look once more.
        fd.poll_write_ready(cx).map(drop)
    }

    /// Closes when all is known, and ends what outstays its time.
    fn poll_close(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let mut state = self.process.lock();
        let exited = state.log.state().exit.is_some();
        let wait = match state.ending {
            Ending::Graceful(grace) if !exited => Some(grace),
            Ending::Killed if exited => Some(CLOSE_AFTER_KILL),
            Ending::No | Ending::Graceful(_) | Ending::Killed => None,
        };
        if let Some(wait) = wait {
            let deadline = self.deadline.get_or_insert_with(|| Box::pin(tokio::time::sleep(wait)));
            if deadline.as_mut().poll(cx).is_ready() {
                self.deadline = None;
                if exited {
                    self.outputs = [None, None];
                } else {
                    state.kill(self.process.pid());
                }
            }
        }
        if !exited || self.outputs.iter().any(Option::is_some) {
            return Poll::Pending;
        }
        state.log.closed();
        let freed = state.stdin_queue.discard();
        if matches!(state.stdin, Stdin::Open(_)) {
            state.stdin = Stdin::Gone;
        }
        drop(state);
        self.process.stdin_places.add_permits(freed as usize);
        Poll::Ready(())
    }
}

impl Output {
    /// Bytes read, 0 at the end of the stream.
    fn poll_read(&self, cx: &mut Context<'_>, scratch: &mut [u8]) -> Poll<usize> {
        loop {
            let Ok(mut guard) = ready!(self.fd.poll_read_ready(cx)) else {
                return Poll::Ready(0);
            };
            match sys::read(self.fd.get_ref().as_fd(), scratch) {
                Ok(bytes) => {
                    // A short read has emptied the pipe, and the next one would only say so. What
                    // comes later is reported anew, and the end of a stream is never cleared away.
                    // A terminal reads short whenever it likes.
                    if bytes > 0 && bytes < scratch.len() && self.stream != Stream::Pty {
                        guard.clear_ready();
                    }
                    return Poll::Ready(bytes);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => guard.clear_ready(),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // EIO is how a terminal ends; any other failure ends the stream too.
                Err(_) => return Poll::Ready(0),
            }
        }
    }
}
