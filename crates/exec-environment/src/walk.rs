//! Looks through a directory tree, breadth first and in the order of names, for files of certain
//! names. Every directory is seen once, by whichever link leads to it first, so loops end.

use std::collections::{HashSet, VecDeque};
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use crate::error::Error;
use crate::limits::Limits;

/// What was found.
#[derive(Debug, Default)]
pub(crate) struct Walk {
    /// Regular files, not links, that were wanted.
    pub(crate) files: Vec<PathBuf>,
    /// What could not be looked into.
    pub(crate) failures: Vec<(PathBuf, io::Error)>,
    /// Whether a limit ended it.
    pub(crate) truncated: bool,
}

/// Walks below a directory. Links to directories are followed.
pub(crate) fn walk(
    root: &Path,
    limits: &Limits,
    cancelled: &AtomicBool,
    wanted: impl Fn(&Path) -> bool,
) -> Result<Walk, Error> {
    let mut walk = Walk::default();
    let mut seen = HashSet::new();
    let mut queue = VecDeque::from([(root.to_owned(), 0)]);
    let (mut directories, mut entries) = (0, 0);
    while let Some((directory, depth)) = queue.pop_front() {
        if directories == limits.directories_max {
            walk.truncated = true;
            break;
        }
        directories += 1;
        let listed = list(&directory, limits.entries_max - entries, cancelled)?;
        let (names, complete) = match listed {
            Ok(listed) => listed,
            Err(error) => {
                walk.failures.push((directory, error));
                continue;
            }
        };
        entries += names.len();
        for (path, kind) in names {
            match kind {
                Kind::File if wanted(&path) => walk.files.push(path),
                Kind::Directory if depth < limits.depth_max && seen.insert(identity(&path)) => {
                    queue.push_back((path, depth + 1));
                }
                Kind::File | Kind::Directory | Kind::Other => {}
            }
        }
        if !complete {
            walk.truncated = true;
            break;
        }
    }
    Ok(walk)
}

#[derive(Clone, Copy)]
enum Kind {
    File,
    Directory,
    Other,
}

type Listed = (Vec<(PathBuf, Kind)>, bool);

/// The entries of a directory by name, and whether they are all.
fn list(
    directory: &Path,
    entries_max: usize,
    cancelled: &AtomicBool,
) -> Result<io::Result<Listed>, Error> {
    let reading = match fs::read_dir(directory) {
        Ok(reading) => reading,
        Err(error) => return Ok(Err(error)),
    };
    let mut listed = Vec::new();
    for entry in reading {
        if cancelled.load(Ordering::Relaxed) {
            return Err(Error::Cancelled);
        }
        if listed.len() == entries_max {
            listed.sort_unstable_by(|(a, _): &(PathBuf, Kind), (b, _)| a.cmp(b));
            return Ok(Ok((listed, false)));
        }
        let (path, kind) = match entry.and_then(|entry| Ok((entry.path(), entry.file_type()?))) {
            Ok(entry) => entry,
            Err(error) => return Ok(Err(error)),
        };
        let leads_to_directory = || fs::metadata(&path).is_ok_and(|target| target.is_dir());
        let kind = if kind.is_file() {
            Kind::File
        } else if kind.is_dir() || (kind.is_symlink() && leads_to_directory()) {
            Kind::Directory
        } else {
            Kind::Other
        };
        listed.push((path, kind));
    }
    listed.sort_unstable_by(|(a, _), (b, _)| a.cmp(b));
    Ok(Ok((listed, true)))
}

/// The same for every path to one directory; none where it is gone meanwhile.
fn identity(directory: &Path) -> Option<(u64, u64)> {
    fs::metadata(directory).ok().map(|metadata| (metadata.dev(), metadata.ino()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    fn small() -> Limits {
        Limits { depth_max: 2, directories_max: 5, entries_max: 20, ..Limits::default() }
    }

    /// What `x` files are found in a tree of these, `->` being a link.
    fn check(tree: &[&str], limits: &Limits, expected: &[&str], truncated: bool) {
        let dir = tempfile::tempdir().unwrap();
        for path in tree {
            match path.split_once("->") {
                Some((link, target)) => {
                    symlink(dir.path().join(target), dir.path().join(link)).unwrap();
                }
                None => {
                    let path = dir.path().join(path);
                    fs::create_dir_all(path.parent().unwrap()).unwrap();
                    fs::write(path, "").unwrap();
                }
            }
        }
        let wanted = |path: &Path| path.ends_with("x");
        let found = walk(dir.path(), limits, &AtomicBool::new(false), wanted).unwrap();
        let names: Vec<_> =
            found.files.iter().map(|path| path.strip_prefix(dir.path()).unwrap()).collect();
        assert_eq!(names, expected.iter().map(Path::new).collect::<Vec<_>>());
        assert_eq!(found.truncated, truncated);
    }

    #[test]
    fn the_walk_goes_as_far_as_its_limits() {
        check(&["b/x", "a/x", "x"], &small(), &["x", "a/x", "b/x"], false);
        check(&["a/b/x", "a/b/c/x"], &small(), &["a/b/x"], false);
        check(&["1/x", "2/x", "3/x", "4/x"], &small(), &["1/x", "2/x", "3/x", "4/x"], false);
        let five = ["1/x", "2/x", "3/x", "4/x", "5/x"];
        check(&five, &small(), &five[..4], true);
        let names: Vec<String> = (0..21).map(|index| format!("{index}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        check(&names[..20], &small(), &[], false);
        check(&names, &small(), &[], true);
    }

    #[test]
    fn links_to_directories_are_followed_once() {
        let tree = ["real/x", "link->real", "real/loop->", "x->real/x", "gone->nowhere"];
        check(&tree, &small(), &["link/x"], false);
    }

    #[test]
    fn a_walk_can_be_stopped() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("x"), "").unwrap();
        let stopped = walk(dir.path(), &small(), &AtomicBool::new(true), |_| true);
        assert!(matches!(stopped, Err(Error::Cancelled)));
    }
}
