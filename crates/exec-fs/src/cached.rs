//! Look-ups that never wait: answered from the kernel's caches, or not at all. `None` means that
//! the blocking function has to be asked, in a place where blocking is allowed.
//!
//! `openat2` with `RESOLVE_CACHED` gives up rather than read a directory from the disk, and a read
//! with `RWF_NOWAIT` rather than read a page. Neither promise holds on a file system whose
//! operations are somebody else's program or another machine, so those are left to the others.

use std::io::IoSliceMut;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use exec_protocol::fs::Metadata;
use rustix::fs::{CWD, FileType, Mode, OFlags, ResolveFlags};
use rustix::io::{Errno, ReadWriteFlags};

use crate::error::Error;
use crate::resolve::{HARMLESS, Links};
use crate::stat::describe;

mod local;

use local::{Local, LocalStatus};

/// [`crate::get_metadata`], if that takes no waiting.
pub fn metadata_cached(path: &Path, links: Links) -> Option<Result<Metadata, Error>> {
    let own = match open_cached(path, links, OFlags::PATH | OFlags::NOFOLLOW)? {
        Ok(fd) => fd,
        Err(error) => return Some(Err(error)),
    };
    let LocalStatus { status, .. } = local::status(own.as_fd())?;
    if status.file_type() != FileType::Symlink {
        return Some(Ok(describe(&status, false)));
    }
    if links == Links::Refuse {
        return Some(Err(Error::SymbolicLink));
    }
    let target = match open_cached(path, links, OFlags::PATH)? {
        Ok(fd) => fd,
        Err(error) => return Some(Err(error)),
    };
    Some(Ok(describe(&local::status(target.as_fd())?.status, true)))
}

/// [`crate::read_file`] for a file of 1 to `bytes_max` bytes, if that takes no waiting. That a
/// file is missing is an answer too.
pub fn read_file_cached(
    path: &Path,
    links: Links,
    bytes_max: usize,
) -> Option<Result<Vec<u8>, Error>> {
    // Looked at before it is opened: opening may have effects, and on some file systems waits.
    let named = match open_cached(path, links, OFlags::PATH)? {
        Ok(fd) => fd,
        Err(error) => return Some(Err(error)),
    };
    let LocalStatus { status: seen, local } = local::status(named.as_fd())?;
    let size = usize::try_from(seen.0.stx_size).ok()?;
    if !seen.is_file() || size == 0 || size > bytes_max {
        return None;
    }
    let fd = open_cached(path, links, OFlags::RDONLY)?.ok()?;
    if local::status(fd.as_fd())?.status.identity() != seen.identity() {
        return None;
    }
    let mut content = vec![0; size];
    let got = read_at(fd.as_fd(), local, 0, &mut content)?;
    content.truncate(got);
    Some(Ok(content))
}

/// Fills the buffer from the offset on, unless the file ends, if that takes no waiting.
pub(crate) fn read_block_cached(
    fd: BorrowedFd<'_>,
    offset: u64,
    buffer: &mut [u8],
) -> Option<usize> {
    read_at(fd, local::status(fd)?.local, offset, buffer)
}

fn read_at(fd: BorrowedFd<'_>, local: Local, offset: u64, buffer: &mut [u8]) -> Option<usize> {
    // -1 would mean the position of the descriptor, which is nobody's here.
    i64::try_from(offset).ok()?;
    let mut filled = 0;
    while filled < buffer.len() {
        let at = offset.checked_add(filled as u64)?;
        let rest = &mut buffer[filled..];
        let got = match local {
            // Memory is all that it has, and it does not know the flag.
            Local::Memory => rustix::io::pread(fd, rest, at),
            Local::Disk => {
                let flags = ReadWriteFlags::NOWAIT;
                rustix::io::preadv2(fd, &mut [IoSliceMut::new(rest)], at, flags)
            }
        };
        let got = got.ok()?;
        match got {
            0 => break,
            got => filled += got,
        }
    }
    Some(filled)
}

/// `None` when the kernel would have had to wait. That nothing is there is known for sure, because
/// the cache knows of names that do not exist.
fn open_cached(path: &Path, links: Links, flags: OFlags) -> Option<Result<OwnedFd, Error>> {
    let mut resolve = ResolveFlags::CACHED;
    if links == Links::Refuse {
        resolve |= ResolveFlags::NO_SYMLINKS;
    }
    match rustix::fs::openat2(CWD, path, harmless(flags), Mode::empty(), resolve) {
        Ok(fd) => Some(Ok(fd)),
        Err(Errno::NOENT) => Some(Err(Errno::NOENT.into())),
        Err(_) => None,
    }
}

/// A descriptor that only names takes fewer flags.
fn harmless(flags: OFlags) -> OFlags {
    if flags.contains(OFlags::PATH) { flags | OFlags::CLOEXEC } else { flags | HARMLESS }
}
