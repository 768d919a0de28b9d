//! `fs/*`: files on the executor.

use serde::{Deserialize, Serialize};

use crate::path_uri::PathUri;
use crate::sandbox::SandboxContext;

/// Parameters of `fs/getMetadata`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct GetMetadataParams {
    /// Which file.
    pub path: PathUri,
    /// `false` refuses a symbolic link in any component.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub follow_symlinks: Option<bool>,
    /// Under which restrictions to look.
    #[serde(default)]
    pub sandbox: Option<SandboxContext>,
}

/// Result of `fs/getMetadata`. Type, size and times are the target's.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Metadata {
    /// A directory.
    pub is_directory: bool,
    /// A regular file.
    pub is_file: bool,
    /// The last component itself is a symbolic link.
    pub is_symlink: bool,
    /// In bytes.
    pub size: u64,
    /// Birth time in milliseconds since 1970, 0 when unknown.
    pub created_at_ms: i64,
    /// Modification time in milliseconds since 1970.
    pub modified_at_ms: i64,
}
