//! What a process handle yields.

use std::fmt;

use exec_protocol::process::Stream;

use crate::ExecServerError;

/// One thing that happened to a process, in the order in which it happened.
///
/// `Closed` and `Lost` are final; everything else comes before. `Exited` comes at most once, and
/// output may follow it: a descendant can hold the streams open.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProcessEvent {
    /// The process wrote something.
    Output {
        /// The server's number of this piece.
        seq: u64,
        /// Where it was written.
        stream: Stream,
        /// The bytes.
        bytes: Vec<u8>,
    },
    /// The process ended.
    Exited {
        /// As exited, or 128 and the signal. −1 when the server could not tell.
        code: i32,
        /// The sandbox was probably the reason for the failure. `None` from servers that do not
        /// say.
        sandbox_denied: Option<bool>,
    },
    /// The process ended and nothing can write to its streams any more.
    Closed,
    /// Output that the server no longer retained when it was asked for it.
    Gap {
        /// How many bytes, where the server tells; codex does not.
        bytes: Option<u64>,
    },
    /// The process can no longer be followed. It may still run: this is no exit.
    Lost(LostReason),
}

impl ProcessEvent {
    /// Nothing follows this one.
    pub fn is_final(&self) -> bool {
        matches!(self, Self::Closed | Self::Lost(_))
    }

    /// The bytes that it carries.
    pub(crate) fn payload_bytes(&self) -> usize {
        match self {
            Self::Output { bytes, .. } => bytes.len(),
            Self::Exited { .. } | Self::Closed | Self::Gap { .. } | Self::Lost(_) => 0,
        }
    }
}

/// Why a process can no longer be followed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LostReason {
    /// The connection was lost for good.
    Connection(String),
    /// The server no longer knows the process, or cannot follow it itself.
    Process(String),
}

impl fmt::Display for LostReason {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Connection(reason) => write!(formatter, "connection lost: {reason}"),
            Self::Process(reason) => formatter.write_str(reason),
        }
    }
}

impl From<LostReason> for ExecServerError {
    fn from(reason: LostReason) -> Self {
        match reason {
            LostReason::Connection(reason) => Self::ConnectionLost(reason),
            LostReason::Process(reason) => Self::ProcessLost(reason),
        }
    }
}
