//! `process/start`: what to run, where, with which environment.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::id::ProcessId;
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
    /// Bounds on what the process and its descendants may use. Their usage is then told with the
    /// exit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limits: Option<ProcessLimits>,
}

/// Bounds on what a process and its descendants may use; an absent one is the executor's own, and
/// none is above that. What this executor cannot enforce is refused.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ProcessLimits {
    /// Memory: of all of them together where the executor has a cgroup for that, else the private
    /// memory of each.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_bytes: Option<u64>,
    /// Processes and threads at once. Needs a cgroup, or a sandbox and an executor that is not root.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pids: Option<u64>,
    /// Processor time of each process; SIGXCPU at its end, SIGKILL a second later.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_seconds: Option<u64>,
    /// Size of each file that is written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file_bytes: Option<u64>,
    /// Descriptors of each process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub open_files: Option<u64>,
    /// Time after which everything is killed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline_ms: Option<u64>,
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
