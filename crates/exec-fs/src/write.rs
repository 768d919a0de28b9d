//! `fs/writeFile`, in place or in one step.

use std::ffi::OsStr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use exec_protocol::bytes;
use rustix::fs::{AtFlags, CWD, FileType, OFlags};
use rustix::io::Errno;

use crate::atomic;
use crate::error::Error;
use crate::resolve::{self, Links, NEW_FILE, Status, retry};

/// How a file gets its new content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Replacement {
    /// Emptied, then written: links, owner and mode stay, and a reader may see half of it.
    InPlace,
    /// Another file takes its name once it is complete and on the disk. Hard links to the old one
    /// keep the old content.
    Atomic,
}

/// The content that `fs/writeFile` was sent.
pub fn decode_data(data_base64: &str) -> Result<Vec<u8>, Error> {
    Ok(bytes::decode(data_base64)?)
}

/// Creates the file, or replaces its content.
pub fn write_file(
    path: &Path,
    data: &[u8],
    links: Links,
    replacement: Replacement,
) -> Result<(), Error> {
    match replacement {
        Replacement::InPlace => {
            let (fd, status) = open_emptied(path, links)?;
            // Following links, a device may be written to, as with any other program.
            if links == Links::Refuse && !status.is_file() {
                return Err(Error::NotRegular);
            }
            write_all(fd.as_fd(), data)
        }
        Replacement::Atomic => {
            let place = resolve::place(path, links).map_err(|error| match links {
                Links::Follow => error.if_no_entry(Errno::ISDIR),
                Links::Refuse => error,
            })?;
            atomic::replace(&place, data, &mut |_| Ok(()))
        }
    }
}

/// What becomes of the content of a file that is opened for writing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Content {
    Empty,
    Keep,
}

/// Opens a file for writing, new or emptied.
pub(crate) fn open_emptied(path: &Path, links: Links) -> Result<(OwnedFd, Status), Error> {
    open_to_write(path, links, Content::Empty)
}

/// Opens a file for writing, new if it is missing. A FIFO is as if nobody read from it, whether somebody
/// does or not: only so can no reader make the caller wait.
pub(crate) fn open_to_write(
    path: &Path,
    links: Links,
    content: Content,
) -> Result<(OwnedFd, Status), Error> {
    if links == Links::Follow
        && let Ok(seen) = resolve::status_at(CWD, OsStr::new(path), AtFlags::empty())
    {
        refuse_fifo(seen.file_type())?;
    }
    let emptied = if content == Content::Empty { OFlags::TRUNC } else { OFlags::empty() };
    let flags = OFlags::WRONLY | emptied;
    let fd = match links {
        Links::Follow => resolve::open_or_create(CWD, path.as_os_str(), flags, NEW_FILE)?,
        Links::Refuse => {
            let (parent, name) = resolve::parent(path, links)?;
            resolve::create_at(parent.as_fd(), name, flags, NEW_FILE)?
        }
    };
    let status = resolve::status(fd.as_fd())?;
    refuse_fifo(status.file_type())?;
    Ok((fd, status))
}

pub(crate) fn refuse_fifo(file_type: FileType) -> Result<(), Error> {
    if file_type == FileType::Fifo { Err(Errno::NXIO.into()) } else { Ok(()) }
}

pub(crate) fn write_all(fd: BorrowedFd<'_>, mut data: &[u8]) -> Result<(), Error> {
    while !data.is_empty() {
        match retry(|| rustix::io::write(fd, data))? {
            0 => return Err(Errno::IO.into()),
            written => data = &data[written..],
        }
    }
    Ok(())
}
