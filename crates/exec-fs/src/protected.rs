//! Names that must neither come into being nor go, for a process that serves one policy.
//!
//! What exists is protected by the mounts around the process. What does not exist has nothing to
//! mount on, or only while somebody puts a placeholder there for another process to mount on. So
//! these names are refused where a name is made or taken away, by the identity of the directory that
//! has it. A descriptor's identity never changes, so no link and no rename in between leads around
//! the check. Below such a name nothing is made either. The answer is that of a read-only mount.

use std::collections::{HashMap, HashSet};
use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use rustix::io::Errno;

use crate::error::Error;
use crate::resolve::{self, Identity, Links};

static PROTECTED: OnceLock<Protected> = OnceLock::new();

#[derive(Debug, Default)]
struct Protected {
    /// By name, the directories that must not get or lose it.
    names: HashMap<OsString, HashSet<Identity>>,
    paths: Vec<PathBuf>,
}

/// From now on nothing in this process makes or removes these paths, or makes something below them.
/// Their parents exist, and the paths are absolute and free of links. To be called once, before
/// anything else; a second call fails.
pub fn protect<'a>(paths: impl IntoIterator<Item = &'a Path>) -> Result<(), Error> {
    let mut protected = Protected::default();
    for path in paths {
        let (parent, name) = resolve::parent(path, Links::Refuse)?;
        let identity = resolve::status(parent.as_fd())?.identity();
        protected.names.entry(name.to_owned()).or_default().insert(identity);
        protected.paths.push(path.to_owned());
    }
    PROTECTED.set(protected).map_err(|_| Errno::ALREADY.into())
}

/// What there is to check, if anything.
fn protected() -> Option<&'static Protected> {
    PROTECTED.get().filter(|protected| !protected.paths.is_empty())
}

/// Whether there is anything to check.
pub(crate) fn any() -> bool {
    protected().is_some()
}

/// Fails if the directory must not lose that name.
pub(crate) fn check_old(directory: BorrowedFd<'_>, name: &OsStr) -> Result<(), Error> {
    let Some(protected) = protected() else { return Ok(()) };
    if protected.has(directory, name)? { Err(Errno::ROFS.into()) } else { Ok(()) }
}

/// Fails if the directory must not get that name.
pub(crate) fn check_new(directory: BorrowedFd<'_>, name: &OsStr) -> Result<(), Error> {
    if covers_new(directory, name)? { Err(Errno::ROFS.into()) } else { Ok(()) }
}

/// Whether the directory must not get that name.
pub(crate) fn covers_new(directory: BorrowedFd<'_>, name: &OsStr) -> Result<bool, Error> {
    let Some(protected) = protected() else { return Ok(false) };
    Ok(protected.has(directory, name)? || protected.is_below(directory)?)
}

impl Protected {
    fn has(&self, directory: BorrowedFd<'_>, name: &OsStr) -> Result<bool, Error> {
        match self.names.get(name) {
            Some(directories) => Ok(directories.contains(&resolve::status(directory)?.identity())),
            None => Ok(false),
        }
    }

    /// By path, which is as good here: nobody who is confined can rename a placeholder.
    fn is_below(&self, directory: BorrowedFd<'_>) -> Result<bool, Error> {
        let own = format!("/proc/self/fd/{}", directory.as_raw_fd());
        let path = rustix::fs::readlink(own, Vec::new())?;
        let path = Path::new(OsStr::from_bytes(path.as_bytes()));
        Ok(self.paths.iter().any(|protected| path.starts_with(protected)))
    }
}
