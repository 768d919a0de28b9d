//! `environmentConfig/read`: chosen keys of the executor's own configuration files.

use serde::{Deserialize, Serialize};

use crate::path_uri::PathUri;

/// Parameters of `environmentConfig/read`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct EnvironmentConfigReadParams {
    /// Decides which project's files count. Need not exist.
    pub cwd: PathUri,
    /// Which keys of the configuration, each a path of names.
    pub config_paths: Vec<Vec<String>>,
    /// Which keys of the requirements.
    pub requirements_paths: Vec<Vec<String>>,
}

/// Result of `environmentConfig/read`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct EnvironmentConfig {
    /// Home directory of the user the executor runs as.
    #[serde(default)]
    pub user_home_dir: Option<PathUri>,
    /// Where the user's configuration lies.
    pub codex_home_dir: PathUri,
    /// The executor's name for itself.
    #[serde(default)]
    pub hostname: Option<String>,
    /// What is configured.
    pub config: LayerStack,
    /// What an administrator demands.
    pub requirements: LayerStack,
}

/// Files that say something of the keys, lowest precedence first.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LayerStack {
    /// Those that have a chosen key.
    pub layers: Vec<Layer>,
    /// Where layers from the cloud belong, if there are any.
    pub cloud_insertion_index: usize,
}

/// What one file says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Layer {
    /// Which file, in words for people.
    pub source: String,
    /// What relative paths in it are relative to.
    pub base_dir: PathUri,
    /// The chosen keys. A chosen parent may be an empty table.
    pub toml: String,
}
