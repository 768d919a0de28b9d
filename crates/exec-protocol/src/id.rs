//! The names peers give to things. Checked where they enter, trusted afterwards.

use std::borrow::Borrow;
use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// The client's name for a process, unique within its session. Any string, also empty; never an
/// operating-system pid.
// Cheap to clone: every event of a process carries it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(with = "String"))]
pub struct ProcessId(Arc<str>);

impl ProcessId {
    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<String> for ProcessId {
    fn from(text: String) -> Self {
        Self(text.into())
    }
}

impl From<&str> for ProcessId {
    fn from(text: &str) -> Self {
        Self(text.into())
    }
}

impl From<ProcessId> for String {
    fn from(id: ProcessId) -> Self {
        id.0.as_ref().to_owned()
    }
}

impl Borrow<str> for ProcessId {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ProcessId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

/// The client's name for one logical write. Repeated after a reconnect, so that the bytes are
/// written once.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(with = "String"))]
pub struct WriteId(String);

impl TryFrom<String> for WriteId {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        if text.is_empty() { Err("writeId must not be empty") } else { Ok(Self(text)) }
    }
}

impl From<WriteId> for String {
    fn from(id: WriteId) -> Self {
        id.0
    }
}
