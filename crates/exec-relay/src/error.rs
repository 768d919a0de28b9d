//! Why things fail.

use crate::noise::NoiseError;
use crate::recv_window::WindowError;
use crate::segment::MessageError;
use crate::send_window::AckError;

/// Why a stream has ended. Every stream that was opened ends with exactly one of these.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CloseReason {
    /// We closed it, and the peer has all we sent, as far as that can be known.
    #[error("closed")]
    Closed,
    /// We closed it, and the peer did not confirm all of it in time.
    #[error("closed before the peer had everything")]
    Unconfirmed,
    /// The peer, or the relay, has ended it. The text is not authenticated.
    #[error("reset by the peer")]
    Reset {
        /// As received.
        reason: String,
    },
    /// The socket is gone, and the peer cannot resume.
    #[error("the relay's socket was lost")]
    Disconnected,
    /// No new socket came in time.
    #[error("no new socket came in time")]
    NotResumed,
    /// Nothing was heard for too long.
    #[error("the peer is silent")]
    Silent,
    /// The executor did not answer the handshake in time.
    #[error("the handshake took too long")]
    HandshakeTimeout,
    /// A frame is missing, and nobody will send it again.
    #[error("a frame was lost by the relay")]
    Lost,
    /// The peer, or whoever is between, broke the protocol.
    #[error(transparent)]
    Protocol(#[from] ProtocolError),
}

/// How the protocol can be broken.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ProtocolError {
    /// In the handshake, or a record was forged.
    #[error(transparent)]
    Noise(#[from] NoiseError),
    /// Frames too far ahead.
    #[error(transparent)]
    Window(#[from] WindowError),
    /// Receipts for what was never sent.
    #[error(transparent)]
    Ack(#[from] AckError),
    /// Records that hold no messages.
    #[error(transparent)]
    Message(#[from] MessageError),
    /// More messages than may wait, from a peer that cannot be slowed.
    #[error("too many messages wait")]
    Overrun,
    /// A frame that has no place here, or no frame at all.
    #[error("an unexpected frame")]
    Unexpected,
    /// All sequence numbers are used up.
    #[error("no sequence number is left")]
    Exhausted,
}

impl<E: Into<ProtocolError>> From<E> for CloseReason
where
    E: IsPart,
{
    fn from(error: E) -> Self {
        Self::Protocol(error.into())
    }
}

/// The parts of [`ProtocolError`], for which `?` may skip a step.
pub(crate) trait IsPart {}
impl IsPart for NoiseError {}
impl IsPart for WindowError {}
impl IsPart for AckError {}
impl IsPart for MessageError {}

/// Why a message was not taken for sending.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SendError {
    /// Too much waits already. The message comes back.
    #[error("too much waits to be sent")]
    Full(Vec<u8>),
    /// No message may be empty or longer than the limit.
    #[error("a message of {0} bytes cannot be sent")]
    Length(usize),
    /// There is no such stream, or it is not open (any more).
    #[error("the stream is not open")]
    NotOpen,
}
