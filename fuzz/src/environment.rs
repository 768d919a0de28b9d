//! What must hold for any file that configures the executor. Panics when it does not.

#![allow(unreachable_pub, reason = "public to the fuzz targets, private to the tests")]

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use exec_environment::limits::Limits;
use exec_environment::{Places, config, installed, roots};
use exec_protocol::path_uri::PathUri;
use serde_json::json;

/// A home, an administrator's directory and a project, removed with this value.
struct Homes(tempfile::TempDir);

thread_local!(static HOMES: Homes = Homes::new());

impl Homes {
    /// In memory if possible: they are written anew for every input.
    fn new() -> Self {
        let directory = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir());
        Homes(directory.expect("a place for files"))
    }

    fn at(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn write(&self, name: &str, data: &[u8]) {
        let path = self.at(name);
        fs::create_dir_all(path.parent().expect("it is below the homes")).expect("a directory");
        fs::write(path, data).expect("a file");
    }

    fn places(&self, system: &str) -> Places {
        let home = self.at("home");
        fs::create_dir_all(&home).expect("a directory");
        Places { codex_home: Some(home), user_home: Some(self.at("user")), system: self.at(system) }
    }
}

/// Any text as the user's, the administrator's and a project's configuration: what is given of it
/// is TOML, and a mistake is told in words.
pub fn config_toml(data: &[u8]) {
    HOMES.with(|homes| {
        for name in ["home/config.toml", "system/managed_config.toml", "system/requirements.toml"] {
            homes.write(name, data);
        }
        homes.write("project/.git/HEAD", b"");
        homes.write("project/.codex/config.toml", data);
        let params = json!({"cwd": uri(&homes.at("project")), "requirementsPaths": [["a"]],
            "configPaths": [["mcp_servers"], ["a", "b"], ["projects"]]});
        let params = serde_json::from_value(params).expect("these are the parameters");
        for system in ["system", "none"] {
            match config::read(&homes.places(system), &params) {
                Ok(read) => {
                    let layers = read.config.layers.iter().chain(&read.requirements.layers);
                    for layer in layers {
                        let table = layer.toml.parse::<toml::Table>().expect("a layer is TOML");
                        let chosen = ["mcp_servers", "a", "projects"];
                        assert!(table.keys().all(|key| chosen.contains(&key.as_str())), "{table}");
                    }
                }
                Err(error) => assert!(!error.to_string().is_empty(), "a refusal says why"),
            }
        }
    });
}

/// Any text as a skill's instructions and metadata: it is listed within the limits of its members,
/// or left out.
pub fn skill(data: &[u8]) {
    HOMES.with(|homes| {
        homes.write("home/skills/x/SKILL.md", data);
        homes.write("home/skills/y/SKILL.md", b"---\nname: y\ndescription: d\n---\n");
        homes.write("home/skills/y/agents/openai.yaml", data);
        let found = installed::discover(&homes.places("none"), &Limits::default(), &no())
            .expect("no skill is worth a failure");
        let skills: Vec<_> = found.skills.iter().map(|found| &found.skill).collect();
        assert!(skills.iter().any(|skill| skill.name == "y"), "a good skill was lost");
        for skill in skills {
            assert!((1..=64).contains(&skill.name.chars().count()), "{:?}", skill.name);
            assert!(!skill.description.is_empty() && !skill.description.contains('\n'));
        }
    });
}

/// Any text as a plugin's manifest: nothing that it names is read from beside the plugin.
pub fn plugin_manifest(data: &[u8]) {
    HOMES.with(|homes| {
        homes.write("plugins/p/.codex-plugin/plugin.json", data);
        homes.write("plugins/p/mcp.json", b"{}");
        homes.write("plugins/p/.mcp.json", b"{}");
        homes.write("plugins/secret.json", b"the secret beside it");
        let installed = "home/plugins/cache/m/p/1.0.0/.codex-plugin/plugin.json";
        homes.write(installed, data);
        let root = uri(&homes.at("plugins/p"));
        let params = json!({"roots": [{"id": "r", "path": root}]});
        let params = serde_json::from_value(params).expect("these are the parameters");
        let found = roots::discover(&params, &Limits::default(), &no())
            .expect("no manifest is worth a failure");
        let text = serde_json::to_string(&found).expect("an answer can be written");
        assert!(!text.contains("the secret beside it"), "{text}");
        let listed = installed::discover(&homes.places("none"), &Limits::default(), &no());
        listed.map(drop).expect("no manifest is worth a failure");
    });
}

fn uri(path: &Path) -> PathUri {
    PathUri::from_native(path).expect("every absolute path has a URI")
}

fn no() -> AtomicBool {
    AtomicBool::new(false)
}
