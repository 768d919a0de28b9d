//! Everything the connection's task knows: who waits for which answer, and how far each process's
//! events have come. Commands and messages in, requests and events out; it never waits.
//!
//! It outlives connections: a cut turns what was on its way into requests to send again.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use exec_protocol::id::ProcessId;
use exec_protocol::jsonrpc::{self, Message, Notification, RequestId, RpcError, code};
use exec_protocol::methods::*;
use exec_protocol::process::{ReadParams, TerminateParams};
use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};
use tokio::sync::oneshot;

use crate::ExecServerError;
use crate::event::{LostReason, ProcessEvent};
use crate::limits::{EARLY_BYTES_MAX, EARLY_EVENTS_MAX, IN_FLIGHT_MAX};
use crate::notices::{self, NoticeQueue, Readers, Topic};
use crate::queue::{EventQueue, Taker};
use crate::requests::{ReplySender, Request, Requests, Transmit, Waiter};
use crate::sequence::{EarlyBounds, Event, Sequence};

/// The id of `initialize` on every connection; the router's own ids come after it.
pub(crate) const INITIALIZE_ID: i64 = 1;

const EARLY_BOUNDS: EarlyBounds = EarlyBounds { events: EARLY_EVENTS_MAX, bytes: EARLY_BYTES_MAX };

/// What handles ask of the connection's task.
#[derive(Debug)]
pub(crate) enum Command {
    /// A request of any kind.
    Call { method: &'static str, params: Box<RawValue>, reply: ReplySender },
    /// A `process/start`, whose events go to `queue`.
    Start { id: ProcessId, params: Box<RawValue>, queue: Arc<EventQueue>, reply: ReplySender },
    /// Follow a process that runs already.
    Follow {
        id: ProcessId,
        queue: Arc<EventQueue>,
        reply: oneshot::Sender<Result<(), ExecServerError>>,
    },
    /// Keep what is said of the topic, from now on.
    Listen { topic: Topic, queue: Arc<NoticeQueue> },
    /// End the client, whoever else holds it.
    Close,
}

#[derive(Debug)]
struct Follower {
    sequence: Sequence,
    queue: Arc<EventQueue>,
    /// The answer to `process/start` is outstanding.
    starting: bool,
}

#[derive(Debug)]
pub(crate) struct Router {
    requests: Requests,
    processes: HashMap<ProcessId, Follower>,
    /// Those whose handles have to take events before more is read.
    full: HashSet<ProcessId>,
    readers: Readers,
}

impl Router {
    pub(crate) fn new() -> Self {
        Self {
            requests: Requests::new(IN_FLIGHT_MAX, INITIALIZE_ID + 1),
            processes: HashMap::new(),
            full: HashSet::new(),
            readers: Readers::default(),
        }
    }

    /// Takes a command other than `Close`, which is the task's own matter.
    pub(crate) fn handle_command(&mut self, command: Command) {
        let full = || ExecServerError::TooManyRequests { max: IN_FLIGHT_MAX };
        match command {
            Command::Call { reply, .. } | Command::Start { reply, .. }
                if self.requests.is_full() =>
            {
                answer(reply, Err(full()));
            }
            Command::Call { method, params, reply } => {
                self.requests.add(Request { method, params, waiter: Waiter::Call(reply) });
            }
            Command::Start { id, params, queue, reply } => {
                if let Err(error) = self.follow(&id, queue, Sequence::new(EARLY_BOUNDS), true) {
                    return answer(reply, Err(error));
                }
                let waiter = Waiter::Start(id, reply);
                self.requests.add(Request { method: ProcessStart::NAME, params, waiter });
            }
            Command::Follow { id, queue, reply } => {
                let followed = self.follow(&id, queue, Sequence::attached(EARLY_BOUNDS), false);
                self.fetch(&id);
                // The caller may have gone; its handle is gone with it and will be swept.
                reply.send(followed).ok();
            }
            Command::Listen { topic, queue } => self.readers.add(topic, queue),
            Command::Close => {}
        }
    }

    fn follow(
        &mut self,
        id: &ProcessId,
        queue: Arc<EventQueue>,
        sequence: Sequence,
        starting: bool,
    ) -> Result<(), ExecServerError> {
        if self.processes.contains_key(id) {
            let reason = format!("process id {id} is already in use by this client");
            return Err(ExecServerError::Protocol(reason));
        }
        // The caller gave up while the command was on its way: nothing has to be started.
        if queue.taker() != Taker::Present {
            return Err(ExecServerError::Protocol("the caller is gone".to_owned()));
        }
        self.processes.insert(id.clone(), Follower { sequence, queue, starting });
        Ok(())
    }

    /// Takes one message. Gives an answer that has to be sent, if it needs one.
    ///
    /// # Errors
    /// When the message is not one this client can go on after. The connection has to be cut.
    pub(crate) fn handle_message(&mut self, text: &[u8]) -> Result<Option<Vec<u8>>, String> {
        match jsonrpc::decode(text).map_err(|error| format!("unreadable message: {error}"))? {
            Message::Notification(notification) => self.handle_notification(&notification)?,
            Message::Response { id, result } => self.handle_answer(&id, Ok(result)),
            Message::Error { id, error } => self.handle_answer(&id, Err(error)),
            Message::Request(request) => {
                let message = format!("client does not implement `{}`", request.method);
                let error = RpcError { code: code::METHOD_NOT_FOUND, message };
                let mut reply = Vec::new();
                jsonrpc::encode_error(&mut reply, &request.id, &error);
                return Ok(Some(reply));
            }
        }
        Ok(None)
    }

    fn handle_notification(&mut self, notification: &Notification<'_>) -> Result<(), String> {
        let (id, seq, event) = match notification.method.as_str() {
            ProcessOutput::NAME => {
                let params = decode::<ProcessOutput>(notification)?;
                let event = Event::Output { stream: params.stream, bytes: params.chunk.0 };
                (params.process_id, params.seq, event)
            }
            ProcessExited::NAME => {
                let params = decode::<ProcessExited>(notification)?;
                let (code, sandbox_denied) = (params.exit_code, params.sandbox_denied);
                (params.process_id, params.seq, Event::Exited { code, sandbox_denied })
            }
            ProcessClosed::NAME => {
                let params = decode::<ProcessClosed>(notification)?;
                (params.process_id, params.seq, Event::Closed)
            }
            _ => {
                if let Some((topic, notice)) = notices::decode(notification)? {
                    self.readers.deliver(&topic, notice);
                }
                return Ok(());
            }
        };
        if let Some(follower) = self.processes.get_mut(&id) {
            let events = follower.sequence.handle_event(seq, event);
            self.deliver(&id, events);
        }
        Ok(())
    }

    fn handle_answer(&mut self, id: &RequestId, result: Result<&str, RpcError>) {
        let waiter = match id {
            RequestId::Number(number) => self.requests.answer(*number),
            RequestId::Text(_) => None,
        };
        match (waiter, result) {
            (Some(Waiter::Call(reply)), result) => {
                answer(reply, result.map(Into::into).map_err(Into::into));
            }
            (Some(Waiter::Start(id, reply)), Ok(result)) => {
                if let Some(follower) = self.processes.get_mut(&id) {
                    follower.starting = false;
                }
                answer(reply, Ok(result.into()));
                self.fetch(&id);
                self.sweep(&id);
            }
            (Some(Waiter::Start(id, reply)), Err(error)) => {
                self.forget(&id);
                answer(reply, Err(error.into()));
            }
            (Some(Waiter::Fetch(id)), result) => self.handle_page(&id, result),
            (Some(Waiter::Nobody), _) => {}
            (None, Err(error)) if *id == RequestId::UNREADABLE => {
                tracing::debug!(error.message, "server could not read a message of ours");
            }
            (None, _) => tracing::debug!(%id, "answer to no request of ours"),
        }
    }

    fn handle_page(&mut self, id: &ProcessId, result: Result<&str, RpcError>) {
        let Some(follower) = self.processes.get_mut(id) else { return };
        let page = result.map_err(|error| error.message).and_then(|page| {
            serde_json::from_str(page).map_err(|error| format!("unreadable page: {error}"))
        });
        let events = match page {
            Ok(page) => follower.sequence.handle_page(page),
            Err(reason) => follower.sequence.handle_read_error(reason),
        };
        self.deliver(id, events);
    }

    /// Hands events to the process's queue, and asks for what is missing now.
    fn deliver(&mut self, id: &ProcessId, events: Vec<ProcessEvent>) {
        let Some(follower) = self.processes.get(id) else { return };
        let ended = events.last().is_some_and(ProcessEvent::is_final);
        follower.queue.push(events);
        if ended {
            return self.forget(id);
        }
        if follower.queue.is_full() && !follower.sequence.is_skipping() {
            self.full.insert(id.clone());
        }
        self.fetch(id);
    }

    fn fetch(&mut self, id: &ProcessId) {
        let Some(follower) = self.processes.get_mut(id).filter(|follower| !follower.starting)
        else {
            return;
        };
        if let Some(after) = follower.sequence.poll_fetch() {
            let params = ReadParams {
                process_id: id.clone(),
                after_seq: Some(after),
                max_bytes: None,
                wait_ms: Some(0),
            };
            let waiter = Waiter::Fetch(id.clone());
            let params = raw(&params);
            self.requests.add_urgent(Request { method: ProcessRead::NAME, params, waiter });
        }
    }

    fn forget(&mut self, id: &ProcessId) {
        self.processes.remove(id);
        self.full.remove(id);
    }

    /// A handle changed: it took events, or it is gone.
    pub(crate) fn handle_wake(&mut self) {
        self.readers.sweep();
        let ids: Vec<ProcessId> = self.processes.keys().cloned().collect();
        for id in &ids {
            self.sweep(id);
        }
    }

    fn sweep(&mut self, id: &ProcessId) {
        let Some(follower) = self.processes.get_mut(id) else { return };
        match follower.queue.taker() {
            Taker::Present => {
                if follower.queue.has_room() {
                    self.full.remove(id);
                    if follower.sequence.is_skipping() {
                        follower.sequence.stop_skipping();
                        self.fetch(id);
                    }
                }
            }
            // A start that is not answered yet cannot be undone yet. The full queue is discarded.
            Taker::Detached | Taker::Dropped if follower.starting => {
                self.full.remove(id);
            }
            Taker::Detached => self.forget(id),
            Taker::Dropped => {
                self.terminate(id);
                self.forget(id);
            }
        }
    }

    fn terminate(&mut self, id: &ProcessId) {
        let params = raw(&TerminateParams { process_id: id.clone(), mode: None });
        let waiter = Waiter::Nobody;
        self.requests.add_urgent(Request { method: ProcessTerminate::NAME, params, waiter });
    }

    /// The connection is cut. A start whose answer is lost may have happened, so it is undone.
    pub(crate) fn handle_cut(&mut self, reason: &str) {
        self.readers.handle_cut(reason);
        let lost = || ExecServerError::ConnectionLost(reason.to_owned());
        for waiter in self.requests.handle_cut() {
            match waiter {
                Waiter::Call(reply) => answer(reply, Err(lost())),
                Waiter::Start(id, reply) => {
                    self.forget(&id);
                    answer(reply, Err(lost()));
                    self.terminate(&id);
                }
                Waiter::Fetch(_) | Waiter::Nobody => {}
            }
        }
        let ids: Vec<ProcessId> = self.processes.keys().cloned().collect();
        for id in &ids {
            // What was not sent yet cannot have lost anything.
            if let Some(follower) = self.processes.get_mut(id).filter(|one| !one.starting) {
                follower.sequence.handle_cut();
            }
            self.fetch(id);
        }
    }

    /// The connection is gone for good: everybody is told.
    pub(crate) fn handle_loss(&mut self, reason: &str) {
        self.readers.handle_cut(reason);
        for (_, mut follower) in self.processes.drain() {
            let reason = LostReason::Connection(reason.to_owned());
            follower.queue.push(follower.sequence.handle_loss(reason));
        }
        self.full.clear();
        for waiter in self.requests.handle_loss() {
            match waiter {
                Waiter::Call(reply) | Waiter::Start(_, reply) => {
                    answer(reply, Err(ExecServerError::ConnectionLost(reason.to_owned())));
                }
                Waiter::Fetch(_) | Waiter::Nobody => {}
            }
        }
    }

    /// The next request to send.
    pub(crate) fn poll_transmit(&mut self) -> Option<Transmit> {
        self.requests.transmit()
    }

    /// A request cannot be sent at all.
    pub(crate) fn refuse(&mut self, id: i64, reason: &str) {
        match self.requests.answer(id) {
            Some(Waiter::Call(reply)) => {
                answer(reply, Err(ExecServerError::Protocol(reason.to_owned())));
            }
            Some(Waiter::Start(id, reply)) => {
                self.forget(&id);
                answer(reply, Err(ExecServerError::Protocol(reason.to_owned())));
            }
            Some(Waiter::Fetch(_) | Waiter::Nobody) | None => {}
        }
    }

    /// A handle does not take its events, so nothing may be read.
    pub(crate) fn is_stalled(&self) -> bool {
        !self.full.is_empty() || self.readers.is_stalled()
    }

    /// Somebody else suffers from that: a caller, or the handle of another process.
    pub(crate) fn others_wait(&self) -> bool {
        !self.requests.is_empty() || self.processes.len() > self.full.len()
    }

    /// The others have waited long enough: full processes do without new output for now.
    pub(crate) fn skip_full(&mut self) {
        self.readers.give_up_full();
        for id in self.full.drain() {
            if let Some(follower) = self.processes.get_mut(&id) {
                follower.sequence.skip();
            }
        }
    }
}

/// Whatever ends the task, nobody waits for ever.
impl Drop for Router {
    fn drop(&mut self) {
        self.handle_loss("the client's task ended");
    }
}

fn answer(reply: ReplySender, result: Result<Box<str>, ExecServerError>) {
    // A caller that no longer waits has nothing to be told.
    reply.send(result).ok();
}

pub(crate) fn decode<N: Notice>(notification: &Notification<'_>) -> Result<N::Params, String> {
    jsonrpc::decode_params(notification.params).map_err(|error| format!("{}: {error}", N::NAME))
}

fn raw<P: Serialize>(params: &P) -> Box<RawValue> {
    to_raw_value(params).expect("strings and integers always encode")
}

#[cfg(test)]
#[path = "router_tests.rs"]
mod tests;
