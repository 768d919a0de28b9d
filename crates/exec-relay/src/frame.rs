//! One frame of the relay: what a WebSocket message carries. Decoding checks all that can be known
//! from the frame alone.

mod wire;

use prost::Message as _;

use crate::limits::{FRAME_BYTES_MAX, SEGMENT_BYTES_MAX, SEGMENTS_MAX, STREAM_ID_BYTES_MAX};

/// The only version of the frame.
const VERSION: u32 = 1;
/// The only version of our reliability.
const RELIABILITY: u32 = 1;

/// A valid frame. Trace fields are hints that nobody may trust; they are passed over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame {
    /// The stream it belongs to.
    pub stream: String,
    /// What its sender has received; only between two ends that keep their frames until then.
    pub receipt: Option<Receipt>,
    /// What it says.
    pub body: Body,
}

/// What the sender of a frame has received, and may be sent. `docs/relay.md` has the contract.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Receipt {
    /// The next expected sequence number: all below have arrived.
    pub ack: u32,
    /// Bit `n` says that `ack + 1 + n` has arrived.
    pub ack_bits: u32,
    /// The first sequence number that may not be sent yet.
    pub limit: u32,
}

/// What a frame says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Body {
    /// A record, or on a reliable stream a part of one.
    Data(Data),
    /// Nothing but its receipt.
    Ack,
    /// This socket carries the stream from now on; `next_seq` is expected next.
    Resume {
        /// See above.
        next_seq: u32,
    },
    /// The stream has ended. The text is not authenticated.
    Reset {
        /// Why, for people.
        reason: String,
    },
    /// Still there; on a reliable stream it asks for an answer.
    Heartbeat,
    /// A Noise handshake message.
    Handshake {
        /// The message.
        payload: Vec<u8>,
    },
}

/// A numbered piece of ciphertext.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Data {
    /// From 0, by one, in each direction.
    pub seq: u32,
    /// Which part of a record.
    pub segment: Segment,
    /// Never empty.
    pub payload: Vec<u8>,
}

/// Which part of a record a frame carries. Parts have consecutive sequence numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Segment {
    /// From 0.
    pub index: u32,
    /// At least 1.
    pub count: u32,
}

impl Segment {
    /// A whole record.
    pub const WHOLE: Self = Self { index: 0, count: 1 };
}

/// Why bytes are no frame.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// Longer than any frame may be.
    #[error("a frame of {0} bytes is longer than {FRAME_BYTES_MAX}")]
    TooLong(usize),
    /// Not the protobuf message that was expected.
    #[error("not a relay frame")]
    Malformed,
    /// Of another version.
    #[error("frame version {0} is unknown")]
    Version(u32),
    /// The name of the stream is blank or too long.
    #[error("the stream has no usable name")]
    StreamId,
    /// No body, or one that is unknown.
    #[error("the frame says nothing")]
    NoBody,
    /// A body that lacks what it needs.
    #[error("{0}")]
    Body(&'static str),
}

impl Frame {
    /// A frame as the reference sends it.
    pub fn plain(stream: &str, body: Body) -> Self {
        Self { stream: stream.to_owned(), receipt: None, body }
    }

    /// Reads one binary WebSocket message.
    pub fn decode(bytes: &[u8]) -> Result<Self, FrameError> {
        if bytes.len() > FRAME_BYTES_MAX {
            return Err(FrameError::TooLong(bytes.len()));
        }
        let frame = wire::RelayMessageFrame::decode(bytes).map_err(|_| FrameError::Malformed)?;
        if frame.version != VERSION {
            return Err(FrameError::Version(frame.version));
        }
        if frame.stream_id.trim().is_empty() || frame.stream_id.len() > STREAM_ID_BYTES_MAX {
            return Err(FrameError::StreamId);
        }
        // Of another version than ours we know nothing; such a frame is one of a plain peer.
        let reliable = frame.reliable.filter(|reliable| reliable.version == RELIABILITY);
        let receipt = reliable.map(|reliable| Receipt {
            ack: frame.ack,
            ack_bits: frame.ack_bits,
            limit: reliable.limit,
        });
        let body = body(frame.body.ok_or(FrameError::NoBody)?, receipt.is_some())?;
        Ok(Self { stream: frame.stream_id, receipt, body })
    }

    /// The bytes of one binary WebSocket message.
    pub fn encode(self) -> Vec<u8> {
        let receipt = self.receipt.unwrap_or_default();
        let reliable = self
            .receipt
            .map(|receipt| wire::RelayReliable { version: RELIABILITY, limit: receipt.limit });
        let body = match self.body {
            Body::Data(data) => wire::Body::Data(wire::RelayData {
                seq: data.seq,
                segment_index: data.segment.index,
                segment_count: data.segment.count,
                payload: data.payload,
            }),
            Body::Ack => wire::Body::AckFrame(wire::RelayAck {}),
            Body::Resume { next_seq } => wire::Body::Resume(wire::RelayResume { next_seq }),
            Body::Reset { reason } => wire::Body::Reset(wire::RelayReset { reason }),
            Body::Heartbeat => wire::Body::Heartbeat(wire::RelayHeartbeat {}),
            Body::Handshake { payload } => wire::Body::Handshake(wire::RelayHandshake { payload }),
        };
        let frame = wire::RelayMessageFrame {
            version: VERSION,
            stream_id: self.stream,
            ack: receipt.ack,
            ack_bits: receipt.ack_bits,
            body: Some(body),
            traceparent: None,
            tracestate: None,
            reliable,
        };
        frame.encode_to_vec()
    }
}

fn body(body: wire::Body, reliable: bool) -> Result<Body, FrameError> {
    Ok(match body {
        wire::Body::Data(data) => Body::Data(check_data(data, reliable)?),
        wire::Body::AckFrame(_) => Body::Ack,
        wire::Body::Resume(resume) => Body::Resume { next_seq: resume.next_seq },
        wire::Body::Reset(reset) if reset.reason.is_empty() => {
            return Err(FrameError::Body("a reset gives no reason"));
        }
        wire::Body::Reset(reset) => Body::Reset { reason: reset.reason },
        wire::Body::Heartbeat(_) => Body::Heartbeat,
        wire::Body::Handshake(handshake) if handshake.payload.is_empty() => {
            return Err(FrameError::Body("a handshake is empty"));
        }
        wire::Body::Handshake(handshake) => Body::Handshake { payload: handshake.payload },
    })
}

fn check_data(data: wire::RelayData, reliable: bool) -> Result<Data, FrameError> {
    let segment = Segment { index: data.segment_index, count: data.segment_count };
    if data.payload.is_empty() {
        return Err(FrameError::Body("data is empty"));
    }
    if reliable {
        if segment.count > SEGMENTS_MAX || segment.index >= segment.count {
            return Err(FrameError::Body("a segment is outside of its record"));
        }
        if data.payload.len() > SEGMENT_BYTES_MAX {
            return Err(FrameError::Body("a segment is too long"));
        }
    } else if segment != Segment::WHOLE {
        return Err(FrameError::Body("data is a segment of a record"));
    }
    Ok(Data { seq: data.seq, segment, payload: data.payload })
}

#[cfg(test)]
#[path = "frame/tests.rs"]
mod tests;
