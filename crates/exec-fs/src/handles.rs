//! `fs/open`, `fs/readBlock`, `fs/writeBlock`, `fs/close`: the open files of one connection.
//!
//! Reads and writes carry their offset, so that several of one handle may run at once. The lock is
//! held for look-ups only; a name is taken before its file is opened, and given back if that fails.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use exec_protocol::fs::OpenMode;
use rustix::io::Errno;

use crate::cached;
use crate::error::Error;
use crate::limits::{BLOCK_BYTES_MAX, HANDLE_ID_BYTES_MAX};
use crate::read::open_regular;
use crate::resolve::{Links, retry};
use crate::write::{Content, open_to_write};

/// Open files by the client's names.
#[derive(Debug)]
pub struct Handles {
    table: Mutex<Table>,
    handles_max: usize,
}

#[derive(Debug, Default)]
struct Table {
    slots: HashMap<String, Slot>,
    openings: u64,
}

#[derive(Debug)]
enum Slot {
    /// Taken by the opening of that number.
    Opening(u64),
    Open(Arc<OwnedFd>),
}

/// A name that was taken and has no file yet.
#[derive(Debug)]
#[must_use]
pub struct Reserved(u64);

/// Opens a regular file.
pub fn open_file(path: &Path, links: Links, mode: OpenMode) -> Result<OwnedFd, Error> {
    match mode {
        OpenMode::Read => open_regular(path, links).map(|(fd, _)| fd),
        OpenMode::Replace => writable(path, links, Content::Empty),
        OpenMode::Update => writable(path, links, Content::Keep),
    }
}

/// What a read gave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Block {
    /// How many bytes.
    pub bytes: usize,
    /// The file ended before the block was full.
    pub eof: bool,
}

impl Handles {
    /// Empty, for at most that many.
    pub fn new(handles_max: usize) -> Self {
        Self { table: Mutex::default(), handles_max }
    }

    /// Opens a regular file under a name that is not in use.
    pub fn open(&self, id: &str, path: &Path, mode: OpenMode) -> Result<(), Error> {
        let reserved = self.reserve(id)?;
        self.settle(id, reserved, open_file(path, Links::Follow, mode))
    }

    /// Takes a name that is not in use, for a file that somebody else opens.
    pub fn reserve(&self, id: &str) -> Result<Reserved, Error> {
        check_id(id)?;
        self.take_name(id).map(Reserved)
    }

    /// Puts what was opened under the name that was taken for it, or gives the name back.
    pub fn settle<E>(
        &self,
        id: &str,
        reserved: Reserved,
        opened: Result<OwnedFd, E>,
    ) -> Result<(), E> {
        let mut table = self.lock();
        // Closed in the meantime, and perhaps taken by another opening.
        let ours =
            matches!(table.slots.get(id), Some(Slot::Opening(other)) if *other == reserved.0);
        match opened {
            Ok(fd) if ours => {
                table.slots.insert(id.to_owned(), Slot::Open(Arc::new(fd)));
                Ok(())
            }
            Ok(_) => Ok(()),
            Err(error) => {
                if ours {
                    table.slots.remove(id);
                }
                Err(error)
            }
        }
    }

    /// Reads `len` bytes from the offset on, or fewer if the file ends. They are at the beginning
    /// of the buffer, which grows if need be and is meant to be used again. A failure closes the
    /// handle.
    pub fn read_block(
        &self,
        id: &str,
        offset: u64,
        len: u64,
        buffer: &mut Vec<u8>,
    ) -> Result<Block, Error> {
        let (file, len) = self.readable(id, len)?;
        let mut read = || {
            let block = room(buffer, len);
            let mut filled = 0;
            while filled < len {
                let at = offset.checked_add(filled as u64).ok_or(Errno::INVAL)?;
                match retry(|| rustix::io::pread(&file, &mut block[filled..], at))? {
                    0 => break,
                    got => filled += got,
                }
            }
            Ok(Block { bytes: filled, eof: filled < len })
        };
        read().inspect_err(|_| self.forget(id, &file))
    }

    /// The same, if it takes no waiting.
    pub fn read_block_cached(
        &self,
        id: &str,
        offset: u64,
        len: u64,
        buffer: &mut Vec<u8>,
    ) -> Option<Result<Block, Error>> {
        let (file, len) = match self.readable(id, len) {
            Ok(readable) => readable,
            Err(error) => return Some(Err(error)),
        };
        let bytes = cached::read_block_cached(file.as_fd(), offset, room(buffer, len))?;
        Some(Ok(Block { bytes, eof: bytes < len }))
    }

    /// Writes the block at the offset. A failure does not close the handle.
    pub fn write_block(&self, id: &str, offset: u64, mut chunk: &[u8]) -> Result<(), Error> {
        check_id(id)?;
        if chunk.is_empty() || chunk.len() > BLOCK_BYTES_MAX {
            return Err(Error::WriteLength { limit: BLOCK_BYTES_MAX });
        }
        let end = offset.checked_add(chunk.len() as u64);
        let mut at = match end {
            Some(end) if i64::try_from(end).is_ok() => offset,
            _ => return Err(Error::WriteRange),
        };
        let file = self.find(id)?;
        while !chunk.is_empty() {
            match retry(|| rustix::io::pwrite(&file, chunk, at))? {
                0 => return Err(Errno::IO.into()),
                written => {
                    chunk = &chunk[written..];
                    at += written as u64;
                }
            }
        }
        Ok(())
    }

    /// Closes the file; an unknown name is no error. Calls that use it end as if it were open.
    pub fn close(&self, id: &str) -> Result<(), Error> {
        check_id(id)?;
        // Dropped outside the lock: closing may wait for the disk.
        let slot = self.lock().slots.remove(id);
        drop(slot);
        Ok(())
    }

    /// How many names are in use.
    pub fn len(&self) -> usize {
        self.lock().slots.len()
    }

    /// Whether none is.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn take_name(&self, id: &str) -> Result<u64, Error> {
        let mut table = self.lock();
        let full = table.slots.len() >= self.handles_max;
        let number = table.openings + 1;
        match table.slots.entry(id.to_owned()) {
            Entry::Occupied(_) => return Err(Error::HandleExists(id.to_owned())),
            Entry::Vacant(_) if full => {
                return Err(Error::TooManyHandles { limit: self.handles_max });
            }
            Entry::Vacant(slot) => slot.insert(Slot::Opening(number)),
        };
        table.openings = number;
        Ok(number)
    }

    fn readable(&self, id: &str, len: u64) -> Result<(Arc<OwnedFd>, usize), Error> {
        check_id(id)?;
        let len = usize::try_from(len).unwrap_or(usize::MAX);
        if len == 0 || len > BLOCK_BYTES_MAX {
            return Err(Error::ReadLength { limit: BLOCK_BYTES_MAX });
        }
        Ok((self.find(id)?, len))
    }

    fn find(&self, id: &str) -> Result<Arc<OwnedFd>, Error> {
        match self.lock().slots.get(id) {
            Some(Slot::Open(file)) => Ok(Arc::clone(file)),
            Some(Slot::Opening(_)) | None => Err(Error::UnknownHandle(id.to_owned())),
        }
    }

    /// Closes that file, and no other that has taken its name since.
    fn forget(&self, id: &str, file: &Arc<OwnedFd>) {
        let mut table = self.lock();
        if matches!(table.slots.get(id), Some(Slot::Open(open)) if Arc::ptr_eq(open, file)) {
            table.slots.remove(id);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        // Nothing in between can leave the table half changed.
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn writable(path: &Path, links: Links, content: Content) -> Result<OwnedFd, Error> {
    match open_to_write(path, links, content) {
        Ok((_, status)) if !status.is_file() => Err(Error::NotAFile(path.to_owned())),
        other => other.map(|(fd, _)| fd),
    }
}

fn check_id(id: &str) -> Result<(), Error> {
    if id.len() > HANDLE_ID_BYTES_MAX {
        return Err(Error::HandleIdTooLong { limit: HANDLE_ID_BYTES_MAX });
    }
    Ok(())
}

fn room(buffer: &mut Vec<u8>, len: usize) -> &mut [u8] {
    if buffer.len() < len {
        buffer.resize(len, 0);
    }
    &mut buffer[..len]
}
