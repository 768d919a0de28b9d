//! Directories and what is done with whole entries: make, list, walk, remove, copy, rename.

use serde::{Deserialize, Serialize};

use crate::path_uri::PathUri;
use crate::sandbox::SandboxContext;

/// Parameters of `fs/createDirectory`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CreateDirectoryParams {
    /// Which directory.
    pub path: PathUri,
    /// Create missing parents too, and accept that it exists. True when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recursive: Option<bool>,
    /// `false` refuses a symbolic link in any component.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub follow_symlinks: Option<bool>,
    /// Under which restrictions to create it.
    #[serde(default)]
    pub sandbox: Option<SandboxContext>,
}

impl CreateDirectoryParams {
    /// `recursive`, with its default.
    pub fn is_recursive(&self) -> bool {
        self.recursive.unwrap_or(true)
    }
}

/// Parameters of `fs/readDirectory`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ReadDirectoryParams {
    /// Which directory.
    pub path: PathUri,
    /// Under which restrictions to read.
    #[serde(default)]
    pub sandbox: Option<SandboxContext>,
}

/// Result of `fs/readDirectory`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ReadDirectoryResult {
    /// In no order. Links are described by their target, and left out when it does not exist.
    pub entries: Vec<DirectoryEntry>,
}

/// What a directory holds under one name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DirectoryEntry {
    /// Its name; what is not UTF-8 in it became U+FFFD.
    pub file_name: String,
    /// A directory.
    pub is_directory: bool,
    /// A regular file.
    pub is_file: bool,
}

/// Parameters of `fs/walk`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct WalkParams {
    /// Where to begin.
    pub path: PathUri,
    /// How far to go.
    pub options: WalkOptions,
    /// Under which restrictions to look.
    #[serde(default)]
    pub sandbox: Option<SandboxContext>,
}

/// How far `fs/walk` goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct WalkOptions {
    /// 0 lists only the children of the root; at most 64.
    pub max_depth: u64,
    /// Directories to enter, the root included: 1 to 10 000.
    pub max_directories: u64,
    /// Entries to look at: 1 to 50 000.
    pub max_entries: u64,
    /// Treat a link to a directory as that directory.
    pub follow_directory_symlinks: bool,
    /// List directories whose name begins with a dot, but do not enter them.
    #[serde(default)]
    pub prune_hidden_directories: bool,
}

/// Result of `fs/walk`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct WalkResult {
    /// Breadth first; the names of each directory in bytewise order; without the root.
    pub entries: Vec<WalkEntry>,
    /// What could not be looked at.
    pub errors: Vec<WalkError>,
    /// A limit kept something out.
    pub truncated: bool,
}

/// Something found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct WalkEntry {
    /// Where.
    pub path: PathUri,
    /// What.
    pub kind: WalkKind,
}

/// What a walk lists.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum WalkKind {
    /// A directory, or a followed link to one.
    Directory,
    /// A regular file.
    File,
}

/// Something that could not be looked at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct WalkError {
    /// Where.
    pub path: PathUri,
    /// Why.
    pub message: String,
}

/// Parameters of `fs/remove`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RemoveParams {
    /// What to remove. A link is removed itself, never its target.
    pub path: PathUri,
    /// With everything below. True when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recursive: Option<bool>,
    /// Accept that it is missing. True when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub force: Option<bool>,
    /// `false` refuses a symbolic link in any component; not together with `recursive`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub follow_symlinks: Option<bool>,
    /// Under which restrictions to remove it.
    #[serde(default)]
    pub sandbox: Option<SandboxContext>,
}

impl RemoveParams {
    /// `recursive`, with its default.
    pub fn is_recursive(&self) -> bool {
        self.recursive.unwrap_or(true)
    }

    /// `force`, with its default.
    pub fn is_forced(&self) -> bool {
        self.force.unwrap_or(true)
    }
}

/// Parameters of `fs/copy`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CopyParams {
    /// A file, a directory or a link, which is recreated.
    pub source_path: PathUri,
    /// Where to; a file is overwritten, a directory merged into.
    pub destination_path: PathUri,
    /// Needed for a directory.
    pub recursive: bool,
    /// Under which restrictions to copy.
    #[serde(default)]
    pub sandbox: Option<SandboxContext>,
}

/// Parameters of `fs/rename`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RenameParams {
    /// What to rename. A link is renamed itself.
    pub source_path: PathUri,
    /// Its new name, on the same file system.
    pub destination_path: PathUri,
    /// Replace what has that name. True when absent.
    #[serde(default = "yes")]
    pub overwrite: bool,
    /// Under which restrictions to rename.
    #[serde(default)]
    pub sandbox: Option<SandboxContext>,
}

fn yes() -> bool {
    true
}
