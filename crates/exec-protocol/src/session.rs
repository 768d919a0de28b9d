//! `initialize` and `initialized`: how a connection gets its session.

use serde::{Deserialize, Serialize};

use crate::environment::EnvironmentInfo;
use crate::limits::MESSAGE_BYTES_MAX;

/// Parameters of `initialize`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct InitializeParams {
    /// Any text. Of a name that begins with `codex` the size of messages it takes is known.
    pub client_name: String,
    /// A session of an earlier connection, to be continued.
    pub resume_session_id: Option<String>,
    /// What the client understands beyond the base protocol.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub extensions: Vec<String>,
    /// How to attach; as owner when absent. An observer looks into a session that may belong to somebody else.
    #[serde(default, skip_serializing_if = "Attach::is_owner")]
    pub attach: Attach,
    /// Largest message the client takes, at least 1 MiB. Where it is absent codex's own client is
    /// sent none above 64 MiB, and any other client only what it asks for with `fs/readFile`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_message_bytes: Option<u64>,
}

impl InitializeParams {
    /// Largest message to be sent to this client.
    pub fn message_bytes_max(&self) -> u64 {
        match self.max_message_bytes {
            Some(bytes) => bytes,
            None if self.client_name.starts_with("codex") => MESSAGE_BYTES_MAX as u64,
            None => u64::MAX,
        }
    }
}

/// What a connection is to its session.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum Attach {
    /// Receives its notifications; there is at most one, and the session lives while it does.
    #[default]
    Owner,
    /// Asks and is answered, receives no notifications, and does not keep the session alive.
    Observer,
}

impl Attach {
    fn is_owner(&self) -> bool {
        *self == Attach::Owner
    }
}

/// The extension that turns on `process/started` and `process/failed`.
pub const EXTENSION_PROCESS_LIFECYCLE: &str = "processLifecycle";

/// Result of `initialize`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct InitializeResult {
    /// To be given as `resumeSessionId` after a lost connection.
    pub session_id: String,
    /// The same as the result of `environment/info`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub environment_info: Option<EnvironmentInfo>,
}

/// Parameters of `initialized`: none that matter.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct InitializedParams {}
