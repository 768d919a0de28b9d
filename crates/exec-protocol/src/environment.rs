//! `environment/*`: what kind of machine the executor is.

use serde::{Deserialize, Serialize};

use crate::path_uri::PathUri;

/// Result of `environment/info`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct EnvironmentInfo {
    /// The user's shell, from the account database.
    pub shell: Shell,
    /// Release of the executor.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub executor_version: Option<String>,
    /// Opaque; the same for every machine that runs the same build.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider_id: Option<String>,
    /// Working directory of the executor.
    #[serde(default)]
    pub cwd: Option<PathUri>,
    /// Home directory of the user the executor runs as.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_home_dir: Option<PathUri>,
    /// `linux`, `macos` or `windows`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub platform_os: Option<String>,
    /// Directories with bundled tools.
    #[serde(default)]
    pub prepend_path_dirs: Vec<PathUri>,
    /// `$TMPDIR`, if it is set.
    #[serde(default)]
    pub temporary_directories: Vec<PathUri>,
    /// Where temporary files really go.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub temp_dir: Option<PathUri>,
    /// What the executor can do. An absent member is false.
    #[serde(default)]
    pub capabilities: Capabilities,
    /// How completely descendants are ended; absent where the executor does not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub containment: Option<ContainmentInfo>,
    /// Which sandboxes this host can enforce; absent where the executor does not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sandbox: Option<SandboxInfo>,
}

/// What of a sandbox the executor can enforce.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SandboxInfo {
    /// The engine in use; absent when requests with restrictions are refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub engine: Option<String>,
    /// Every engine, usable or not.
    pub engines: Vec<SandboxEngine>,
}

/// One way to enforce a sandbox.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SandboxEngine {
    /// `builtin`, `bwrap` or `landlock`.
    pub name: String,
    /// Whether it works on this host.
    pub usable: bool,
    /// Why not, and what to do about it, in a sentence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// A shell and where it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Shell {
    /// `bash`, `zsh`, `sh`, …
    pub name: String,
    /// Native path.
    pub path: String,
}

/// What the executor can do. The first fifteen are the reference's names; the rest are ours.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Capabilities {
    /// `networkProxy` in `process/start`.
    pub network_proxy_launch: bool,
    /// `reviewDomains` of the network proxy.
    pub network_proxy_review_domains: bool,
    /// Credential members of the network proxy.
    pub credential_masking: bool,
    /// Credential providers of the network proxy.
    pub credential_masking_custom_providers: bool,
    /// `sandbox` in `capabilityRoots/discoverV1`.
    pub capability_discovery_sandbox: bool,
    /// `fs/watchMissing`.
    pub fs_watch_missing: bool,
    /// `capabilities/discoverV2`.
    pub capability_discovery_v2: bool,
    /// `environmentConfig/read`.
    pub environment_config_read: bool,
    /// Header values from environment variables in `http/request`.
    pub http_header_env_vars: bool,
    /// `fs/open` with a restricting `sandbox`.
    pub sandboxed_file_streaming: bool,
    /// `fs/open` for writing, and `fs/writeBlock`.
    pub file_write_streaming: bool,
    /// `shellSnapshot` in `process/start`.
    pub shell_snapshot_v2: bool,
    /// A sandbox of Windows.
    pub windows_mxc: bool,
    /// Devices stay writable where the root is.
    pub linux_root_write_preserves_devices: bool,
    /// Restrictions outlive an approved write to the root.
    pub linux_approved_root_write_preserves_restrictions: bool,
    /// `process/closeStdin`, `resize`, `wait`, `snapshot`, `list`, terminate modes and `size`.
    pub process_control_v1: bool,
    /// `fs/rename`.
    pub fs_rename: bool,
    /// `atomic` in `fs/writeFile`.
    pub fs_atomic_write: bool,
    /// `fs/watch`, `fs/unwatch` and `fs/changed`.
    pub fs_watch: bool,
    /// `fs/search`.
    pub fs_search: bool,
    /// `mode` `update` in `fs/open`.
    pub fs_open_update: bool,
}

/// How the executor finds every descendant of a process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ContainmentInfo {
    /// `cgroup`: by the kernel, also against a hostile child. `tag`: by an inherited mark, which a
    /// hostile child can shed.
    pub mechanism: String,
    /// Whether descendants also end when the executor itself is killed.
    pub survives_server_kill: bool,
}

/// Result of `environment/status`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct EnvironmentStatus {
    /// Always `ready`.
    pub status: Status,
}

/// The state of an executor that answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum Status {
    /// It serves.
    Ready,
}
