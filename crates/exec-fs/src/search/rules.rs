//! What a search leaves out: hidden names, and what `.ignore`, `.gitignore` and
//! `.git/info/exclude` say, of the tree and of the directories above it.
//!
//! A deeper directory's rules come before those above it, `.ignore` before `.gitignore`, and the
//! client's globs before all. Those for git end at the directory that has a `.git`. The files are
//! opened like any other here: never through a link, never a FIFO, and no more than so much of them.

use std::ffi::OsStr;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;

use exec_protocol::fs::SearchParams;
use ignore::Match;
use ignore::gitignore::{Gitignore, GitignoreBuilder};
use ignore::overrides::{Override, OverrideBuilder};
use rustix::fs::OFlags;

use crate::error::Error;
use crate::limits::SEARCH_RULES_BYTES;
use crate::read::FileReader;
use crate::resolve::{self, Links};

/// The rules that hold in the directory where a search is.
pub(super) struct Rules {
    globs: Override,
    include_hidden: bool,
    no_ignore: bool,
    /// Of every directory from the root down.
    levels: Vec<Level>,
}

/// The rules of one directory.
#[derive(Default)]
struct Level {
    ignore: Option<Gitignore>,
    git_ignore: Option<Gitignore>,
    git_exclude: Option<Gitignore>,
    /// Rules for git from further up do not hold here.
    is_repository: bool,
}

impl Rules {
    /// Those of the directories above the path.
    pub(super) fn new(path: &Path, params: &SearchParams) -> Result<Self, Error> {
        let wrong = |error: ignore::Error| Error::Search(error.to_string());
        let mut globs = OverrideBuilder::new(path);
        for glob in &params.globs {
            globs.add(glob).map_err(wrong)?;
        }
        let mut rules = Self {
            globs: globs.build().map_err(wrong)?,
            include_hidden: params.include_hidden,
            no_ignore: params.no_ignore,
            levels: Vec::new(),
        };
        if let Some(parent) = path.parent() {
            let above: Vec<&Path> = parent.ancestors().collect();
            for directory in above.into_iter().rev() {
                let Ok(fd) = resolve::directory(directory, Links::Follow) else { break };
                rules.enter(fd.as_fd(), directory);
            }
        }
        Ok(rules)
    }

    /// Adds the rules of a directory, which is the current one from now on.
    pub(super) fn enter(&mut self, fd: BorrowedFd<'_>, path: &Path) {
        let mut level = Level::default();
        if !self.no_ignore {
            level.ignore = read(fd, path, ".ignore");
            level.git_ignore = read(fd, path, ".gitignore");
            let git = OsStr::new(".git");
            if let Ok(git) = resolve::open_at(fd, git, OFlags::PATH) {
                level.is_repository = true;
                let info = Path::new("info");
                let info = resolve::directory_without_links(git.as_fd(), info);
                level.git_exclude = info.ok().and_then(|fd| read(fd.as_fd(), path, "exclude"));
            }
        }
        self.levels.push(level);
    }

    /// Back to the directory above.
    pub(super) fn leave(&mut self) {
        self.levels.pop();
    }

    /// Whether to pass over an entry of the current directory.
    pub(super) fn leave_out(&self, path: &Path, is_directory: bool) -> bool {
        match self.globs.matched(path, is_directory) {
            Match::Ignore(_) => return true,
            Match::Whitelist(_) => return false,
            Match::None => {}
        }
        if let Some(ignored) = self.ignored(path, is_directory) {
            return ignored;
        }
        let name = path.file_name().unwrap_or_default().as_encoded_bytes();
        name.starts_with(b".") && !self.include_hidden || name == b".git" && !self.no_ignore
    }

    /// What the first rule that matches says.
    fn ignored(&self, path: &Path, is_directory: bool) -> Option<bool> {
        let decide = |rules: &Option<Gitignore>| match rules.as_ref()?.matched(path, is_directory) {
            Match::Ignore(_) => Some(true),
            Match::Whitelist(_) => Some(false),
            Match::None => None,
        };
        let levels = || self.levels.iter().rev();
        let repository = levels().position(|level| level.is_repository);
        let in_git = || levels().take(repository.map_or(usize::MAX, |depth| depth + 1));
        levels()
            .find_map(|level| decide(&level.ignore))
            .or_else(|| in_git().find_map(|level| decide(&level.git_ignore)))
            .or_else(|| in_git().find_map(|level| decide(&level.git_exclude)))
    }
}

/// The rules in a file, if it is one and not too large.
fn read(directory: BorrowedFd<'_>, path: &Path, name: &str) -> Option<Gitignore> {
    let name = OsStr::new(name);
    let named = resolve::open_at(directory, name, OFlags::PATH).ok()?;
    if !resolve::status(named.as_fd()).ok()?.is_file() {
        return None;
    }
    let fd = resolve::open_at(directory, name, OFlags::RDONLY).ok()?;
    let status = resolve::status(fd.as_fd()).ok()?;
    if !status.is_file() {
        return None;
    }
    let text = FileReader::new(fd, &status, SEARCH_RULES_BYTES).ok()?.read_to_end().ok()?;
    let mut builder = GitignoreBuilder::new(path);
    for line in String::from_utf8_lossy(&text).lines() {
        // A line that is no rule is passed over, as git does.
        builder.add_line(None, line).ok();
    }
    builder.build().ok()
}
