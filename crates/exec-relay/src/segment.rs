//! Messages to records and back, records to segments and back. Only bytes: no crypto, no order.

use std::collections::VecDeque;

use crate::frame::Segment;
use crate::limits::{CIPHERTEXT_BYTES_MAX, RECORD_BYTES_MAX, SEGMENT_BYTES_MAX, SEGMENTS_MAX};

/// The length before each message.
const PREFIX_BYTES: usize = 4;
/// What a waiting message costs besides its bytes, so that empty ones are not free.
const MESSAGE_OVERHEAD: usize = 64;

/// Why a peer's bytes are no messages.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MessageError {
    /// No message is empty.
    #[error("an empty message")]
    Empty,
    /// Longer than was agreed.
    #[error("a message of {0} bytes is too long")]
    TooLong(usize),
    /// More plaintext than a record may have.
    #[error("a record of {0} bytes is too long")]
    Record(usize),
    /// Segments that do not make up a record.
    #[error("segments do not follow each other")]
    Segments,
}

/// Messages that wait to be sent. Each begins a new record.
#[derive(Debug, Default)]
pub(crate) struct MessageWriter {
    /// With their prefix.
    waiting: VecDeque<Vec<u8>>,
    /// How much of the first is in records already.
    cut: usize,
    bytes: usize,
}

impl MessageWriter {
    /// The caller has checked that the length is between 1 and what fits the prefix.
    pub(crate) fn push(&mut self, message: &[u8]) {
        let length = u32::try_from(message.len()).unwrap_or(u32::MAX);
        let mut framed = Vec::with_capacity(PREFIX_BYTES + message.len());
        framed.extend_from_slice(&length.to_be_bytes());
        framed.extend_from_slice(message);
        self.bytes += framed.len() + MESSAGE_OVERHEAD;
        self.waiting.push_back(framed);
    }

    /// The plaintext of the next record.
    pub(crate) fn next_record(&mut self) -> Option<Vec<u8>> {
        let first = self.waiting.front()?;
        let end = first.len().min(self.cut + RECORD_BYTES_MAX);
        let record = first[self.cut..end].to_vec();
        if end == first.len() {
            self.bytes -= first.len() + MESSAGE_OVERHEAD;
            self.cut = 0;
            self.waiting.pop_front();
        } else {
            self.cut = end;
        }
        Some(record)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// What waits, a message that was begun included as a whole.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }
}

/// Records to messages, and the messages that wait to be taken.
#[derive(Debug)]
pub(crate) struct MessageReader {
    message_bytes_max: usize,
    prefix: Vec<u8>,
    /// Of the message that is being read; grows with what arrives, not with what was announced.
    partial: Vec<u8>,
    missing: usize,
    waiting: VecDeque<Vec<u8>>,
    bytes: usize,
}

impl MessageReader {
    pub(crate) fn new(message_bytes_max: usize) -> Self {
        Self {
            message_bytes_max,
            prefix: Vec::with_capacity(PREFIX_BYTES),
            partial: Vec::new(),
            missing: 0,
            waiting: VecDeque::new(),
            bytes: 0,
        }
    }

    /// Any cut is accepted, an empty record too.
    pub(crate) fn push(&mut self, mut record: &[u8]) -> Result<(), MessageError> {
        if record.len() > RECORD_BYTES_MAX {
            return Err(MessageError::Record(record.len()));
        }
        while !record.is_empty() {
            if self.missing == 0 {
                let taken = record.len().min(PREFIX_BYTES - self.prefix.len());
                self.prefix.extend_from_slice(&record[..taken]);
                record = &record[taken..];
                let Ok(prefix) = <[u8; PREFIX_BYTES]>::try_from(&self.prefix[..]) else { break };
                self.prefix.clear();
                self.missing = self.check(u32::from_be_bytes(prefix))?;
            }
            let taken = record.len().min(self.missing);
            self.partial.extend_from_slice(&record[..taken]);
            self.missing -= taken;
            record = &record[taken..];
            if self.missing == 0 {
                self.bytes += self.partial.len() + MESSAGE_OVERHEAD;
                self.waiting.push_back(std::mem::take(&mut self.partial));
            }
        }
        Ok(())
    }

    fn check(&self, length: u32) -> Result<usize, MessageError> {
        match usize::try_from(length).unwrap_or(usize::MAX) {
            0 => Err(MessageError::Empty),
            length if length > self.message_bytes_max => Err(MessageError::TooLong(length)),
            length => Ok(length),
        }
    }

    pub(crate) fn pop(&mut self) -> Option<Vec<u8>> {
        let message = self.waiting.pop_front()?;
        self.bytes -= message.len() + MESSAGE_OVERHEAD;
        Some(message)
    }

    /// Messages that wait to be taken.
    pub(crate) fn count(&self) -> usize {
        self.waiting.len()
    }

    /// Their bytes, and something for each.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// The bytes of the message that is not yet complete.
    pub(crate) fn partial_bytes(&self) -> usize {
        self.partial.len()
    }
}

/// Cuts a record for a reliable stream.
pub(crate) fn cut(record: &[u8]) -> impl Iterator<Item = (Segment, Vec<u8>)> + '_ {
    let count = u32::try_from(record.len().div_ceil(SEGMENT_BYTES_MAX)).unwrap_or(SEGMENTS_MAX);
    (0..)
        .zip(record.chunks(SEGMENT_BYTES_MAX))
        .map(move |(index, part)| (Segment { index, count }, part.to_vec()))
}

/// Puts records together again.
#[derive(Debug, Default)]
pub(crate) struct Assembler {
    next: u32,
    count: u32,
    record: Vec<u8>,
}

impl Assembler {
    /// The record, once its last segment came. Segments come in order.
    pub(crate) fn push(
        &mut self,
        segment: Segment,
        mut payload: Vec<u8>,
    ) -> Result<Option<Vec<u8>>, MessageError> {
        let first = self.next == 0;
        if segment.index != self.next || (!first && segment.count != self.count) {
            return Err(MessageError::Segments);
        }
        if self.record.len() + payload.len() > CIPHERTEXT_BYTES_MAX {
            return Err(MessageError::Record(self.record.len() + payload.len()));
        }
        if first {
            self.record = payload;
        } else {
            self.record.append(&mut payload);
        }
        self.count = segment.count;
        self.next += 1;
        if self.next < self.count {
            return Ok(None);
        }
        self.next = 0;
        Ok(Some(std::mem::take(&mut self.record)))
    }

    pub(crate) fn bytes(&self) -> usize {
        self.record.len()
    }
}
