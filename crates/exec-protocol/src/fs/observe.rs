//! Searching file contents, and being told of changes.

use serde::{Deserialize, Serialize};

use crate::path_uri::PathUri;
use crate::sandbox::SandboxContext;

/// Parameters of `fs/search`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SearchParams {
    /// A directory to search below, or one file.
    pub path: PathUri,
    /// What to look for, within one line.
    pub pattern: String,
    /// The pattern is a regular expression, and not plain text.
    #[serde(default)]
    pub regex: bool,
    /// Upper and lower case differ. True when absent.
    #[serde(default = "yes")]
    pub case_sensitive: bool,
    /// Also files and directories whose name begins with a dot.
    #[serde(default)]
    pub include_hidden: bool,
    /// Also what `.gitignore`, `.ignore` and `.git/info/exclude` leave out.
    #[serde(default)]
    pub no_ignore: bool,
    /// Only files that match one of these; one that begins with `!` leaves out instead.
    #[serde(default)]
    pub globs: Vec<String>,
    /// Lines to give before and after each match: at most 20.
    #[serde(default)]
    pub context_lines: u32,
    /// Matching lines to give: 1 to 10 000, 1000 when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_matches: Option<u32>,
    /// Bytes of text to give: at most 16 MiB, 4 MiB when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_bytes: Option<u64>,
    /// Under which restrictions to read.
    #[serde(default)]
    pub sandbox: Option<SandboxContext>,
}

fn yes() -> bool {
    true
}

/// Result of `fs/search`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SearchResult {
    /// By file in bytewise order of the names, then by line.
    pub matches: Vec<SearchMatch>,
    /// A limit kept something out.
    pub truncated: bool,
    /// Files that were read.
    pub files_searched: u64,
    /// What could not be read; at most 100 of them.
    pub errors: Vec<SearchError>,
}

/// A line that matches.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SearchMatch {
    /// In which file.
    pub path: PathUri,
    /// Number of the line, from 1.
    pub line: u64,
    /// Byte of the line where the first match begins, from 1.
    pub column: u64,
    /// The line without its end, cut after 4096 bytes.
    pub text: String,
    /// Lines before it that no earlier match has given.
    pub before: Vec<String>,
    /// Lines after it, up to the next match.
    pub after: Vec<String>,
}

/// Something that could not be searched.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SearchError {
    /// Where, when it is known.
    pub path: Option<PathUri>,
    /// Why.
    pub message: String,
}

/// Parameters of `fs/watch`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct WatchParams {
    /// The client's name for the watch, at most 64 bytes.
    pub watch_id: String,
    /// A file or directory that exists.
    pub path: PathUri,
    /// With everything below.
    #[serde(default)]
    pub recursive: bool,
    /// Under which restrictions to look.
    #[serde(default)]
    pub sandbox: Option<SandboxContext>,
}

/// Parameters of `fs/unwatch`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct UnwatchParams {
    /// The client's name for the watch.
    pub watch_id: String,
}

/// Parameters of `fs/changed`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ChangedParams {
    /// Which watch.
    pub watch_id: String,
    /// What changed since the last time; each path once. What a directory held when it appeared is
    /// not listed.
    pub events: Vec<ChangeEvent>,
    /// Changes were lost: look at everything again.
    pub rescan: bool,
}

/// A change of one path.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ChangeEvent {
    /// Where.
    pub path: PathUri,
    /// What.
    pub kind: ChangeKind,
}

/// What happened to a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum ChangeKind {
    /// It appeared.
    Created,
    /// Its content or its attributes changed.
    Modified,
    /// It is gone.
    Removed,
    /// It was moved away from here, or to here.
    Renamed,
    /// Something else.
    Other,
}

/// Parameters of `fs/watchMissing`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct WatchMissingParams {
    /// Greater than any before on this connection; replaces that watch.
    pub watch_id: u64,
    /// 1 to 64 paths that do not exist.
    pub missing: Vec<PathUri>,
    /// A path that exists, and whose change is of interest too.
    #[serde(default)]
    pub present: Option<PathUri>,
}

/// Result of `fs/watchMissing`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct WatchMissingResult {
    /// `fs/missingChanged` will tell. Otherwise the caller must look itself.
    pub watching: bool,
}

/// Parameters of `fs/missingChanged`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MissingChangedParams {
    /// Which watch; it has ended with this.
    pub watch_id: u64,
}
