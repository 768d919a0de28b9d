//! Who watches what. Watches may overlap and name one place by several paths; inotify and notify
//! know each place once. So everything is kept by its canonical path, what one recursive watch
//! covers is not watched a second time, and events are told by the path the client used.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use notify::RecursiveMode;

/// How far below its root a watch sees.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Depth {
    /// The root and its entries.
    Entries,
    /// Everything.
    Tree,
}

impl Depth {
    pub(super) fn mode(self) -> RecursiveMode {
        match self {
            Depth::Entries => RecursiveMode::NonRecursive,
            Depth::Tree => RecursiveMode::Recursive,
        }
    }
}

/// The watches by their names.
#[derive(Debug, Default)]
pub struct WatchTable {
    watches: BTreeMap<String, Watch>,
}

#[derive(Debug)]
struct Watch {
    /// As the client calls it.
    given: PathBuf,
    /// Without links.
    root: PathBuf,
    depth: Depth,
}

/// What has to be done after the table changed, in this order.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Change {
    /// No longer to be watched, or not in this way.
    pub unwatch: Vec<PathBuf>,
    /// To be watched.
    pub watch: Vec<(PathBuf, Depth)>,
    /// Watches that may have missed something in between.
    pub disturbed: Vec<String>,
}

impl WatchTable {
    /// Adds a watch.
    pub fn insert(&mut self, id: &str, given: &Path, root: &Path, depth: Depth) -> Change {
        let before = self.covering();
        let watch = Watch { given: given.to_owned(), root: root.to_owned(), depth };
        self.watches.insert(id.to_owned(), watch);
        let mut change = self.change(&before);
        change.disturbed.retain(|other| other != id);
        change
    }

    /// Removes a watch, if there is one of that name.
    pub fn remove(&mut self, id: &str) -> Option<Change> {
        let before = self.covering();
        self.watches.remove(id)?;
        Some(self.change(&before))
    }

    /// Whether the name is in use.
    pub fn contains(&self, id: &str) -> bool {
        self.watches.contains_key(id)
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.watches.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.watches.is_empty()
    }

    /// All names.
    pub fn ids(&self) -> impl Iterator<Item = &str> {
        self.watches.keys().map(String::as_str)
    }

    /// Who is to be told of a change there, and by which path.
    pub fn route(&self, path: &Path) -> impl Iterator<Item = (&str, PathBuf)> {
        self.watches.iter().filter_map(move |(id, watch)| {
            let below = path.strip_prefix(&watch.root).ok()?;
            if watch.depth == Depth::Entries && below.components().count() > 1 {
                return None;
            }
            let told = if below.as_os_str().is_empty() {
                watch.given.clone()
            } else {
                watch.given.join(below)
            };
            Some((id.as_str(), told))
        })
    }

    /// The places that have to be watched, so that every watch sees what it should and none is
    /// watched twice.
    fn covering(&self) -> BTreeMap<PathBuf, Depth> {
        let mut places: BTreeMap<PathBuf, Depth> = BTreeMap::new();
        for watch in self.watches.values() {
            let depth = places.entry(watch.root.clone()).or_insert(watch.depth);
            *depth = watch.depth.max(*depth);
        }
        let trees: Vec<PathBuf> = places
            .iter()
            .filter(|(_, depth)| **depth == Depth::Tree)
            .map(|(path, _)| path.clone())
            .collect();
        let covered = |path: &Path| {
            path.ancestors().skip(1).any(|above| trees.iter().any(|tree| tree == above))
        };
        places.retain(|path, _| !covered(path));
        places
    }

    fn change(&self, before: &BTreeMap<PathBuf, Depth>) -> Change {
        let after = self.covering();
        let gone = before.iter().filter(|(path, depth)| after.get(*path) != Some(depth));
        let unwatch: Vec<PathBuf> = gone.map(|(path, _)| path.clone()).collect();
        let new = after.iter().filter(|(path, depth)| before.get(*path) != Some(depth));
        let watch = new.map(|(path, depth)| (path.clone(), *depth)).collect();
        let disturbed = self.watches.iter().filter(|(_, watch)| {
            unwatch.iter().any(|path| watch.root.starts_with(path) || path.starts_with(&watch.root))
        });
        let disturbed = disturbed.map(|(id, _)| id.clone()).collect();
        Change { unwatch, watch, disturbed }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(change: Change, unwatch: &[&str], watch: &[(&str, Depth)], disturbed: &[&str]) {
        assert_eq!(change.unwatch, unwatch.iter().map(PathBuf::from).collect::<Vec<_>>());
        let expected: Vec<_> = watch.iter().map(|(path, d)| (PathBuf::from(path), *d)).collect();
        assert_eq!(change.watch, expected);
        assert_eq!(change.disturbed, disturbed);
    }

    #[test]
    fn overlapping_watches_share_one_place() {
        let mut table = WatchTable::default();
        let mut insert =
            |id: &str, path: &str, depth| table.insert(id, Path::new(path), Path::new(path), depth);
        check(insert("e", "/a/b", Depth::Entries), &[], &[("/a/b", Depth::Entries)], &[]);
        check(insert("s", "/a/b", Depth::Entries), &[], &[], &[]);
        check(insert("t", "/a", Depth::Tree), &["/a/b"], &[("/a", Depth::Tree)], &["e", "s"]);
        check(insert("u", "/a/c", Depth::Tree), &[], &[], &[]);
        check(table.remove("e").unwrap(), &[], &[], &[]);
        let again = [("/a/b", Depth::Entries), ("/a/c", Depth::Tree)];
        check(table.remove("t").unwrap(), &["/a"], &again, &["s", "u"]);
        assert!(table.remove("t").is_none());
    }

    #[test]
    fn everybody_is_told_by_the_path_they_gave() {
        let mut table = WatchTable::default();
        table.insert("tree", Path::new("/link"), Path::new("/real"), Depth::Tree);
        table.insert("entries", Path::new("/real"), Path::new("/real"), Depth::Entries);
        let route = |path: &str| -> Vec<(String, PathBuf)> {
            table.route(Path::new(path)).map(|(id, told)| (id.to_owned(), told)).collect()
        };
        let pair = |id: &str, path: &str| (id.to_owned(), PathBuf::from(path));
        assert_eq!(route("/real/x"), [pair("entries", "/real/x"), pair("tree", "/link/x")]);
        assert_eq!(route("/real/x/y"), [pair("tree", "/link/x/y")]);
        assert_eq!(route("/real"), [pair("entries", "/real"), pair("tree", "/link")]);
        assert_eq!(route("/reality"), []);
    }
}
