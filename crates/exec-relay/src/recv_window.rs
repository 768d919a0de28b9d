//! Frames in any order in, pieces in order out.

use std::collections::BTreeMap;

use crate::frame::Segment;
use crate::limits::{WINDOW_BYTES, WINDOW_FRAMES};

/// A piece of a record, without its number.
pub(crate) type Piece = (Segment, Vec<u8>);

/// Why a frame cannot be accepted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WindowError {
    /// Too far ahead.
    #[error("frame {seq} came while {next} was expected")]
    Beyond {
        /// Its number.
        seq: u32,
        /// What was expected.
        next: u64,
    },
    /// Too much waits for an earlier frame.
    #[error("too much waits for frame {next}")]
    TooMuch {
        /// What was expected.
        next: u64,
    },
}

/// What became of a frame.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Accepted {
    /// Known already; the first copy stays.
    Again,
    /// Waits for an earlier one.
    Early,
    /// These can be read now.
    Ready(Vec<Piece>),
}

/// The frames that came before their turn. `next` is wider than the wire's number, so it cannot wrap.
#[derive(Debug, Default)]
pub(crate) struct RecvWindow {
    next: u64,
    early: BTreeMap<u64, Piece>,
    early_bytes: usize,
}

impl RecvWindow {
    pub(crate) fn accept(
        &mut self,
        seq: u32,
        segment: Segment,
        payload: Vec<u8>,
    ) -> Result<Accepted, WindowError> {
        let number = u64::from(seq);
        if number < self.next || self.early.contains_key(&number) {
            return Ok(Accepted::Again);
        }
        if number > self.next + WINDOW_FRAMES {
            return Err(WindowError::Beyond { seq, next: self.next });
        }
        if number > self.next {
            if self.early_bytes + payload.len() > WINDOW_BYTES {
                return Err(WindowError::TooMuch { next: self.next });
            }
            self.early_bytes += payload.len();
            self.early.insert(number, (segment, payload));
            return Ok(Accepted::Early);
        }
        let mut ready = vec![(segment, payload)];
        self.next += 1;
        while let Some(piece) = self.early.remove(&self.next) {
            self.early_bytes -= piece.1.len();
            self.next += 1;
            ready.push(piece);
        }
        Ok(Accepted::Ready(ready))
    }

    /// The next expected number.
    pub(crate) fn next(&self) -> u64 {
        self.next
    }

    /// Whether something waits for an earlier frame.
    pub(crate) fn has_gap(&self) -> bool {
        !self.early.is_empty()
    }

    /// Which of the 32 frames after the next have arrived.
    pub(crate) fn bits(&self) -> u32 {
        let after = self.next + 1;
        self.early.range(after..after + 32).fold(0, |bits, (seq, _)| bits | 1 << (seq - after))
    }

    pub(crate) fn bytes(&self) -> usize {
        self.early_bytes
    }
}
