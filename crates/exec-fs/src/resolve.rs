//! From a path to a descriptor. This is the only place that walks a client's path when links are
//! refused, and it does so in one step of the kernel: the check is the opening.
//!
//! `Links::Refuse` refuses a link in *any* component. A linked parent is "not a directory", which
//! is what opening the components one by one without following would say, and what happens where
//! the kernel has no `openat2`.

use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, ResolveFlags, StatxFlags};
use rustix::io::Errno;

use crate::error::Error;
use crate::limits::LINKS_MAX;
use crate::protected;

/// What to do about symbolic links.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Links {
    /// Go where they lead.
    Follow,
    /// Fail, wherever in the path one is.
    Refuse,
}

impl Links {
    /// The meaning of `followSymlinks`.
    pub fn from_wire(follow_symlinks: Option<bool>) -> Self {
        if follow_symlinks == Some(false) { Links::Refuse } else { Links::Follow }
    }
}

/// For every opening: no waiting for the other end of a FIFO, no terminal of our own, nothing for
/// our children.
pub(crate) const HARMLESS: OFlags = OFlags::CLOEXEC.union(OFlags::NONBLOCK).union(OFlags::NOCTTY);

/// A descriptor that names a directory, and is good for nothing else.
const DIRECTORY: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

/// A new file's mode before the umask.
pub(crate) const NEW_FILE: Mode = Mode::from_raw_mode(0o666);
/// A new directory's mode before the umask.
pub(crate) const NEW_DIRECTORY: Mode = Mode::from_raw_mode(0o777);

/// Opens what the path names, harmlessly. Refusing links, a link itself is `ELOOP`.
pub(crate) fn open(path: &Path, links: Links, flags: OFlags) -> Result<OwnedFd, Error> {
    match links {
        Links::Follow => Ok(retry(|| rustix::fs::open(path, flags | HARMLESS, NEW_FILE))?),
        Links::Refuse => {
            let (parent, name) = parent(path, links)?;
            open_at(parent.as_fd(), name, flags)
        }
    }
}

/// Opens what the path names, from a directory, and makes it where nothing is; links lead on. Nothing
/// protected is made.
pub(crate) fn open_or_create(
    base: BorrowedFd<'_>,
    path: &OsStr,
    flags: OFlags,
    mode: Mode,
) -> Result<OwnedFd, Error> {
    let flags = flags | HARMLESS;
    if !protected::any() {
        return Ok(retry(|| rustix::fs::openat(base, path, flags | OFlags::CREATE, mode))?);
    }
    // What is there needs no name. What is not gets its name in a directory that is looked at.
    for _ in 0..LINKS_MAX {
        match retry(|| rustix::fs::openat(base, path, flags, mode)) {
            Err(Errno::NOENT) => {}
            other => return Ok(other?),
        }
        if path.as_bytes().ends_with(b"/") {
            return Err(Errno::ISDIR.into());
        }
        let place =
            place_from(base, Path::new(path)).map_err(|error| error.if_no_entry(Errno::NOENT))?;
        match create_at(place.directory.as_fd(), &place.name, flags, mode) {
            // It became a link just now.
            Err(error) if error.errno() == Some(Errno::LOOP) => {}
            other => return other,
        }
    }
    Err(Errno::LOOP.into())
}

/// Opens an entry of a directory, never through a link, and makes it where nothing is. Nothing
/// protected is made.
pub(crate) fn create_at(
    directory: BorrowedFd<'_>,
    name: &OsStr,
    flags: OFlags,
    mode: Mode,
) -> Result<OwnedFd, Error> {
    let flags = flags | HARMLESS | OFlags::NOFOLLOW;
    let protected = protected::covers_new(directory, name)?;
    let create = if protected { OFlags::empty() } else { OFlags::CREATE };
    match retry(|| rustix::fs::openat(directory, name, flags | create, mode)) {
        Err(Errno::NOENT) if protected => Err(Errno::ROFS.into()),
        other => Ok(other?),
    }
}

/// Makes a directory. Nothing protected is made.
pub(crate) fn make_directory(base: BorrowedFd<'_>, path: &OsStr) -> Result<(), Error> {
    with_name(base, path, |directory, name| rustix::fs::mkdirat(directory, name, NEW_DIRECTORY))
}

/// Gives a new name to something, by a call that does not follow a link of that name. It is given the
/// directory that gets the name, and the name. Nothing protected is made.
pub(crate) fn with_name(
    base: BorrowedFd<'_>,
    path: &OsStr,
    mut call: impl FnMut(BorrowedFd<'_>, &OsStr) -> rustix::io::Result<()>,
) -> Result<(), Error> {
    with_checked_name(base, path, protected::check_new, |directory, name| {
        Ok(retry(|| call(directory, name))?)
    })
}

/// The same for a name that is taken away. Nothing protected is.
pub(crate) fn without_name(
    path: &Path,
    call: impl FnOnce(BorrowedFd<'_>, &OsStr) -> Result<(), Error>,
) -> Result<(), Error> {
    with_checked_name(CWD, path.as_os_str(), protected::check_old, call)
}

fn with_checked_name(
    base: BorrowedFd<'_>,
    path: &OsStr,
    check: fn(BorrowedFd<'_>, &OsStr) -> Result<(), Error>,
    call: impl FnOnce(BorrowedFd<'_>, &OsStr) -> Result<(), Error>,
) -> Result<(), Error> {
    if !protected::any() {
        return call(base, path);
    }
    let (parent, name) = match split(Path::new(path)) {
        // Another spelling of a directory that is there, or that cannot be made in that way.
        Err(_) => return call(base, path),
        Ok(split) => split,
    };
    let directory = retry(|| rustix::fs::openat(base, parent, DIRECTORY, Mode::empty()))?;
    check(directory.as_fd(), name)?;
    // With the slashes at its end, which mean something.
    let bytes = path.as_bytes();
    let start = if parent == Path::new(".") { 0 } else { parent.as_os_str().len() };
    let spelled = OsStr::from_bytes(bytes.get(start..).unwrap_or(name.as_bytes()));
    call(directory.as_fd(), spelled)
}

/// Opens an entry of a directory, harmlessly, and never through a link.
pub(crate) fn open_at(
    directory: BorrowedFd<'_>,
    name: &OsStr,
    flags: OFlags,
) -> Result<OwnedFd, Error> {
    let flags = flags | HARMLESS | OFlags::NOFOLLOW;
    Ok(retry(|| rustix::fs::openat(directory, name, flags, NEW_FILE))?)
}

/// The directory that holds what the path names, and the name in it.
pub(crate) fn parent(path: &Path, links: Links) -> Result<(OwnedFd, &OsStr), Error> {
    let (parent, name) = split(path)?;
    Ok((directory(parent, links)?, name))
}

/// Names a directory by descriptor.
pub(crate) fn directory(path: &Path, links: Links) -> Result<OwnedFd, Error> {
    match links {
        Links::Follow => Ok(retry(|| rustix::fs::open(path, DIRECTORY, Mode::empty()))?),
        Links::Refuse => directory_without_links(CWD, path),
    }
}

/// Names a directory below another, refusing links.
pub(crate) fn directory_without_links(base: BorrowedFd<'_>, path: &Path) -> Result<OwnedFd, Error> {
    let resolve = ResolveFlags::NO_SYMLINKS;
    match retry(|| rustix::fs::openat2(base, path, DIRECTORY, Mode::empty(), resolve)) {
        // Missing in the kernel, or hidden by a filter of system calls.
        Err(Errno::NOSYS | Errno::PERM) => directory_by_components(base, path),
        Err(Errno::LOOP) => Err(Errno::NOTDIR.into()),
        other => Ok(other?),
    }
}

/// The same, for a kernel without `openat2`: one component after the other.
fn directory_by_components(base: BorrowedFd<'_>, path: &Path) -> Result<OwnedFd, Error> {
    let start = if path.is_absolute() { Path::new("/") } else { Path::new(".") };
    let mut at = retry(|| rustix::fs::openat(base, start, DIRECTORY, Mode::empty()))?;
    for name in path.as_os_str().as_bytes().split(|&byte| byte == b'/') {
        if !name.is_empty() {
            let flags = DIRECTORY | OFlags::NOFOLLOW;
            at = retry(|| rustix::fs::openat(&at, OsStr::from_bytes(name), flags, Mode::empty()))?;
        }
    }
    Ok(at)
}

/// A place in a directory: what is there is no link, or nothing.
#[derive(Debug)]
pub(crate) struct Place {
    pub(crate) directory: OwnedFd,
    pub(crate) name: OsString,
}

/// Where a file of that path is or would be, which is where its last link leads.
pub(crate) fn place(path: &Path, links: Links) -> Result<Place, Error> {
    let (directory, name) = parent(path, links)?;
    follow(Place { directory, name: name.to_owned() }, links)
}

/// The same, for a path from a directory, where links are followed.
fn place_from(base: BorrowedFd<'_>, path: &Path) -> Result<Place, Error> {
    let (parent, name) = split(path)?;
    let directory = retry(|| rustix::fs::openat(base, parent, DIRECTORY, Mode::empty()))?;
    follow(Place { directory, name: name.to_owned() }, Links::Follow)
}

/// Goes where the links lead that are at the place.
fn follow(mut place: Place, links: Links) -> Result<Place, Error> {
    for _ in 0..LINKS_MAX {
        let target = match rustix::fs::readlinkat(&place.directory, &place.name, Vec::new()) {
            // Not a link, or nothing.
            Err(Errno::INVAL | Errno::NOENT) => return Ok(place),
            Err(error) => return Err(error.into()),
            Ok(target) => OsString::from_vec(target.into_bytes()),
        };
        if links == Links::Refuse {
            return Err(Errno::LOOP.into());
        }
        let (parent, name) = split_link(Path::new(&target))?;
        let open =
            |directory: &OwnedFd| rustix::fs::openat(directory, parent, DIRECTORY, Mode::empty());
        place = Place { directory: retry(|| open(&place.directory))?, name: name.to_owned() };
    }
    Err(Errno::LOOP.into())
}

/// Path of the parent, and the last component. `.` and `..` name no entry of a directory.
fn split(path: &Path) -> Result<(&Path, &OsStr), Error> {
    let bytes = path.as_os_str().as_bytes();
    let end = bytes.iter().rposition(|&byte| byte != b'/').ok_or(Error::NoEntry)? + 1;
    let start = bytes[..end].iter().rposition(|&byte| byte == b'/').map_or(0, |slash| slash + 1);
    let name = &bytes[start..end];
    if matches!(name, b"." | b"..") {
        return Err(Error::NoEntry);
    }
    let parent = if start == 0 { b".".as_slice() } else { &bytes[..start] };
    Ok((Path::new(OsStr::from_bytes(parent)), OsStr::from_bytes(name)))
}

/// A link to `/`, `.`, `..` or `x/` leads to a directory, which is no place for a file.
fn split_link(target: &Path) -> Result<(&Path, &OsStr), Error> {
    if target.as_os_str().as_bytes().ends_with(b"/") {
        return Err(Errno::ISDIR.into());
    }
    split(target).map_err(|_| Errno::ISDIR.into())
}

/// What an open descriptor is, asked of the descriptor.
pub(crate) fn status(fd: BorrowedFd<'_>) -> Result<Status, Error> {
    status_at(fd, OsStr::new(""), AtFlags::EMPTY_PATH)
}

/// What an entry of a directory is.
pub(crate) fn status_at(
    directory: BorrowedFd<'_>,
    name: &OsStr,
    flags: AtFlags,
) -> Result<Status, Error> {
    let mask = StatxFlags::BASIC_STATS | StatxFlags::BTIME;
    Ok(Status(retry(|| rustix::fs::statx(directory, name, flags, mask))?))
}

/// What the kernel tells of a file.
pub(crate) struct Status(pub(crate) rustix::fs::Statx);

impl Status {
    pub(crate) fn file_type(&self) -> FileType {
        FileType::from_raw_mode(self.0.stx_mode.into())
    }

    pub(crate) fn is_directory(&self) -> bool {
        self.file_type() == FileType::Directory
    }

    pub(crate) fn is_file(&self) -> bool {
        self.file_type() == FileType::RegularFile
    }

    /// Permissions with the three special bits.
    pub(crate) fn mode(&self) -> Mode {
        Mode::from_raw_mode(u32::from(self.0.stx_mode) & 0o7777)
    }

    pub(crate) fn identity(&self) -> Identity {
        Identity { device: (self.0.stx_dev_major, self.0.stx_dev_minor), inode: self.0.stx_ino }
    }
}

/// Which file it is, whatever its names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Identity {
    device: (u32, u32),
    inode: u64,
}

/// Repeats a call that a signal interrupted.
pub(crate) fn retry<T>(mut call: impl FnMut() -> rustix::io::Result<T>) -> rustix::io::Result<T> {
    loop {
        match call() {
            Err(Errno::INTR) => {}
            other => return other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn a_path_splits_into_parent_and_name() {
        let check = |path: &str, expected: Option<(&str, &str)>| {
            let got = split(Path::new(path)).ok();
            let got = got.map(|(parent, name)| {
                (parent.to_str().unwrap().to_owned(), name.to_str().unwrap().to_owned())
            });
            let expected = expected.map(|(parent, name)| (parent.to_owned(), name.to_owned()));
            assert_eq!(got, expected, "for {path}");
        };
        check("/a", Some(("/", "a")));
        check("/a/b", Some(("/a/", "b")));
        check("/a//b//", Some(("/a//", "b")));
        check("a", Some((".", "a")));
        for path in ["/", "//", "", "/a/..", "/a/.", "..", "."] {
            check(path, None);
        }
    }

    #[test]
    fn both_ways_of_refusing_links_agree() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(dir.path().join("real/inner")).unwrap();
        std::fs::write(dir.path().join("file"), b"").unwrap();
        symlink("real", dir.path().join("link")).unwrap();
        symlink("loop", dir.path().join("loop")).unwrap();
        for name in [
            "",
            "real",
            "real/inner",
            "real//inner/",
            "real/./inner/..",
            "file",
            "link",
            "link/inner",
            "loop",
            "none",
            "none/x",
            "file/x",
        ] {
            let path = dir.path().join(name);
            let outcome = |result: Result<OwnedFd, Error>| {
                result.map(|fd| status(fd.as_fd()).unwrap().identity()).map_err(|e| e.to_string())
            };
            let one = outcome(directory_without_links(CWD, &path));
            assert_eq!(one, outcome(directory_by_components(CWD, &path)), "for {name}");
            let linked = name.starts_with("link") || name == "loop";
            assert_eq!(
                one.as_ref().err().is_some_and(|e| e.contains("Not a dir")),
                linked || name.starts_with("file"),
                "for {name}: {one:?}"
            );
        }
    }

    #[test]
    fn a_place_is_where_the_last_link_leads() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("sub")).unwrap();
        symlink("sub/target", dir.path().join("one")).unwrap();
        symlink(dir.path().join("one"), dir.path().join("two")).unwrap();
        symlink("loop", dir.path().join("loop")).unwrap();
        symlink("sub/", dir.path().join("slash")).unwrap();
        let place_of = |name: &str, links| place(&dir.path().join(name), links);
        for name in ["one", "two", "sub/target"] {
            let place = place_of(name, Links::Follow).unwrap();
            assert_eq!(place.name, "target");
            let sub = std::fs::metadata(dir.path().join("sub")).unwrap();
            let inode = status(place.directory.as_fd()).unwrap().0.stx_ino;
            assert_eq!(inode, std::os::unix::fs::MetadataExt::ino(&sub));
        }
        let errno = |name, links| place_of(name, links).unwrap_err().errno();
        assert_eq!(errno("loop", Links::Follow), Some(Errno::LOOP));
        assert_eq!(errno("slash", Links::Follow), Some(Errno::ISDIR));
        assert_eq!(errno("one", Links::Refuse), Some(Errno::LOOP));
    }
}
