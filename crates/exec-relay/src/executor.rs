//! The executor's end: one socket, many streams, each with its own handshake and its own keys.
//!
//! ```text
//! handshake frame -> Pending -- Validate event --> approve -> Open -> Ended -> Closed event
//!                       '------ refuse, time-out, reset: forgotten
//! ```

mod budget;
mod slot;

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::Arc;
use std::time::Instant;

use crate::error::{CloseReason, SendError};
use crate::frame::{Body, Frame, Receipt};
use crate::key::{Identity, PublicKey};
use crate::limits::Limits;
use crate::noise::{Context, EXECUTOR_ENTROPY_BYTES, Responder};
use crate::reliable::{FIRST_LIMIT, Reliable};
use crate::stream::{Delivery, Role, Stream};
use budget::Budget;
use slot::{Open, Pending, Slot, digest};

/// The only text the reference sends, whatever the cause.
const RESET_REASON: &str = "noise_relay_protocol_error";
/// Resets and handshakes that wait for the socket. A reset beyond that is dropped.
const CONTROL_FRAMES_MAX: usize = 256;

/// Who we are, and what we are willing to spend.
#[derive(Debug)]
pub struct ExecutorConfig {
    /// Ours.
    pub identity: Arc<Identity>,
    /// As registered.
    pub environment_id: String,
    /// As the registry answered.
    pub registration_id: String,
    /// Whether to accept reliable streams; the reference does not.
    pub reliable: bool,
    /// What we are willing to spend.
    pub limits: Limits,
}

/// Names a stream for as long as the executor lives; never used again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamKey(u64);

/// What an executor tells its user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ExecutorEvent {
    /// A harness wants a stream. Ask the registry, then call `approve` or `refuse`.
    Validate {
        /// The stream to be.
        stream: StreamKey,
        /// Its name on the wire, for the registry's logs.
        stream_id: String,
        /// Who asks; the handshake has proved it.
        harness: PublicKey,
        /// What the registry gave to the harness.
        authorization: String,
    },
    /// Messages may be sent and received.
    Opened {
        /// The stream.
        stream: StreamKey,
        /// Whether a lost socket is a pause only.
        reliable: bool,
    },
    /// Messages wait; take all of them.
    Readable(StreamKey),
    /// There is room again, after a message was refused.
    Writable(StreamKey),
    /// The end of a stream that was opened; comes once, after its last message was taken.
    Closed {
        /// The stream.
        stream: StreamKey,
        /// Why.
        reason: CloseReason,
    },
}

/// All streams of one registered executor.
pub struct Executor {
    identity: Arc<Identity>,
    environment_id: String,
    registration_id: String,
    reliable: bool,
    limits: Arc<Limits>,
    attached: bool,
    slots: BTreeMap<StreamKey, Slot>,
    /// Of the pending and open ones.
    names: HashMap<String, StreamKey>,
    next_key: u64,
    /// The stream that sends next.
    turn: StreamKey,
    budget: Budget,
    control: VecDeque<Frame>,
    events: VecDeque<ExecutorEvent>,
    readable: BTreeSet<StreamKey>,
    writable: BTreeSet<StreamKey>,
}

impl Executor {
    /// Begins on a socket that is open.
    pub fn new(config: ExecutorConfig) -> Self {
        Self {
            identity: config.identity,
            environment_id: config.environment_id,
            registration_id: config.registration_id,
            reliable: config.reliable,
            limits: Arc::new(config.limits),
            attached: true,
            slots: BTreeMap::new(),
            names: HashMap::new(),
            next_key: 0,
            turn: StreamKey(0),
            budget: Budget::default(),
            control: VecDeque::new(),
            events: VecDeque::new(),
            readable: BTreeSet::new(),
            writable: BTreeSet::new(),
        }
    }

    /// For handshakes to come, after the executor has registered again.
    pub fn set_registration_id(&mut self, registration_id: String) {
        self.registration_id = registration_id;
    }

    /// Takes a binary WebSocket message. What is no valid frame is ignored; so are text messages.
    pub fn handle_frame(&mut self, bytes: &[u8], now: Instant) {
        let Ok(frame) = Frame::decode(bytes) else { return };
        let key = self.names.get(&frame.stream).copied();
        if let Body::Handshake { payload } = frame.body {
            self.handle_handshake(key, frame.stream, &payload, frame.receipt, now);
            return;
        }
        let Some(key) = key else {
            let answered = match frame.body {
                Body::Data(_) => true,
                Body::Reset { .. } | Body::Handshake { .. } => false,
                // The reference ignores them. One of ours means a stream that we do not have (any more).
                Body::Ack | Body::Resume { .. } | Body::Heartbeat => frame.receipt.is_some(),
            };
            if answered {
                self.reset(&frame.stream);
            }
            return;
        };
        match (self.slots.get_mut(&key), frame.body) {
            (Some(Slot::Open(open)), body) => {
                let outcome = open.stream.handle_frame(Frame { body, ..frame }, now);
                if open.stream.has_received() {
                    open.reply = None;
                }
                self.settle(key, outcome);
            }
            (Some(Slot::Pending(_)), Body::Data(_)) => self.fail(key, now),
            (Some(Slot::Pending(_)), Body::Reset { .. }) => self.forget(key),
            _ => {}
        }
    }

    fn handle_handshake(
        &mut self,
        key: Option<StreamKey>,
        name: String,
        message: &[u8],
        receipt: Option<Receipt>,
        now: Instant,
    ) {
        let digest = digest(message);
        match key.and_then(|key| Some((key, self.slots.get(&key)?))) {
            // A reliable harness repeats itself until it is heard.
            Some((_, Slot::Pending(pending))) if pending.is_repeated_by(&digest, receipt) => return,
            Some((_, Slot::Open(open))) if open.stream.is_reliable() && open.digest == digest => {
                let reply = open.reply.clone();
                self.control.extend(reply.filter(|_| self.control.len() < CONTROL_FRAMES_MAX));
                return;
            }
            Some((_, Slot::Open(_))) => return self.reset(&name),
            Some((key, Slot::Pending(_))) => return self.fail(key, now),
            Some((_, Slot::Ended(_))) | None => {}
        }
        if self.budget.is_spent(now) || !self.has_place() || !self.may_wait() {
            return self.reset(&name);
        }
        let context = Context {
            environment_id: &self.environment_id,
            registration_id: &self.registration_id,
            stream_id: &name,
        };
        let Ok((responder, request)) = Responder::read(context, &self.identity, message) else {
            self.budget.charge(&self.limits, now);
            return self.reset(&name);
        };
        let stream = StreamKey(self.next_key);
        self.next_key += 1;
        let deadline = now + self.limits.validation;
        let offered = receipt.filter(|_| self.reliable);
        let pending = Pending { name: name.clone(), responder, digest, offered, deadline };
        self.slots.insert(stream, Slot::Pending(Box::new(pending)));
        self.names.insert(name.clone(), stream);
        self.events.push_back(ExecutorEvent::Validate {
            stream,
            stream_id: name,
            harness: request.harness,
            authorization: request.authorization,
        });
    }

    /// Whether another stream may be open.
    fn has_place(&self) -> bool {
        let open = self.slots.values().filter(|slot| !slot.is_pending()).count();
        open < self.limits.streams_max
    }

    /// Whether another handshake may wait.
    fn may_wait(&self) -> bool {
        let pending = self.slots.values().filter(|slot| slot.is_pending()).count();
        // Handshakes that were begun and cancelled have left events behind.
        pending < self.limits.pending_max && self.events.len() < 4 * self.limits.streams_max
    }

    /// The registry has approved. The entropy must come from the system's generator.
    pub fn approve(
        &mut self,
        stream: StreamKey,
        entropy: &[u8; EXECUTOR_ENTROPY_BYTES],
        now: Instant,
    ) {
        let has_place = self.has_place();
        let Some(Slot::Pending(_)) = self.slots.get(&stream) else { return };
        let Some(Slot::Pending(pending)) = self.slots.remove(&stream) else { return };
        let Pending { name, responder, digest, offered, .. } = *pending;
        self.names.remove(&name);
        if !has_place {
            return self.reset(&name);
        }
        let Ok((channel, message)) = responder.accept(entropy) else {
            self.budget.charge(&self.limits, now);
            return self.reset(&name);
        };
        let delivery = match offered {
            None => Delivery::Plain(0),
            Some(Receipt { limit, .. }) => {
                Delivery::Reliable(Box::new(Reliable::new(limit, self.limits.heartbeat, now)))
            }
        };
        let receipt = offered.map(|_| Receipt { limit: FIRST_LIMIT, ..Receipt::default() });
        let body = Body::Handshake { payload: message };
        let reply = Frame { stream: name.clone(), receipt, body };
        self.control.push_back(reply.clone());
        let reply = Some(reply).filter(|_| offered.is_some());
        let opened = Stream::new(&name, Role::Executor, channel, delivery, &self.limits);
        let reliable = opened.is_reliable();
        let open = Open { stream: opened, digest, reply };
        self.slots.insert(stream, Slot::Open(Box::new(open)));
        self.names.insert(name, stream);
        self.events.push_back(ExecutorEvent::Opened { stream, reliable });
    }

    /// The registry has refused, or could not be asked.
    pub fn refuse(&mut self, stream: StreamKey, now: Instant) {
        if self.slots.get(&stream).is_some_and(Slot::is_pending) {
            self.fail(stream, now);
        }
    }

    /// A handshake has failed.
    fn fail(&mut self, key: StreamKey, now: Instant) {
        if let Some(Slot::Pending(pending)) = self.slots.get(&key) {
            let name = pending.name.clone();
            self.forget(key);
            self.budget.charge(&self.limits, now);
            self.reset(&name);
        }
    }

    fn forget(&mut self, key: StreamKey) {
        if let Some(Slot::Pending(pending)) = self.slots.remove(&key) {
            self.names.remove(&pending.name);
        }
    }

    fn reset(&mut self, name: &str) {
        if self.attached && self.control.len() < CONTROL_FRAMES_MAX {
            let body = Body::Reset { reason: RESET_REASON.to_owned() };
            self.control.push_back(Frame::plain(name, body));
        }
    }

    /// The next binary WebSocket message, when the socket can take one. Streams take turns.
    pub fn poll_transmit(&mut self, now: Instant) -> Option<Vec<u8>> {
        if !self.attached {
            return None;
        }
        loop {
            if let Some(frame) = self.control.pop_front() {
                return Some(frame.encode());
            }
            let turn = self.turn;
            let mut due = None;
            let after = self.slots.range(turn..).map(|(key, _)| *key);
            let before = self.slots.range(..turn).map(|(key, _)| *key);
            for key in after.chain(before).collect::<Vec<_>>() {
                let Some(Slot::Open(open)) = self.slots.get_mut(&key) else { continue };
                match open.stream.poll_transmit(now) {
                    Ok(None) => {}
                    outcome => {
                        due = Some((key, outcome));
                        break;
                    }
                }
            }
            let (key, outcome) = due?;
            self.turn = StreamKey(key.0 + 1);
            match outcome {
                Ok(frame) => {
                    self.settle(key, Ok(()));
                    return frame.map(Frame::encode);
                }
                // Its reset goes out next.
                Err(reason) => self.settle(key, Err(reason)),
            }
        }
    }

    /// What happened.
    pub fn poll_event(&mut self) -> Option<ExecutorEvent> {
        while let Some(event) = self.events.pop_front() {
            // The handshake may have been cancelled since.
            let stale = matches!(&event, ExecutorEvent::Validate { stream, .. }
                if !self.slots.contains_key(stream));
            if !stale {
                return Some(event);
            }
        }
        if let Some(stream) = self.readable.pop_first() {
            return Some(ExecutorEvent::Readable(stream));
        }
        if let Some(stream) = self.writable.pop_first() {
            return Some(ExecutorEvent::Writable(stream));
        }
        let (&stream, reason) =
            self.slots.iter().find_map(|(key, slot)| Some((key, slot.finished()?.clone())))?;
        self.slots.remove(&stream);
        Some(ExecutorEvent::Closed { stream, reason })
    }

    /// The next message of a stream.
    pub fn poll_message(&mut self, stream: StreamKey, now: Instant) -> Option<Vec<u8>> {
        match self.slots.get_mut(&stream)? {
            Slot::Open(open) => open.stream.poll_message(now),
            Slot::Ended(ended) => ended.reader.pop(),
            Slot::Pending(_) => None,
        }
    }

    /// Takes a message for a harness, or gives it back.
    pub fn send(&mut self, stream: StreamKey, message: Vec<u8>) -> Result<(), SendError> {
        match self.slots.get_mut(&stream) {
            Some(Slot::Open(open)) => open.stream.send(message),
            _ => Err(SendError::NotOpen),
        }
    }

    /// Whether `send` would take a message.
    pub fn has_room(&self, stream: StreamKey) -> bool {
        matches!(self.slots.get(&stream), Some(Slot::Open(open)) if open.stream.has_room())
    }

    /// When to call `handle_timeout`. Ask after `poll_transmit` had nothing more.
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.slots.values().filter_map(Slot::poll_timeout).min()
    }

    /// Time has passed.
    pub fn handle_timeout(&mut self, now: Instant) {
        for key in self.slots.keys().copied().collect::<Vec<_>>() {
            match self.slots.get_mut(&key) {
                Some(Slot::Pending(pending)) if now >= pending.deadline => self.fail(key, now),
                Some(Slot::Open(open)) => {
                    let outcome = open.stream.handle_timeout(now);
                    self.settle(key, outcome);
                }
                _ => {}
            }
        }
    }

    /// The socket is gone. Reliable streams wait for another one; the others end.
    pub fn handle_detached(&mut self, now: Instant) {
        self.attached = false;
        self.control.clear();
        for key in self.slots.keys().copied().collect::<Vec<_>>() {
            match self.slots.get_mut(&key) {
                Some(Slot::Pending(_)) => self.forget(key),
                Some(Slot::Open(open)) => {
                    let outcome = open.stream.handle_detached(now);
                    self.settle(key, outcome);
                }
                _ => {}
            }
        }
    }

    /// There is a new socket.
    pub fn handle_attached(&mut self, now: Instant) {
        self.attached = true;
        self.budget = Budget::default();
        for slot in self.slots.values_mut() {
            if let Slot::Open(open) = slot {
                open.stream.handle_attached(now);
            }
        }
    }

    /// Ends a stream, after what was taken has been sent.
    pub fn close(&mut self, stream: StreamKey, now: Instant) {
        if let Some(Slot::Open(open)) = self.slots.get_mut(&stream) {
            open.stream.close(now);
            self.settle(stream, Ok(()));
        }
    }

    /// Streams that are open.
    pub fn streams(&self) -> usize {
        self.slots.values().filter(|slot| matches!(slot, Slot::Open(_))).count()
    }

    /// All the memory that grows with what is sent and received.
    pub fn buffered_bytes(&self) -> usize {
        let control: usize = self.control.len() * 64;
        control + self.slots.values().map(Slot::buffered_bytes).sum::<usize>()
    }

    /// Draws the conclusions of what just happened to a stream.
    fn settle(&mut self, key: StreamKey, outcome: Result<(), CloseReason>) {
        let Some(Slot::Open(open)) = self.slots.get_mut(&key) else { return };
        if open.stream.take_writable() {
            self.writable.insert(key);
        }
        if open.stream.is_readable() {
            self.readable.insert(key);
        }
        let reason = match outcome {
            Ok(()) if open.stream.is_done() => CloseReason::Closed,
            Ok(()) => return,
            Err(reason) => reason,
        };
        let name = open.stream.id().to_owned();
        self.names.remove(&name);
        if !matches!(reason, CloseReason::Reset { .. }) {
            self.reset(&name);
        }
        if let Some(slot) = self.slots.remove(&key) {
            self.slots.insert(key, slot.end(reason));
        }
    }
}
