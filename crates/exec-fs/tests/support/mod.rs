//! A directory with one of everything, and outcomes as the protocol words them.

#![allow(
    dead_code,
    clippy::unwrap_used,
    reason = "each test binary uses its own part, and a test may panic"
)]

use std::fs;
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

use exec_fs::{Error, ErrorKind};

/// Removed with this value.
pub(crate) struct Fixture {
    directory: tempfile::TempDir,
    _socket: UnixListener,
}

impl Fixture {
    /// `f` (abc), `dir/x`, links to both, a broken link, a loop, a FIFO and a socket.
    pub(crate) fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        fs::write(at("f"), "abc").unwrap();
        fs::create_dir(at("dir")).unwrap();
        fs::write(at("dir/x"), "x").unwrap();
        for (target, name) in [("f", "lf"), ("dir", "ld"), ("none", "br"), ("loop", "loop")] {
            symlink(target, at(name)).unwrap();
        }
        fifo(&at("fifo"));
        let socket = UnixListener::bind(at("sock")).unwrap();
        Self { directory, _socket: socket }
    }

    pub(crate) fn root(&self) -> &Path {
        self.directory.path()
    }

    /// A name in the fixture, or an absolute path as it is.
    pub(crate) fn at(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// `ok`, or code and message; the fixture is called `D`.
    pub(crate) fn outcome<T>(&self, result: Result<T, Error>) -> String {
        let root = self.root().to_str().unwrap();
        outcome(result).replace(root, "D")
    }
}

/// In memory if possible: for tests of very many files.
pub(crate) fn memory_directory() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap()
}

pub(crate) fn fifo(path: &Path) {
    let mode = rustix::fs::Mode::from_raw_mode(0o644);
    rustix::fs::mkfifoat(rustix::fs::CWD, path, mode).unwrap();
}

pub(crate) fn outcome<T>(result: Result<T, Error>) -> String {
    match result {
        Ok(_) => "ok".to_owned(),
        Err(error) => {
            let code = match error.kind() {
                ErrorKind::NotFound => -32004,
                ErrorKind::Invalid => -32600,
                ErrorKind::Other => -32603,
            };
            format!("{code} {error}")
        }
    }
}

pub(crate) const MISSING: &str = "-32004 No such file or directory (os error 2)";
pub(crate) const NOT_A_DIRECTORY: &str = "-32603 Not a directory (os error 20)";
pub(crate) const IS_A_DIRECTORY: &str = "-32603 Is a directory (os error 21)";
pub(crate) const EXISTS: &str = "-32603 File exists (os error 17)";
pub(crate) const LOOP: &str = "-32603 Symbolic link loop (os error 40)";
pub(crate) const NO_DEVICE: &str = "-32603 No such device or address (os error 6)";
pub(crate) const NOT_REGULAR: &str = "-32600 path is not a regular file";
pub(crate) const LINKED: &str = "-32600 path contains a symbolic link";
pub(crate) const NO_ENTRY: &str = "-32600 path must name an entry";
