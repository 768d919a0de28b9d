//! `capabilities/discoverV2`: the plugins and skills that are installed on the executor.
//!
//! ```text
//! plugins   CODEX_HOME/plugins/cache/<marketplace>/<plugin>/<version>/
//! skills    CODEX_HOME/skills, ~/.agents/skills, /etc/codex/skills
//! ```
//! Those of a project are not among them: a client looks for them itself, in the files it works on.

mod version;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use exec_protocol::capability::{
    Capabilities, CapabilityFile, DiscoveryRoot, Plugin, PluginFiles, Skill, StandaloneSkill,
};
use exec_protocol::path_uri::PathUri;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::bundle::{self, Bundle, Namespace};
use crate::error::Error;
use crate::limits::Limits;
use crate::places::Places;
use crate::roots::Budget;
use crate::skill;

/// What is said when anything was left out. What it was is in files that may not be shown.
const INCOMPLETE: &str =
    "some capability metadata could not be loaded; discovery may be incomplete";

/// Lists what is installed. Under which restrictions to look is for the caller to decide.
pub fn discover(
    places: &Places,
    limits: &Limits,
    cancelled: &AtomicBool,
) -> Result<Capabilities, Error> {
    let codex_home = places.codex_home()?;
    let mut search = Search {
        limits,
        cancelled,
        left: Budget::new(limits),
        found: Capabilities::default(),
        incomplete: false,
    };
    for installed in installed(&codex_home.join("plugins/cache"), limits.directories_max) {
        search.plugin(installed)?;
    }
    search.found.plugins.sort_by(|a, b| a.id.cmp(&b.id));
    let user = places.user_home.as_ref().map(|home| home.join(".agents/skills"));
    search.skills("codex-home-skills", Some(codex_home.join("skills")))?;
    search.skills("user-agent-skills", user)?;
    search.skills("system-skills", Some(places.system.join("skills")))?;
    if search.incomplete {
        search.found.warnings.push(INCOMPLETE.to_owned());
    }
    Ok(search.found)
}

/// A plugin's place in the cache.
struct Installed {
    /// `plugin@marketplace`.
    id: String,
    version: String,
    root: PathBuf,
}

/// At most so many, in the order of their names.
fn installed(cache: &Path, plugins_max: usize) -> Vec<Installed> {
    let mut all = Vec::new();
    for marketplace in names(cache, plugins_max, Links::Followed) {
        let directory = cache.join(&marketplace);
        for plugin in names(&directory, plugins_max - all.len(), Links::Followed) {
            let directory = directory.join(&plugin);
            if !is_name(&marketplace) || !is_name(&plugin) {
                continue;
            }
            let versions = names(&directory, plugins_max, Links::Ignored);
            if let Some(version) = version::newest(versions) {
                let root = directory.join(&version);
                all.push(Installed { id: format!("{plugin}@{marketplace}"), version, root });
            }
        }
    }
    all
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Links {
    Followed,
    Ignored,
}

/// The directories in a directory, by name; those whose name is not text are left out.
fn names(directory: &Path, names_max: usize, links: Links) -> Vec<String> {
    let Ok(reading) = fs::read_dir(directory) else { return Vec::new() };
    let directories = reading.flatten().filter(|entry| match entry.file_type() {
        Ok(kind) if kind.is_symlink() => links == Links::Followed && entry.path().is_dir(),
        Ok(kind) => kind.is_dir(),
        Err(_) => false,
    });
    let mut names: Vec<String> = directories
        .filter_map(|entry| entry.file_name().into_string().ok())
        .take(names_max)
        .collect();
    names.sort_unstable();
    names
}

/// Whether it can be half of an id.
fn is_name(text: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    !text.starts_with('.') && text.bytes().all(allowed)
}

/// What a manifest says that matters here.
#[derive(Deserialize)]
struct Manifest<'a> {
    #[serde(default)]
    name: String,
    #[serde(default)]
    interface: Option<Interface>,
    #[serde(default, rename = "apps")]
    _apps: Option<String>,
    #[serde(default, borrow, rename = "mcpServers")]
    mcp_servers: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Interface {
    #[serde(default, rename = "displayName")]
    display_name: Option<String>,
}

/// A plugin's name: its own, or else its directory's.
fn plugin_name(manifest: &Manifest<'_>, directory: &Path) -> String {
    if !manifest.name.trim().is_empty() {
        return manifest.name.clone();
    }
    directory.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}

struct Search<'a> {
    limits: &'a Limits,
    cancelled: &'a AtomicBool,
    left: Budget,
    found: Capabilities,
    incomplete: bool,
}

impl Search<'_> {
    fn plugin(&mut self, installed: Installed) -> Result<(), Error> {
        let Some(mut bundle) = self.bundle(&installed.root)? else { return Ok(()) };
        let plugin = bundle.plugin.take();
        let described = plugin.and_then(|files| {
            let contents = files.manifest.contents.clone();
            let manifest: Manifest<'_> = serde_json::from_str(&contents).ok()?;
            let name = plugin_name(&manifest, &installed.root);
            let display = manifest.interface.as_ref().and_then(|face| face.display_name.as_deref());
            let display = display.map(str::trim).filter(|display| !display.is_empty());
            let display_name = display.unwrap_or(&name).to_owned();
            Some((with_inline_servers(files, manifest.mcp_servers), display_name))
        });
        let (Some((files, display_name)), Ok(root)) =
            (described, PathUri::from_native(&installed.root))
        else {
            self.incomplete = true;
            return Ok(());
        };
        let all = [Some(&files.manifest), files.mcp_config.as_ref(), files.apps_config.as_ref()];
        if self.left.take_files(all.into_iter().flatten()).is_none() {
            self.incomplete = true;
            return Ok(());
        }
        let skills = self.describe(bundle);
        self.found.plugins.push(Plugin {
            id: installed.id,
            display_name,
            remote_plugin_id: None,
            version: installed.version,
            root,
            files,
            skills,
        });
        Ok(())
    }

    fn skills(&mut self, id: &str, directory: Option<PathBuf>) -> Result<(), Error> {
        let Some(directory) = directory else { return Ok(()) };
        let Some(bundle) = self.bundle(&directory)? else { return Ok(()) };
        let Ok(path) = PathUri::from_native(&directory) else { return Ok(()) };
        let root = DiscoveryRoot { id: id.to_owned(), path };
        let skills = self.describe(bundle).into_iter();
        let skills = skills.map(|skill| StandaloneSkill { skill, discovery_root: root.clone() });
        self.found.skills.extend(skills);
        Ok(())
    }

    /// None where there is no such directory, which is nothing unusual.
    fn bundle(&mut self, root: &Path) -> Result<Option<Bundle>, Error> {
        let bundle = bundle::read(root, self.limits, self.cancelled)?.ok();
        self.incomplete |= bundle.as_ref().is_some_and(|bundle| !bundle.warnings.is_empty());
        Ok(bundle)
    }

    /// The skills that say what they are, as far as they fit the answer.
    fn describe(&mut self, bundle: Bundle) -> Vec<Skill> {
        let mut skills = Vec::new();
        for found in bundle.skills {
            match describe(found, &bundle.namespaces) {
                Some(skill) if self.left.take_texts(texts(&skill)).is_some() => skills.push(skill),
                Some(_) | None => self.incomplete = true,
            }
        }
        skills
    }
}

/// Servers that stand in the manifest itself are shown as if they had a file.
fn with_inline_servers(mut files: PluginFiles, servers: Option<&RawValue>) -> PluginFiles {
    if let Some(servers) = servers.filter(|servers| servers.get().starts_with('{')) {
        let contents = servers.get().to_owned();
        files.mcp_config = Some(CapabilityFile { path: files.manifest.path.clone(), contents });
    }
    files
}

fn describe(found: bundle::Skill, namespaces: &[Namespace]) -> Option<Skill> {
    let directory = found.directory.file_name()?.to_string_lossy();
    let instructions = skill::instructions(&found.files.instructions.contents, &directory)?;
    let metadata = found.files.metadata.as_ref();
    let (dependencies, policy) =
        metadata.map_or((None, None), |file| skill::agents(&file.contents));
    let name = match namespace(&found.directory, namespaces) {
        Some(plugin) => format!("{plugin}:{}", instructions.name),
        None => instructions.name,
    };
    Some(Skill {
        name,
        description: instructions.description,
        short_description: instructions.short_description,
        path: found.files.instructions.path,
        dependencies,
        policy,
    })
}

/// The name of the innermost plugin around a directory; one that cannot be read is not there.
fn namespace(directory: &Path, namespaces: &[Namespace]) -> Option<String> {
    let around = namespaces.iter().filter(|space| directory.starts_with(&space.directory));
    let named = around.filter_map(|space| {
        let manifest: Manifest<'_> = serde_json::from_str(&space.manifest.contents).ok()?;
        Some((space.directory.components().count(), plugin_name(&manifest, &space.directory)))
    });
    named.max_by_key(|(depth, _)| *depth).map(|(_, name)| name)
}

/// Everything of a skill that takes room.
fn texts(skill: &Skill) -> impl Iterator<Item = &str> {
    let tools = skill.dependencies.iter().flat_map(|dependencies| &dependencies.tools);
    let tools = tools.flat_map(|tool| {
        let named = [Some(&tool.kind), Some(&tool.value), tool.description.as_ref()];
        let reached = [tool.transport.as_ref(), tool.command.as_ref(), tool.url.as_ref()];
        named.into_iter().chain(reached).map(|text| text.map_or("", String::as_str))
    });
    let products = skill.policy.iter().flat_map(|policy| &policy.products).map(String::as_str);
    // The last three stand for the objects around, and for what is null.
    let own = [&skill.name, &skill.description].map(String::as_str);
    let short = skill.short_description.as_deref();
    own.into_iter()
        .chain(short)
        .chain([skill.path.as_str(), "", "", ""])
        .chain(tools)
        .chain(products)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_made_of_plain_names() {
        for good in ["p", "P_-1", "p.q"] {
            assert!(is_name(good), "{good}");
        }
        for bad in [".h", "p q", "\u{e9}", "a@b"] {
            assert!(!is_name(bad), "{bad}");
        }
    }
}
