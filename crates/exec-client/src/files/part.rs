//! A download on its way: beside its destination under another name, until it is complete.
//!
//! The name follows from the destination's, so that a later run finds what an earlier one has left.
//! It is locked while somebody writes to it.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, OFlags, flock};

use crate::ExecServerError;

/// Longest name that most file systems take, in bytes.
const NAME_BYTES_MAX: usize = 255;

/// How often to look again when the file was finished by somebody else just now.
const TRIES_MAX: u32 = 8;

/// What to do if the destination is a symbolic link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OwnLink {
    /// Write to where it points: whoever named it means that.
    Follow,
    /// Put the file in its place: the name is the server's, and the link may lead anywhere.
    Replace,
}

#[derive(Debug)]
pub(crate) struct Part {
    destination: PathBuf,
    path: PathBuf,
    file: File,
}

impl Part {
    /// Opens what is left of an earlier download, or begins an empty one.
    pub(crate) fn open(destination: &Path, link: OwnLink) -> Result<Self, ExecServerError> {
        let destination = place(destination, link)?;
        let name = destination.file_name().ok_or_else(|| local(&destination, "has no name"))?;
        let path = destination.with_file_name(part_name(name));
        for _ in 0..TRIES_MAX {
            let file = OpenOptions::new()
                .read(true)
                .write(true)
                .create(true)
                .truncate(false)
                .custom_flags(OFlags::NOFOLLOW.bits().cast_signed())
                .open(&path)
                .map_err(|error| local_io(&destination, &error))?;
            if flock(&file, FlockOperation::NonBlockingLockExclusive).is_err() {
                return Err(local(&destination, "another copy is writing it"));
            }
            // Between opening and locking, its last owner may have given it its final name.
            let opened = file.metadata().map_err(|error| local_io(&path, &error))?;
            let named = fs::symlink_metadata(&path);
            if named.is_ok_and(|named| (named.dev(), named.ino()) == (opened.dev(), opened.ino())) {
                if !opened.is_file() {
                    return Err(local(&path, "is not a regular file"));
                }
                return Ok(Self { destination, path, file });
            }
        }
        Err(local(&destination, "another copy is writing it"))
    }

    pub(crate) fn file(&self) -> &File {
        &self.file
    }

    /// What is in it.
    pub(crate) fn len(&self) -> Result<u64, ExecServerError> {
        Ok(self.file.metadata().map_err(|error| local_io(&self.path, &error))?.len())
    }

    /// Begins anew.
    pub(crate) fn empty(&self) -> Result<(), ExecServerError> {
        self.file.set_len(0).map_err(|error| local_io(&self.path, &error))
    }

    /// Gives it its name. What had that name before lends it its mode.
    pub(crate) fn finish(self) -> Result<(), ExecServerError> {
        let renamed = match fs::symlink_metadata(&self.destination) {
            Ok(before) if before.is_file() => self.file.set_permissions(before.permissions()),
            Ok(_) | Err(_) => Ok(()),
        };
        renamed
            .and_then(|()| fs::rename(&self.path, &self.destination))
            .map_err(|error| local_io(&self.destination, &error))
    }

    /// Leaves nothing behind.
    pub(crate) fn discard(self) {
        if let Err(error) = fs::remove_file(&self.path) {
            tracing::debug!(%error, path = %self.path.display(), "cannot remove a partial file");
        }
    }
}

/// Where the file really goes. Only a regular file or a link is replaced.
fn place(destination: &Path, link: OwnLink) -> Result<PathBuf, ExecServerError> {
    let own = fs::symlink_metadata(destination);
    if link == OwnLink::Replace && own.is_ok_and(|own| own.is_symlink()) {
        return Ok(destination.to_owned());
    }
    match fs::metadata(destination) {
        Ok(found) if !found.is_file() => Err(local(destination, "is not a regular file")),
        Ok(_) => fs::canonicalize(destination).map_err(|error| local_io(destination, &error)),
        Err(_) => Ok(destination.to_owned()),
    }
}

/// `.NAME.part`; a name that would get too long is cut and told apart by a number made from it.
fn part_name(name: &OsStr) -> OsString {
    let bytes = name.as_bytes();
    let mut out = vec![b'.'];
    if bytes.len() + 6 <= NAME_BYTES_MAX {
        out.extend_from_slice(bytes);
    } else {
        let hash = bytes.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, &byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        out.extend_from_slice(&bytes[..NAME_BYTES_MAX - 32]);
        out.extend_from_slice(format!(".{hash:016x}").as_bytes());
    }
    out.extend_from_slice(b".part");
    OsString::from_vec(out)
}

pub(crate) fn local(path: &Path, reason: &str) -> ExecServerError {
    ExecServerError::Local { path: path.display().to_string(), reason: reason.to_owned() }
}

pub(crate) fn local_io(path: &Path, error: &io::Error) -> ExecServerError {
    local(path, &error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_fit_and_differ() {
        assert_eq!(part_name(OsStr::new("a")), ".a.part");
        let long = |last: &str| part_name(OsStr::new(&("x".repeat(254) + last)));
        assert!(long("a").len() <= NAME_BYTES_MAX && long("a") != long("b"));
        assert_eq!(part_name(OsStr::new(&"x".repeat(249))).len(), NAME_BYTES_MAX);
    }

    #[test]
    fn a_part_is_locked_kept_and_finished_with_the_old_mode() {
        use std::io::Write as _;
        use std::os::unix::fs::PermissionsExt as _;

        let directory = tempfile::tempdir().unwrap();
        let destination = directory.path().join("f");
        fs::write(&destination, "old").unwrap();
        fs::set_permissions(&destination, fs::Permissions::from_mode(0o750)).unwrap();
        let part = Part::open(&destination, OwnLink::Follow).unwrap();
        assert!(
            Part::open(&destination, OwnLink::Follow)
                .unwrap_err()
                .to_string()
                .contains("another copy")
        );
        part.file().write_all(b"new").unwrap();
        drop(part);
        let again = Part::open(&destination, OwnLink::Follow).unwrap();
        assert_eq!(again.len(), Ok(3));
        again.finish().unwrap();
        assert_eq!(fs::read(&destination).unwrap(), b"new");
        assert_eq!(fs::metadata(&destination).unwrap().mode() & 0o777, 0o750);
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_link_in_its_place_is_refused_and_so_is_a_device() {
        let directory = tempfile::tempdir().unwrap();
        let outside = directory.path().join("outside");
        std::os::unix::fs::symlink(&outside, directory.path().join(".f.part")).unwrap();
        assert!(Part::open(&directory.path().join("f"), OwnLink::Follow).is_err());
        assert!(!outside.exists());
        let device = Part::open(Path::new("/dev/null"), OwnLink::Follow).unwrap_err();
        assert_eq!(device.to_string(), "/dev/null: is not a regular file");
    }

    #[test]
    fn a_link_is_followed_only_for_whoever_named_it() {
        let directory = tempfile::tempdir().unwrap();
        let (link, target) = (directory.path().join("link"), directory.path().join("target"));
        fs::write(&target, "old").unwrap();
        std::os::unix::fs::symlink(&target, &link).unwrap();
        let part = Part::open(&link, OwnLink::Follow).unwrap();
        part.finish().unwrap();
        assert_eq!((fs::read(&target).unwrap().len(), link.is_symlink()), (0, true));
        fs::write(&target, "old").unwrap();
        let part = Part::open(&link, OwnLink::Replace).unwrap();
        part.finish().unwrap();
        assert_eq!((fs::read(&target).unwrap().len(), link.is_symlink()), (3, false));
    }
}
