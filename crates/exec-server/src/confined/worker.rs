//! The server's side of one worker: a task that owns the child, gives it calls and brings back the
//! answers.
//!
//! ```text
//!   starting ──ready──► serving ──nobody asks, or the child ends──► ended
//! ```
//! Calls wait in a bounded queue, and a bounded number is under way. A call that nobody waits for any
//! more is cancelled inside.

use std::collections::HashMap;
use std::future::poll_fn;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::task::{Context, Poll};

use exec_process::launch;
use exec_process::sys::{self, ExitStatus, Spawned};
use exec_protocol::jsonrpc::{self, Message as Rpc, RequestId, RpcError};
use serde::Serialize;
use tokio::io::unix::AsyncFd;
use tokio::sync::{mpsc, oneshot};
use tokio::time::Sleep;

use super::channel::{Channel, Message, watch};
use super::serve::{CANCEL, Cancelled, Hello, STALE};
use super::start::{self, Inside};
use crate::error::Error;
use crate::limits::{
    CONFINED_CALLS_MAX, CONFINED_END_TIME_MAX, CONFINED_IDLE, CONFINED_STDERR_BYTES,
    CONFINED_UNSENT_BYTES, POLICY_TIME_MAX,
};
use crate::scope::Notifier;
use crate::server::Server;

/// A way to ask a worker. When the last one is dropped, it finishes what it was asked, and ends.
#[derive(Clone)]
pub(super) struct Worker {
    calls: mpsc::Sender<Call>,
    next_id: Arc<AtomicI64>,
}

/// What a worker answered.
#[derive(Debug)]
pub(super) struct Answer {
    /// As JSON.
    pub(super) result: Vec<u8>,
    /// The file that came with it.
    pub(super) descriptor: Option<OwnedFd>,
}

/// Why there is no answer.
#[derive(Debug, Clone)]
pub(super) enum Failure {
    /// The worker has ended without seeing the call.
    Unasked,
    /// The answer is an error.
    Answered(RpcError),
    /// The worker could not be started, or ended in the middle.
    Gone(Arc<str>),
}

struct Call {
    id: i64,
    text: Vec<u8>,
    answer: oneshot::Sender<Result<Answer, Failure>>,
}

impl Worker {
    /// Begins to start a worker; calls wait until it serves. What it has to tell of its own accord
    /// goes to `notices`, and then it is not ended for being idle.
    pub(super) fn start(server: &Arc<Server>, inside: Inside, notices: Option<Notifier>) -> Self {
        let (calls, queue) = mpsc::channel(CONFINED_CALLS_MAX);
        // Not kept while it runs: a server that is dropped ends its workers.
        let server = Arc::downgrade(server);
        tokio::spawn(async move {
            let mut queue = queue;
            let started = match server.upgrade() {
                Some(server) => Running::start(&server, &inside, notices).await,
                None => return,
            };
            let failure = match started {
                Ok(running) => running.serve(&mut queue).await,
                Err(error) => Failure::Gone(error.to_string().into()),
            };
            queue.close();
            while let Some(call) = queue.recv().await {
                // Nobody waits for it any more: then nobody is told.
                call.answer.send(Err(failure.clone())).ok();
            }
        });
        Self { calls, next_id: Arc::new(AtomicI64::new(1)) }
    }

    /// Whether it may still be asked.
    pub(super) fn takes_calls(&self) -> bool {
        !self.calls.is_closed()
    }

    pub(super) async fn ask(
        &self,
        method: &str,
        params: &impl Serialize,
    ) -> Result<Answer, Failure> {
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        let mut text = Vec::new();
        jsonrpc::encode_request(&mut text, &RequestId::Number(id), method, params)
            .map_err(|error| Failure::Gone(error.to_string().into()))?;
        let (answer, answered) = oneshot::channel();
        let call = Call { id, text, answer };
        self.calls.send(call).await.map_err(|_| Failure::Unasked)?;
        answered.await.unwrap_or(Err(Failure::Unasked))
    }
}

/// A child that serves.
struct Running {
    child: Spawned,
    channel: Channel,
    said: Said,
    asked: HashMap<i64, oneshot::Sender<Result<Answer, Failure>>>,
    /// It is not what it was, and takes no more calls.
    stale: bool,
    notices: Option<Notifier>,
    /// A notification on its way. Until it is there, no more is taken from the child.
    telling: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
}

/// What can happen to a worker.
enum Event {
    Call(Call),
    Message(Message),
    Cancelled(i64),
    Told,
    /// Nobody asks any more.
    Idle,
    Broken(io::Error),
    Closed,
}

impl Running {
    async fn start(
        server: &Server,
        inside: &Inside,
        notices: Option<Notifier>,
    ) -> Result<Self, Error> {
        let mut child = start::start(server, inside).await?;
        let failed = |error: io::Error| Error::Worker(error.to_string());
        let socket = child.stdout.take().ok_or(Error::Internal)?;
        let pipe = child.stderr.take().map(watch).transpose().map_err(failed)?;
        let mut running = Self {
            channel: Channel::new(socket).map_err(failed)?,
            child,
            said: Said { pipe, newest: Vec::new() },
            asked: HashMap::new(),
            stale: false,
            notices,
            telling: None,
        };
        let hello = Hello::new(&inside.protected);
        let hello = serde_json::to_vec(&hello).map_err(|error| failed(error.into()))?;
        running.channel.send(hello, None).map_err(failed)?;
        match tokio::time::timeout(POLICY_TIME_MAX, running.greeted()).await {
            Ok(Ok(())) => Ok(running),
            Ok(Err(error)) => Err(Error::Worker(running.end(&error.to_string()).await)),
            Err(_) => Err(Error::Worker(running.end("it took too long to start").await)),
        }
    }

    /// Waits for the first message, which says that it serves, or why not.
    async fn greeted(&mut self) -> io::Result<()> {
        let message = poll_fn(|cx| {
            self.said.poll(cx);
            if let Poll::Ready(Err(error)) = self.channel.poll_flush(cx) {
                return Poll::Ready(Err(error));
            }
            self.channel.poll_receive(cx)
        });
        match message.await? {
            Some(message) if message.text.is_empty() => Ok(()),
            Some(message) => Err(io::Error::other(String::from_utf8_lossy(&message.text))),
            None => Err(io::Error::other("it ended")),
        }
    }

    /// Serves until nobody asks any more or the child ends. What is still in the queue then gets the
    /// failure.
    async fn serve(mut self, queue: &mut mpsc::Receiver<Call>) -> Failure {
        let mut idle = pin!(tokio::time::sleep(CONFINED_IDLE));
        loop {
            let event = poll_fn(|cx| self.poll_event(cx, queue, idle.as_mut())).await;
            idle.as_mut().reset(tokio::time::Instant::now() + CONFINED_IDLE);
            let broken = match event {
                Event::Call(call) => {
                    self.asked.insert(call.id, call.answer);
                    self.channel.send(call.text, None).err()
                }
                Event::Message(message) => self.message(message).err(),
                Event::Cancelled(id) => self.cancel(id).err(),
                Event::Told => None,
                Event::Idle => {
                    self.end("").await;
                    return Failure::Unasked;
                }
                Event::Broken(error) => Some(error),
                Event::Closed => Some(io::Error::other("it ended")),
            };
            if self.stale {
                // What is in the queue is answered in the same way, and then asked of another.
                queue.close();
            }
            if let Some(error) = broken {
                let asked = std::mem::take(&mut self.asked);
                let failure = Failure::Gone(self.end(&error.to_string()).await.into());
                for answer in asked.into_values() {
                    // Nobody waits for it any more: then nobody is told.
                    answer.send(Err(failure.clone())).ok();
                }
                // It did not see what is in the queue; another worker may do better.
                return Failure::Unasked;
            }
        }
    }

    fn poll_event(
        &mut self,
        cx: &mut Context<'_>,
        queue: &mut mpsc::Receiver<Call>,
        idle: Pin<&mut Sleep>,
    ) -> Poll<Event> {
        self.said.poll(cx);
        if let Poll::Ready(Err(error)) = self.channel.poll_flush(cx) {
            return Poll::Ready(Event::Broken(error));
        }
        if let Some(telling) = &mut self.telling {
            if telling.as_mut().poll(cx).is_ready() {
                self.telling = None;
                return Poll::Ready(Event::Told);
            }
        } else if let Poll::Ready(received) = self.channel.poll_receive(cx) {
            return Poll::Ready(match received {
                Ok(Some(message)) => Event::Message(message),
                Ok(None) => Event::Closed,
                Err(error) => Event::Broken(error),
            });
        }
        for (id, answer) in &mut self.asked {
            if answer.poll_closed(cx).is_ready() {
                return Poll::Ready(Event::Cancelled(*id));
            }
        }
        let has_room = self.asked.len() < CONFINED_CALLS_MAX
            && self.channel.pending_output() < CONFINED_UNSENT_BYTES;
        if has_room && let Poll::Ready(call) = queue.poll_recv(cx) {
            match call {
                Some(call) => return Poll::Ready(Event::Call(call)),
                None if self.asked.is_empty() => return Poll::Ready(Event::Idle),
                None => {}
            }
        }
        let may_end = self.asked.is_empty() && self.notices.is_none();
        if may_end && idle.poll(cx).is_ready() {
            return Poll::Ready(Event::Idle);
        }
        Poll::Pending
    }

    fn message(&mut self, message: Message) -> io::Result<()> {
        let invalid = |text: &str| io::Error::new(io::ErrorKind::InvalidData, text);
        let Message { text, descriptor } = message;
        let (id, outcome) =
            match jsonrpc::decode(&text).map_err(|error| invalid(&error.to_string()))? {
                Rpc::Response { id, result } => {
                    let result = result.as_bytes().to_vec();
                    (id, Ok(Answer { result, descriptor }))
                }
                Rpc::Error { id, error } if error.code == STALE => {
                    self.stale = true;
                    (id, Err(Failure::Unasked))
                }
                Rpc::Error { id, error } => (id, Err(Failure::Answered(error))),
                Rpc::Notification(_) => {
                    if let Some(notices) = self.notices.clone() {
                        self.telling = Some(Box::pin(async move { notices.send_text(text).await }));
                    }
                    return Ok(());
                }
                Rpc::Request(_) => return Err(invalid("it asked")),
            };
        let RequestId::Number(id) = id else { return Err(invalid("an answer to nothing")) };
        // Nobody: then it was cancelled.
        if let Some(answer) = self.asked.remove(&id) {
            // Nobody waits for it any more: then nobody is told.
            answer.send(outcome).ok();
        }
        Ok(())
    }

    fn cancel(&mut self, id: i64) -> io::Result<()> {
        self.asked.remove(&id);
        let mut text = Vec::new();
        jsonrpc::encode_notification(&mut text, CANCEL, &Cancelled { id })?;
        self.channel.send(text, None)
    }

    /// Ends the child and says how it ended, in words.
    async fn end(self, why: &str) -> String {
        let Running { child, channel, mut said, .. } = self;
        drop(channel);
        let status = launch::end(child, CONFINED_END_TIME_MAX).await;
        // What it said last is there once it has gone.
        poll_fn(|cx| {
            said.poll(cx);
            Poll::Ready(())
        })
        .await;
        describe(why, status, &said.newest)
    }
}

/// What a child says besides its answers: the newest of it.
struct Said {
    pipe: Option<AsyncFd<OwnedFd>>,
    newest: Vec<u8>,
}

impl Said {
    fn poll(&mut self, cx: &mut Context<'_>) {
        let mut buffer = [0; 1024];
        while let Some(pipe) = &self.pipe {
            let Poll::Ready(Ok(mut ready)) = pipe.poll_read_ready(cx) else { return };
            match ready.try_io(|pipe| sys::read(pipe.as_fd(), &mut buffer)) {
                Err(_would_block) => {}
                Ok(Ok(count)) if count > 0 => {
                    self.newest.extend_from_slice(&buffer[..count]);
                    let old = self.newest.len().saturating_sub(CONFINED_STDERR_BYTES);
                    self.newest.drain(..old);
                }
                Ok(_) => self.pipe = None,
            }
        }
    }
}

fn describe(why: &str, status: Option<ExitStatus>, said: &[u8]) -> String {
    let mut text = why.to_owned();
    match status {
        Some(ExitStatus::Exited(code)) => text.push_str(&format!(", exit status {code}")),
        Some(ExitStatus::Signaled(signal)) => text.push_str(&format!(", signal {signal}")),
        None => {}
    }
    let said = String::from_utf8_lossy(said);
    if !said.trim().is_empty() {
        text.push_str(": ");
        text.push_str(said.trim());
    }
    text
}
