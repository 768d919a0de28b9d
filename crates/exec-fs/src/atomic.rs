//! A file replaced in one step.
//!
//! ```text
//! create a nameless file -> write -> owner, mode -> sync -> name it aside -> rename -> sync directory
//! ```
//! Up to the rename the old content stands, from it on the new one; nothing is ever mixed. The file
//! has no name while it is written, so that even a killed writer leaves nothing behind. Where the
//! file system cannot do that, it has its other name from the beginning, and any failure removes it.

use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use rustix::fs::{Access, AtFlags, CWD, Gid, Mode, OFlags, Uid};
use rustix::io::Errno;

use crate::error::Error;
use crate::protected;
use crate::resolve::{self, NEW_FILE, Place, Status, retry};
use crate::write::write_all;

/// Names to try before giving up on finding a free one.
const NAMES_MAX: usize = 16;

/// What has just been done; tests fail or stop there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    Created,
    Written,
    Adopted,
    Synced,
    Named,
    Renamed,
}

/// Puts a file with that content in the place. `after` is called after each step and may fail it.
pub(crate) fn replace(
    place: &Place,
    data: &[u8],
    after: &mut dyn FnMut(Step) -> Result<(), Error>,
) -> Result<(), Error> {
    let directory = place.directory.as_fd();
    let old = existing(place)?;
    if old.is_none() {
        protected::check_new(directory, &place.name)?;
    }
    let mode = if old.is_some() { Mode::RUSR | Mode::WUSR } else { NEW_FILE };
    let mut new = Temporary::create(directory, mode)?;
    after(Step::Created)?;
    write_all(new.fd.as_fd(), data)?;
    after(Step::Written)?;
    if let Some(old) = &old {
        adopt(new.fd.as_fd(), old)?;
    }
    after(Step::Adopted)?;
    retry(|| rustix::fs::fsync(&new.fd))?;
    after(Step::Synced)?;
    let name = new.name()?.to_owned();
    after(Step::Named)?;
    retry(|| rustix::fs::renameat(directory, &name, directory, &place.name))?;
    new.name = None;
    after(Step::Renamed)?;
    sync_directory(directory)
}

/// The file that is replaced. The same permission is needed as to write to it.
fn existing(place: &Place) -> Result<Option<Status>, Error> {
    let directory = place.directory.as_fd();
    let old = match resolve::status_at(directory, &place.name, AtFlags::SYMLINK_NOFOLLOW) {
        Err(error) if error.errno() == Some(Errno::NOENT) => return Ok(None),
        other => other?,
    };
    if old.is_directory() {
        return Err(Errno::ISDIR.into());
    }
    if !old.is_file() {
        return Err(Error::NotRegular);
    }
    let access =
        || rustix::fs::accessat(directory, &place.name, Access::WRITE_OK, AtFlags::EACCESS);
    match retry(access) {
        // A kernel that cannot say leaves it to the rename.
        Ok(()) | Err(Errno::NOSYS) => Ok(Some(old)),
        Err(error) => Err(error.into()),
    }
}

/// Takes over owner and mode. What may not be given away stays ours, and then must not run with
/// the rights of an owner it does not have.
fn adopt(new: BorrowedFd<'_>, old: &Status) -> Result<(), Error> {
    let own = resolve::status(new)?;
    let same = (own.0.stx_uid, own.0.stx_gid) == (old.0.stx_uid, old.0.stx_gid);
    let given = same || {
        let (uid, gid) = (Uid::from_raw(old.0.stx_uid), Gid::from_raw(old.0.stx_gid));
        rustix::fs::fchown(new, Some(uid), Some(gid)).is_ok()
    };
    let special = Mode::SUID | Mode::SGID;
    let mode = if given { old.mode() } else { old.mode() - special };
    Ok(retry(|| rustix::fs::fchmod(new, mode))?)
}

/// Makes the rename survive a loss of power.
fn sync_directory(directory: BorrowedFd<'_>) -> Result<(), Error> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    match retry(|| rustix::fs::openat(directory, ".", flags, Mode::empty())) {
        Ok(fd) => match retry(|| rustix::fs::fsync(&fd)) {
            // Some file systems have nothing to sync in a directory.
            Ok(()) | Err(Errno::INVAL) => Ok(()),
            Err(error) => Err(error.into()),
        },
        // A directory that may be written to but not read cannot be opened for this.
        Err(Errno::ACCESS) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// A file without a name, or with one that vanishes with this value.
struct Temporary<'d> {
    directory: BorrowedFd<'d>,
    fd: OwnedFd,
    name: Option<OsString>,
}

impl<'d> Temporary<'d> {
    fn create(directory: BorrowedFd<'d>, mode: Mode) -> Result<Self, Error> {
        let flags = OFlags::WRONLY | OFlags::CLOEXEC;
        match retry(|| rustix::fs::openat(directory, ".", flags | OFlags::TMPFILE, mode)) {
            Ok(fd) => Ok(Self { directory, fd, name: None }),
            // The file system has no nameless files, or the kernel does not know of them.
            Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::NOENT | Errno::INVAL) => {
                Self::create_named(directory, mode)
            }
            Err(error) => Err(error.into()),
        }
    }

    fn create_named(directory: BorrowedFd<'d>, mode: Mode) -> Result<Self, Error> {
        let flags = OFlags::WRONLY | OFlags::CLOEXEC | OFlags::CREATE | OFlags::EXCL;
        let (fd, name) = with_new_name(|name| {
            rustix::fs::openat(directory, name, flags | OFlags::NOFOLLOW, mode)
        })?;
        Ok(Self { directory, fd, name: Some(name) })
    }

    /// Its name, which it gets now if it has none.
    fn name(&mut self) -> Result<&OsStr, Error> {
        if self.name.is_none() {
            let ((), name) = with_new_name(|name| self.link(name))?;
            self.name = Some(name);
        }
        Ok(self.name.as_deref().expect("a name was just given"))
    }

    fn link(&self, name: &OsStr) -> rustix::io::Result<()> {
        let by_fd = || rustix::fs::linkat(&self.fd, "", self.directory, name, AtFlags::EMPTY_PATH);
        match retry(by_fd) {
            // Linking a bare descriptor takes a privilege that going through /proc does not.
            Err(Errno::NOENT | Errno::PERM | Errno::ACCESS) => {
                let path = format!("/proc/self/fd/{}", self.fd.as_raw_fd());
                let flags = AtFlags::SYMLINK_FOLLOW;
                retry(|| rustix::fs::linkat(CWD, &path, self.directory, name, flags))
            }
            other => other,
        }
    }
}

impl Drop for Temporary<'_> {
    fn drop(&mut self) {
        if let Some(name) = &self.name {
            // Nothing is left to be done about a file that cannot be removed.
            rustix::fs::unlinkat(self.directory, name, AtFlags::empty()).ok();
        }
    }
}

/// Calls with random names until one is free.
fn with_new_name<T>(
    mut call: impl FnMut(&OsStr) -> rustix::io::Result<T>,
) -> Result<(T, OsString), Error> {
    for _ in 0..NAMES_MAX {
        let mut random = [0; 8];
        getrandom::fill(&mut random).map_err(|_| Errno::IO)?;
        let name = OsString::from(format!(".exec-fs-{:016x}", u64::from_ne_bytes(random)));
        match retry(|| call(&name)) {
            Err(Errno::EXIST) => {}
            other => return Ok((other?, name)),
        }
    }
    Err(Errno::EXIST.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resolve::{Links, place};
    use std::fs;
    use std::os::unix::fs::{MetadataExt, PermissionsExt};

    const STEPS: [Step; 6] =
        [Step::Created, Step::Written, Step::Adopted, Step::Synced, Step::Named, Step::Renamed];

    #[test]
    fn a_failure_after_any_step_leaves_one_whole_content_and_nothing_else() {
        for old in [Some("old"), None] {
            for step in STEPS {
                let dir = tempfile::tempdir().unwrap();
                let path = dir.path().join("file");
                if let Some(old) = old {
                    fs::write(&path, old).unwrap();
                }
                let place = place(&path, Links::Follow).unwrap();
                let result = replace(&place, b"new content", &mut |done| {
                    if done == step { Err(Errno::IO.into()) } else { Ok(()) }
                });
                assert_eq!(result.unwrap_err().errno(), Some(Errno::IO));
                let expected = if step == Step::Renamed { Some("new content") } else { old };
                assert_eq!(fs::read_to_string(&path).ok().as_deref(), expected, "at {step:?}");
                let names = fs::read_dir(dir.path()).unwrap().count();
                assert_eq!(names, usize::from(expected.is_some()), "leftovers at {step:?}");
            }
        }
    }

    #[test]
    fn a_named_temporary_file_is_removed_too() {
        let dir = tempfile::tempdir().unwrap();
        let fd = resolve::directory(dir.path(), Links::Follow).unwrap();
        let mut file = Temporary::create_named(fd.as_fd(), NEW_FILE).unwrap();
        assert!(file.name().unwrap().to_str().unwrap().starts_with(".exec-fs-"));
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
        drop(file);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    }

    #[test]
    fn mode_stays_and_the_inode_changes() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        fs::write(&path, "old").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o4751)).unwrap();
        let before = fs::metadata(&path).unwrap();
        replace(&place(&path, Links::Refuse).unwrap(), b"new", &mut |_| Ok(())).unwrap();
        let after = fs::metadata(&path).unwrap();
        assert_eq!(after.mode() & 0o7777, 0o4751);
        assert_ne!(after.ino(), before.ino());
    }

    /// Runs as a child of the next test, and dies in the middle.
    #[test]
    fn die_after_a_step() {
        let Some(path) = std::env::var_os("EXEC_FS_DIE_PATH") else { return };
        let step = std::env::var("EXEC_FS_DIE_STEP").unwrap();
        let place = place(std::path::Path::new(&path), Links::Follow).unwrap();
        replace(&place, &[b'n'; 100_000], &mut |done| {
            if format!("{done:?}") == step {
                std::process::abort();
            }
            Ok(())
        })
        .unwrap();
    }

    #[test]
    fn a_killed_writer_leaves_one_whole_content() {
        for step in STEPS {
            let dir = tempfile::tempdir().unwrap();
            let path = dir.path().join("file");
            fs::write(&path, "old").unwrap();
            let status = std::process::Command::new(std::env::current_exe().unwrap())
                .args(["--exact", "atomic::tests::die_after_a_step", "--test-threads=1"])
                .env("EXEC_FS_DIE_PATH", &path)
                .env("EXEC_FS_DIE_STEP", format!("{step:?}"))
                .stdout(std::process::Stdio::null())
                .stderr(std::process::Stdio::null())
                .status()
                .unwrap();
            assert!(!status.success());
            let content = fs::read(&path).unwrap();
            let new = vec![b'n'; 100_000];
            assert_eq!(content == new, step == Step::Renamed, "at {step:?}");
            assert!(content == new || content == b"old", "a mixture at {step:?}");
            // Between its naming and the rename the new file is there under its other name.
            let names = fs::read_dir(dir.path()).unwrap().count();
            assert!(names == 1 || (names == 2 && step == Step::Named), "{names} at {step:?}");
        }
    }
}
