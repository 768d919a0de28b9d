//! Rules that follow their files. The last good set stays while a file is broken.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::error::Error;
use crate::set::{LoadOptions, RuleSet, files_in};

/// Where rules come from, the weakest layer first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// One file.
    File(PathBuf),
    /// Every rules file of a directory, which need not exist.
    Directory(PathBuf),
}

/// A set, and what its files looked like when it was loaded. Nothing runs by itself: whoever needs the
/// set asks for it to be looked at again.
#[derive(Debug)]
pub struct Watched {
    places: Vec<Place>,
    options: LoadOptions,
    set: Arc<RuleSet>,
    stamps: BTreeMap<PathBuf, Stamp>,
}

/// What changes when a file does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stamp {
    inode: (u64, u64),
    size: u64,
    /// When its content and when anything of it was changed.
    times: [(i64, i64); 2],
}

/// What a look at the files found.
#[derive(Debug)]
pub enum Refreshed {
    /// They are as they were.
    Same,
    /// There is a new set.
    Reloaded,
    /// They cannot be loaded; the set before stays. Told once for each state of the files.
    Kept(Error),
}

impl Watched {
    /// Loads the files for the first time; then there is no set to keep.
    pub fn new(places: Vec<Place>, options: LoadOptions) -> Result<Self, Error> {
        let paths = paths(&places)?;
        // Looked at before they are read: a change in between is found the next time.
        let stamps = stamps(&paths);
        let set = Arc::new(RuleSet::load(&paths, &options)?);
        Ok(Self { places, options, set, stamps })
    }

    /// The last good set.
    pub fn set(&self) -> &Arc<RuleSet> {
        &self.set
    }

    /// Looks at the files, and loads them again if they changed.
    pub fn refresh(&mut self) -> Refreshed {
        let paths = match paths(&self.places) {
            Ok(paths) => paths,
            Err(error) => return Refreshed::Kept(error),
        };
        let stamps = stamps(&paths);
        if stamps == self.stamps {
            return Refreshed::Same;
        }
        self.stamps = stamps;
        match RuleSet::load(&paths, &self.options) {
            Ok(set) => {
                self.set = Arc::new(set);
                Refreshed::Reloaded
            }
            Err(error) => Refreshed::Kept(error),
        }
    }
}

fn paths(places: &[Place]) -> Result<Vec<PathBuf>, Error> {
    let mut found = Vec::new();
    for place in places {
        match place {
            Place::File(path) => found.push(path.clone()),
            Place::Directory(path) => found.extend(files_in(path)?),
        }
    }
    Ok(found)
}

/// A file that is not there has no stamp.
fn stamps(paths: &[PathBuf]) -> BTreeMap<PathBuf, Stamp> {
    let stamp = |path: &PathBuf| Some((path.clone(), stamp(path)?));
    paths.iter().filter_map(stamp).collect()
}

fn stamp(path: &Path) -> Option<Stamp> {
    let it = fs::metadata(path).ok()?;
    Some(Stamp {
        inode: (it.dev(), it.ino()),
        size: it.size(),
        times: [(it.mtime(), it.mtime_nsec()), (it.ctime(), it.ctime_nsec())],
    })
}
