//! The files of one capability root: its plugin's, its skills', and the manifests that name them.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use exec_protocol::capability::{CapabilityFile, PluginFiles, SkillFiles};
use exec_protocol::path_uri::PathUri;
use serde_json::Value;

use crate::error::Error;
use crate::file::{self, ReadError};
use crate::limits::Limits;
use crate::walk::walk;

/// Where a plugin's manifest may be; the first that can be read counts.
const MANIFEST_DIRECTORIES: [&str; 3] = [".codex-plugin", ".claude-plugin", ".cursor-plugin"];
const MANIFEST: &str = "plugin.json";
const SKILL: &str = "SKILL.md";

/// What one root holds.
#[derive(Debug, Default)]
pub(crate) struct Bundle {
    pub(crate) plugin: Option<PluginFiles>,
    /// By URI.
    pub(crate) skills: Vec<Skill>,
    /// The root's manifest or its nearest ancestor's, then those below, by URI.
    pub(crate) namespaces: Vec<Namespace>,
    pub(crate) warnings: Vec<String>,
}

/// A skill's files.
#[derive(Debug)]
pub(crate) struct Skill {
    pub(crate) directory: PathBuf,
    pub(crate) files: SkillFiles,
}

/// A directory whose skills are named after its plugin.
#[derive(Debug)]
pub(crate) struct Namespace {
    pub(crate) directory: PathBuf,
    pub(crate) manifest: CapabilityFile,
}

/// Why there is no bundle.
#[derive(Debug)]
pub(crate) enum Absent {
    /// Nothing can be said of the path.
    Unreadable(std::io::Error),
    /// It is something else.
    NotADirectory,
}

/// Reads everything of a root, which has to be a directory.
pub(crate) fn read(
    root: &Path,
    limits: &Limits,
    cancelled: &AtomicBool,
) -> Result<Result<Bundle, Absent>, Error> {
    match fs::metadata(root) {
        Ok(metadata) if metadata.is_dir() => {}
        Ok(_) => return Ok(Err(Absent::NotADirectory)),
        Err(error) => return Ok(Err(Absent::Unreadable(error))),
    }
    let bytes_left = limits.root_bytes_max;
    let mut reader = Reader { limits, cancelled, bytes_left, warnings: Vec::new() };
    let plugin = reader.plugin(root);
    let found = walk(root, limits, cancelled, |path| is_skill(path) || is_manifest(path))?;
    for (path, error) in &found.failures {
        reader.warn(format_args!("failed to scan capability path {}: {error}", shown(path)));
    }
    if found.truncated {
        let root = shown(root);
        reader.warn(format_args!("capability scan reached its traversal limit (root: {root})"));
    }
    let (skills, manifests): (Vec<_>, Vec<_>) =
        found.files.into_iter().partition(|path| is_skill(path));
    let namespaces = reader.namespaces(root, plugin.as_ref(), &manifests);
    let skills = reader.skills(skills)?;
    Ok(Ok(Bundle { plugin, skills, namespaces, warnings: reader.warnings }))
}

fn is_skill(path: &Path) -> bool {
    path.ends_with(SKILL)
}

fn is_manifest(path: &Path) -> bool {
    MANIFEST_DIRECTORIES.iter().any(|directory| path.ends_with(Path::new(directory).join(MANIFEST)))
}

fn shown(path: &Path) -> String {
    PathUri::from_native(path)
        .map_or_else(|_| path.display().to_string(), |uri| uri.as_str().to_owned())
}

struct Reader<'a> {
    limits: &'a Limits,
    cancelled: &'a AtomicBool,
    bytes_left: u64,
    warnings: Vec<String>,
}

impl Reader<'_> {
    fn warn(&mut self, warning: std::fmt::Arguments<'_>) {
        self.warnings.push(warning.to_string());
    }

    /// None where there is no such file, or, with a warning, where it cannot be used.
    fn file(&mut self, path: &Path) -> Option<CapabilityFile> {
        let uri = PathUri::from_native(path).ok()?;
        let name = uri.as_str().to_owned();
        let limit = self.limits.file_bytes_max;
        let contents = match file::read(path, limit) {
            Ok(contents) => contents?,
            Err(ReadError::NotAFile) => return None,
            Err(ReadError::TooLarge) => {
                self.warn(format_args!("capability file {name} exceeds the {limit}-byte limit"));
                return None;
            }
            Err(ReadError::NotUtf8(error)) => {
                self.warn(format_args!("capability file {name} is not UTF-8: {error}"));
                return None;
            }
            Err(ReadError::Os(error)) => {
                self.warn(format_args!("failed to read capability file {name}: {error}"));
                return None;
            }
        };
        let length = u64::try_from(contents.len()).unwrap_or(u64::MAX);
        let Some(left) = self.bytes_left.checked_sub(length) else {
            let limit = self.limits.root_bytes_max;
            self.warn(format_args!("capability root bundle exceeds the {limit}-byte limit"));
            return None;
        };
        self.bytes_left = left;
        Some(CapabilityFile { path: uri, contents })
    }

    fn manifest(&mut self, directory: &Path) -> Option<CapabilityFile> {
        MANIFEST_DIRECTORIES
            .iter()
            .find_map(|place| self.file(&directory.join(place).join(MANIFEST)))
    }

    fn plugin(&mut self, root: &Path) -> Option<PluginFiles> {
        let manifest = self.manifest(root)?;
        // What is no JSON, or no object, names no files.
        let value: Value = serde_json::from_str(&manifest.contents).unwrap_or_default();
        let mcp_servers = &value["mcpServers"];
        let mcp_config = match self.named(&manifest, "mcpServers", mcp_servers) {
            _ if mcp_servers.is_object() => None,
            Some(path) => self.file(&root.join(path)),
            None => self.file(&root.join(".mcp.json")),
        };
        let apps_config = match self.named(&manifest, "apps", &value["apps"]) {
            Some(path) => self.file(&root.join(path)),
            None => self.file(&root.join(".app.json")),
        };
        Some(PluginFiles { manifest, mcp_config, apps_config })
    }

    /// The file that a member names, if it is below the root.
    fn named<'v>(
        &mut self,
        manifest: &CapabilityFile,
        member: &str,
        value: &'v Value,
    ) -> Option<&'v str> {
        let problem = match below(value.as_str()?) {
            Ok(path) => return Some(path),
            Err(problem) => problem,
        };
        self.warn(format_args!("ignoring {member} in {}: {problem}", manifest.path.as_str()));
        None
    }

    fn namespaces(
        &mut self,
        root: &Path,
        plugin: Option<&PluginFiles>,
        manifests: &[PathBuf],
    ) -> Vec<Namespace> {
        let outer = match plugin {
            Some(plugin) => {
                Some(Namespace { directory: root.to_owned(), manifest: plugin.manifest.clone() })
            }
            None => root.ancestors().find_map(|directory| {
                let manifest = self.manifest(directory)?;
                Some(Namespace { directory: directory.to_owned(), manifest })
            }),
        };
        // By directory, and there by the order of the places: links were not followed to them.
        let mut inner: BTreeMap<String, (&Path, Vec<&PathBuf>)> = BTreeMap::new();
        for path in manifests {
            let directory = path.parent().and_then(Path::parent).unwrap_or(path);
            if directory != root {
                let entry = inner.entry(shown(directory)).or_insert((directory, Vec::new()));
                entry.1.push(path);
            }
        }
        let mut namespaces: Vec<Namespace> = outer.into_iter().collect();
        for (directory, mut paths) in inner.into_values() {
            paths.sort_by_key(|path| {
                MANIFEST_DIRECTORIES
                    .iter()
                    .position(|place| path.ends_with(Path::new(place).join(MANIFEST)))
            });
            if let Some(manifest) = paths.into_iter().find_map(|path| self.file(path)) {
                namespaces.push(Namespace { directory: directory.to_owned(), manifest });
            }
        }
        namespaces
    }

    fn skills(&mut self, paths: Vec<PathBuf>) -> Result<Vec<Skill>, Error> {
        let mut paths: Vec<(String, PathBuf)> =
            paths.into_iter().map(|path| (shown(&path), path)).collect();
        paths.sort_unstable();
        let mut skills = Vec::new();
        for (_, path) in paths {
            if self.cancelled.load(Ordering::Relaxed) {
                return Err(Error::Cancelled);
            }
            let Some(instructions) = self.file(&path) else { continue };
            let directory = path.parent().unwrap_or(&path).to_owned();
            let metadata = self.file(&directory.join("agents/openai.yaml"));
            skills.push(Skill { directory, files: SkillFiles { instructions, metadata } });
        }
        Ok(skills)
    }
}

/// The rest of a path that begins at the root and stays below it.
fn below(text: &str) -> Result<&str, &'static str> {
    let path = text.strip_prefix("./").ok_or("path must start with `./`")?;
    let escapes =
        path.is_empty() || path.starts_with('/') || path.split('/').any(|part| part == "..");
    if escapes { Err("path must remain below the capability root") } else { Ok(path) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_manifest_names_only_what_is_below_it() {
        for good in ["m.json", "a/m.json", "m..json", "./m.json", "a//m"] {
            assert_eq!(below(&format!("./{good}")), Ok(good));
        }
        for bad in ["", "m.json", "/m.json", ".\\m.json", "../m.json"] {
            assert_eq!(below(bad), Err("path must start with `./`"), "{bad}");
        }
        for bad in ["./", "./..", "./../m", "./a/../m", ".//m"] {
            assert_eq!(below(bad), Err("path must remain below the capability root"), "{bad}");
        }
    }
}
