//! One placeholder in the file system: looked at, made, locked and removed by its parent's
//! descriptor, without following any link.

use std::ffi::OsStr;
use std::io;
use std::path::Path;

use rustix::fd::{AsFd as _, OwnedFd};
use rustix::fs::{
    AtFlags, CWD, FlockOperation, Mode, OFlags, ResolveFlags, Statx, StatxFlags, StatxTimestamp,
};
use rustix::io::Errno;

use crate::plan::PlaceholderKind;

/// Which object, also after its inode was used again for another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Identity {
    pub(super) device: u64,
    pub(super) inode: u64,
    /// Nanoseconds since 1970; 0 where the file system does not know.
    pub(super) born: i64,
}

/// What a name stands for.
pub(super) enum Found {
    Nothing,
    There { identity: Identity },
}

/// What came of making it.
pub(super) enum Made {
    New,
    /// Somebody was faster.
    TakenMeanwhile,
}

/// What came of removing it.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Removal {
    /// It is not there any more.
    Gone,
    /// Another server needs it, and will remove it.
    InUse,
    /// It is another object, or not empty.
    Theirs,
}

/// The directory in which a placeholder is made, and its name there.
pub(super) struct Parent<'a> {
    directory: OwnedFd,
    name: &'a OsStr,
}

impl<'a> Parent<'a> {
    pub(super) fn of(path: &'a Path) -> io::Result<Parent<'a>> {
        let parts = path.parent().zip(path.file_name());
        let (directory, name) = parts.ok_or(io::ErrorKind::InvalidInput)?;
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let resolve = ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
        let directory = rustix::fs::openat2(CWD, directory, flags, Mode::empty(), resolve)?;
        Ok(Parent { directory, name })
    }

    pub(super) fn make(&self, kind: PlaceholderKind) -> io::Result<Made> {
        let made = match kind {
            PlaceholderKind::Directory => {
                rustix::fs::mkdirat(&self.directory, self.name, Mode::from_raw_mode(0o755))
            }
            PlaceholderKind::File => {
                let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL;
                let flags = flags | OFlags::NOFOLLOW | OFlags::CLOEXEC;
                let mode = Mode::from_raw_mode(0o644);
                rustix::fs::openat(&self.directory, self.name, flags, mode).map(drop)
            }
        };
        match made {
            Ok(()) => Ok(Made::New),
            Err(Errno::EXIST) => Ok(Made::TakenMeanwhile),
            Err(error) => Err(error.into()),
        }
    }

    /// The object with a shared lock on it; none if it vanished meanwhile or is about to.
    pub(super) fn lock_shared(
        &self,
        kind: PlaceholderKind,
    ) -> io::Result<Option<(OwnedFd, Identity)>> {
        let object = match self.open(kind) {
            Ok(object) => object,
            Err(Errno::NOENT) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        // Any other error is a file system without locks: there is no telling other servers then.
        if let Err(Errno::WOULDBLOCK) =
            rustix::fs::flock(&object, FlockOperation::NonBlockingLockShared)
        {
            return Ok(None);
        }
        let identity = identity_of(&object)?;
        let still = matches!(self.look()?, Found::There { identity: now } if now == identity);
        Ok(still.then_some((object, identity)))
    }

    /// Whether we, and so a command, could change what may be done in the directory.
    pub(super) fn belongs_to_us(&self) -> bool {
        let us = rustix::process::geteuid();
        let owner = statx(&self.directory).map(|stat| stat.stx_uid);
        us.is_root() || owner.is_ok_and(|owner| owner == us.as_raw())
    }

    fn open(&self, kind: PlaceholderKind) -> rustix::io::Result<OwnedFd> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
        let flags = match kind {
            PlaceholderKind::Directory => flags | OFlags::DIRECTORY,
            PlaceholderKind::File => flags,
        };
        rustix::fs::openat(&self.directory, self.name, flags, Mode::empty())
    }

    fn look(&self) -> io::Result<Found> {
        let flags = AtFlags::SYMLINK_NOFOLLOW;
        match rustix::fs::statx(&self.directory, self.name, flags, WANTED) {
            Ok(stat) => Ok(Found::There { identity: identity(&stat) }),
            Err(Errno::NOENT) => Ok(Found::Nothing),
            Err(error) => Err(error.into()),
        }
    }

    fn unlink(&self, kind: PlaceholderKind, object: &OwnedFd) -> io::Result<Removal> {
        let flags = match kind {
            PlaceholderKind::Directory => AtFlags::REMOVEDIR,
            PlaceholderKind::File if statx(object)?.stx_size > 0 => return Ok(Removal::Theirs),
            PlaceholderKind::File => AtFlags::empty(),
        };
        match rustix::fs::unlinkat(&self.directory, self.name, flags) {
            Ok(()) | Err(Errno::NOENT) => Ok(Removal::Gone),
            Err(Errno::NOTEMPTY | Errno::EXIST | Errno::NOTDIR) => Ok(Removal::Theirs),
            Err(error) => Err(error.into()),
        }
    }
}

/// Gives a lock back. Closing alone would not do while a child being started has a copy.
pub(super) fn unlock(object: OwnedFd) {
    // Fails where there are no locks, and then there is nothing to give back.
    rustix::fs::flock(&object, FlockOperation::Unlock).ok();
}

/// What the name stands for now.
pub(super) fn look(path: &Path) -> io::Result<Found> {
    Parent::of(path)?.look()
}

/// Removes the object if the name still stands for it, it is empty and nobody has it locked.
pub(super) fn remove(
    path: &Path,
    kind: PlaceholderKind,
    identity: Identity,
) -> io::Result<Removal> {
    remove_if(path, kind, |now| now == identity)
}

/// The same for one of which only the time is known at which it was going to be made.
pub(super) fn remove_if_born_at(
    path: &Path,
    kind: PlaceholderKind,
    when: i64,
) -> io::Result<Removal> {
    remove_if(path, kind, |now| now.was_born_at(when))
}

impl Identity {
    /// Whether it can be what somebody was going to make at that time.
    pub(super) fn was_born_at(self, when: i64) -> bool {
        // File systems use a clock that may lie behind by some milliseconds.
        const BEFORE: i64 = 50_000_000;
        const AFTER: i64 = 1_000_000_000;
        let span = when.saturating_sub(BEFORE)..=when.saturating_add(AFTER);
        self.born != 0 && span.contains(&self.born)
    }
}

fn remove_if(
    path: &Path,
    kind: PlaceholderKind,
    is_it: impl Fn(Identity) -> bool,
) -> io::Result<Removal> {
    let parent = match Parent::of(path) {
        Ok(parent) => parent,
        // The directory is gone, and all that was in it; or is reached by a link now.
        Err(error) => match error.raw_os_error() {
            Some(libc::ENOENT) => return Ok(Removal::Gone),
            Some(libc::ENOTDIR | libc::ELOOP) => return Ok(Removal::Theirs),
            _ => return Err(error),
        },
    };
    let object = match parent.open(kind) {
        Ok(object) => object,
        Err(Errno::NOENT) => return Ok(Removal::Gone),
        // A link, another kind, or made unreadable: not as it was made.
        Err(Errno::LOOP | Errno::NOTDIR | Errno::ACCESS | Errno::NXIO) => {
            return Ok(Removal::Theirs);
        }
        Err(error) => return Err(error.into()),
    };
    if !is_it(identity_of(&object)?) {
        return Ok(Removal::Theirs);
    }
    if let Err(Errno::WOULDBLOCK) =
        rustix::fs::flock(&object, FlockOperation::NonBlockingLockExclusive)
    {
        return Ok(Removal::InUse);
    }
    parent.unlink(kind, &object)
}

const WANTED: StatxFlags = StatxFlags::BASIC_STATS.union(StatxFlags::BTIME);

fn statx(object: &OwnedFd) -> rustix::io::Result<Statx> {
    rustix::fs::statx(object.as_fd(), "", AtFlags::EMPTY_PATH, WANTED)
}

fn identity_of(object: &OwnedFd) -> io::Result<Identity> {
    Ok(identity(&statx(object)?))
}

fn identity(stat: &Statx) -> Identity {
    let device = rustix::fs::makedev(stat.stx_dev_major, stat.stx_dev_minor);
    let known = stat.stx_mask & StatxFlags::BTIME.bits() != 0;
    let born = if known { nanoseconds(&stat.stx_btime) } else { 0 };
    Identity { device, inode: stat.stx_ino, born }
}

fn nanoseconds(time: &StatxTimestamp) -> i64 {
    time.tv_sec.saturating_mul(1_000_000_000).saturating_add(i64::from(time.tv_nsec))
}
