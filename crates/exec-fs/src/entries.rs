//! The entries of an open directory, straight from the kernel: no allocation and no look at each
//! of them, because the kernel tells most kinds along with the names.

use std::ffi::OsStr;
use std::mem::MaybeUninit;
use std::os::fd::BorrowedFd;
use std::os::unix::ffi::OsStrExt;

use rustix::fs::{AtFlags, FileType, RawDir, SeekFrom};

use crate::error::Error;
use crate::limits::ENTRIES_BYTES;
use crate::resolve;

/// Room for the kernel to write entries to; used again for each directory.
pub(crate) struct EntryBuffer(Box<[MaybeUninit<u8>]>);

impl EntryBuffer {
    pub(crate) fn new() -> Self {
        Self(Box::new_uninit_slice(ENTRIES_BYTES))
    }

    /// Calls with every entry but `.` and `..`; kinds may be unknown.
    pub(crate) fn each(
        &mut self,
        directory: BorrowedFd<'_>,
        mut call: impl FnMut(&[u8], FileType) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let mut entries = RawDir::new(directory, &mut self.0);
        while let Some(entry) = entries.next() {
            let entry = entry?;
            let name = entry.file_name().to_bytes();
            if !matches!(name, b"." | b"..") {
                call(name, entry.file_type())?;
            }
        }
        Ok(())
    }

    /// The same for one helping that begins at the cookie. Returns where the next one begins, or
    /// nothing at the end.
    pub(crate) fn some(
        &mut self,
        directory: BorrowedFd<'_>,
        cookie: u64,
        mut call: impl FnMut(&[u8], FileType) -> Result<(), Error>,
    ) -> Result<Option<u64>, Error> {
        rustix::fs::seek(directory, SeekFrom::Start(cookie))?;
        let mut entries = RawDir::new(directory, &mut self.0);
        let mut next = None;
        while let Some(entry) = entries.next() {
            let entry = entry?;
            let name = entry.file_name().to_bytes();
            next = Some(entry.next_entry_cookie());
            if !matches!(name, b"." | b"..") {
                call(name, entry.file_type())?;
            }
            if entries.is_buffer_empty() {
                break;
            }
        }
        Ok(next)
    }
}

/// The kind of an entry, asked for if the kernel did not tell; a link stays a link.
pub(crate) fn kind(
    directory: BorrowedFd<'_>,
    name: &[u8],
    told: FileType,
) -> Result<FileType, Error> {
    if told != FileType::Unknown {
        return Ok(told);
    }
    let status = resolve::status_at(directory, OsStr::from_bytes(name), AtFlags::SYMLINK_NOFOLLOW)?;
    Ok(status.file_type())
}

/// The kind of what a link leads to, if it leads anywhere.
pub(crate) fn target_kind(directory: BorrowedFd<'_>, name: &[u8]) -> Option<FileType> {
    let status = resolve::status_at(directory, OsStr::from_bytes(name), AtFlags::empty());
    status.ok().map(|status| status.file_type())
}
