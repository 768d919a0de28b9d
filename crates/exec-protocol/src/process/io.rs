//! What goes into a process and what comes out of it, on request.

use serde::{Deserialize, Serialize};

use super::events::{Denial, Usage};
use crate::bytes::Base64Bytes;
use crate::id::{ProcessId, WriteId};

/// Parameters of `process/read`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ReadParams {
    /// Which process.
    pub process_id: ProcessId,
    /// Only chunks after this number; 0 when absent.
    #[serde(default)]
    pub after_seq: Option<u64>,
    /// Stop at about this many bytes; at least one chunk is given.
    #[serde(default)]
    pub max_bytes: Option<u64>,
    /// How long to wait for something new; 0 when absent.
    #[serde(default)]
    pub wait_ms: Option<u64>,
}

/// Result of `process/read`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ReadResult {
    /// What is retained, ascending.
    pub chunks: Vec<Chunk>,
    /// Continue with `afterSeq = nextSeq - 1`.
    pub next_seq: u64,
    /// The exit is known.
    pub exited: bool,
    /// Its code.
    pub exit_code: Option<i32>,
    /// Nothing more can come.
    pub closed: bool,
    /// Why the process can no longer be followed.
    pub failure: Option<String>,
    /// The sandbox was probably the reason for the failure.
    #[serde(default)]
    pub sandbox_denied: bool,
    /// Bytes the process had written before the first chunk here (before `nextSeq` when there is
    /// none). A reader that has seen fewer bytes knows by this how many it can no longer get.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_offset: Option<u64>,
    /// What the sandbox refused, where that is recorded; known with the exit.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub denials: Vec<Denial>,
    /// What was used, if the start had `limits`; known with the exit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
    /// The limit that ended it, by its name in `limits`, where that is known: `deadlineMs`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit_reached: Option<String>,
}

/// A piece of output.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Chunk {
    /// Its number.
    pub seq: u64,
    /// Where it was written.
    pub stream: Stream,
    /// The bytes.
    pub chunk: Base64Bytes,
}

/// Where a process writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum Stream {
    /// Descriptor 1.
    Stdout,
    /// Descriptor 2.
    Stderr,
    /// The terminal.
    Pty,
}

impl Stream {
    /// The name on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Stream::Stdout => "stdout",
            Stream::Stderr => "stderr",
            Stream::Pty => "pty",
        }
    }
}

/// Parameters of `process/write`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct WriteParams {
    /// Which process.
    pub process_id: ProcessId,
    /// The bytes, possibly none.
    pub chunk: Base64Bytes,
    /// Names this write, so that repeating it does nothing. Without it every call writes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub write_id: Option<WriteId>,
}

/// Result of `process/write` and `process/closeStdin`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct WriteResult {
    /// What became of it.
    pub status: WriteStatus,
}

/// What became of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum WriteStatus {
    /// Queued for the child, or done before under the same id.
    Accepted,
    /// No such process.
    UnknownProcess,
    /// The process has no stdin to write to.
    StdinClosed,
    /// It is still being started.
    Starting,
}
