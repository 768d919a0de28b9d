//! Reads whole text files of bounded size. What is not a regular file never blocks.

use std::fs::OpenOptions;
use std::io::{self, Read as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

/// Why a file that exists was not read.
#[derive(Debug)]
pub(crate) enum ReadError {
    /// A directory, a pipe, a device, …
    NotAFile,
    /// Larger than the bound.
    TooLarge,
    /// Not text.
    NotUtf8(std::str::Utf8Error),
    /// The operating system refused.
    Os(io::Error),
}

/// The text of a file; none where there is no such file.
pub(crate) fn read(path: &Path, bytes_max: u64) -> Result<Option<String>, ReadError> {
    // Without the first flag a pipe would wait for its writer.
    let flags = libc::O_NONBLOCK | libc::O_NOCTTY;
    let file = match OpenOptions::new().read(true).custom_flags(flags).open(path) {
        Ok(file) => file,
        Err(error) => match error.raw_os_error() {
            Some(libc::ENOENT | libc::ENOTDIR) => return Ok(None),
            // A socket cannot be opened at all.
            Some(libc::ENXIO) => return Err(ReadError::NotAFile),
            _ => return Err(ReadError::Os(error)),
        },
    };
    let metadata = file.metadata().map_err(ReadError::Os)?;
    if !metadata.is_file() {
        return Err(ReadError::NotAFile);
    }
    let mut bytes = Vec::new();
    file.take(bytes_max + 1).read_to_end(&mut bytes).map_err(ReadError::Os)?;
    if u64::try_from(bytes.len()).is_ok_and(|length| length > bytes_max) {
        return Err(ReadError::TooLarge);
    }
    match String::from_utf8(bytes) {
        Ok(text) => Ok(Some(text)),
        Err(error) => Err(ReadError::NotUtf8(error.utf8_error())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::ffi::OsStrExt as _;
    use std::os::unix::net::UnixListener;

    #[test]
    fn only_regular_files_of_bounded_size_are_read() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        std::fs::write(at("text"), "12345678").unwrap();
        std::fs::write(at("bytes"), b"a\xff").unwrap();
        std::os::unix::fs::symlink(at("nowhere"), at("broken")).unwrap();
        std::os::unix::fs::symlink("loop", at("loop")).unwrap();
        let _socket = UnixListener::bind(at("socket")).unwrap();
        let pipe = std::ffi::CString::new(at("pipe").as_os_str().as_bytes()).unwrap();
        // SAFETY: the pointer is that of a string that ends with a zero and outlives the call.
        assert_eq!(unsafe { libc::mkfifo(pipe.as_ptr(), 0o600) }, 0);

        assert_eq!(read(&at("text"), 8).unwrap().as_deref(), Some("12345678"));
        assert!(matches!(read(&at("text"), 7), Err(ReadError::TooLarge)));
        assert!(matches!(read(&at("bytes"), 8), Err(ReadError::NotUtf8(_))));
        for absent in ["nothing", "broken", "text/below"] {
            assert!(read(&at(absent), 8).unwrap().is_none(), "{absent}");
        }
        for odd in ["pipe", "socket", "."] {
            assert!(matches!(read(&at(odd), 8), Err(ReadError::NotAFile)), "{odd}");
        }
        assert!(matches!(read(&at("loop"), 8), Err(ReadError::Os(_))));
        assert!(matches!(read(Path::new("/dev/zero"), 8), Err(ReadError::NotAFile)));
    }
}
