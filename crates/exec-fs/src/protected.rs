//! Names that must not come into being, for a process that serves one policy.
//!
//! What exists is protected by the mounts around the process. What does not exist yet has nothing to
//! mount on; here it is refused where a name would be made, by the identity of the directory that
//! would get it. A descriptor's identity never changes, so no link and no rename in between leads
//! around the check. The answer is that of a read-only mount.

use std::collections::{HashMap, HashSet};
use std::ffi::{OsStr, OsString};
use std::os::fd::BorrowedFd;
use std::path::Path;
use std::sync::OnceLock;

use rustix::io::Errno;

use crate::error::Error;
use crate::resolve::{self, Identity, Links};

static PROTECTED: OnceLock<Protected> = OnceLock::new();

/// By name, the directories that must not get it.
#[derive(Debug, Default)]
struct Protected(HashMap<OsString, HashSet<Identity>>);

/// From now on nothing in this process makes these paths. Their parents exist and the paths are
/// absolute and free of links. To be called once, before anything else; a second call fails.
pub fn protect<'a>(paths: impl IntoIterator<Item = &'a Path>) -> Result<(), Error> {
    let mut protected = Protected::default();
    for path in paths {
        let (parent, name) = resolve::parent(path, Links::Refuse)?;
        let identity = resolve::status(std::os::fd::AsFd::as_fd(&parent))?.identity();
        protected.0.entry(name.to_owned()).or_default().insert(identity);
    }
    PROTECTED.set(protected).map_err(|_| Errno::ALREADY.into())
}

/// Whether there is anything to check.
pub(crate) fn any() -> bool {
    PROTECTED.get().is_some_and(|protected| !protected.0.is_empty())
}

/// Whether the directory must not get that name.
pub(crate) fn covers(directory: BorrowedFd<'_>, name: &OsStr) -> Result<bool, Error> {
    let Some(directories) = PROTECTED.get().and_then(|protected| protected.0.get(name)) else {
        return Ok(false);
    };
    Ok(directories.contains(&resolve::status(directory)?.identity()))
}

/// Fails if the directory must not get that name.
pub(crate) fn check(directory: BorrowedFd<'_>, name: &OsStr) -> Result<(), Error> {
    if covers(directory, name)? { Err(Errno::ROFS.into()) } else { Ok(()) }
}
