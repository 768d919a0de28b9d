//! `capabilityRoots/discoverV1` and `capabilities/discoverV2`: plugins and skills on the executor.

use serde::{Deserialize, Serialize};

use crate::path_uri::PathUri;
use crate::sandbox::SandboxContext;

/// Parameters of `capabilityRoots/discoverV1`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DiscoverRootsParams {
    /// At most 128.
    pub roots: Vec<CapabilityRoot>,
}

/// A directory to look through.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CapabilityRoot {
    /// The caller's name for it.
    pub id: String,
    /// Where it is.
    pub path: PathUri,
    /// Under which restrictions to look.
    #[serde(default)]
    pub sandbox: Option<SandboxContext>,
}

/// Result of `capabilityRoots/discoverV1`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DiscoverRootsResult {
    /// As they were asked for.
    pub roots: Vec<DiscoveredRoot>,
}

/// What was found below one root.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DiscoveredRoot {
    /// The caller's name for it.
    pub id: String,
    /// Where it is.
    pub path: PathUri,
    /// The files of the plugin that the root itself is.
    pub plugin: Option<PluginFiles>,
    /// Every skill below the root, by path.
    pub skills: Vec<SkillFiles>,
    /// Manifests whose plugins name the skills: the root's or its nearest ancestor's, then those
    /// of plugins below.
    pub namespace_manifests: Vec<CapabilityFile>,
    /// What was left out, and why.
    pub warnings: Vec<String>,
    /// Why there is nothing.
    pub error: Option<String>,
}

/// The files of a plugin that say what it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PluginFiles {
    /// `plugin.json`.
    pub manifest: CapabilityFile,
    /// Its MCP servers.
    pub mcp_config: Option<CapabilityFile>,
    /// Its apps.
    pub apps_config: Option<CapabilityFile>,
}

/// The files of a skill.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SkillFiles {
    /// `SKILL.md`.
    pub instructions: CapabilityFile,
    /// `agents/openai.yaml` beside it.
    pub metadata: Option<CapabilityFile>,
}

/// A file and what it says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CapabilityFile {
    /// Where it is.
    pub path: PathUri,
    /// All of it.
    pub contents: String,
}

/// Parameters of `capabilities/discoverV2`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DiscoverCapabilitiesParams {
    /// Where the caller works. Need not exist.
    pub cwd: PathUri,
    /// Under which restrictions to look.
    #[serde(default)]
    pub sandbox: Option<SandboxContext>,
}

/// Result of `capabilities/discoverV2`: what is installed on the executor.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Capabilities {
    /// Installed plugins, by id.
    pub plugins: Vec<Plugin>,
    /// Skills that belong to no installed plugin.
    pub skills: Vec<StandaloneSkill>,
    /// What was left out.
    pub warnings: Vec<String>,
}

/// An installed plugin.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Plugin {
    /// `plugin@marketplace`.
    pub id: String,
    /// For people.
    pub display_name: String,
    /// Its id in a remote catalogue.
    pub remote_plugin_id: Option<String>,
    /// The installed version.
    pub version: String,
    /// Where it is installed.
    pub root: PathUri,
    /// What says what it is.
    pub files: PluginFiles,
    /// Its skills, named `plugin:skill`.
    pub skills: Vec<Skill>,
}

/// A skill that belongs to no installed plugin.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StandaloneSkill {
    /// The skill.
    #[serde(flatten)]
    pub skill: Skill,
    /// Which of the usual places it was found in.
    pub discovery_root: DiscoveryRoot,
}

/// A place where skills are looked for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DiscoveryRoot {
    /// `codex-home-skills`, `user-agent-skills` or `system-skills`.
    pub id: String,
    /// Where it is.
    pub path: PathUri,
}

/// What a skill says of itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Skill {
    /// Its name; `plugin:skill` below a plugin.
    pub name: String,
    /// What it is for.
    pub description: String,
    /// The same in short.
    pub short_description: Option<String>,
    /// Its `SKILL.md`.
    pub path: PathUri,
    /// What it needs.
    pub dependencies: Option<SkillDependencies>,
    /// When it may be used.
    pub policy: Option<SkillPolicy>,
}

/// What a skill needs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SkillDependencies {
    /// The tools.
    pub tools: Vec<ToolDependency>,
}

/// A tool that a skill needs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ToolDependency {
    /// `mcp`, `cli`, …
    #[serde(rename = "type")]
    pub kind: String,
    /// Which.
    pub value: String,
    /// What for.
    pub description: Option<String>,
    /// How an MCP server is reached.
    pub transport: Option<String>,
    /// What starts it.
    pub command: Option<String>,
    /// Where it is.
    pub url: Option<String>,
    /// Where a log-in returns to.
    pub oauth_callback_port: Option<u16>,
}

/// When a skill may be used.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SkillPolicy {
    /// Whether without being named.
    pub allow_implicit_invocation: Option<bool>,
    /// In which products; none means all.
    pub products: Vec<String>,
}
