//! `fs/readFile`: regular files only, and never a wait.

use std::ffi::OsStr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::buffer::spare_capacity;
use rustix::fs::{AtFlags, CWD, FileType, OFlags};
use rustix::io::Errno;

use crate::error::Error;
use crate::resolve::{self, Links, Status, retry};

/// Size of a piece when nothing is known of the file: `/proc` says 0 of everything.
const PIECE_BYTES: usize = 64 << 10;

/// A file that is being read from its beginning, in pieces of the caller's choice: for answers
/// that should not be held as a whole.
///
/// It gives what the file had when it was opened, or less if the file shrinks. Only a file of size
/// 0 is read to whatever end it has, because that is how `/proc` presents its files.
#[derive(Debug)]
pub struct FileReader {
    fd: OwnedFd,
    size: u64,
    read: u64,
    bytes_max: u64,
}

impl FileReader {
    /// Opens a regular file of at most `bytes_max` bytes.
    pub fn open(path: &Path, links: Links, bytes_max: u64) -> Result<Self, Error> {
        let (fd, status) = open_regular(path, links)?;
        Self::new(fd, &status, bytes_max)
    }

    /// Of a file that somebody else has opened.
    pub fn of(fd: OwnedFd, bytes_max: u64) -> Result<Self, Error> {
        let status = resolve::status(fd.as_fd())?;
        if !status.is_file() {
            return Err(Error::NotRegular);
        }
        Self::new(fd, &status, bytes_max)
    }

    /// The open file, as far as it was not read.
    pub fn into_file(self) -> OwnedFd {
        self.fd
    }

    /// Of a file that is open and known to be regular.
    pub(crate) fn new(fd: OwnedFd, status: &Status, bytes_max: u64) -> Result<Self, Error> {
        let size = status.0.stx_size;
        if size > bytes_max {
            return Err(Error::TooLarge { limit: bytes_max });
        }
        Ok(Self { fd, size, read: 0, bytes_max })
    }

    /// In bytes; 0 when it is not known before the end. Never less than what is read, if it is
    /// not 0.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// What there is to read at most.
    pub fn left(&self) -> usize {
        if self.size == 0 {
            return usize::MAX;
        }
        usize::try_from(self.size - self.read).unwrap_or(usize::MAX)
    }

    /// Fills the piece, unless the file ends. 0 is the end.
    pub fn read(&mut self, piece: &mut [u8]) -> Result<usize, Error> {
        let wanted = self.wanted(piece.len());
        let mut filled = 0;
        while filled < wanted {
            match retry(|| rustix::io::read(&self.fd, &mut piece[filled..wanted]))? {
                0 => break,
                got => filled += got,
            }
        }
        self.read += filled as u64;
        if self.read > self.bytes_max {
            return Err(Error::TooLarge { limit: self.bytes_max });
        }
        Ok(filled)
    }

    /// How much of a piece to fill: not more than the size, if there is one.
    fn wanted(&self, piece: usize) -> usize {
        if self.size == 0 {
            return piece;
        }
        usize::try_from(self.size - self.read).map_or(piece, |left| left.min(piece))
    }

    /// Everything that is left.
    pub fn read_to_end(mut self) -> Result<Vec<u8>, Error> {
        let mut out = Vec::new();
        let known = if self.size == 0 { PIECE_BYTES } else { self.wanted(usize::MAX) };
        out.reserve_exact(known);
        while self.size == 0 || self.read < self.size {
            if out.len() == out.capacity() {
                out.reserve(PIECE_BYTES);
            }
            let got = retry(|| rustix::io::read(&self.fd, spare_capacity(&mut out)))?;
            self.read += got as u64;
            if self.read > self.bytes_max {
                return Err(Error::TooLarge { limit: self.bytes_max });
            }
            if got == 0 {
                break;
            }
        }
        Ok(out)
    }
}

impl AsFd for FileReader {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// The whole content of a regular file.
pub fn read_file(path: &Path, links: Links, bytes_max: u64) -> Result<Vec<u8>, Error> {
    FileReader::open(path, links, bytes_max)?.read_to_end()
}

/// Opens a regular file for reading. What else there is under that name is not even opened if it
/// can be helped: opening a FIFO wakes its writers, and opening a device may do anything.
pub(crate) fn open_regular(path: &Path, links: Links) -> Result<(OwnedFd, Status), Error> {
    let fd = match links {
        Links::Follow => {
            let seen = resolve::status_at(CWD, OsStr::new(path), AtFlags::empty())?;
            check_regular(seen.file_type(), path, links)?;
            resolve::open(path, links, OFlags::RDONLY)?
        }
        Links::Refuse => {
            let (parent, name) = resolve::parent(path, links)?;
            let seen = resolve::status_at(parent.as_fd(), name, AtFlags::SYMLINK_NOFOLLOW)?;
            if seen.file_type() != FileType::Symlink {
                check_regular(seen.file_type(), path, links)?;
            }
            resolve::open_at(parent.as_fd(), name, OFlags::RDONLY)?
        }
    };
    let status = resolve::status(fd.as_fd())?;
    check_regular(status.file_type(), path, links)?;
    Ok((fd, status))
}

fn check_regular(file_type: FileType, path: &Path, links: Links) -> Result<(), Error> {
    match (file_type, links) {
        (FileType::RegularFile, _) => Ok(()),
        // What opening it would say.
        (FileType::Socket, _) => Err(Errno::NXIO.into()),
        (_, Links::Follow) => Err(Error::NotAFile(path.to_owned())),
        (_, Links::Refuse) => Err(Error::NotRegular),
    }
}
