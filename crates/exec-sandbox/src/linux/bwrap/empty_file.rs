//! The file that is mounted over every file that a command must not see.
//!
//! bubblewrap can also make such a file from a descriptor, but takes a descriptor for each; with
//! one file on the host, a thousand masks cost a thousand mounts and nothing more.

use std::fs::{self, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

const NAME: &str = "empty";

/// The file in the server's own `directory`, made if it is not there. What stands there under its
/// name must be just that: empty, `0000`, ours.
pub fn empty_file(directory: &Path) -> io::Result<PathBuf> {
    let path = directory.join(NAME);
    let made = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o000)
        .custom_flags(libc::O_NOFOLLOW | libc::O_CLOEXEC)
        .open(&path);
    match made {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        Ok(_) | Err(_) => {}
    }
    let metadata = fs::symlink_metadata(&path)?;
    // SAFETY: asks for a number, cannot fail.
    let us = unsafe { libc::geteuid() };
    let right = metadata.is_file()
        && metadata.len() == 0
        && metadata.uid() == us
        && metadata.permissions().mode() & 0o7777 == 0;
    if right { Ok(path) } else { Err(io::Error::other(format!("{path:?} is not what it was"))) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn made_once_and_checked_every_time() {
        let dir = tempfile::tempdir().unwrap();
        let path = empty_file(dir.path()).unwrap();
        assert_eq!(empty_file(dir.path()).unwrap(), path);
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o7777, 0);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        assert!(empty_file(dir.path()).is_err());
        fs::write(&path, "x").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o000)).unwrap();
        assert!(empty_file(dir.path()).is_err());
        fs::remove_file(&path).unwrap();
        std::os::unix::fs::symlink("/dev/null", &path).unwrap();
        assert!(empty_file(dir.path()).is_err());
        assert!(empty_file(&dir.path().join("missing")).is_err());
    }
}
