//! A stream after its handshake: messages to frames and back, the same for both roles.
//!
//! ```text
//! send ---> MessageWriter -> Channel::seal -> [cut] -> SendWindow (reliable) --> poll_transmit
//! poll_message <- MessageReader <- Channel::open <- [Assembler] <- RecvWindow <- handle_frame
//! ```
//!
//! Between two of ours a stream is *reliable*; with any other peer it is *plain* and sends what the
//! reference sends.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

use crate::error::{CloseReason, ProtocolError, SendError};
use crate::frame::{Body, Data, Frame, Segment};
use crate::limits::Limits;
use crate::noise::Channel;
use crate::recv_window::{Accepted, Piece, RecvWindow};
use crate::reliable::Reliable;
use crate::segment::{Assembler, MessageReader, MessageWriter, cut};

/// Which end we are; it decides what happens to a plain peer that sends too much.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    /// One of many streams on a socket: it is reset, the others go on.
    Executor,
    /// The only stream on its socket, which need not be read.
    Harness,
}

#[derive(Debug)]
pub(crate) enum Delivery {
    /// With the number of the next frame.
    Plain(u64),
    Reliable(Box<Reliable>),
}

#[derive(Debug)]
pub(crate) struct Stream {
    id: String,
    role: Role,
    limits: Arc<Limits>,
    channel: Channel,
    delivery: Delivery,
    writer: MessageWriter,
    /// The rest of a record that is encrypted but not numbered yet.
    cut: VecDeque<Piece>,
    recv: RecvWindow,
    assembler: Assembler,
    reader: MessageReader,
    /// Since when frames wait for an earlier one.
    gap: Option<Instant>,
    /// Until when a stream that is being closed waits for its peer.
    closing: Option<Instant>,
    /// A message was refused, so its owner wants to hear of room.
    refused: bool,
}

impl Stream {
    pub(crate) fn new(
        id: &str,
        role: Role,
        channel: Channel,
        delivery: Delivery,
        limits: &Arc<Limits>,
    ) -> Self {
        Self {
            id: id.to_owned(),
            role,
            limits: Arc::clone(limits),
            channel,
            delivery,
            writer: MessageWriter::default(),
            cut: VecDeque::new(),
            recv: RecvWindow::default(),
            assembler: Assembler::default(),
            reader: MessageReader::new(limits.message_bytes_max),
            gap: None,
            closing: None,
            refused: false,
        }
    }

    pub(crate) fn id(&self) -> &str {
        &self.id
    }

    pub(crate) fn is_reliable(&self) -> bool {
        matches!(self.delivery, Delivery::Reliable(_))
    }

    /// Whether anything authentic has arrived: the peer has our half of the handshake.
    pub(crate) fn has_received(&self) -> bool {
        self.recv.next() > 0
    }

    /// Takes a message, or gives it back.
    pub(crate) fn send(&mut self, message: Vec<u8>) -> Result<(), SendError> {
        if self.closing.is_some() {
            return Err(SendError::NotOpen);
        }
        if message.is_empty() || message.len() > self.limits.message_bytes_max {
            return Err(SendError::Length(message.len()));
        }
        if !self.has_room() {
            self.refused = true;
            return Err(SendError::Full(message));
        }
        self.writer.push(&message);
        Ok(())
    }

    pub(crate) fn has_room(&self) -> bool {
        self.closing.is_none() && self.writer.bytes() < self.limits.unsent_bytes_max
    }

    /// True once after there is room again for what was refused.
    pub(crate) fn take_writable(&mut self) -> bool {
        let writable = self.refused && self.has_room();
        self.refused &= !writable;
        writable
    }

    pub(crate) fn poll_message(&mut self, now: Instant) -> Option<Vec<u8>> {
        let message = self.reader.pop();
        self.open_window(now);
        message
    }

    /// Whether a message waits.
    pub(crate) fn is_readable(&self) -> bool {
        self.reader.count() > 0
    }

    /// Whether more frames can be taken without waiting for the user of the messages.
    pub(crate) fn wants_frames(&self) -> bool {
        self.reader.count() < self.limits.unread_messages_max
            && self.reader.bytes() < self.limits.unread_bytes_max
    }

    fn open_window(&mut self, now: Instant) {
        let open = self.wants_frames();
        if let Delivery::Reliable(reliable) = &mut self.delivery
            && open
        {
            reliable.open_window(&self.recv, now);
        }
    }

    /// Everything but handshakes. An error ends the stream.
    pub(crate) fn handle_frame(&mut self, frame: Frame, now: Instant) -> Result<(), CloseReason> {
        if let Body::Reset { reason } = frame.body {
            return Err(CloseReason::Reset { reason });
        }
        match (&mut self.delivery, frame.receipt) {
            (Delivery::Reliable(reliable), Some(receipt)) => {
                reliable.handle_receipt(receipt, now)?;
                match frame.body {
                    Body::Resume { .. } => reliable.handle_resume(now),
                    Body::Heartbeat => reliable.handle_heartbeat(now),
                    Body::Data(data) => self.handle_data(data, now)?,
                    Body::Ack | Body::Reset { .. } | Body::Handshake { .. } => {}
                }
            }
            // Both ends know from the handshake what they do. Who disagrees has been tampered with.
            (Delivery::Plain(_), None) => {
                if let Body::Data(data) = frame.body {
                    self.handle_data(data, now)?;
                }
            }
            (Delivery::Reliable(_), None) | (Delivery::Plain(_), Some(_)) => {
                if matches!(frame.body, Body::Data(_)) {
                    return Err(ProtocolError::Unexpected.into());
                }
            }
        }
        Ok(())
    }

    fn handle_data(&mut self, data: Data, now: Instant) -> Result<(), CloseReason> {
        let accepted = self.recv.accept(data.seq, data.segment, data.payload)?;
        let in_order = matches!(accepted, Accepted::Ready(_));
        if let Accepted::Ready(pieces) = accepted {
            self.gap = None;
            for (segment, payload) in pieces {
                if let Some(record) = self.assembler.push(segment, payload)? {
                    self.reader.push(&self.channel.open(&record)?)?;
                }
            }
            self.check_unread()?;
        }
        if self.recv.has_gap() {
            self.gap.get_or_insert(now);
        }
        let complete = in_order && !self.recv.has_gap();
        self.open_window(now);
        if let Delivery::Reliable(reliable) = &mut self.delivery {
            reliable.handle_data(complete, now);
        }
        Ok(())
    }

    fn check_unread(&self) -> Result<(), CloseReason> {
        let Limits { unread_messages_max, unread_bytes_max, message_bytes_max, .. } = *self.limits;
        let overrun = match (&self.delivery, self.role) {
            // The peer cannot send what it was not granted.
            (Delivery::Reliable(_), _) => false,
            (Delivery::Plain(_), Role::Executor) => self.reader.count() > unread_messages_max,
            (Delivery::Plain(_), Role::Harness) => {
                self.reader.bytes() > unread_bytes_max.saturating_add(message_bytes_max) * 2
            }
        };
        if overrun { Err(ProtocolError::Overrun.into()) } else { Ok(()) }
    }

    /// The next frame for the socket.
    pub(crate) fn poll_transmit(&mut self, now: Instant) -> Result<Option<Frame>, CloseReason> {
        let body = match &mut self.delivery {
            Delivery::Plain(next) => {
                let number = *next;
                let Some((segment, payload)) = self.next_piece()? else { return Ok(None) };
                let seq = u32::try_from(number).map_err(|_| ProtocolError::Exhausted)?;
                self.delivery = Delivery::Plain(number + 1);
                let body = Body::Data(Data { seq, segment, payload });
                return Ok(Some(Frame::plain(&self.id, body)));
            }
            Delivery::Reliable(reliable) if reliable.is_detached() => None,
            Delivery::Reliable(reliable) => reliable.poll_resume(&self.recv),
        };
        let body = match body {
            Some(body) => Some(body),
            None => self.poll_reliable(now)?,
        };
        let (Some(body), Delivery::Reliable(reliable)) = (body, &mut self.delivery) else {
            return Ok(None);
        };
        let receipt = Some(reliable.receipt(&self.recv, now));
        Ok(Some(Frame { stream: self.id.clone(), receipt, body }))
    }

    /// What is to be sent again first, then what is new, then what is said for its own sake.
    fn poll_reliable(&mut self, now: Instant) -> Result<Option<Body>, CloseReason> {
        let Delivery::Reliable(reliable) = &mut self.delivery else { return Ok(None) };
        if reliable.is_detached() {
            return Ok(None);
        }
        if let Some(data) = reliable.send.poll(now) {
            return Ok(Some(Body::Data(data)));
        }
        if reliable.send.has_room()
            && let Some((segment, payload)) = self.next_piece()?
            && let Delivery::Reliable(reliable) = &mut self.delivery
        {
            reliable.send.push(segment, payload, now).ok_or(ProtocolError::Exhausted)?;
            return Ok(reliable.send.poll(now).map(Body::Data));
        }
        let blocked = self.is_blocked();
        let Delivery::Reliable(reliable) = &self.delivery else { return Ok(None) };
        Ok(reliable.poll_control(blocked, now))
    }

    /// The next piece of ciphertext. A record is encrypted once and never again.
    fn next_piece(&mut self) -> Result<Option<Piece>, CloseReason> {
        if self.cut.is_empty()
            && let Some(record) = self.writer.next_record()
        {
            let sealed = self.channel.seal(&record)?;
            match self.delivery {
                Delivery::Plain(_) => self.cut.push_back((Segment::WHOLE, sealed)),
                Delivery::Reliable(_) => self.cut.extend(cut(&sealed)),
            }
        }
        Ok(self.cut.pop_front())
    }

    fn has_unsent(&self) -> bool {
        !(self.cut.is_empty() && self.writer.is_empty())
    }

    /// Whether data waits for nothing but the peer's permission.
    fn is_blocked(&self) -> bool {
        match &self.delivery {
            Delivery::Plain(_) => false,
            Delivery::Reliable(reliable) => {
                self.has_unsent() && reliable.send.is_empty() && !reliable.send.has_room()
            }
        }
    }

    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        let blocked = self.is_blocked();
        let (delivery, gap) = match &self.delivery {
            Delivery::Plain(_) => (None, self.limits.gap),
            Delivery::Reliable(reliable) => {
                (Some(reliable.poll_timeout(blocked, &self.limits)), self.limits.silence)
            }
        };
        let gap = self.gap.map(|since| since + gap).filter(|_| !self.is_detached());
        [delivery, gap, self.closing].into_iter().flatten().min()
    }

    /// An error ends the stream; so does `Closed`, which is none.
    pub(crate) fn handle_timeout(&mut self, now: Instant) -> Result<(), CloseReason> {
        if let Some(deadline) = self.closing {
            if self.is_drained() {
                return Err(CloseReason::Closed);
            }
            if now >= deadline {
                return Err(CloseReason::Unconfirmed);
            }
        }
        let patience = match &self.delivery {
            Delivery::Plain(_) => self.limits.gap,
            Delivery::Reliable(reliable) => {
                reliable.handle_timeout(&self.limits, now)?;
                self.limits.silence
            }
        };
        match self.gap {
            Some(since) if now >= since + patience && !self.is_detached() => Err(CloseReason::Lost),
            _ => Ok(()),
        }
    }

    fn is_detached(&self) -> bool {
        matches!(&self.delivery, Delivery::Reliable(reliable) if reliable.is_detached())
    }

    /// A plain stream does not survive its socket.
    pub(crate) fn handle_detached(&mut self, now: Instant) -> Result<(), CloseReason> {
        match &mut self.delivery {
            Delivery::Plain(_) => Err(CloseReason::Disconnected),
            Delivery::Reliable(reliable) => {
                reliable.handle_detached(now);
                Ok(())
            }
        }
    }

    pub(crate) fn handle_attached(&mut self, now: Instant) {
        if let Delivery::Reliable(reliable) = &mut self.delivery {
            let pause = reliable.handle_attached(now);
            self.gap = self.gap.map(|since| since + pause);
        }
    }

    /// No more messages are taken; what was taken is still sent.
    pub(crate) fn close(&mut self, now: Instant) {
        self.closing.get_or_insert(now + self.limits.linger);
    }

    /// Whether the peer has everything, as far as it says.
    fn is_drained(&self) -> bool {
        let sent = match &self.delivery {
            Delivery::Plain(_) => true,
            Delivery::Reliable(reliable) => reliable.send.is_empty(),
        };
        sent && !self.has_unsent()
    }

    /// Whether it was closed and nothing is left to wait for.
    pub(crate) fn is_done(&self) -> bool {
        self.closing.is_some() && self.is_drained()
    }

    /// The messages that were received and not taken.
    pub(crate) fn into_reader(self) -> MessageReader {
        self.reader
    }

    /// All the memory that grows with what the peer or the user sends.
    pub(crate) fn buffered_bytes(&self) -> usize {
        let sent = match &self.delivery {
            Delivery::Plain(_) => 0,
            Delivery::Reliable(reliable) => reliable.send.bytes(),
        };
        let cut: usize = self.cut.iter().map(|(_, payload)| payload.len()).sum();
        let sending = self.writer.bytes() + cut + sent;
        let received = self.reader.bytes() + self.reader.partial_bytes();
        sending + self.recv.bytes() + self.assembler.bytes() + received
    }
}
