//! `fs/createDirectory` and `fs/readDirectory`.

use std::ffi::OsStr;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use exec_protocol::fs::{DirectoryEntry, ReadDirectoryResult};
use rustix::fs::{CWD, FileType, Mode, OFlags};
use rustix::io::Errno;

use crate::cancel::Cancel;
use crate::entries::{EntryBuffer, kind, target_kind};
use crate::error::Error;
use crate::limits::READ_DIRECTORY_ENTRIES_MAX;
use crate::resolve::{self, Links, retry};

/// What to do about the directories above a new one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Parents {
    /// Make those that are missing, and accept that the directory itself is there.
    Create,
    /// Fail if they are missing, or if the directory is there.
    Require,
}

/// Makes a directory.
pub fn create_directory(path: &Path, parents: Parents, links: Links) -> Result<(), Error> {
    match (parents, links) {
        (Parents::Create, Links::Follow) => create_with_parents(path),
        (Parents::Require, Links::Follow) => resolve::make_directory(CWD, path.as_os_str()),
        (Parents::Create, Links::Refuse) => create_by_components(path),
        (Parents::Require, Links::Refuse) => {
            let (parent, name) = resolve::parent(path, links)
                .map_err(|error| error.if_no_entry(Error::DirectoryExists))?;
            resolve::make_directory(parent.as_fd(), name)
        }
    }
}

/// Makes the directory and those above it that are missing, where links lead.
fn create_with_parents(path: &Path) -> Result<(), Error> {
    let make = |path: &Path| match resolve::make_directory(CWD, path.as_os_str()) {
        Err(error) if error.errno() != Some(Errno::NOENT) && path.is_dir() => {
            // There already, perhaps only just now.
            drop(error);
            Ok(())
        }
        other => other,
    };
    let mut missing = Vec::new();
    for above in path.ancestors() {
        match make(above) {
            Err(error) if error.errno() == Some(Errno::NOENT) && above.parent().is_some() => {
                missing.push(above);
            }
            other => {
                other?;
                break;
            }
        }
    }
    missing.into_iter().rev().try_for_each(make)
}

/// Enters or makes one component after the other, none of them through a link.
fn create_by_components(path: &Path) -> Result<(), Error> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let enter =
        |at: &OwnedFd, name: &OsStr| retry(|| rustix::fs::openat(at, name, flags, Mode::empty()));
    let mut at = retry(|| rustix::fs::open("/", flags, Mode::empty()))?;
    let names = path.as_os_str().as_bytes().split(|&byte| byte == b'/');
    for name in names.filter(|name| !name.is_empty()).map(OsStr::from_bytes) {
        at = match enter(&at, name) {
            Err(Errno::NOENT) => {
                match resolve::make_directory(at.as_fd(), name) {
                    Ok(()) => enter(&at, name)?,
                    // Somebody else made it just now.
                    Err(error) if error.errno() == Some(Errno::EXIST) => enter(&at, name)?,
                    Err(error) => return Err(error),
                }
            }
            other => other?,
        };
    }
    Ok(())
}

/// Lists a directory.
pub fn read_directory(path: &Path, cancel: &Cancel) -> Result<ReadDirectoryResult, Error> {
    let mut result = ReadDirectoryResult::default();
    list(path, cancel, |name, kind| {
        result.entries.push(DirectoryEntry {
            file_name: String::from_utf8_lossy(name).into_owned(),
            is_directory: kind == FileType::Directory,
            is_file: kind == FileType::RegularFile,
        });
    })?;
    Ok(result)
}

/// Lists a directory: appends the result as JSON. `out` is unchanged after a failure.
pub fn read_directory_json(path: &Path, cancel: &Cancel, out: &mut Vec<u8>) -> Result<(), Error> {
    let start = out.len();
    out.extend_from_slice(b"{\"entries\":[");
    let first = out.len();
    let listed = list(path, cancel, |name, kind| {
        if out.len() > first {
            out.push(b',');
        }
        out.extend_from_slice(b"{\"fileName\":");
        write_name(name, out);
        out.extend_from_slice(match kind {
            FileType::Directory => b",\"isDirectory\":true,\"isFile\":false}".as_slice(),
            FileType::RegularFile => b",\"isDirectory\":false,\"isFile\":true}",
            FileType::Symlink
            | FileType::Fifo
            | FileType::Socket
            | FileType::CharacterDevice
            | FileType::BlockDevice
            | FileType::Unknown => b",\"isDirectory\":false,\"isFile\":false}",
        });
    });
    out.extend_from_slice(b"]}");
    listed.inspect_err(|_| out.truncate(start))
}

fn write_name(name: &[u8], out: &mut Vec<u8>) {
    if name.iter().all(|&byte| (b' '..0x7f).contains(&byte) && !matches!(byte, b'"' | b'\\')) {
        out.push(b'"');
        out.extend_from_slice(name);
        out.push(b'"');
    } else {
        let name = String::from_utf8_lossy(name);
        serde_json::to_writer(out, &*name).expect("a string is written to memory");
    }
}

/// Calls with each entry: links as their target, and not at all when there is none. Everything is
/// counted before a directory is said to be too large, since the error tells how large.
fn list(path: &Path, cancel: &Cancel, mut entry: impl FnMut(&[u8], FileType)) -> Result<(), Error> {
    let limit = READ_DIRECTORY_ENTRIES_MAX;
    let directory = resolve::open(path, Links::Follow, OFlags::RDONLY | OFlags::DIRECTORY)?;
    let directory = directory.as_fd();
    let mut count = 0;
    EntryBuffer::new().each(directory, |name, told| {
        cancel.check()?;
        let kind = match kind(directory, name, told) {
            Ok(FileType::Symlink) => target_kind(directory, name),
            other => other.ok(),
        };
        if let Some(kind) = kind {
            count += 1;
            if count <= limit {
                entry(name, kind);
            }
        }
        Ok(())
    })?;
    if count > limit { Err(Error::TooManyEntries { count, limit }) } else { Ok(()) }
}
