//! What a policy has to know of the machine it is bound to, and the machine itself.
//!
//! Nothing here follows a link by itself: whoever asks decides where links lead. What is found can
//! change a moment later; therefore a plan carries witnesses, which are compared inside.

use std::ffi::OsString;
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::time::Instant;

use rustix::fs::{Access, AtFlags, CWD, Dir, FileType, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

/// The questions. Every path is absolute, and no component but the last is a link.
pub trait Host {
    /// What is there, without following a link; `None` if nothing is.
    fn look(&self, path: &Path) -> io::Result<Option<Object>>;
    /// Where a link leads.
    fn read_link(&self, path: &Path) -> io::Result<PathBuf>;
    /// The beginning of a regular file.
    fn read_file(&self, path: &Path, bytes_max: usize) -> io::Result<Vec<u8>>;
    /// The names in a directory and what they are; an error if there are more than so many.
    fn list(&self, path: &Path, entries_max: usize) -> io::Result<Vec<(OsString, Kind)>>;
    /// Whether a name could be added to the directory by us, now or after changing its mode.
    fn may_add(&self, directory: &Path) -> bool;
    /// Whether looking has taken too long.
    fn out_of_time(&self) -> bool {
        false
    }
}

/// Something that has a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Object {
    /// What it is.
    pub kind: Kind,
    /// Its device.
    pub device: u64,
    /// Its inode.
    pub inode: u64,
}

/// What something is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// A directory.
    Directory,
    /// A regular file.
    File,
    /// A symbolic link.
    Link,
    /// A socket, a pipe or a device.
    Other,
}

/// The real file system.
#[derive(Debug, Clone, Copy)]
pub struct Disk {
    deadline: Option<Instant>,
}

impl Disk {
    /// Looks until the deadline.
    pub fn until(deadline: Instant) -> Self {
        Self { deadline: Some(deadline) }
    }

    /// Looks for as long as it takes.
    pub fn patient() -> Self {
        Self { deadline: None }
    }
}

impl Host for Disk {
    fn look(&self, path: &Path) -> io::Result<Option<Object>> {
        match open(path, OFlags::PATH).and_then(|opened| rustix::fs::fstat(&opened)) {
            Ok(stat) => Ok(Some(Object {
                kind: kind(FileType::from_raw_mode(stat.st_mode)),
                device: stat.st_dev,
                inode: stat.st_ino,
            })),
            Err(Errno::NOENT | Errno::NOTDIR) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    fn read_link(&self, path: &Path) -> io::Result<PathBuf> {
        // An empty name means the link that the descriptor stands for.
        let target = rustix::fs::readlinkat(open(path, OFlags::PATH)?, "", Vec::new())?;
        Ok(PathBuf::from(OsString::from_vec(target.into_bytes())))
    }

    fn read_file(&self, path: &Path, bytes_max: usize) -> io::Result<Vec<u8>> {
        let opened = open(path, OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY)?;
        if kind(FileType::from_raw_mode(rustix::fs::fstat(&opened)?.st_mode)) != Kind::File {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let mut content = Vec::new();
        let limit = u64::try_from(bytes_max).unwrap_or(u64::MAX);
        io::Read::read_to_end(
            &mut io::Read::take(std::fs::File::from(opened), limit),
            &mut content,
        )?;
        Ok(content)
    }

    fn list(&self, path: &Path, entries_max: usize) -> io::Result<Vec<(OsString, Kind)>> {
        let opened = open(path, OFlags::RDONLY | OFlags::DIRECTORY)?;
        let mut names = Vec::new();
        for entry in Dir::new(opened)? {
            let entry = entry?;
            let name = entry.file_name().to_bytes();
            if matches!(name, b"." | b"..") {
                continue;
            }
            if names.len() >= entries_max {
                return Err(io::ErrorKind::QuotaExceeded.into());
            }
            let name = OsString::from_vec(name.to_vec());
            // Some file systems do not tell in the listing.
            let told = entry.file_type();
            let object = match told == FileType::Unknown {
                true => self.look(&path.join(&name))?.map(|object| object.kind),
                false => Some(kind(told)),
            };
            names.extend(object.map(|kind| (name, kind)));
        }
        Ok(names)
    }

    fn may_add(&self, directory: &Path) -> bool {
        let Ok(opened) = open(directory, OFlags::PATH) else { return false };
        let here = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&opened));
        let needed = Access::WRITE_OK | Access::EXEC_OK;
        match rustix::fs::accessat(CWD, here, needed, AtFlags::EACCESS) {
            Ok(()) => true,
            Err(Errno::ROFS) => false,
            // The owner can give the right to itself. So could the command.
            Err(_) => rustix::fs::fstat(&opened)
                .is_ok_and(|stat| stat.st_uid == rustix::process::geteuid().as_raw()),
        }
    }

    fn out_of_time(&self) -> bool {
        self.deadline.is_some_and(|deadline| Instant::now() >= deadline)
    }
}

/// Opens what the path names; a link in its middle is refused, one at its end is only named.
fn open(path: &Path, flags: OFlags) -> Result<std::os::fd::OwnedFd, Errno> {
    let flags = flags | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let resolve = ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    match rustix::fs::openat2(CWD, path, flags, Mode::empty(), resolve) {
        // A kernel, or an outer sandbox, without `openat2`. Witnesses still catch a swapped parent.
        Err(Errno::NOSYS | Errno::PERM) => rustix::fs::open(path, flags, Mode::empty()),
        outcome => outcome,
    }
}

fn kind(of: FileType) -> Kind {
    match of {
        FileType::Directory => Kind::Directory,
        FileType::RegularFile => Kind::File,
        FileType::Symlink => Kind::Link,
        FileType::Fifo
        | FileType::Socket
        | FileType::CharacterDevice
        | FileType::BlockDevice
        | FileType::Unknown => Kind::Other,
    }
}
