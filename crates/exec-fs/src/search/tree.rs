//! The files of a tree in order, one after the other, each opened from the directory that holds it.

use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FileType, OFlags};
use rustix::io::Errno;

use crate::cancel::Cancel;
use crate::descent::{Descent, open_below};
use crate::entries::{EntryBuffer, kind};
use crate::error::Error;
use crate::limits::{DESCENT_OPEN_MAX, SEARCH_ENTRIES_MAX};
use crate::resolve::{self, Links};

use super::rules::Rules;

/// What comes next.
pub(super) enum Found {
    /// A regular file.
    File(PathBuf, OwnedFd),
    /// Something that could not be opened.
    Failed(PathBuf, Error),
    /// The rest of a directory that has too many entries.
    Rest,
}

/// A walk through a tree, depth first.
pub(super) struct Tree<'c> {
    descent: Descent<Level>,
    /// Of the current directory.
    path: PathBuf,
    rules: Rules,
    buffer: EntryBuffer,
    cancel: &'c Cancel,
}

/// What is left to visit in a directory, the last name first.
#[derive(Default)]
struct Level {
    names: Vec<(OsString, FileType)>,
    is_read: bool,
    /// There was more than may be kept.
    rest: bool,
}

impl<'c> Tree<'c> {
    /// `ENOTDIR` if it is none.
    pub(super) fn open(path: &Path, mut rules: Rules, cancel: &'c Cancel) -> Result<Self, Error> {
        let directory = resolve::open(path, Links::Follow, OFlags::RDONLY | OFlags::DIRECTORY)?;
        rules.enter(directory.as_fd(), path);
        let descent = Descent::new(directory, Level::default(), DESCENT_OPEN_MAX)?;
        Ok(Self { descent, path: path.to_owned(), rules, buffer: EntryBuffer::new(), cancel })
    }

    pub(super) fn next(&mut self) -> Result<Option<Found>, Error> {
        loop {
            self.cancel.check()?;
            let (directory, level) = self.descent.current();
            if !level.is_read {
                level.is_read = true;
                if let Err(error) = self.read() {
                    self.cancel.check()?;
                    return Ok(Some(Found::Failed(self.path.clone(), error)));
                }
                continue;
            }
            if let Some((name, kind)) = level.names.pop() {
                let path = self.path.join(&name);
                let is_directory = kind == FileType::Directory;
                let opened = if is_directory {
                    open_below(directory, &name)
                } else {
                    resolve::open_at(directory, &name, OFlags::RDONLY)
                };
                match opened {
                    Ok(fd) if is_directory => self.enter(fd, name)?,
                    Ok(fd) if resolve::status(fd.as_fd())?.is_file() => {
                        return Ok(Some(Found::File(path, fd)));
                    }
                    Ok(_) => {}
                    Err(error) => match error.errno() {
                        // Gone or exchanged since it was listed.
                        Some(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => {}
                        _ => return Ok(Some(Found::Failed(path, error))),
                    },
                }
            } else if std::mem::take(&mut level.rest) {
                return Ok(Some(Found::Rest));
            } else if self.descent.leave()?.is_none() {
                return Ok(None);
            } else {
                self.rules.leave();
                self.path.pop();
            }
        }
    }

    fn enter(&mut self, fd: OwnedFd, name: OsString) -> Result<(), Error> {
        self.path.push(&name);
        self.rules.enter(fd.as_fd(), &self.path);
        self.descent.enter(fd, name, Level::default())
    }

    /// Reads the names that the rules let through.
    fn read(&mut self) -> Result<(), Error> {
        let (directory, level) = self.descent.current();
        let mut path = self.path.clone();
        self.buffer.each(directory, |name, told| {
            self.cancel.check()?;
            let kind = kind(directory, name, told)?;
            let is_directory = kind == FileType::Directory;
            if !is_directory && kind != FileType::RegularFile {
                return Ok(());
            }
            path.push(OsStr::from_bytes(name));
            let leave_out = self.rules.leave_out(&path, is_directory);
            path.pop();
            if leave_out {
                return Ok(());
            }
            if level.names.len() == SEARCH_ENTRIES_MAX {
                level.rest = true;
            } else {
                level.names.push((OsString::from_vec(name.to_vec()), kind));
            }
            Ok(())
        })?;
        level.names.sort_unstable_by(|a, b| b.0.cmp(&a.0));
        Ok(())
    }
}
