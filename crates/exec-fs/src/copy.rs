//! `fs/copy`: a file with its mode, a link as a link, a directory into another one.
//!
//! On the side of the source no link is ever followed, and everything is reached from the
//! descriptor of the directory that holds it. On the side of the destination links that are there
//! lead on, as they do for any program that writes to them.

use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags};
use rustix::io::Errno;

use crate::cancel::Cancel;
use crate::copy_data::copy_data;
use crate::descent::{Descent, open_below};
use crate::directory::{Parents, create_directory};
use crate::entries::{EntryBuffer, kind};
use crate::error::Error;
use crate::limits::DESCENT_OPEN_MAX;
use crate::resolve::{self, HARMLESS, Identity, Links, retry};
use crate::write::refuse_fifo;

/// Whether a directory is meant with everything below it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Recursion {
    /// With everything below.
    Tree,
    /// Only what the path itself names.
    Single,
}

/// Copies what the source names to the destination.
pub fn copy(
    source: &Path,
    destination: &Path,
    recursion: Recursion,
    cancel: &Cancel,
) -> Result<(), Error> {
    let (parent, name) = match resolve::parent(source, Links::Follow) {
        // The root, or another spelling of a directory.
        Err(Error::NoEntry) => (resolve::directory(source, Links::Follow)?, OsStr::new(".")),
        other => other?,
    };
    let parent = parent.as_fd();
    let status = resolve::status_at(parent, name, AtFlags::SYMLINK_NOFOLLOW)?;
    match status.file_type() {
        FileType::RegularFile => copy_file(
            parent,
            name,
            Target { directory: CWD, name: destination.as_os_str() },
            cancel,
        ),
        FileType::Symlink => copy_link(parent, name, CWD, destination.as_os_str()),
        FileType::Directory if recursion == Recursion::Single => Err(Error::CopyNotRecursive),
        FileType::Directory => {
            let source = open_below(parent, name)?;
            let identity = resolve::status(source.as_fd())?.identity();
            refuse_inside(destination, identity)?;
            create_directory(destination, Parents::Create, Links::Follow)?;
            let flags = OFlags::RDONLY | OFlags::DIRECTORY;
            copy_tree(source, resolve::open(destination, Links::Follow, flags)?, cancel)
        }
        FileType::Fifo
        | FileType::Socket
        | FileType::CharacterDevice
        | FileType::BlockDevice
        | FileType::Unknown => Err(Error::CopyUnsupported),
    }
}

/// Refuses a destination that is the source or lies in it, whatever links and names lead there.
fn refuse_inside(destination: &Path, source: Identity) -> Result<(), Error> {
    let mut nearest = destination.ancestors();
    let mut at = loop {
        let Some(path) = nearest.next() else { return Ok(()) };
        match resolve::directory(path, Links::Follow) {
            Ok(fd) => break fd,
            Err(error) if error.errno() == Some(Errno::NOENT) => {}
            // Not a directory: making one there says so in its own words.
            Err(error) if matches!(error.errno(), Some(Errno::NOTDIR | Errno::LOOP)) => {}
            Err(error) => return Err(error),
        }
    };
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let mut identity = resolve::status(at.as_fd())?.identity();
    loop {
        if identity == source {
            return Err(Error::CopyIntoItself);
        }
        at = retry(|| rustix::fs::openat(&at, "..", flags, Mode::empty()))?;
        let above = resolve::status(at.as_fd())?.identity();
        // Only the root is its own parent.
        if above == identity {
            return Ok(());
        }
        identity = above;
    }
}

/// Where a copy goes.
#[derive(Clone, Copy)]
struct Target<'a> {
    directory: BorrowedFd<'a>,
    name: &'a OsStr,
}

/// Copies a regular file. Onto itself, under whatever name, it does nothing.
fn copy_file(
    parent: BorrowedFd<'_>,
    name: &OsStr,
    target: Target<'_>,
    cancel: &Cancel,
) -> Result<(), Error> {
    let source = resolve::open_at(parent, name, OFlags::RDONLY)?;
    let status = resolve::status(source.as_fd())?;
    if !status.is_file() {
        return Err(Error::CopyUnsupported);
    }
    if let Ok(seen) = resolve::status_at(target.directory, target.name, AtFlags::empty()) {
        refuse_fifo(seen.file_type())?;
    }
    // Not emptied on opening: first it must be known that it is another file.
    let mode = status.mode() & Mode::from_raw_mode(0o777);
    let copy = resolve::open_or_create(target.directory, target.name, OFlags::WRONLY, mode)?;
    let seen = resolve::status(copy.as_fd())?;
    refuse_fifo(seen.file_type())?;
    if seen.identity() == status.identity() {
        return Ok(());
    }
    if seen.is_file() {
        retry(|| rustix::fs::ftruncate(&copy, 0))?;
        retry(|| rustix::fs::fchmod(&copy, status.mode()))?;
    }
    copy_data(source.as_fd(), copy.as_fd(), status.0.stx_size, cancel)
}

fn copy_link(
    parent: BorrowedFd<'_>,
    name: &OsStr,
    directory: BorrowedFd<'_>,
    new: &OsStr,
) -> Result<(), Error> {
    let target = retry(|| rustix::fs::readlinkat(parent, name, Vec::new()))?;
    resolve::with_name(directory, new, |directory, name| {
        rustix::fs::symlinkat(&*target, directory, name)
    })
}

/// One directory of the source: how far it was read, and which of its directories are to be
/// entered.
#[derive(Default)]
struct Level {
    pending: Vec<OsString>,
    cookie: u64,
    exhausted: bool,
}

fn copy_tree(source: OwnedFd, destination: OwnedFd, cancel: &Cancel) -> Result<(), Error> {
    // Mounted elsewhere too, a destination can lie in the source without being below it.
    let destination_identity = resolve::status(destination.as_fd())?.identity();
    let mut buffer = EntryBuffer::new();
    let mut from = Descent::new(source, Level::default(), DESCENT_OPEN_MAX)?;
    let mut to = Descent::new(destination, (), DESCENT_OPEN_MAX)?;
    loop {
        cancel.check()?;
        let (source, level) = from.current();
        let (destination, ()) = to.current();
        if let Some(name) = level.pending.pop() {
            let inner = match open_below(source, &name) {
                // Gone since it was read, or no longer a directory.
                Err(error)
                    if matches!(
                        error.errno(),
                        Some(Errno::NOENT | Errno::NOTDIR | Errno::LOOP)
                    ) =>
                {
                    continue;
                }
                other => other?,
            };
            if resolve::status(inner.as_fd())?.identity() == destination_identity {
                return Err(Error::CopyIntoItself);
            }
            let copy = make_directory(destination, &name)?;
            from.enter(inner, name, Level::default())?;
            to.enter(copy, OsString::new(), ())?;
        } else if !level.exhausted {
            copy_some(source, level, destination, &mut buffer, cancel)?;
        } else if from.leave()?.is_none() || to.leave()?.is_none() {
            return Ok(());
        }
    }
}

/// Makes a directory, or takes the one that is there.
fn make_directory(parent: BorrowedFd<'_>, name: &OsStr) -> Result<OwnedFd, Error> {
    let existed = match resolve::make_directory(parent, name) {
        Ok(()) => false,
        Err(error) if error.errno() == Some(Errno::EXIST) => true,
        Err(error) => return Err(error),
    };
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | HARMLESS;
    match retry(|| rustix::fs::openat(parent, name, flags, Mode::empty())) {
        Err(Errno::NOTDIR) if existed => Err(Errno::EXIST.into()),
        other => Ok(other?),
    }
}

/// Copies the files and links of one helping of entries, and remembers its directories.
fn copy_some(
    source: BorrowedFd<'_>,
    level: &mut Level,
    destination: BorrowedFd<'_>,
    buffer: &mut EntryBuffer,
    cancel: &Cancel,
) -> Result<(), Error> {
    let pending = &mut level.pending;
    let next = buffer.some(source, level.cookie, |name, told| {
        cancel.check()?;
        let kind = kind(source, name, told)?;
        let name = OsStr::from_bytes(name);
        match kind {
            FileType::Directory => {
                pending.push(name.to_owned());
                Ok(())
            }
            FileType::RegularFile => {
                copy_file(source, name, Target { directory: destination, name }, cancel)
            }
            FileType::Symlink => copy_link(source, name, destination, name),
            FileType::Fifo
            | FileType::Socket
            | FileType::CharacterDevice
            | FileType::BlockDevice
            | FileType::Unknown => Ok(()),
        }
    })?;
    match next {
        Some(cookie) => level.cookie = cookie,
        None => level.exhausted = true,
    }
    Ok(())
}
