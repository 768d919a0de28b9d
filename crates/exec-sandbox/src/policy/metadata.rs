//! What stays read-only although it lies in a writable directory: the files by which a command could
//! make a program outside run something for it.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use exec_protocol::sandbox::Access;

use super::host::{Host, Kind};
use super::locate::{Found, locate};
use super::refusal::Refusal;
use super::{Origin, Rule, Rules, State, reaches};

/// Directly below every writable root these are read-only, exist or not, unless an entry opens them.
pub const METADATA: [&str; 4] = [".git", ".agents", ".codex", ".aws"];
/// In a repository without a working tree, these decide what git runs.
const GIT_RUNS: [&str; 3] = ["config", "hooks", "info"];
/// Bytes read of a pointer file.
const POINTER_BYTES_MAX: usize = 4096;

/// Whether the path is a metadata name of a writable root.
pub(super) fn is_metadata(rules: &Rules, path: &Path) -> bool {
    let named = path.file_name().is_some_and(|name| METADATA.iter().any(|known| name == *known));
    let root = path.parent().and_then(|parent| rules.by_path.get(parent));
    named && root.is_some_and(|rule| rule.access == Access::Write)
}

/// Protects the metadata of every writable root. `opened` are the paths of write entries.
pub(super) fn protect_all(
    rules: &mut Rules,
    opened: &BTreeSet<PathBuf>,
    host: &impl Host,
) -> Result<(), Refusal> {
    let is_root = |rule: &Rule| {
        let directory =
            matches!(rule.state, State::Present(object) if object.kind == Kind::Directory);
        rule.access == Access::Write && directory
    };
    let roots: Vec<PathBuf> = rules
        .by_path
        .iter()
        .filter(|(_, rule)| is_root(rule))
        .map(|(path, _)| path.clone())
        .collect();
    let mut protect = Protect { rules, opened, host };
    for root in &roots {
        for name in METADATA {
            protect.name(&root.join(name))?;
        }
        protect.bare_repository(root)?;
    }
    Ok(())
}

struct Protect<'a, H> {
    rules: &'a mut Rules,
    opened: &'a BTreeSet<PathBuf>,
    host: &'a H,
}

impl<H: Host> Protect<'_, H> {
    fn name(&mut self, path: &Path) -> Result<(), Refusal> {
        if reaches(self.opened, path) {
            return Ok(());
        }
        let Some((real, kind)) = self.place(path, &Origin::Metadata)? else { return Ok(()) };
        if path.file_name() != Some(OsStr::new(".git")) {
            return Ok(());
        }
        match kind {
            Kind::Directory => self.common_directory(&real),
            Kind::File => self.pointer(&real),
            Kind::Link | Kind::Other => Ok(()),
        }
    }

    /// `.git` of a worktree or a submodule is a file that names the directory.
    fn pointer(&mut self, file: &Path) -> Result<(), Refusal> {
        let Some(target) = self.read_pointer(file, b"gitdir:")? else { return Ok(()) };
        let Some((real, kind)) = self.place(&target, &Origin::Repository(file.to_owned()))? else {
            return Ok(());
        };
        if kind == Kind::Directory { self.common_directory(&real) } else { Ok(()) }
    }

    /// The directory of a worktree names the one it shares with others: hooks and settings are there.
    fn common_directory(&mut self, repository: &Path) -> Result<(), Refusal> {
        let file = repository.join("commondir");
        let Some(target) = self.read_pointer(&file, b"")? else { return Ok(()) };
        self.place(&target, &Origin::Repository(file)).map(drop)
    }

    /// A writable root can itself be the directory of a repository.
    fn bare_repository(&mut self, root: &Path) -> Result<(), Refusal> {
        for name in ["HEAD", "objects", "refs"] {
            let path = root.join(name);
            let object = self.host.look(&path).map_err(|source| Refusal::Host { path, source })?;
            if object.is_none() {
                return Ok(());
            }
        }
        for name in GIT_RUNS {
            let path = root.join(name);
            if !reaches(self.opened, &path) {
                self.place(&path, &Origin::Repository(root.join("HEAD")))?;
            }
        }
        Ok(())
    }

    /// Makes the place a path leads to read-only where it is writable, and the links on the way
    /// immovable where they are not safe. Says what is there.
    fn place(&mut self, path: &Path, origin: &Origin) -> Result<Option<(PathBuf, Kind)>, Refusal> {
        let place = locate(self.host, path)?;
        for link in &place.links {
            self.pin(&link.path)?;
        }
        let rule = |state| Rule { access: Access::Read, origin: origin.clone(), state };
        match place.found {
            Found::Object(object) => {
                if self.is_open(&place.path) {
                    self.rules.add(place.path.clone(), rule(State::Present(object)));
                }
                Ok(Some((place.path, object.kind)))
            }
            Found::Blocked(path, object) => {
                if self.is_open(&path) {
                    self.rules.add(path, rule(State::Present(object)));
                }
                Ok(None)
            }
            Found::Missing(path) => {
                if self.is_open(&path) {
                    let placeholder = path.parent().is_some_and(|parent| self.host.may_add(parent));
                    self.rules.add(path, rule(State::Missing { placeholder }));
                }
                Ok(None)
            }
            Found::Unknown(path) if self.rules.parent_writable(&path) => {
                Err(Refusal::Host { path, source: std::io::ErrorKind::PermissionDenied.into() })
            }
            Found::Unknown(_) => Ok(None),
        }
    }

    /// Whether the command could change the path, and no entry says that it should.
    fn is_open(&self, path: &Path) -> bool {
        self.rules.access(path) == Access::Write
            && !self.rules.by_path.contains_key(path)
            && !reaches(self.opened, path)
    }

    fn pin(&mut self, link: &Path) -> Result<(), Refusal> {
        pin(self.rules, self.host, link)
    }

    /// The path after a keyword on the first line of a file, relative to the file.
    fn read_pointer(&self, file: &Path, keyword: &[u8]) -> Result<Option<PathBuf>, Refusal> {
        let content = match self.host.read_file(file, POINTER_BYTES_MAX) {
            Ok(content) => content,
            // Not there, no file, not ours to read: git cannot follow it either.
            Err(_) => return Ok(None),
        };
        let Some(rest) = content.strip_prefix(keyword) else { return Ok(None) };
        let line = rest.split(|&byte| byte == b'\n').next().unwrap_or_default().trim_ascii();
        if line.is_empty() || line.contains(&0) {
            return Ok(None);
        }
        let directory = file.parent().unwrap_or(Path::new("/"));
        Ok(Some(directory.join(OsStr::from_bytes(line))))
    }
}

/// Keeps a link from being led elsewhere, where the command could.
pub(super) fn pin(rules: &mut Rules, host: &impl Host, link: &Path) -> Result<(), Refusal> {
    if !rules.parent_writable(link) {
        return Ok(());
    }
    let failed = |source| Refusal::Host { path: link.to_owned(), source };
    if let Some(object) = host.look(link).map_err(failed)? {
        rules.pinned_links.insert(link.to_owned(), object);
    }
    Ok(())
}
