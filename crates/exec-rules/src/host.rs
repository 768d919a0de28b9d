//! Programs by path: what `host_executable` declares, and how a path becomes a name.

use std::collections::HashMap;
use std::path::{Component, Path, PathBuf};

/// Where relative programs lie. Empty when only absolute ones count.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Places {
    /// What a relative path is relative to.
    pub cwd: Option<PathBuf>,
    /// What `~` stands for.
    pub home: Option<PathBuf>,
}

/// How the first word of a command is compared with the program of a rule.
#[derive(Debug, Clone, Copy)]
pub enum Resolve<'a> {
    /// Word by word.
    Exact,
    /// If no rule matches so, a path also counts by its last component, as far as the
    /// `host_executable` entry of that name permits.
    BaseName(&'a Places),
}

/// Which paths are the programs of that name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HostExecutables {
    paths: HashMap<Box<str>, Vec<PathBuf>>,
}

impl HostExecutables {
    /// A later entry replaces an earlier one.
    pub(crate) fn declare(&mut self, name: &str, paths: Vec<PathBuf>) {
        self.paths.insert(name.into(), paths);
    }

    /// The paths declared for a name; none if nothing is declared, and then every path counts.
    pub fn paths(&self, name: &str) -> Option<&[PathBuf]> {
        self.paths.get(name).map(Vec::as_slice)
    }

    /// Names that are declared.
    pub fn len(&self) -> usize {
        self.paths.len()
    }

    /// Whether nothing is declared.
    pub fn is_empty(&self) -> bool {
        self.paths.is_empty()
    }

    /// The path that a word means and the name it counts as, if it may count as one.
    pub(crate) fn resolve(&self, word: &str, places: &Places) -> Option<(PathBuf, String)> {
        let path = absolute(word, places)?;
        let name = path.file_name()?.to_str()?.to_owned();
        match self.paths(&name) {
            Some(listed) if !listed.contains(&path) => None,
            Some(_) | None => Some((path, name)),
        }
    }
}

/// The path that a word means, without `.` and `..`. Links are not looked at: whoever executes the
/// file has resolved them before.
fn absolute(word: &str, places: &Places) -> Option<PathBuf> {
    let path = Path::new(word);
    let in_home = if word == "~" { Some("") } else { word.strip_prefix("~/") };
    let path = match in_home {
        Some(below) => places.home.as_ref()?.join(below.trim_start_matches('/')),
        None if path.is_absolute() => path.to_owned(),
        None => places.cwd.as_ref()?.join(path),
    };
    Some(normal(&path))
}

/// An absolute path without `.` and `..`, by its letters only.
pub(crate) fn normal(path: &Path) -> PathBuf {
    let mut out = PathBuf::from("/");
    for component in path.components() {
        match component {
            Component::Normal(name) => out.push(name),
            Component::ParentDir => {
                out.pop();
            }
            Component::RootDir | Component::CurDir | Component::Prefix(_) => {}
        }
    }
    out
}

/// Checks the name of a `host_executable`.
pub(crate) fn check_name(name: &str) -> Result<(), String> {
    if name.is_empty() {
        return Err("host_executable name cannot be empty".to_owned());
    }
    let mut components = Path::new(name).components();
    let bare = matches!(components.next(), Some(Component::Normal(only)) if only == name);
    if !bare || components.next().is_some() {
        return Err(format!("host_executable name must be a bare executable name (got {name})"));
    }
    Ok(())
}

/// Checks a path of a `host_executable`.
pub(crate) fn check_path(name: &str, path: &str) -> Result<PathBuf, String> {
    if !path.starts_with('/') {
        return Err(format!("host_executable paths must be absolute (got {path})"));
    }
    let normal = normal(Path::new(path));
    if normal.file_name().is_none_or(|last| last != name) {
        return Err(format!("host_executable path `{path}` must have basename `{name}`"));
    }
    Ok(normal)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_become_paths_by_their_letters() {
        let places = Places { cwd: Some("/srv/demo".into()), home: Some("/users/me".into()) };
        for (word, path) in [
            ("/usr/bin/git", "/usr/bin/git"),
            ("/usr//bin/./git/", "/usr/bin/git"),
            ("/usr/bin/../sbin/git", "/usr/sbin/git"),
            ("/../../git", "/git"),
            ("./git", "/srv/demo/git"),
            ("../git", "/srv/git"),
            ("~/git", "/users/me/git"),
            ("~//git", "/users/me/git"),
            ("~", "/users/me"),
            ("~me/git", "/srv/demo/~me/git"),
        ] {
            assert_eq!(absolute(word, &places), Some(path.into()), "{word}");
        }
        assert_eq!(absolute("./git", &Places::default()), None);
        assert_eq!(absolute("~/git", &Places::default()), None);
    }

    #[test]
    fn an_empty_list_blocks_every_path() {
        let mut hosts = HostExecutables::default();
        let places = Places::default();
        assert!(hosts.resolve("/opt/git", &places).is_some());
        hosts.declare("git", vec!["/usr/bin/git".into()]);
        assert!(hosts.resolve("/opt/git", &places).is_none());
        assert!(hosts.resolve("/usr/bin/git", &places).is_some());
        hosts.declare("git", Vec::new());
        assert!(hosts.resolve("/usr/bin/git", &places).is_none());
        assert!(hosts.resolve("/", &places).is_none());
    }
}
