//! The life of one stream at an executor.

use std::time::Instant;

use clatter::crypto::hash::Sha256;
use clatter::traits::Hash as _;

use crate::error::CloseReason;
use crate::frame::{Frame, Receipt};
use crate::noise::Responder;
use crate::segment::MessageReader;
use crate::stream::Stream;

/// Recognises a handshake message that comes again.
pub(super) type Digest = [u8; 32];

pub(super) fn digest(message: &[u8]) -> Digest {
    *Sha256::hash(message)
}

pub(super) enum Slot {
    Pending(Box<Pending>),
    Open(Box<Open>),
    Ended(Ended),
}

/// Waits for the registry.
pub(super) struct Pending {
    pub(super) name: String,
    pub(super) responder: Responder,
    pub(super) digest: Digest,
    /// The harness offers a reliable stream, and we accept.
    pub(super) offered: Option<Receipt>,
    pub(super) deadline: Instant,
}

impl Pending {
    pub(super) fn is_repeated_by(&self, digest: &Digest, receipt: Option<Receipt>) -> bool {
        self.offered.is_some() && receipt.is_some() && self.digest == *digest
    }
}

pub(super) struct Open {
    pub(super) stream: Stream,
    pub(super) digest: Digest,
    /// Message 2 of a reliable stream, until the harness has shown that it has it.
    pub(super) reply: Option<Frame>,
}

/// Messages may be left to take.
pub(super) struct Ended {
    pub(super) reader: MessageReader,
    pub(super) reason: CloseReason,
}

impl Slot {
    pub(super) fn is_pending(&self) -> bool {
        matches!(self, Self::Pending(_))
    }

    /// Why it ended, if nothing is left to take.
    pub(super) fn finished(&self) -> Option<&CloseReason> {
        match self {
            Self::Ended(ended) if ended.reader.count() == 0 => Some(&ended.reason),
            Self::Pending(_) | Self::Open(_) | Self::Ended(_) => None,
        }
    }

    pub(super) fn end(self, reason: CloseReason) -> Self {
        match self {
            Self::Open(open) => Self::Ended(Ended { reader: open.stream.into_reader(), reason }),
            Self::Pending(_) | Self::Ended(_) => self,
        }
    }

    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        match self {
            Self::Pending(pending) => Some(pending.deadline),
            Self::Open(open) => open.stream.poll_timeout(),
            Self::Ended(_) => None,
        }
    }

    pub(super) fn buffered_bytes(&self) -> usize {
        match self {
            Self::Pending(_) => 0,
            Self::Open(open) => open.stream.buffered_bytes(),
            Self::Ended(ended) => ended.reader.bytes(),
        }
    }
}
