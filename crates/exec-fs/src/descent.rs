//! Down into a tree and back, by descriptors. However deep the tree, only so many stay open: a
//! directory whose descriptor was given up is found again as its child's `..`, and recognised.

use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{Mode, OFlags};

use crate::error::Error;
use crate::resolve::{self, Identity, retry};

/// A way down into a tree.
pub(crate) struct Descent<T> {
    levels: Vec<Level<T>>,
    open_max: usize,
}

struct Level<T> {
    /// None when it was given up; never on the last level.
    fd: Option<OwnedFd>,
    identity: Identity,
    name: OsString,
    data: T,
}

impl<T> Descent<T> {
    /// At the top, which is an open directory.
    pub(crate) fn new(top: OwnedFd, data: T, open_max: usize) -> Result<Self, Error> {
        let mut descent = Self { levels: Vec::new(), open_max };
        descent.enter(top, OsString::new(), data)?;
        Ok(descent)
    }

    /// Goes into a directory that was opened from the current one.
    pub(crate) fn enter(&mut self, fd: OwnedFd, name: OsString, data: T) -> Result<(), Error> {
        let identity = resolve::status(fd.as_fd())?.identity();
        self.levels.push(Level { fd: Some(fd), identity, name, data });
        if let Some(far) = self.levels.len().checked_sub(self.open_max + 1) {
            self.levels[far].fd = None;
        }
        Ok(())
    }

    /// Goes back up. Gives the name of the directory that was left, or nothing at the top.
    pub(crate) fn leave(&mut self) -> Result<Option<OsString>, Error> {
        let left = self.levels.pop().expect("a descent is somewhere");
        let Some(parent) = self.levels.last_mut() else { return Ok(None) };
        if parent.fd.is_none() {
            let child = left.fd.as_ref().expect("the last level is open");
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let fd = retry(|| rustix::fs::openat(child, "..", flags, Mode::empty()))?;
            if resolve::status(fd.as_fd())?.identity() != parent.identity {
                return Err(Error::Moved);
            }
            parent.fd = Some(fd);
        }
        Ok(Some(left.name))
    }

    /// The current directory, and what is known of it.
    pub(crate) fn current(&mut self) -> (BorrowedFd<'_>, &mut T) {
        let level = self.levels.last_mut().expect("a descent is somewhere");
        (level.fd.as_ref().expect("the last level is open").as_fd(), &mut level.data)
    }
}

/// Opens a directory of a directory, to be read, and not through a link.
pub(crate) fn open_below(directory: BorrowedFd<'_>, name: &OsStr) -> Result<OwnedFd, Error> {
    resolve::open_at(directory, name, OFlags::RDONLY | OFlags::DIRECTORY)
}
