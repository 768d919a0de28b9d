//! The harness's end: one stream on one socket.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::error::{CloseReason, ProtocolError, SendError};
use crate::frame::{Body, Frame, Receipt};
use crate::key::{Identity, PublicKey};
use crate::limits::Limits;
use crate::noise::{Context, HARNESS_ENTROPY_BYTES, Initiator, NoiseError};
use crate::reliable::{FIRST_LIMIT, Reliable};
use crate::segment::MessageReader;
use crate::stream::{Delivery, Role, Stream};

/// Between two copies of message 1, doubled each time up to the maximum.
const HANDSHAKE_RETRY: Duration = Duration::from_secs(1);
const HANDSHAKE_RETRY_MAX: Duration = Duration::from_secs(4);
/// What we say when we end a stream.
const RESET_REASON: &str = "closed";

/// What the registry's bundle says, and how we want to use it.
#[derive(Debug)]
pub struct HarnessConfig<'a> {
    /// Ours.
    pub identity: &'a Identity,
    /// The executor's, pinned.
    pub executor: &'a PublicKey,
    /// From the bundle.
    pub environment_id: &'a str,
    /// From the bundle.
    pub registration_id: &'a str,
    /// From the bundle.
    pub authorization: &'a str,
    /// New for every attempt, a UUID.
    pub stream_id: &'a str,
    /// Whether to offer a reliable stream, and what is known of the executor.
    pub reliability: Reliability,
    /// What we are willing to spend.
    pub limits: Limits,
}

/// Whether a harness asks for a reliable stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reliability {
    /// Behave as the reference does.
    Never,
    /// Offer it; the executor may be the reference.
    Offer,
    /// Offer it to an executor that is known to understand. Then message 1 can be repeated, which the
    /// reference would take for an attack.
    Expect,
}

/// What a harness tells its user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HarnessEvent {
    /// The executor has proved who it is; messages may be sent.
    Opened {
        /// Whether a lost socket is a pause only.
        reliable: bool,
    },
    /// There is room again, after a message was refused.
    Writable,
    /// The end; comes once, after the last message was taken.
    Closed(CloseReason),
}

enum Phase {
    Handshake(Box<Handshake>),
    Open(Box<Stream>),
    /// Messages may be left to take.
    Ended(MessageReader, CloseReason),
    Over,
}

struct Handshake {
    initiator: Initiator,
    message: Vec<u8>,
    deadline: Instant,
    /// When message 1 goes out (again); none if it must not.
    due: Option<Instant>,
    retry: Duration,
}

/// One connection to an executor.
pub struct Harness {
    stream: String,
    phase: Phase,
    reliability: Reliability,
    attached: bool,
    limits: Arc<Limits>,
    control: VecDeque<Frame>,
    events: VecDeque<HarnessEvent>,
}

impl Harness {
    /// Begins on a socket that is open. The entropy must come from the system's generator.
    pub fn new(
        config: HarnessConfig<'_>,
        entropy: &[u8; HARNESS_ENTROPY_BYTES],
        now: Instant,
    ) -> Result<Self, NoiseError> {
        let context = Context {
            environment_id: config.environment_id,
            registration_id: config.registration_id,
            stream_id: config.stream_id,
        };
        let (identity, executor) = (config.identity, config.executor);
        let (initiator, message) =
            Initiator::start(context, identity, executor, config.authorization, entropy)?;
        let deadline = now + config.limits.handshake;
        let handshake =
            Handshake { initiator, message, deadline, due: Some(now), retry: HANDSHAKE_RETRY };
        let resume = Frame::plain(config.stream_id, Body::Resume { next_seq: 0 });
        Ok(Self {
            stream: config.stream_id.to_owned(),
            phase: Phase::Handshake(Box::new(handshake)),
            reliability: config.reliability,
            attached: true,
            limits: Arc::new(config.limits),
            control: VecDeque::from([resume]),
            events: VecDeque::new(),
        })
    }

    /// Takes a binary WebSocket message.
    pub fn handle_frame(&mut self, bytes: &[u8], now: Instant) {
        let outcome = match Frame::decode(bytes) {
            Ok(frame) if frame.stream != self.stream => Ok(()),
            Ok(frame) => self.handle(frame, now),
            Err(_) => Err(ProtocolError::Unexpected.into()),
        };
        self.settle(outcome);
    }

    /// A text message is a breach of the protocol.
    pub fn handle_text(&mut self) {
        self.settle(Err(ProtocolError::Unexpected.into()));
    }

    fn handle(&mut self, frame: Frame, now: Instant) -> Result<(), CloseReason> {
        match &mut self.phase {
            Phase::Handshake(_) => match frame.body {
                Body::Handshake { payload } => self.finish(&payload, frame.receipt, now),
                Body::Reset { reason } => Err(CloseReason::Reset { reason }),
                // It overtook message 2, and will come again.
                Body::Data(_) if frame.receipt.is_some() => Ok(()),
                Body::Data(_) => Err(ProtocolError::Unexpected.into()),
                Body::Ack | Body::Resume { .. } | Body::Heartbeat => Ok(()),
            },
            Phase::Open(stream) => match frame.body {
                // Another copy of message 2.
                Body::Handshake { .. } if stream.is_reliable() => Ok(()),
                Body::Handshake { .. } => Err(ProtocolError::Unexpected.into()),
                Body::Data(_)
                | Body::Ack
                | Body::Resume { .. }
                | Body::Reset { .. }
                | Body::Heartbeat => stream.handle_frame(frame, now),
            },
            Phase::Ended(..) | Phase::Over => Ok(()),
        }
    }

    fn finish(
        &mut self,
        message: &[u8],
        receipt: Option<Receipt>,
        now: Instant,
    ) -> Result<(), CloseReason> {
        let Phase::Handshake(handshake) = std::mem::replace(&mut self.phase, Phase::Over) else {
            return Ok(());
        };
        let limits = &self.limits;
        let offered = self.reliability != Reliability::Never;
        let delivery = match receipt.filter(|_| offered) {
            None => Delivery::Plain(0),
            Some(Receipt { limit, .. }) => {
                Delivery::Reliable(Box::new(Reliable::new(limit, limits.heartbeat, now)))
            }
        };
        let channel = match handshake.initiator.finish(message) {
            Ok(channel) => channel,
            Err(error) => {
                let reader = MessageReader::new(limits.message_bytes_max);
                self.end(reader, error.into());
                return Ok(());
            }
        };
        let stream = Stream::new(&self.stream, Role::Harness, channel, delivery, limits);
        self.events.push_back(HarnessEvent::Opened { reliable: stream.is_reliable() });
        self.phase = Phase::Open(Box::new(stream));
        Ok(())
    }

    /// The next binary WebSocket message, when the socket can take one.
    pub fn poll_transmit(&mut self, now: Instant) -> Option<Vec<u8>> {
        if !self.attached {
            return None;
        }
        if let Some(frame) = self.control.pop_front() {
            return Some(frame.encode());
        }
        let frame = match &mut self.phase {
            Phase::Handshake(handshake) => {
                handshake.due.filter(|due| *due <= now)?;
                let again = self.reliability == Reliability::Expect;
                handshake.due = again.then(|| now + handshake.retry);
                handshake.retry = (handshake.retry * 2).min(HANDSHAKE_RETRY_MAX);
                let receipt = Receipt { limit: FIRST_LIMIT, ..Receipt::default() };
                let receipt = (self.reliability != Reliability::Never).then_some(receipt);
                let body = Body::Handshake { payload: handshake.message.clone() };
                Some(Frame { stream: self.stream.clone(), receipt, body })
            }
            Phase::Open(stream) => match stream.poll_transmit(now) {
                Ok(frame) => frame,
                Err(reason) => {
                    self.settle(Err(reason));
                    self.control.pop_front()
                }
            },
            Phase::Ended(..) | Phase::Over => None,
        };
        self.settle(Ok(()));
        frame.map(Frame::encode)
    }

    /// What happened.
    pub fn poll_event(&mut self) -> Option<HarnessEvent> {
        if let Some(event) = self.events.pop_front() {
            return Some(event);
        }
        match &self.phase {
            Phase::Ended(reader, reason) if reader.count() == 0 => {
                let closed = HarnessEvent::Closed(reason.clone());
                self.phase = Phase::Over;
                Some(closed)
            }
            Phase::Handshake(_) | Phase::Open(_) | Phase::Ended(..) | Phase::Over => None,
        }
    }

    /// The next message of the executor.
    pub fn poll_message(&mut self, now: Instant) -> Option<Vec<u8>> {
        match &mut self.phase {
            Phase::Open(stream) => stream.poll_message(now),
            Phase::Ended(reader, _) => reader.pop(),
            Phase::Handshake(_) | Phase::Over => None,
        }
    }

    /// Whether to read from the socket. A plain executor is slowed by not reading; a reliable one is
    /// told, and its socket is always read.
    pub fn wants_frames(&self) -> bool {
        match &self.phase {
            Phase::Open(stream) => stream.is_reliable() || stream.wants_frames(),
            Phase::Handshake(_) | Phase::Ended(..) | Phase::Over => true,
        }
    }

    /// Takes a message for the executor, or gives it back.
    pub fn send(&mut self, message: Vec<u8>) -> Result<(), SendError> {
        match &mut self.phase {
            Phase::Open(stream) => stream.send(message),
            Phase::Handshake(_) | Phase::Ended(..) | Phase::Over => Err(SendError::NotOpen),
        }
    }

    /// Whether `send` would take a message.
    pub fn has_room(&self) -> bool {
        matches!(&self.phase, Phase::Open(stream) if stream.has_room())
    }

    /// When to call `handle_timeout`. Ask after `poll_transmit` had nothing more.
    pub fn poll_timeout(&self) -> Option<Instant> {
        match &self.phase {
            Phase::Handshake(handshake) => {
                let due = handshake.due.filter(|_| self.attached);
                Some(due.map_or(handshake.deadline, |due| due.min(handshake.deadline)))
            }
            Phase::Open(stream) => stream.poll_timeout(),
            Phase::Ended(..) | Phase::Over => None,
        }
    }

    /// Time has passed.
    pub fn handle_timeout(&mut self, now: Instant) {
        let outcome = match &mut self.phase {
            Phase::Handshake(handshake) if now >= handshake.deadline => {
                Err(CloseReason::HandshakeTimeout)
            }
            Phase::Open(stream) => stream.handle_timeout(now),
            Phase::Handshake(_) | Phase::Ended(..) | Phase::Over => Ok(()),
        };
        self.settle(outcome);
    }

    /// The socket is gone. A reliable stream waits for another one; any other ends.
    pub fn handle_detached(&mut self, now: Instant) {
        self.attached = false;
        self.control.clear();
        let outcome = match &mut self.phase {
            Phase::Open(stream) => stream.handle_detached(now),
            Phase::Handshake(_) if self.reliability == Reliability::Expect => Ok(()),
            Phase::Handshake(_) => Err(CloseReason::Disconnected),
            Phase::Ended(..) | Phase::Over => Ok(()),
        };
        self.settle(outcome);
    }

    /// There is a new socket.
    pub fn handle_attached(&mut self, now: Instant) {
        self.attached = true;
        match &mut self.phase {
            Phase::Open(stream) => stream.handle_attached(now),
            Phase::Handshake(handshake) => {
                self.control.push_back(Frame::plain(&self.stream, Body::Resume { next_seq: 0 }));
                handshake.due = Some(now);
            }
            Phase::Ended(..) | Phase::Over => {}
        }
    }

    /// Ends the stream, after what was taken has been sent.
    pub fn close(&mut self, now: Instant) {
        let outcome = match &mut self.phase {
            Phase::Handshake(_) => Err(CloseReason::Closed),
            Phase::Open(stream) => {
                stream.close(now);
                Ok(())
            }
            Phase::Ended(..) | Phase::Over => Ok(()),
        };
        self.settle(outcome);
    }

    /// All the memory that grows with what is sent and received.
    pub fn buffered_bytes(&self) -> usize {
        match &self.phase {
            Phase::Open(stream) => stream.buffered_bytes(),
            Phase::Ended(reader, _) => reader.bytes(),
            Phase::Handshake(_) | Phase::Over => 0,
        }
    }

    /// Draws the conclusions of what just happened.
    fn settle(&mut self, outcome: Result<(), CloseReason>) {
        let outcome = match (&mut self.phase, outcome) {
            (Phase::Open(stream), Ok(())) => {
                if stream.take_writable() {
                    self.events.push_back(HarnessEvent::Writable);
                }
                if stream.is_done() { Err(CloseReason::Closed) } else { Ok(()) }
            }
            (_, outcome) => outcome,
        };
        let Err(reason) = outcome else { return };
        let reader = match std::mem::replace(&mut self.phase, Phase::Over) {
            Phase::Handshake(_) => MessageReader::new(self.limits.message_bytes_max),
            Phase::Open(stream) => stream.into_reader(),
            ended @ (Phase::Ended(..) | Phase::Over) => {
                self.phase = ended;
                return;
            }
        };
        self.end(reader, reason);
    }

    /// The peer is told, unless it was the one who told us.
    fn end(&mut self, reader: MessageReader, reason: CloseReason) {
        if self.attached && !matches!(reason, CloseReason::Reset { .. }) {
            let reset = Body::Reset { reason: RESET_REASON.to_owned() };
            self.control.push_back(Frame::plain(&self.stream, reset));
        }
        self.phase = Phase::Ended(reader, reason);
    }
}
