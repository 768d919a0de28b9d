//! The portable sandbox intent: what a caller wants confined, in words every executor knows.
//!
//! Wire data only. What it means on one host, and how that host enforces it, is decided elsewhere.

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};

use crate::path_uri::{PathUri, PathUriError};

/// The `sandbox` member of a request.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SandboxContext {
    /// What is allowed.
    pub permissions: Permissions,
    /// The mechanism on Windows; elsewhere only `mxc` matters, and is refused.
    pub windows_sandbox_level: WindowsSandboxLevel,
    /// Base for relative globs and project roots.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<PathUri>,
    /// The directories that `project_roots` stands for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspace_roots: Option<Vec<PathUri>>,
    /// Replaces `cwd` and `workspaceRoots` when present.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy_context: Option<PolicyContext>,
    /// Home directory the intent was written for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_home_dir: Option<PathUri>,
    /// Temporary directories the intent was written for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub temporary_directories: Option<Vec<PathUri>>,
    /// Windows only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub windows_sandbox_proxy_settings_mode: Option<WindowsProxySettings>,
    /// Asks for the older Linux mechanism.
    #[serde(default)]
    pub use_legacy_landlock: bool,
    /// Which attempt of the caller this is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sandbox_override: Option<SandboxOverride>,
}

impl SandboxContext {
    /// The first path of an entry that cannot exist on this executor.
    pub fn foreign_path(&self) -> Option<PathUriError> {
        let Permissions::Managed { file_system: FileSystem::Restricted { entries, .. }, .. } =
            &self.permissions
        else {
            return None;
        };
        entries.iter().find_map(|entry| match &entry.path {
            EntryPath::Path { path } => path.to_native().err(),
            EntryPath::GlobPattern { .. } | EntryPath::Special { .. } => None,
        })
    }

    /// Whether some file is out of bounds, for reading or for writing.
    pub fn restricts_files(&self) -> bool {
        match &self.permissions {
            Permissions::Disabled | Permissions::External { .. } => false,
            Permissions::Managed { file_system, .. } => file_system.restricts(),
        }
    }

    /// Whether running without any sandbox would be weaker than this intent.
    pub fn restricts(&self) -> bool {
        match &self.permissions {
            Permissions::Disabled => false,
            Permissions::External { network } => *network == Network::Restricted,
            Permissions::Managed { file_system, network } => {
                *network == Network::Restricted || file_system.restricts()
            }
        }
    }
}

/// Where the policy's relative parts are anchored.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PolicyContext {
    /// Base for relative globs and project roots.
    #[serde(default)]
    pub cwd: Option<PathUri>,
    /// The directories that `project_roots` stands for.
    #[serde(default)]
    pub workspace_roots: Option<Vec<PathUri>>,
}

/// What is allowed.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum Permissions {
    /// Files and network as given.
    Managed {
        /// Which files.
        file_system: FileSystem,
        /// Which network.
        network: Network,
    },
    /// No restriction at all.
    Disabled,
    /// Files unrestricted, network as given.
    External {
        /// Which network.
        network: Network,
    },
}

/// Which network a process may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum Network {
    /// None.
    Restricted,
    /// All.
    Enabled,
}

/// Which files a process may touch.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum FileSystem {
    /// Only what an entry grants; the most specific entry wins.
    Restricted {
        /// The grants and denials.
        entries: Vec<Entry>,
        /// How deep a denied glob is looked for.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        glob_scan_max_depth: Option<std::num::NonZeroUsize>,
    },
    /// All.
    Unrestricted,
}

impl FileSystem {
    /// Write access to the whole disk with nothing narrower is the one list that restricts nothing.
    /// What an entry stands for is not known here, so one that might narrow does.
    fn restricts(&self) -> bool {
        match self {
            FileSystem::Unrestricted => false,
            FileSystem::Restricted { entries, .. } => {
                let opens_all =
                    |entry: &Entry| entry.path.is_root() && entry.access == Access::Write;
                !entries.iter().any(opens_all) || entries.iter().any(Entry::may_narrow)
            }
        }
    }
}

/// One grant or denial.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Entry {
    /// Of what.
    pub path: EntryPath,
    /// What kind.
    pub access: Access,
    /// What to do when the path does not exist.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub missing_path_behavior: Option<MissingPath>,
}

impl Entry {
    /// Whether it could take something away from a disk that is all writable.
    fn may_narrow(&self) -> bool {
        match &self.path {
            // A pattern can only deny.
            EntryPath::GlobPattern { .. } => self.access == Access::Deny,
            EntryPath::Special { value: Special::Minimal | Special::Unknown { .. } } => false,
            EntryPath::Special { .. } | EntryPath::Path { .. } => match self.access {
                Access::Write => false,
                // Beside write access to the same, this says nothing.
                Access::Read => !self.path.is_root(),
                Access::Deny => true,
            },
        }
    }
}

/// What may be done below a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum Access {
    /// Look.
    Read,
    /// Look and change.
    Write,
    /// Neither.
    #[serde(alias = "none")]
    Deny,
}

/// What to do with an entry whose path does not exist.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum MissingPath {
    /// Leave it out.
    Skip,
}

/// What an entry is about.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum EntryPath {
    /// A file or directory.
    Path {
        /// Which. Only as a URI: elsewhere a native path is accepted too, here it never was.
        #[serde(deserialize_with = "only_uri")]
        path: PathUri,
    },
    /// Everything that matches.
    GlobPattern {
        /// The pattern.
        pattern: String,
    },
    /// A place that every host has in its own way.
    Special {
        /// Which.
        value: Special,
    },
}

impl EntryPath {
    /// Whether it is the whole disk.
    fn is_root(&self) -> bool {
        match self {
            EntryPath::Path { path } => path.as_str() == "file:///",
            EntryPath::Special { value } => matches!(value, Special::Root),
            EntryPath::GlobPattern { .. } => false,
        }
    }
}

/// A rule about a path decides what is confined, so it is spelled in one way only.
fn only_uri<'de, D: Deserializer<'de>>(deserializer: D) -> Result<PathUri, D::Error> {
    let text = String::deserialize(deserializer)?;
    if text.starts_with('/') {
        return Err(D::Error::custom("a sandbox path is a file URI"));
    }
    PathUri::try_from(text).map_err(D::Error::custom)
}

/// A place that every host has in its own way.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum Special {
    /// The whole disk.
    Root,
    /// The system files that programs need to run.
    Minimal,
    /// The workspace roots of the context.
    #[serde(alias = "current_working_directory")]
    ProjectRoots {
        /// Below each of them.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        subpath: Option<String>,
    },
    /// The executor's `$TMPDIR`.
    Tmpdir,
    /// `/tmp`.
    SlashTmp,
    /// A place this protocol does not know; grants nothing.
    Unknown {
        /// Its name.
        path: String,
        /// Below it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        subpath: Option<String>,
    },
}

/// The mechanism on Windows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum WindowsSandboxLevel {
    /// None.
    Disabled,
    /// A restricted token.
    RestrictedToken,
    /// With elevation.
    Elevated,
    /// Native MXC.
    Mxc,
}

/// What happens to proxy settings on Windows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum WindowsProxySettings {
    /// Made to fit.
    Reconcile,
    /// Left alone.
    Preserve,
}

/// Which attempt of the caller a request belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum SandboxOverride {
    /// An ordinary one.
    NoOverride,
    /// After an escalation that keeps restrictions.
    EscalatedSandboxWithRestrictions,
    /// Approved to run outside at once.
    BypassSandboxFirstAttempt,
}

#[cfg(test)]
mod tests;
