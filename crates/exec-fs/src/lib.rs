//! File-system calls made on behalf of a client. Blocking: callers run them where that is allowed.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use exec_protocol::fs::Metadata;

/// Why a call failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The operating system refused.
    #[error("{0}")]
    Os(#[from] io::Error),
    /// A link where none may be followed.
    #[error("path contains a symbolic link")]
    SymbolicLink,
}

/// What kind of failure it was, as the protocol tells them apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorKind {
    /// There is no such file.
    NotFound,
    /// The request cannot be granted.
    Invalid,
    /// Everything else.
    Other,
}

impl Error {
    /// Which kind.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Error::SymbolicLink => ErrorKind::Invalid,
            Error::Os(error) => match error.raw_os_error() {
                Some(libc::ENOENT) => ErrorKind::NotFound,
                Some(libc::EACCES | libc::EPERM | libc::EINVAL) => ErrorKind::Invalid,
                _ => ErrorKind::Other,
            },
        }
    }
}

/// Tells what a path names, following links. The kind, size and times are the target's.
pub fn metadata(path: &Path) -> Result<Metadata, Error> {
    let own = fs::symlink_metadata(path)?;
    if !own.file_type().is_symlink() {
        return Ok(describe(&own, false));
    }
    Ok(describe(&fs::metadata(path)?, true))
}

fn describe(metadata: &fs::Metadata, is_symlink: bool) -> Metadata {
    Metadata {
        is_directory: metadata.is_dir(),
        is_file: metadata.is_file(),
        is_symlink,
        size: metadata.size(),
        created_at_ms: metadata.created().ok().map_or(0, millis),
        modified_at_ms: metadata.mtime() * 1000 + metadata.mtime_nsec() / 1_000_000,
    }
}

fn millis(time: std::time::SystemTime) -> i64 {
    time.duration_since(std::time::UNIX_EPOCH)
        .ok()
        .and_then(|since| i64::try_from(since.as_millis()).ok())
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn a_link_is_described_by_its_target() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("file");
        fs::write(&file, b"abc").unwrap();
        symlink(&file, dir.path().join("link")).unwrap();
        symlink("nowhere", dir.path().join("broken")).unwrap();
        let link = metadata(&dir.path().join("link")).unwrap();
        assert!(link.is_file && link.is_symlink && link.size == 3 && link.modified_at_ms > 0);
        assert!(metadata(dir.path()).unwrap().is_directory);
        let broken = metadata(&dir.path().join("broken")).unwrap_err();
        assert_eq!(broken.kind(), ErrorKind::NotFound);
        assert_eq!(broken.to_string(), "No such file or directory (os error 2)");
        assert_eq!(metadata(&file.join("below")).unwrap_err().kind(), ErrorKind::Other);
    }
}
