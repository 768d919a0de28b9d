//! Directory entries without allocation, for `/proc` sweeps and for removing cgroups.
//!
//! May run in a fork of the server: no allocation, no locks.

use std::ffi::CStr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use super::raw::{self, Errno};

/// Offsets in the kernel's `linux_dirent64`: the record's length, its type and its name.
const LENGTH_AT: usize = 16;
const TYPE_AT: usize = 18;
const NAME_AT: usize = 19;

/// Entries of a directory, one buffer at a time. The buffer is small so that a name is looked at
/// soon after the kernel listed it: processes come and go.
pub(super) struct Dirents<'d> {
    dir: BorrowedFd<'d>,
    buffer: [u8; 1024],
    filled: usize,
    at: usize,
}

impl<'d> Dirents<'d> {
    /// Lists `dir` from where its descriptor stands.
    pub(super) fn new(dir: BorrowedFd<'d>) -> Self {
        Dirents { dir, buffer: [0; 1024], filled: 0, at: 0 }
    }

    /// The next entry that is a directory, other than `.` and `..`.
    pub(super) fn next_dir(&mut self) -> Result<Option<&CStr>, Errno> {
        loop {
            if self.at >= self.filled && !self.fill()? {
                return Ok(None);
            }
            let start = self.at;
            let length = record_length(&self.buffer[..self.filled], start).ok_or(libc::EIO)?;
            self.at = start.saturating_add(length);
            if self.is_wanted(start) {
                break Ok(self.name(start));
            }
        }
    }

    fn fill(&mut self) -> Result<bool, Errno> {
        let fd = self.dir.as_raw_fd() as usize;
        let args = [fd, self.buffer.as_mut_ptr().addr(), self.buffer.len(), 0, 0, 0];
        // SAFETY: the buffer is valid for writes of its length.
        self.filled = unsafe { raw::syscall(libc::SYS_getdents64, args) }?.min(self.buffer.len());
        self.at = 0;
        Ok(self.filled > 0)
    }

    fn is_wanted(&self, start: usize) -> bool {
        self.buffer.get(start.saturating_add(TYPE_AT)) == Some(&libc::DT_DIR)
            && !matches!(self.name(start).map(CStr::to_bytes), None | Some(b"." | b".."))
    }

    fn name(&self, start: usize) -> Option<&CStr> {
        let bytes = self.buffer.get(start.saturating_add(NAME_AT)..self.filled)?;
        CStr::from_bytes_until_nul(bytes).ok()
    }
}

fn record_length(buffer: &[u8], start: usize) -> Option<usize> {
    let at = start.checked_add(LENGTH_AT)?;
    let &[low, high] = buffer.get(at..at.checked_add(2)?)? else { return None };
    let length = usize::from(u16::from_ne_bytes([low, high]));
    (length > NAME_AT).then_some(length)
}

/// Removes every directory below `dir`. A directory that is still in use stays, without an error:
/// the caller tries again later, or finds that it cannot remove `dir` itself.
pub(super) fn remove_subdirs(dir: BorrowedFd<'_>, depth: u8) {
    let Ok(listing) = reopen(dir) else { return };
    let mut entries = Dirents::new(listing.as_fd());
    while let Ok(Some(name)) = entries.next_dir() {
        if raw::remove_dir_at(dir, name).is_ok() {
            continue;
        }
        // What a client's own container runtime made inside goes first. No runtime nests deeper.
        let flags = libc::O_RDONLY | libc::O_DIRECTORY | libc::O_NOFOLLOW;
        if let (1.., Ok(inner)) = (depth, raw::open_at(dir.as_raw_fd(), name, flags)) {
            remove_subdirs(inner.as_fd(), depth - 1);
            // Reported by whoever removes `dir`.
            raw::remove_dir_at(dir, name).ok();
        }
    }
}

/// Opens a directory again, since a listing moves the position of the descriptor it uses.
fn reopen(dir: BorrowedFd<'_>) -> Result<OwnedFd, Errno> {
    raw::open_at(dir.as_raw_fd(), c".", libc::O_RDONLY | libc::O_DIRECTORY)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{self, File};

    #[test]
    fn every_directory_is_listed_and_no_file() {
        let root = tempdir("dirents");
        for number in 0..200 {
            fs::create_dir(root.join(format!("dir-{number}"))).unwrap();
            fs::write(root.join(format!("file-{number}")), "").unwrap();
        }
        let dir = File::open(&root).unwrap();
        let mut entries = Dirents::new(dir.as_fd());
        let mut seen = Vec::new();
        while let Some(name) = entries.next_dir().unwrap() {
            seen.push(name.to_str().unwrap().to_owned());
        }
        seen.sort();
        let mut expected: Vec<_> = (0..200).map(|number| format!("dir-{number}")).collect();
        expected.sort();
        assert_eq!(seen, expected);
        fs::remove_dir_all(root).unwrap();
    }

    #[test]
    fn nested_directories_are_removed_and_busy_ones_stay() {
        let root = tempdir("remove");
        fs::create_dir_all(root.join("a/b/c")).unwrap();
        fs::create_dir_all(root.join("busy")).unwrap();
        fs::write(root.join("busy/file"), "").unwrap();
        remove_subdirs(File::open(&root).unwrap().as_fd(), 4);
        assert!(!root.join("a").exists());
        assert!(root.join("busy/file").exists());
        fs::remove_dir_all(root).unwrap();
    }

    fn tempdir(name: &str) -> std::path::PathBuf {
        let path = std::env::temp_dir().join(format!("exec-process-{name}-{}", std::process::id()));
        fs::create_dir(&path).unwrap();
        path
    }
}
