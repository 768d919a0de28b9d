//! `fs/remove`: an entry, or a tree. Links are removed, never followed.

use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::fs::{AtFlags, FileType};
use rustix::io::Errno;

use crate::cancel::Cancel;
use crate::copy::Recursion;
use crate::descent::{Descent, open_below};
use crate::entries::EntryBuffer;
use crate::error::Error;
use crate::limits::DESCENT_OPEN_MAX;
use crate::protected;
use crate::resolve::{self, Links, retry};

/// What to say of a path that does not exist.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Missing {
    /// Nothing: it is as it should be.
    Accept,
    /// That it does not exist.
    Refuse,
}

/// Removes a file, a link, or a directory.
pub fn remove(
    path: &Path,
    recursion: Recursion,
    missing: Missing,
    links: Links,
    cancel: &Cancel,
) -> Result<(), Error> {
    if links == Links::Refuse && recursion == Recursion::Tree {
        return Err(Error::RecursiveNoFollow);
    }
    match remove_entry(path, recursion, links, cancel) {
        Err(error) if missing == Missing::Accept && error.errno() == Some(Errno::NOENT) => Ok(()),
        other => other,
    }
}

fn remove_entry(
    path: &Path,
    recursion: Recursion,
    links: Links,
    cancel: &Cancel,
) -> Result<(), Error> {
    let (parent, name) = resolve::parent(path, links).map_err(|error| match links {
        // The root would refuse in the end, when nothing is left in it.
        Links::Follow => error.if_no_entry(Errno::BUSY),
        Links::Refuse => error,
    })?;
    let parent = parent.as_fd();
    let status = resolve::status_at(parent, name, AtFlags::SYMLINK_NOFOLLOW)?;
    if status.file_type() == FileType::Symlink && links == Links::Refuse {
        return Err(Error::SymbolicLink);
    }
    if !status.is_directory() {
        return unlink(parent, name, AtFlags::empty());
    }
    if recursion == Recursion::Tree {
        empty(open_below(parent, name)?, cancel)?;
    }
    unlink(parent, name, AtFlags::REMOVEDIR)
}

/// One directory: how far it was read, and which of its directories are to be entered.
#[derive(Default)]
struct Level {
    pending: Vec<OsString>,
    cookie: u64,
    /// There was something since it was last read from the beginning.
    found: bool,
    exhausted: bool,
}

/// Removes everything in a directory.
fn empty(directory: OwnedFd, cancel: &Cancel) -> Result<(), Error> {
    let mut buffer = EntryBuffer::new();
    let mut descent = Descent::new(directory, Level::default(), DESCENT_OPEN_MAX)?;
    loop {
        cancel.check()?;
        let (directory, level) = descent.current();
        if let Some(name) = level.pending.pop() {
            match open_below(directory, &name) {
                Ok(fd) => descent.enter(fd, name, Level::default())?,
                Err(error) => match error.errno() {
                    Some(Errno::NOENT) => {}
                    // Somebody exchanged it for something else.
                    Some(Errno::NOTDIR | Errno::LOOP) => {
                        gone(unlink(directory, &name, AtFlags::empty()))?;
                    }
                    _ => return Err(error),
                },
            }
        } else if !level.exhausted {
            remove_some(directory, level, &mut buffer, cancel)?;
        } else {
            let Some(name) = descent.leave()? else { return Ok(()) };
            let (directory, _) = descent.current();
            gone(unlink(directory, &name, AtFlags::REMOVEDIR))?;
        }
    }
}

/// Removes what is no directory among one helping of entries, and remembers the directories. What
/// a directory gives while it is emptied need not be all, so it is read until it gives nothing.
fn remove_some(
    directory: BorrowedFd<'_>,
    level: &mut Level,
    buffer: &mut EntryBuffer,
    cancel: &Cancel,
) -> Result<(), Error> {
    let (pending, found) = (&mut level.pending, &mut level.found);
    let next = buffer.some(directory, level.cookie, |name, told| {
        cancel.check()?;
        *found = true;
        let name = OsStr::from_bytes(name);
        if told == FileType::Directory {
            pending.push(name.to_owned());
            return Ok(());
        }
        match gone(unlink(directory, name, AtFlags::empty())) {
            // Of a kind that the kernel did not tell.
            Err(error) if error.errno() == Some(Errno::ISDIR) => pending.push(name.to_owned()),
            other => other?,
        }
        Ok(())
    })?;
    match next {
        Some(cookie) => level.cookie = cookie,
        None if level.found => (level.cookie, level.found) = (0, false),
        None => level.exhausted = true,
    }
    Ok(())
}

fn unlink(directory: BorrowedFd<'_>, name: &OsStr, flags: AtFlags) -> Result<(), Error> {
    protected::check_old(directory, name)?;
    Ok(retry(|| rustix::fs::unlinkat(directory, name, flags))?)
}

/// Somebody else was faster.
fn gone(result: Result<(), Error>) -> Result<(), Error> {
    match result {
        Err(error) if error.errno() == Some(Errno::NOENT) => Ok(()),
        other => other,
    }
}
