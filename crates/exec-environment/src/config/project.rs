//! Which project a directory belongs to, and which of its directories may configure anything.
//!
//! A directory is trusted if the user or the administrator said so of it; where they said nothing
//! of it, of the project's root; and where nothing of that, of the repository it was checked out
//! from.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use toml::{Table, Value};

use crate::file;
use crate::places::real;

/// Says what kind of directory is the root of a project, unless it is configured.
const ROOT_MARKER: &str = ".git";

/// Keys that no project may set: they would send what the user says somewhere else.
const RESERVED: &[&str] = &[
    "model_provider",
    "model_providers",
    "profile",
    "profiles",
    "notify",
    "openai_base_url",
    "chatgpt_base_url",
    "otel",
    "experimental_realtime_ws_base_url",
];

/// Largest file of git that is read; they hold one path.
const GIT_FILE_BYTES_MAX: u64 = 64 << 10;

/// A project, and what is said of its directories.
#[derive(Debug)]
pub(super) struct Project {
    root: PathBuf,
    /// Where the main checkout of the repository is.
    repository: Option<PathBuf>,
    said: Said,
}

/// What the configuration says of projects.
#[derive(Debug, Deserialize)]
struct Said {
    #[serde(default)]
    projects: BTreeMap<String, ProjectConfig>,
}

#[derive(Debug, Deserialize)]
struct ProjectConfig {
    #[serde(default)]
    trust_level: Option<TrustLevel>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum TrustLevel {
    Trusted,
    Untrusted,
}

impl Project {
    /// The project that a directory belongs to; the tables are configurations, lowest first.
    pub(super) fn find<'a>(
        cwd: &Path,
        tables: impl Iterator<Item = &'a Table>,
    ) -> Result<Self, String> {
        let mut merged = Table::new();
        for table in tables {
            let known = table
                .iter()
                .filter(|(key, _)| matches!(key.as_str(), "projects" | "project_root_markers"));
            overlay(&mut merged, known);
        }
        let markers = markers(merged.remove("project_root_markers"))?;
        let said = Value::Table(merged).try_into().map_err(|error| error.to_string())?;
        let root = cwd
            .ancestors()
            .find(|directory| markers.iter().any(|marker| has_marker(directory, marker)))
            .unwrap_or(cwd);
        Ok(Self { root: root.to_owned(), repository: repository(cwd), said })
    }

    /// From the root down to `cwd`.
    pub(super) fn trusted_directories(&self, cwd: &Path) -> Vec<PathBuf> {
        let inside = cwd.ancestors().take_while(|directory| directory.starts_with(&self.root));
        let mut trusted: Vec<PathBuf> =
            inside.filter(|directory| self.is_trusted(directory)).map(Path::to_owned).collect();
        trusted.reverse();
        trusted
    }

    fn is_trusted(&self, directory: &Path) -> bool {
        let places = [Some(directory), Some(&self.root), self.repository.as_deref()];
        let level = places.into_iter().flatten().find_map(|place| self.said.of(place));
        level == Some(TrustLevel::Trusted)
    }
}

impl Said {
    /// Of a directory, by either of its names. A distrust of one is a distrust of it.
    fn of(&self, directory: &Path) -> Option<TrustLevel> {
        let level = |path: &Path| self.projects.get(path.to_str()?)?.trust_level;
        match (level(directory), real(directory).and_then(|directory| level(&directory))) {
            (Some(TrustLevel::Untrusted), _) | (_, Some(TrustLevel::Untrusted)) => {
                Some(TrustLevel::Untrusted)
            }
            (named, real) => named.or(real),
        }
    }
}

/// Removes what a project may not set.
pub(super) fn remove_reserved(table: &mut Table) {
    table.retain(|key, _| !RESERVED.contains(&key));
}

fn overlay<'a>(base: &mut Table, over: impl Iterator<Item = (&'a String, &'a Value)>) {
    for (key, value) in over {
        match (base.get_mut(key), value) {
            (Some(Value::Table(base)), Value::Table(over)) => overlay(base, over.iter()),
            _ => drop(base.insert(key.clone(), value.clone())),
        }
    }
}

fn markers(configured: Option<Value>) -> Result<Vec<String>, String> {
    match configured {
        None => Ok(vec![ROOT_MARKER.to_owned()]),
        Some(value) => value
            .try_into()
            .map_err(|_| "project_root_markers must be an array of strings".to_owned()),
    }
}

/// An empty `.git` directory is not a repository.
fn has_marker(directory: &Path, marker: &str) -> bool {
    let path = directory.join(marker);
    if marker == ROOT_MARKER && path.is_dir() { path.join("HEAD").exists() } else { path.exists() }
}

/// The root of the main checkout. For a linked worktree that is the checkout it was made from, if
/// that one knows of it: else any directory could claim to belong to a trusted one.
fn repository(cwd: &Path) -> Option<PathBuf> {
    let root = cwd.ancestors().find(|directory| has_marker(directory, ROOT_MARKER))?;
    let git = root.join(ROOT_MARKER);
    if git.is_dir() {
        return Some(root.to_owned());
    }
    let worktree = real(&root.join(path_in(&git, "gitdir: ")?))?;
    let back = real(&worktree.join(path_in(&worktree.join("gitdir"), "")?))?;
    let worktrees = worktree.parent().filter(|parent| parent.ends_with("worktrees"))?;
    let common = worktrees.parent().filter(|common| common.ends_with(ROOT_MARKER))?;
    (back == real(&git)?).then(|| common.parent().map(Path::to_owned)).flatten()
}

/// The path that a file of git consists of.
fn path_in(file: &Path, prefix: &str) -> Option<PathBuf> {
    let text = file::read(file, GIT_FILE_BYTES_MAX).ok()??;
    Some(PathBuf::from(text.strip_prefix(prefix)?.trim_end_matches(['\n', '\r'])))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    /// A project `p` with `p/a/b`, and what is trusted below `p` for a working directory in it.
    struct Fixture(tempfile::TempDir);

    impl Fixture {
        fn new() -> Self {
            let fixture = Self(tempfile::tempdir().unwrap());
            fs::create_dir_all(fixture.at("p/a/b")).unwrap();
            fixture.write("p/.git/HEAD", "");
            fixture
        }

        fn at(&self, path: &str) -> PathBuf {
            self.0.path().canonicalize().unwrap().join(path)
        }

        fn write(&self, path: &str, text: &str) {
            fs::create_dir_all(self.at(path).parent().unwrap()).unwrap();
            fs::write(self.at(path), text).unwrap();
        }

        /// `@` stands for the directory that holds everything.
        fn trusted(&self, cwd: &str, configs: &[&str]) -> Result<Vec<String>, String> {
            let base = self.at("");
            let base = base.to_str().unwrap().trim_end_matches('/');
            let tables: Vec<Table> =
                configs.iter().map(|text| text.replace('@', base).parse().unwrap()).collect();
            let project = Project::find(&self.at(cwd), tables.iter())?;
            let below = |path: PathBuf| path.strip_prefix(base).unwrap().display().to_string();
            Ok(project.trusted_directories(&self.at(cwd)).into_iter().map(below).collect())
        }
    }

    fn trust(path: &str, level: &str) -> String {
        format!("[projects.\"@/{path}\"]\ntrust_level = \"{level}\"\n")
    }

    #[test]
    fn the_nearest_word_about_a_directory_counts() {
        let fixture = Fixture::new();
        let check = |cwd: &str, configs: &[&str], expected: &[&str]| {
            assert_eq!(fixture.trusted(cwd, configs).unwrap(), expected, "{cwd} {configs:?}");
        };
        let yes = |path| trust(path, "trusted");
        let no = |path| trust(path, "untrusted");
        check("p/a/b", &[], &[]);
        check("p/a/b", &[&yes("p")], &["p", "p/a", "p/a/b"]);
        check("p/a/b/missing", &[&yes("p")], &["p", "p/a", "p/a/b", "p/a/b/missing"]);
        check("p", &[&yes("p")], &["p"]);
        check("p/a/b", &[&yes("p/a")], &["p/a"]);
        check("p/a/b", &[&no("p")], &[]);
        check("p/a/b", &[&(yes("p") + &no("p/a"))], &["p", "p/a/b"]);
        check("p/a/b", &[&yes("p/")], &[]);
        check("p/a/b", &[&yes("")], &[]);
        check("p", &[&yes("p"), &no("p")], &[]);
        check("p", &[&no("p"), &yes("p")], &["p"]);
        check("p", &["[projects.\"@/p\"]\nother = 1\n"], &[]);
    }

    #[test]
    fn markers_say_where_the_root_is() {
        let fixture = Fixture::new();
        fs::create_dir(fixture.at("p/a/.hg")).unwrap();
        let check = |markers: &str, trusted: &str, expected: &[&str]| {
            let config = format!("{markers}\n{}", trust(trusted, "trusted"));
            assert_eq!(fixture.trusted("p/a/b", &[&config]).unwrap(), expected, "{markers}");
        };
        check("", "p", &["p", "p/a", "p/a/b"]);
        check("project_root_markers = [\".hg\"]", "p/a", &["p/a", "p/a/b"]);
        // The repository is asked last.
        check("project_root_markers = [\".hg\"]", "p", &["p/a", "p/a/b"]);
        check("project_root_markers = [\".hg\", \".git\"]", "p", &["p/a", "p/a/b"]);
        check("project_root_markers = []", "p", &["p/a/b"]);
        fs::remove_file(fixture.at("p/.git/HEAD")).unwrap();
        check("", "p", &[]);
        fs::remove_dir(fixture.at("p/.git")).unwrap();
        fixture.write("p/.git", "junk");
        check("", "p", &["p", "p/a", "p/a/b"]);
    }

    #[test]
    fn mistakes_are_named() {
        let fixture = Fixture::new();
        let check = |config: &str, expected: &str| {
            assert_eq!(fixture.trusted("p", &[config]).unwrap_err(), expected);
        };
        let markers = "project_root_markers must be an array of strings";
        check("project_root_markers = 5", markers);
        check("project_root_markers = [5]", markers);
        check(
            "[projects.x]\ntrust_level = \"maybe\"",
            "unknown variant `maybe`, expected `trusted` or `untrusted`\nin `projects.x.trust_level`\n",
        );
        check(
            "projects.x = 5",
            "invalid type: integer `5`, expected struct ProjectConfig\nin `projects.x`\n",
        );
    }

    #[test]
    fn either_name_of_a_linked_directory_is_known() {
        let fixture = Fixture::new();
        std::os::unix::fs::symlink(fixture.at("p"), fixture.at("link")).unwrap();
        let trusted = |cwd: &str, config: String| fixture.trusted(cwd, &[&config]).unwrap();
        assert_eq!(trusted("link", trust("p", "trusted")), ["link"]);
        assert_eq!(trusted("link", trust("link", "trusted")), ["link"]);
        assert!(trusted("p", trust("link", "trusted")).is_empty());
        let both = trust("link", "trusted") + &trust("p", "untrusted");
        assert!(trusted("link", both).is_empty());
    }

    #[test]
    fn a_worktree_is_trusted_if_its_repository_knows_it() {
        let fixture = Fixture::new();
        fs::create_dir(fixture.at("w")).unwrap();
        let gitdir = fixture.at("p/.git/worktrees/w");
        let trusted = |git: &str| {
            fixture.write("w/.git", git);
            !fixture.trusted("w", &[&trust("p", "trusted")]).unwrap().is_empty()
        };
        let claim = format!("gitdir: {}\n", gitdir.display());
        fs::create_dir_all(&gitdir).unwrap();
        assert!(!trusted(&claim));
        fixture.write("p/.git/worktrees/w/gitdir", "/elsewhere/.git\n");
        assert!(!trusted(&claim));
        let back = format!("{}\n", fixture.at("w/.git").display());
        fixture.write("p/.git/worktrees/w/gitdir", &back);
        assert!(trusted(&claim));
        assert!(trusted("gitdir: ../p/.git/worktrees/w\n"));
        assert!(!trusted(&format!("gitdir: {}\n", fixture.at("p/.git").display())));
        fixture.write("p/.git/modules/w/gitdir", &back);
        assert!(!trusted("gitdir: ../p/.git/modules/w\n"));
    }

    #[test]
    fn a_project_cannot_redirect_the_user() {
        let mut table: Table = "model = 1\nnotify = 2\n[profiles.x]\ny = 1\n".parse().unwrap();
        remove_reserved(&mut table);
        assert_eq!(toml::to_string(&table).unwrap(), "model = 1\n");
    }
}
