//! `process/*`: parameters, results and notifications.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::bytes::{self, Base64Bytes};
use crate::id::{ProcessId, WriteId};
use crate::path_uri::PathUri;
use crate::sandbox::SandboxContext;

/// Parameters of `process/start`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StartParams {
    /// The client's name for the process.
    pub process_id: ProcessId,
    /// Program and arguments; not empty.
    pub argv: Vec<String>,
    /// Working directory.
    pub cwd: PathUri,
    /// The environment, or what is laid over the one that `envPolicy` yields.
    pub env: BTreeMap<String, String>,
    /// On a pseudo-terminal.
    pub tty: bool,
    /// Without a terminal: keep stdin open for `process/write`.
    #[serde(default)]
    pub pipe_stdin: bool,
    /// What the program sees as its own name.
    #[serde(default)]
    pub arg0: Option<String>,
    /// How to derive the environment from the executor's own.
    #[serde(default)]
    pub env_policy: Option<ExecEnvPolicy>,
    /// Whose process this is; given to the child as environment variables.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<StartMetadata>,
    /// A speed-up this executor does not offer and therefore ignores.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<serde_json::Value>"))]
    pub shell_snapshot: Option<Box<RawValue>>,
    /// Under which restrictions to run.
    #[serde(default)]
    pub sandbox: Option<SandboxContext>,
    /// All traffic must pass a managed proxy.
    #[serde(default)]
    pub enforce_managed_network: bool,
    /// Facts about a proxy that already runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<serde_json::Value>"))]
    pub managed_network: Option<Box<RawValue>>,
    /// A proxy to be run for this process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<serde_json::Value>"))]
    pub network_proxy: Option<Box<RawValue>>,
    /// Size of the terminal, 24 by 80 when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<TerminalSize>,
    /// Who prepared the command; checked against the executor's configuration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<StartMode>,
}

/// How the child's environment derives from the executor's own.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ExecEnvPolicy {
    /// What to begin with.
    pub inherit: Inherit,
    /// Keep names that look like secrets.
    pub ignore_default_excludes: bool,
    /// Patterns of names to drop.
    pub exclude: Vec<String>,
    /// Variables to add after that.
    pub set: BTreeMap<String, String>,
    /// When not empty, patterns of the only names to keep.
    pub include_only: Vec<String>,
}

/// What a derived environment begins with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum Inherit {
    /// A handful of names every program needs.
    Core,
    /// Everything.
    All,
    /// Nothing.
    None,
}

/// Whose process it is.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StartMetadata {
    /// A UUID, seen by the child as `CODEX_THREAD_ID`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<String>"))]
    pub thread_id: Option<uuid::Uuid>,
    /// Any string, seen by the child as `CODEX_TOOL_CALL_ID`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_call_id: Option<String>,
}

/// Rows and columns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TerminalSize {
    /// Height in characters.
    pub rows: u16,
    /// Width in characters.
    pub cols: u16,
}

impl Default for TerminalSize {
    fn default() -> Self {
        Self { rows: 24, cols: 80 }
    }
}

/// Who prepared a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum StartMode {
    /// A raw command of a trusted caller.
    Direct,
    /// Already resolved; to be spawned exactly as given.
    Prepared,
}

/// Result of `process/start`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StartResult {
    /// As given.
    pub process_id: ProcessId,
    /// What confines it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sandbox_type: Option<SandboxType>,
}

/// What confines a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum SandboxType {
    /// Nothing.
    None,
    /// Namespaces and seccomp.
    LinuxSeccomp,
    /// Seatbelt.
    MacosSeatbelt,
    /// A restricted token.
    WindowsRestrictedToken,
    /// Native MXC.
    WindowsMxc,
}

/// Parameters that only name a process.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ProcessRef {
    /// Which process.
    pub process_id: ProcessId,
}

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

/// `process/output`: a piece of output, as it comes.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct OutputParams {
    /// Whose.
    pub process_id: ProcessId,
    /// Its number.
    pub seq: u64,
    /// Where it was written.
    pub stream: Stream,
    /// The bytes.
    pub chunk: Base64Bytes,
}

/// `process/exited`: output may still follow.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ExitedParams {
    /// Whose.
    pub process_id: ProcessId,
    /// Its number.
    pub seq: u64,
    /// As exited, or 128 and the signal.
    pub exit_code: i32,
    /// The sandbox was probably the reason for the failure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sandbox_denied: Option<bool>,
}

/// `process/closed`: the last event of a process.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ClosedParams {
    /// Whose.
    pub process_id: ProcessId,
    /// The highest number of this process.
    pub seq: u64,
}

/// `process/failed`: a start that did not succeed.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FailedParams {
    /// The name it would have had.
    pub process_id: ProcessId,
    /// Why.
    pub message: String,
}

/// `process/output` without an intermediate tree: its exact length, then its bytes. Output is most
/// of what crosses the wire, and goes from the log straight into the outgoing frame.
#[derive(Debug)]
pub struct OutputEncoder<'a> {
    head: String,
    data: &'a [u8],
}

const OUTPUT_TAIL: &[u8] = b"\"}}";

impl<'a> OutputEncoder<'a> {
    /// `id_json` is the process id as a JSON string, quotes included.
    pub fn new(id_json: &str, seq: u64, stream: Stream, data: &'a [u8]) -> Self {
        let head = format!(
            r#"{{"method":"process/output","params":{{"processId":{id_json},"seq":{seq},"stream":"{}","chunk":""#,
            stream.as_str()
        );
        Self { head, data }
    }

    /// Length of the message.
    pub fn encoded_len(&self) -> usize {
        self.head.len() + bytes::encoded_len(self.data.len()) + OUTPUT_TAIL.len()
    }

    /// Appends the message.
    pub fn encode_into(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.head.as_bytes());
        bytes::encode_into(out, self.data);
        out.extend_from_slice(OUTPUT_TAIL);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::jsonrpc;

    #[test]
    fn output_is_encoded_as_serde_would() {
        for (id, data) in [("p", &b"hi\n"[..]), ("quote\" \u{1} é", b""), ("", &[0xff; 100])] {
            let id = ProcessId::from(id);
            let id_json = serde_json::to_string(&id).unwrap();
            let encoder = OutputEncoder::new(&id_json, 7, Stream::Pty, data);
            let mut direct = Vec::new();
            encoder.encode_into(&mut direct);
            let params = OutputParams {
                process_id: id,
                seq: 7,
                stream: Stream::Pty,
                chunk: Base64Bytes(data.to_vec()),
            };
            let mut derived = Vec::new();
            jsonrpc::encode_notification(&mut derived, "process/output", &params).unwrap();
            assert_eq!(String::from_utf8(direct), String::from_utf8(derived.clone()));
            assert_eq!(encoder.encoded_len(), derived.len());
        }
    }
}
