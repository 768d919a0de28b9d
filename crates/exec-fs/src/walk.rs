//! `fs/walk`: a tree, breadth first, within limits.
//!
//! The queue holds directories that were found and not yet read, as paths below the root. Not
//! following links, each is opened from the root's descriptor without passing any link, so that
//! nothing outside can slip in. The kernel tells the kinds along with the names: only links, and
//! when following also directories, are looked at one by one.

use std::collections::{HashSet, VecDeque};
use std::ffi::OsStr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use exec_protocol::fs::{WalkEntry, WalkError, WalkKind, WalkOptions, WalkResult};
use exec_protocol::path_uri::PathUri;
use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

use crate::cancel::Cancel;
use crate::entries::{kind, target_kind};
use crate::error::Error;
use crate::limits::{
    WALK_BYTES_MAX, WALK_DEPTH_MAX, WALK_DIRECTORIES_MAX, WALK_ENTRIES_MAX, WALK_ITEM_BYTES,
};
use crate::resolve::{self, Identity, Links, retry};
use crate::uri::UriPrefix;

mod names;
mod output;

use names::Names;
use output::{Json, Output};

/// Walks below the path.
pub fn walk(path: &Path, options: &WalkOptions, cancel: &Cancel) -> Result<WalkResult, Error> {
    let mut result = WalkResult::default();
    result.truncated = run(path, options, cancel, &mut result)?;
    Ok(result)
}

/// Walks below the path: appends the result as JSON. `out` is unchanged after a failure.
pub fn walk_json(
    path: &Path,
    options: &WalkOptions,
    cancel: &Cancel,
    out: &mut Vec<u8>,
) -> Result<(), Error> {
    let mut json = Json::new(out);
    match run(path, options, cancel, &mut json) {
        Ok(truncated) => json.finish(truncated),
        Err(error) => {
            json.abandon();
            return Err(error);
        }
    }
    Ok(())
}

/// Returns whether the result is truncated.
fn run(
    path: &Path,
    options: &WalkOptions,
    cancel: &Cancel,
    output: &mut impl Output,
) -> Result<bool, Error> {
    check(options)?;
    let Some(root) = Root::open(path, options.follow_directory_symlinks)? else {
        return Ok(false);
    };
    let mut walk = Walk {
        root,
        options,
        seen: HashSet::new(),
        queue: VecDeque::new(),
        directories: 1,
        entries: 0,
        bytes: 0,
        truncated: false,
        uri: String::new(),
    };
    walk.seen.insert(walk.root.identity);
    walk.queue.push_back(Directory { path: path.to_owned(), below: PathBuf::new(), depth: 0 });
    let mut names = Names::new();
    while let Some(directory) = walk.queue.pop_front() {
        cancel.check()?;
        match walk.read(&directory, &mut names, cancel) {
            Ok(fd) => {
                if walk.list(&directory, fd.as_fd(), &names, output)? == Next::Stop {
                    break;
                }
            }
            Err(Error::Cancelled) => return Err(Error::Cancelled),
            Err(error) => {
                let uri = PathUri::from_native(&directory.path)?;
                if walk.fail(uri.as_str(), &error.to_string(), output) == Next::Stop {
                    break;
                }
            }
        }
    }
    Ok(walk.truncated)
}

fn check(options: &WalkOptions) -> Result<(), Error> {
    if options.max_directories == 0 || options.max_entries == 0 {
        return Err(Error::WalkOfNothing);
    }
    let too_large = options.max_depth > WALK_DEPTH_MAX
        || options.max_directories > WALK_DIRECTORIES_MAX
        || options.max_entries > WALK_ENTRIES_MAX;
    if too_large { Err(Error::WalkTooLarge) } else { Ok(()) }
}

/// Where a walk begins.
struct Root {
    fd: OwnedFd,
    identity: Identity,
}

impl Root {
    /// Nothing, if the path names something that is no directory, or a link that is not followed.
    fn open(path: &Path, follow: bool) -> Result<Option<Self>, Error> {
        let name: &OsStr = path.as_os_str();
        // What is missing is an error even if it would not be followed.
        if !resolve::status_at(CWD, name, AtFlags::empty())?.is_directory() {
            return Ok(None);
        }
        let mut flags = OFlags::PATH | OFlags::DIRECTORY;
        if !follow {
            flags |= OFlags::NOFOLLOW;
        }
        let fd = match resolve::open(path, Links::Follow, flags) {
            Err(error) if matches!(error.errno(), Some(Errno::NOTDIR | Errno::LOOP)) => {
                return Ok(None);
            }
            other => other?,
        };
        let identity = resolve::status(fd.as_fd())?.identity();
        Ok(Some(Self { fd, identity }))
    }
}

/// A directory that was found.
struct Directory {
    /// As it is told.
    path: PathBuf,
    /// From the root.
    below: PathBuf,
    depth: u64,
}

/// Whether to go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Next {
    Go,
    Stop,
}

struct Walk<'o> {
    root: Root,
    options: &'o WalkOptions,
    /// Directories in the queue or read, when links are followed.
    seen: HashSet<Identity>,
    queue: VecDeque<Directory>,
    directories: u64,
    entries: u64,
    bytes: usize,
    truncated: bool,
    /// Used again for each entry.
    uri: String,
}

impl Walk<'_> {
    /// Reads the names of a directory: no more of them than could be listed.
    fn read(
        &self,
        directory: &Directory,
        names: &mut Names,
        cancel: &Cancel,
    ) -> Result<OwnedFd, Error> {
        let fd = self.open(&directory.below)?;
        // One more than may be listed shows that something is left out.
        let keep = usize::try_from(self.options.max_entries - self.entries).unwrap_or(usize::MAX);
        names.clear(keep.saturating_add(1));
        let borrowed = fd.as_fd();
        let mut buffer = names.take_buffer();
        let read = buffer.each(borrowed, |name, told| {
            let mut kind = Some(kind(borrowed, name, told)?);
            if kind == Some(FileType::Symlink) {
                kind = self.link(borrowed, name);
            }
            if let Some(kind) = kind {
                cancel.check()?;
                names.push(name, kind);
            }
            Ok(())
        });
        names.return_buffer(buffer);
        read?;
        names.sort();
        Ok(fd)
    }

    /// What a link counts as. A broken one is as if it were not there.
    fn link(&self, directory: BorrowedFd<'_>, name: &[u8]) -> Option<FileType> {
        let target = target_kind(directory, name)?;
        let followed = self.options.follow_directory_symlinks && target == FileType::Directory;
        Some(if followed { FileType::Directory } else { FileType::Symlink })
    }

    fn open(&self, below: &Path) -> Result<OwnedFd, Error> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let below = if below.as_os_str().is_empty() { Path::new(".") } else { below };
        let root = &self.root.fd;
        if self.options.follow_directory_symlinks {
            return Ok(retry(|| rustix::fs::openat(root, below, flags, Mode::empty()))?);
        }
        let resolve = ResolveFlags::NO_SYMLINKS | ResolveFlags::BENEATH;
        match retry(|| rustix::fs::openat2(root, below, flags, Mode::empty(), resolve)) {
            Err(Errno::NOSYS | Errno::PERM) => {
                let named = resolve::directory_without_links(root.as_fd(), below)?;
                Ok(retry(|| rustix::fs::openat(&named, ".", flags, Mode::empty()))?)
            }
            other => Ok(other?),
        }
    }

    /// Lists what was read, and queues the directories in it.
    fn list(
        &mut self,
        directory: &Directory,
        fd: BorrowedFd<'_>,
        names: &Names,
        output: &mut impl Output,
    ) -> Result<Next, Error> {
        let prefix = UriPrefix::new(&directory.path)?;
        for (name, kind) in names.iter() {
            if self.entries >= self.options.max_entries {
                self.truncated = true;
                return Ok(Next::Stop);
            }
            self.entries += 1;
            let kind = match kind {
                FileType::Directory => WalkKind::Directory,
                FileType::RegularFile => WalkKind::File,
                FileType::Symlink
                | FileType::Fifo
                | FileType::Socket
                | FileType::CharacterDevice
                | FileType::BlockDevice
                | FileType::Unknown => continue,
            };
            prefix.write(name, &mut self.uri)?;
            if self.charge(self.uri.len()) == Next::Stop {
                return Ok(Next::Stop);
            }
            output.entry(&self.uri, kind)?;
            if kind == WalkKind::Directory {
                self.enqueue(directory, fd, OsStr::from_bytes(name));
            }
        }
        Ok(Next::Go)
    }

    /// Queues a directory, if it is to be entered.
    fn enqueue(&mut self, parent: &Directory, fd: BorrowedFd<'_>, name: &OsStr) {
        let hidden = self.options.prune_hidden_directories && name.as_bytes().starts_with(b".");
        if hidden || parent.depth >= self.options.max_depth {
            return;
        }
        let mut identity = None;
        if self.options.follow_directory_symlinks {
            // What is gone by now fails when it is entered.
            let status = resolve::status_at(fd, name, AtFlags::empty());
            identity = status.ok().map(|status| status.identity());
            if identity.is_some_and(|identity| self.seen.contains(&identity)) {
                return;
            }
        }
        if self.directories >= self.options.max_directories {
            self.truncated = true;
            return;
        }
        self.directories += 1;
        self.seen.extend(identity);
        self.queue.push_back(Directory {
            path: parent.path.join(name),
            below: parent.below.join(name),
            depth: parent.depth + 1,
        });
    }

    fn fail(&mut self, uri: &str, message: &str, output: &mut impl Output) -> Next {
        let next = self.charge(uri.len() + message.len());
        if next == Next::Go {
            output.error(uri, message);
        }
        next
    }

    /// Pays for an item of that much text.
    fn charge(&mut self, text: usize) -> Next {
        let bytes = self.bytes + WALK_ITEM_BYTES + text;
        if bytes > WALK_BYTES_MAX {
            self.truncated = true;
            return Next::Stop;
        }
        self.bytes = bytes;
        Next::Go
    }
}
