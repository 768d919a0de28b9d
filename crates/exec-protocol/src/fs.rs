//! `fs/*`: files on the executor. Reading, writing, handles and the look at one path are here;
//! [`tree`] has what concerns directories, [`observe`] searching and watching.

pub mod observe;
pub mod tree;

use std::fmt;

use serde::de::{self, EnumAccess, VariantAccess as _, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

use crate::bytes::Base64Bytes;
use crate::path_uri::PathUri;
use crate::sandbox::SandboxContext;

pub use observe::*;
pub use tree::*;

/// Parameters of `fs/readFile`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ReadFileParams {
    /// Which file.
    pub path: PathUri,
    /// `false` refuses a symbolic link in any component.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub follow_symlinks: Option<bool>,
    /// Under which restrictions to read.
    #[serde(default)]
    pub sandbox: Option<SandboxContext>,
}

/// Result of `fs/readFile`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ReadFileResult {
    /// The whole content.
    pub data_base64: Base64Bytes,
}

/// Parameters of `fs/writeFile`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct WriteFileParams {
    /// Which file. Created if missing; its directory is not.
    pub path: PathUri,
    /// The whole new content, in standard base64 with padding. Text here, because a bad encoding
    /// is the file call's error and not the decoder's.
    pub data_base64: String,
    /// `false` refuses a symbolic link in any component.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub follow_symlinks: Option<bool>,
    /// Replace the file in one step: after a crash it has its old content or its new one.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub atomic: bool,
    /// Under which restrictions to write.
    #[serde(default)]
    pub sandbox: Option<SandboxContext>,
}

/// Parameters of `fs/open`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct OpenParams {
    /// The client's name for the open file, at most 32 bytes.
    pub handle_id: String,
    /// Which file.
    pub path: PathUri,
    /// What for.
    #[serde(default)]
    pub mode: OpenMode,
    /// Under which restrictions to open.
    #[serde(default)]
    pub sandbox: Option<SandboxContext>,
}

/// What a file is opened for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum OpenMode {
    /// To be read.
    #[default]
    Read,
    /// To be written; created or emptied at once.
    Replace,
    /// To be written; created if missing, and what it holds stays. Ours: `fsOpenUpdate`.
    Update,
}

/// By hand, because the words for an unknown one are the reference's, which knows two.
impl<'de> Deserialize<'de> for OpenMode {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_enum("OpenMode", REFERENCE_MODES, ModeVisitor)
    }
}

const REFERENCE_MODES: &[&str] = &["read", "replace"];

struct ModeVisitor;

impl<'de> Visitor<'de> for ModeVisitor {
    type Value = OpenMode;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("enum OpenMode")
    }

    fn visit_enum<A: EnumAccess<'de>>(self, data: A) -> Result<OpenMode, A::Error> {
        let (name, rest) = data.variant::<String>()?;
        let mode = match name.as_str() {
            "read" => OpenMode::Read,
            "replace" => OpenMode::Replace,
            "update" => OpenMode::Update,
            other => return Err(de::Error::unknown_variant(other, REFERENCE_MODES)),
        };
        rest.unit_variant()?;
        Ok(mode)
    }
}

/// Names an open file: the result of `fs/open`, the parameters of `fs/close`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct HandleRef {
    /// The client's name for it.
    pub handle_id: String,
}

/// Parameters of `fs/readBlock`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ReadBlockParams {
    /// Of which open file.
    pub handle_id: String,
    /// From which byte on.
    pub offset: u64,
    /// How many bytes, 1 to 1 048 576.
    pub len: u64,
}

/// Result of `fs/readBlock`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ReadBlockResult {
    /// The bytes; as many as asked for, unless the file ends.
    pub chunk: Base64Bytes,
    /// The file ended before the block was full.
    pub eof: bool,
}

/// Parameters of `fs/writeBlock`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct WriteBlockParams {
    /// To which open file.
    pub handle_id: String,
    /// From which byte on.
    pub offset: u64,
    /// 1 to 1 048 576 bytes.
    pub chunk: Base64Bytes,
}

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

/// Parameters of `fs/canonicalize`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CanonicalizeParams {
    /// A path that exists.
    pub path: PathUri,
    /// Under which restrictions to look.
    #[serde(default)]
    pub sandbox: Option<SandboxContext>,
}

/// Result of `fs/canonicalize`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CanonicalizeResult {
    /// The same place, without any symbolic link.
    pub path: PathUri,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check<T: serde::de::DeserializeOwned>(text: &str, expected: Result<(), &str>) {
        let got = serde_json::from_str::<T>(text).map(drop).map_err(|error| error.to_string());
        match (&got, expected) {
            (Ok(()), Ok(())) => {}
            (Err(got), Err(expected)) if got.starts_with(expected) => {}
            _ => panic!("{text}: {got:?} instead of {expected:?}"),
        }
    }

    #[test]
    fn members_are_required_optional_or_nullable_as_the_protocol_says() {
        check::<ReadFileParams>(r#"{"path":"file:///x"}"#, Ok(()));
        check::<ReadFileParams>(r#"{"path":"/x","followSymlinks":null,"sandbox":null}"#, Ok(()));
        check::<ReadFileParams>("{}", Err("missing field `path`"));
        check::<WriteFileParams>(r#"{"path":"/x"}"#, Err("missing field `dataBase64`"));
        check::<WriteFileParams>(r#"{"path":"/x","dataBase64":"*","atomic":true}"#, Ok(()));
        check::<OpenParams>(r#"{"handleId":"","path":"/x"}"#, Ok(()));
        check::<OpenParams>(
            r#"{"handleId":"a","path":"/x","mode":"write"}"#,
            Err("unknown variant `write`, expected `read` or `replace`"),
        );
        check::<OpenParams>(r#"{"handleId":"a","path":"/x","mode":"update"}"#, Ok(()));
        check::<OpenParams>(r#"{"handleId":"a","path":"/x","mode":null}"#, Err("expected value"));
        check::<RemoveParams>(r#"{"path":"/x","recursive":null,"force":null}"#, Ok(()));
        check::<CopyParams>(
            r#"{"sourcePath":"/x","destinationPath":"/y"}"#,
            Err("missing field `recursive`"),
        );
        check::<WalkParams>(r#"{"path":"/x"}"#, Err("missing field `options`"));
        let options = r#""maxDepth":0,"maxDirectories":1,"maxEntries":1"#;
        check::<WalkOptions>(
            &format!("{{{options}}}"),
            Err("missing field `followDirectorySymlinks`"),
        );
        let full = format!(r#"{options},"followDirectorySymlinks":true"#);
        check::<WalkOptions>(&format!("{{{full}}}"), Ok(()));
        check::<WalkOptions>(
            &format!(r#"{{{full},"pruneHiddenDirectories":null}}"#),
            Err("invalid type: null, expected a boolean"),
        );
        check::<WatchMissingParams>(r#"{"watchId":1,"missing":[],"present":null}"#, Ok(()));
        check::<WatchMissingParams>(r#"{"watchId":1}"#, Err("missing field `missing`"));
    }

    #[test]
    fn both_defaults_of_remove_and_that_of_create_are_true() {
        let remove: RemoveParams = serde_json::from_str(r#"{"path":"/x"}"#).unwrap();
        assert_eq!((remove.recursive, remove.force), (None, None));
        assert!(remove.is_recursive() && remove.is_forced());
        let create: CreateDirectoryParams =
            serde_json::from_str(r#"{"path":"/x","recursive":false}"#).unwrap();
        assert!(!create.is_recursive());
        let rename: RenameParams =
            serde_json::from_str(r#"{"sourcePath":"/x","destinationPath":"/y"}"#).unwrap();
        assert!(rename.overwrite);
    }
}
