//! An open file for another process.
//!
//! What `/proc`, `/sys` and their like contain is made up as it is read, and for whoever reads it. So
//! these files are never handed over, only a copy of what they say here.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use exec_protocol::fs::OpenMode;
use rustix::fs::{MemfdFlags, SealFlags};
use rustix::io::Errno;

use crate::error::Error;
use crate::limits::MADE_UP_BYTES_MAX;
use crate::read::FileReader;
use crate::resolve::retry;
use crate::write::write_all;

/// By `f_type`.
const MADE_UP: &[u64] = &[
    0x9fa0,      // proc
    0x6265_6572, // sysfs
    0x6367_7270, // cgroup2
    0x0027_e0eb, // cgroup
    0x6462_6720, // debugfs
    0x7472_6163, // tracefs
    0x7363_6673, // securityfs
    0x6265_6570, // configfs
    0xcafe_4a11, // bpf
    0x6c6f_6f70, // binderfs
    0x6165_676c, // pstore
    0xde5e_81e4, // efivarfs
    0xf97c_ff8c, // selinux
    0x6e73_6673, // nsfs
];

/// Whether a file's content depends on who reads it.
pub fn is_made_up(fd: BorrowedFd<'_>) -> Result<bool, Error> {
    let f_type = retry(|| rustix::fs::fstatfs(fd))?.f_type;
    // The sign is an accident of the platform.
    Ok(u64::try_from(f_type & 0xffff_ffff).is_ok_and(|f_type| MADE_UP.contains(&f_type)))
}

/// The file itself, or a copy if its content depends on who reads it. Such a file is not lent to be
/// written to.
pub fn lend(fd: OwnedFd, mode: OpenMode) -> Result<OwnedFd, Error> {
    if !is_made_up(fd.as_fd())? {
        return Ok(fd);
    }
    match mode {
        OpenMode::Read => copied(fd),
        OpenMode::Replace | OpenMode::Update => Err(Errno::ACCESS.into()),
    }
}

fn copied(fd: OwnedFd) -> Result<OwnedFd, Error> {
    let content = FileReader::of(fd, MADE_UP_BYTES_MAX)?.read_to_end()?;
    let copy = rustix::fs::memfd_create("copy", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
    write_all(copy.as_fd(), &content)?;
    let seals = SealFlags::WRITE | SealFlags::GROW | SealFlags::SHRINK | SealFlags::SEAL;
    rustix::fs::fcntl_add_seals(&copy, seals)?;
    Ok(copy)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::handles::open_file;
    use crate::resolve::Links;
    use std::io::Read;
    use std::path::Path;

    #[test]
    fn what_the_kernel_makes_up_is_lent_as_a_copy() {
        let open = |path: &Path| open_file(path, Links::Follow, OpenMode::Read).unwrap();
        let own = lend(open(Path::new("/proc/self/status")), OpenMode::Read).unwrap();
        assert!(!is_made_up(own.as_fd()).unwrap());
        let mut text = String::new();
        let path = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&own));
        std::fs::File::open(path).unwrap().read_to_string(&mut text).unwrap();
        assert!(text.contains(&format!("\nPid:\t{}\n", std::process::id())), "{text}");
        let refused = lend(open(Path::new("/proc/self/comm")), OpenMode::Replace).unwrap_err();
        assert_eq!(refused.errno(), Some(Errno::ACCESS));
    }

    #[test]
    fn an_ordinary_file_is_lent_itself() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let identity = |fd: &OwnedFd| crate::resolve::status(fd.as_fd()).unwrap().identity();
        let fd = open_file(file.path(), Links::Follow, OpenMode::Replace).unwrap();
        let before = identity(&fd);
        assert_eq!(identity(&lend(fd, OpenMode::Replace).unwrap()), before);
    }
}
