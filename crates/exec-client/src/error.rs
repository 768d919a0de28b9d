//! What can go wrong for a caller. A lost transport is told apart from everything a server says.

use std::time::Duration;

use exec_protocol::jsonrpc::RpcError;
use exec_protocol::process::WriteStatus;

/// A failure of the client, of the connection or of a call.
#[derive(Debug, Clone, thiserror::Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum ExecServerError {
    /// No connection could be made.
    #[error("cannot connect to {target}: {reason}")]
    Connect {
        /// What was connected to.
        target: String,
        /// The transport's words.
        reason: String,
    },
    /// The server answered the WebSocket upgrade with another status.
    #[error("server refused the connection with status {status}: {body}")]
    Refused {
        /// The HTTP status.
        status: u16,
        /// The start of the body.
        body: String,
    },
    /// The program that should speak over its stdio could not be started.
    #[error("cannot start {program}: {reason}")]
    SpawnProgram {
        /// The program.
        program: String,
        /// The operating system's words.
        reason: String,
    },
    /// The server answered `initialize` with an error.
    #[error("initialize failed: {message} ({code})")]
    Initialize {
        /// The JSON-RPC code.
        code: i64,
        /// The server's words.
        message: String,
    },
    /// The server answered a call with an error.
    #[error("{message} ({code})")]
    Rpc {
        /// The JSON-RPC code, one of [`exec_protocol::jsonrpc::code`].
        code: i64,
        /// The server's words.
        message: String,
    },
    /// The connection was lost, and with it the answer. Whether the call took effect is unknown.
    #[error("connection lost: {0}")]
    ConnectionLost(String),
    /// The connection lives but one process can no longer be followed.
    #[error("process can no longer be followed: {0}")]
    ProcessLost(String),
    /// A deadline passed.
    #[error("{what} took longer than {limit:?}")]
    Timeout {
        /// What was waited for.
        what: &'static str,
        /// The deadline.
        limit: Duration,
    },
    /// More calls wait for their answers than the client keeps.
    #[error("more than {max} requests in flight")]
    TooManyRequests {
        /// The bound.
        max: usize,
    },
    /// One end broke the protocol, or a value cannot be sent.
    #[error("protocol error: {0}")]
    Protocol(String),
    /// The server lacks what was asked for.
    #[error("server does not support {0}")]
    Unsupported(&'static str),
    /// A write was not accepted.
    #[error("process did not accept the write: {0:?}")]
    WriteRefused(WriteStatus),
    /// A file is no longer what it was when its transfer began, or not what was written.
    #[error("{path} changed meanwhile: {how}")]
    FileChanged {
        /// Which file.
        path: String,
        /// What is different.
        how: String,
    },
    /// A file of this machine could not be read or written.
    #[error("{path}: {reason}")]
    Local {
        /// Which file.
        path: String,
        /// The operating system's words.
        reason: String,
    },
    /// The body of an HTTP answer is not whole.
    #[error("the body is not whole: {0}")]
    Body(String),
    /// A process wrote more than is collected.
    #[error("process wrote more than {max} bytes")]
    OutputTooLarge {
        /// The bound.
        max: usize,
    },
}

impl From<RpcError> for ExecServerError {
    fn from(RpcError { code, message }: RpcError) -> Self {
        Self::Rpc { code, message }
    }
}

impl ExecServerError {
    /// The code of a server's answer, if this is one.
    pub fn code(&self) -> Option<i64> {
        match self {
            Self::Rpc { code, .. } | Self::Initialize { code, .. } => Some(*code),
            Self::Connect { .. }
            | Self::Refused { .. }
            | Self::SpawnProgram { .. }
            | Self::ConnectionLost(_)
            | Self::ProcessLost(_)
            | Self::Timeout { .. }
            | Self::TooManyRequests { .. }
            | Self::Protocol(_)
            | Self::Unsupported(_)
            | Self::WriteRefused(_)
            | Self::FileChanged { .. }
            | Self::Local { .. }
            | Self::Body(_)
            | Self::OutputTooLarge { .. } => None,
        }
    }

    /// The transport failed: nothing is known of the call, and the process may still run.
    pub fn is_connection_lost(&self) -> bool {
        matches!(self, Self::ConnectionLost(_))
    }
}
