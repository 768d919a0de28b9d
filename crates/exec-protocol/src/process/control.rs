//! Signals, ends, sizes, waits and lists.

use serde::{Deserialize, Serialize};

use crate::bytes::Base64Bytes;
use crate::id::ProcessId;
use crate::path_uri::PathUri;

/// Parameters that only name a process.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ProcessRef {
    /// Which process.
    pub process_id: ProcessId,
}

/// Parameters of `process/signal`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SignalParams {
    /// Which process.
    pub process_id: ProcessId,
    /// Which signal.
    pub signal: Signal,
}

/// A signal that means the same everywhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum Signal {
    /// SIGINT to the process group.
    Interrupt,
}

/// A result without members.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Empty {}

/// Parameters of `process/terminate`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TerminateParams {
    /// Which process.
    pub process_id: ProcessId,
    /// How; forced when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<TerminateMode>,
}

/// How to end a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "camelCase", rename_all_fields = "camelCase")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum TerminateMode {
    /// SIGTERM to the group, SIGKILL to every descendant when the time is up.
    Graceful {
        /// The time it has.
        timeout_ms: u64,
    },
    /// SIGKILL to every descendant at once.
    Force,
}

/// Result of `process/terminate`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TerminateResult {
    /// False when there was nothing left to kill.
    pub running: bool,
}

/// Parameters of `process/resize`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ResizeParams {
    /// Which process.
    pub process_id: ProcessId,
    /// Height in characters.
    pub rows: u16,
    /// Width in characters.
    pub cols: u16,
}

/// Parameters of `process/wait`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct WaitParams {
    /// Which process.
    pub process_id: ProcessId,
    /// How long to wait for it to close; for ever when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
}

/// Result of `process/wait`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct WaitResult {
    /// The exit is known.
    pub exited: bool,
    /// Its code.
    pub exit_code: Option<i32>,
    /// Nothing more can come.
    pub closed: bool,
    /// The time ran out before the process closed.
    pub timed_out: bool,
}

/// Result of `process/snapshot`: the beginning and the end of each stream.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SnapshotResult {
    /// Of descriptor 1.
    pub stdout_base64: Base64Bytes,
    /// Of descriptor 2.
    pub stderr_base64: Base64Bytes,
    /// Of the terminal.
    pub terminal_base64: Base64Bytes,
    /// Something is missing in the middle of at least one of them.
    pub truncated: bool,
    /// Bytes missing in the middle, over all streams.
    #[serde(default)]
    pub omitted_bytes: u64,
    /// Its code, once it has exited.
    pub exit_code: Option<i32>,
    /// It has not exited.
    pub running: bool,
}

/// Result of `process/list`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ListResult {
    /// Every process of the session that has not been evicted, by name; the first 8192.
    pub processes: Vec<ListedProcess>,
}

/// One process of a session.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ListedProcess {
    /// The client's name for it.
    pub process_id: ProcessId,
    /// What was started; the first 16 arguments.
    pub argv: Vec<String>,
    /// Where.
    pub cwd: PathUri,
    /// On a terminal.
    pub tty: bool,
    /// The operating system's number, for people; it may have been reused since the exit.
    pub pid: i32,
    /// It has not exited.
    pub running: bool,
    /// Its code, once it has exited.
    pub exit_code: Option<i32>,
    /// Nothing more can come.
    pub closed: bool,
    /// The number its next event will get.
    pub next_seq: u64,
}
