//! The file system that the command sees.
//!
//! ```text
//!   the host's root   (where sources are opened; goes away with `enter`)
//!     └── base        a tmpfs mounted over it: root/ dev/ shm/ and the masks, one superblock for all
//!           └── root/ the view
//! ```
//!
//! Everything is opened without following a link: the server has resolved every path, and what was
//! put in its place since is not meant.

use core::ffi::CStr;

use crate::failure::{At, Failure, Result};
use crate::format::{Deed, Object, RootKind, Texts};
use crate::mounts::{self, Depth, NO_DEVICES, NO_EXEC, NO_SUID, READ_ONLY};
use crate::sys::{self, Fd, nr};

/// The view while it is made.
pub struct View {
    pub(crate) host: Fd,
    pub(crate) base: Fd,
    pub(crate) root: Fd,
    /// The private `/dev`, which stays writable until all mount points are made.
    pub(crate) devices: Option<Fd>,
    masks: u32,
}

/// What is made where nothing is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Directory,
    File,
}

impl View {
    /// Makes the base and, on it, the root of the view.
    pub fn begin(kind: RootKind) -> Result<View> {
        mounts::make_private()?;
        let flags = sys::O_PATH | sys::O_DIRECTORY;
        let host = sys::open(sys::AT_FDCWD, c"/", flags).at(Deed::Source)?;
        // Before the base covers the host's root: a clone would contain it.
        let tree = match kind {
            RootKind::Empty => None,
            RootKind::HostReadOnly => Some((NO_SUID | NO_DEVICES | READ_ONLY, &host)),
            RootKind::HostWritable => Some((NO_SUID | NO_DEVICES, &host)),
        };
        let tree = match tree {
            Some((attributes, source)) => {
                let tree = mounts::clone_tree(source, Depth::WithAllBelow)?;
                mounts::restrict(&tree, attributes, Depth::WithAllBelow)?;
                Some(tree)
            }
            None => None,
        };
        let options = [(c"mode", c"0755")];
        let base = mounts::file_system(c"tmpfs", &options, NO_SUID | NO_DEVICES)?;
        mounts::attach(&base, &host)?;
        sys::make_dir(base.raw(), c"root", 0o755).at(Deed::Target)?;
        let place = sys::open_plain(base.raw(), c"root", sys::O_DIRECTORY).at(Deed::Target)?;
        let root = match tree {
            Some(tree) => tree,
            None => mounts::clone_tree(&place, Depth::Alone)?,
        };
        mounts::attach(&root, &place)?;
        let view = View { host, base, root, devices: None, masks: 0 };
        if kind == RootKind::HostWritable {
            view.close_kernel_files()?;
        }
        Ok(view)
    }

    /// Whoever is the host's root could reconfigure its kernel through `/sys`.
    fn close_kernel_files(&self) -> Result<()> {
        match sys::open_plain(self.root.raw(), c"sys", sys::O_DIRECTORY) {
            Ok(sys) => mounts::bind(&sys, &sys, READ_ONLY, Depth::WithAllBelow).map(drop),
            Err(_) => Ok(()),
        }
    }

    /// Mounts a tree of the host.
    pub fn bind(&self, path: &CStr, writable: bool, witness: Option<Object>) -> Result<()> {
        let source = sys::open_plain(self.host.raw(), relative(path), 0).at(Deed::Source)?;
        mounts::compare(&source, witness)?;
        let is_directory = sys::stat(source.raw()).at(Deed::Source)?.is_directory();
        let kind = if is_directory { Kind::Directory } else { Kind::File };
        let target = self.place(path, kind)?;
        let access = if writable { 0 } else { READ_ONLY };
        mounts::bind(&source, &target, NO_SUID | NO_DEVICES | access, Depth::WithAllBelow).map(drop)
    }

    /// Mounts what the view has at a path on itself.
    pub fn pin(&self, path: &CStr, witness: Option<Object>) -> Result<()> {
        let place = self.existing(path)?;
        mounts::compare(&place, witness)?;
        mounts::bind(&place, &place, NO_SUID | NO_DEVICES, Depth::WithAllBelow).map(drop)
    }

    /// Makes a symbolic link in an empty root.
    pub fn link(&self, path: &CStr, target: &CStr) -> Result<()> {
        self.make_parents(path)?;
        sys::make_link(target, self.root.raw(), relative(path)).at(Deed::Target)
    }

    /// Puts an empty directory over another.
    pub fn mask_directory(
        &mut self,
        path: &CStr,
        mode: u32,
        inside: [Texts<'_>; 2],
        witness: Option<Object>,
    ) -> Result<()> {
        let target = self.place(path, Kind::Directory)?;
        mounts::compare(&target, witness)?;
        let mask = self.empty_directory(path, mode, inside)?;
        mounts::bind(&mask, &target, NO_SUID | NO_DEVICES | READ_ONLY, Depth::Alone).map(drop)
    }

    /// Puts an empty file that nobody may read over another.
    pub fn mask_file(&self, path: &CStr, witness: Option<Object>) -> Result<()> {
        let target = self.place(path, Kind::File)?;
        mounts::compare(&target, witness)?;
        self.cover_file(&target)
    }

    pub(crate) fn cover_file(&self, target: &Fd) -> Result<()> {
        let made = sys::make_file(self.base.raw(), c"no-file", 0);
        let _known = made.or_else(exists).at(Deed::Target)?;
        let mask = sys::open_plain(self.base.raw(), c"no-file", 0).at(Deed::Target)?;
        mounts::bind(&mask, target, NO_SUID | NO_DEVICES | READ_ONLY, Depth::Alone).map(drop)
    }

    pub(crate) fn cover_directory(&mut self, target: &Fd) -> Result<()> {
        let nothing = Texts::new(&[]).ok_or(sys::EINVAL).at(Deed::Other)?;
        let mask = self.empty_directory(c"/", 0o555, [nothing; 2])?;
        mounts::bind(&mask, target, NO_SUID | NO_DEVICES | READ_ONLY, Depth::Alone).map(drop)
    }

    /// A directory of the base with nothing in it but mount points.
    fn empty_directory(&mut self, path: &CStr, mode: u32, inside: [Texts<'_>; 2]) -> Result<Fd> {
        let [passages, files] = inside;
        let mut name = *b"mask-0000000000\0";
        // Those with nothing in them are shared by all of one mode.
        let is_bare = passages.count() + files.count() == 0;
        let number = if is_bare { mode } else { self.masks + 0o1000 };
        number_into(&mut name[5..15], number);
        let name = CStr::from_bytes_with_nul(&name).map_err(|_| sys::EINVAL).at(Deed::Target)?;
        match sys::make_dir(self.base.raw(), name, 0o700) {
            Err(sys::EEXIST) if is_bare => {}
            made => {
                made.at(Deed::Target)?;
                let mask = sys::open_plain(self.base.raw(), name, sys::O_DIRECTORY);
                let mask = mask.at(Deed::Target)?;
                for passage in passages {
                    sys::make_dir(mask.raw(), below(path, passage)?, 0o700)
                        .or_else(exists)
                        .at(Deed::Target)?;
                }
                for file in files {
                    sys::make_file(mask.raw(), below(path, file)?, 0)
                        .or_else(exists)
                        .at(Deed::Target)?;
                }
                // Passed but not listed, once everything is in them.
                for passage in passages {
                    sys::change_mode(mask.raw(), below(path, passage)?, 0o111).at(Deed::Target)?;
                }
                sys::change_mode(self.base.raw(), name, mode).at(Deed::Target)?;
            }
        }
        if !is_bare {
            self.masks += 1;
        }
        sys::open_plain(self.base.raw(), name, sys::O_DIRECTORY).at(Deed::Target)
    }

    /// Refuses to go on if an object of the host is not the one that the server looked at.
    pub fn witness(&self, path: &CStr, object: Object) -> Result<()> {
        let found = sys::open_plain(self.host.raw(), relative(path), 0).at(Deed::Source)?;
        mounts::compare(&found, Some(object))
    }

    pub fn seal_root(&self) -> Result<()> {
        mounts::restrict(&self.root, READ_ONLY, Depth::Alone)
    }

    /// The view becomes the root, and the host's goes away.
    pub fn enter(self) -> Result<()> {
        if let Some(devices) = &self.devices {
            mounts::restrict(devices, READ_ONLY | NO_EXEC, Depth::Alone)?;
        }
        const DETACH: usize = 2;
        sys::plain(nr::FCHDIR, [self.root.raw(), 0, 0, 0, 0, 0]).at(Deed::Pivot)?;
        let here = c".";
        // The old root ends up on top of the new one, where the directory we are in can name it.
        sys::with_text(nr::PIVOT_ROOT, here, |here| [here, here, 0, 0, 0, 0]).at(Deed::Pivot)?;
        // First the base, which covers the old root, then that.
        for _ in 0..2 {
            sys::with_text(nr::UMOUNT2, here, |here| [here, DETACH, 0, 0, 0, 0]).at(Deed::Pivot)?;
        }
        sys::with_text(nr::CHDIR, c"/", |root| [root, 0, 0, 0, 0, 0]).map(drop).at(Deed::Pivot)
    }

    pub(crate) fn existing(&self, path: &CStr) -> Result<Fd> {
        sys::open_plain(self.root.raw(), relative(path), 0).at(Deed::Target)
    }

    /// The mount point for a path. Where the view is ours it is made if it is missing; on the host it
    /// never is.
    pub(crate) fn place(&self, path: &CStr, kind: Kind) -> Result<Fd> {
        let name = relative(path);
        match sys::open_plain(self.root.raw(), name, 0) {
            Err(sys::ENOENT) => {}
            found => return found.at(Deed::Target),
        }
        self.make_parents(path)?;
        self.make(name, kind)?;
        sys::open_plain(self.root.raw(), name, 0).at(Deed::Target)
    }

    fn make_parents(&self, path: &CStr) -> Result<()> {
        let mut buffer = [0; PATH_MAX];
        let name = relative(path).to_bytes();
        for (at, _) in name.iter().enumerate().filter(|(_, byte)| **byte == b'/') {
            let parent = prefix(name, at, &mut buffer)?;
            match sys::open_plain(self.root.raw(), parent, 0) {
                Err(sys::ENOENT) => self.make(parent, Kind::Directory)?,
                found => drop(found.at(Deed::Target)?),
            }
        }
        Ok(())
    }

    /// Makes a file or directory, whose parent exists and is ours.
    fn make(&self, name: &CStr, kind: Kind) -> Result<()> {
        let mut buffer = [0; PATH_MAX];
        let bytes = name.to_bytes();
        let at = bytes.iter().rposition(|byte| *byte == b'/');
        let parent = match at {
            Some(at) => prefix(bytes, at, &mut buffer)?,
            None => c".",
        };
        let parent = sys::open_plain(self.root.raw(), parent, sys::O_DIRECTORY);
        let parent = sys::stat(parent.at(Deed::Target)?.raw()).at(Deed::Target)?;
        let ours = sys::stat(self.base.raw()).at(Deed::Target)?;
        if (parent.major, parent.minor) != (ours.major, ours.minor) {
            return Err(Failure { deed: Deed::Target, errno: sys::ENOENT });
        }
        match kind {
            Kind::Directory => sys::make_dir(self.root.raw(), name, 0o755),
            Kind::File => sys::make_file(self.root.raw(), name, 0o444),
        }
        .at(Deed::Target)
    }
}

const PATH_MAX: usize = 4096;

/// The path from the root; the format has only absolute ones.
pub(crate) fn relative(path: &CStr) -> &CStr {
    let bytes = path.to_bytes_with_nul();
    match bytes.get(1..).and_then(|rest| CStr::from_bytes_with_nul(rest).ok()) {
        Some(rest) if !rest.is_empty() => rest,
        _ => c".",
    }
}

/// The path of something below a directory, from there.
fn below<'a>(directory: &CStr, path: &'a CStr) -> Result<&'a CStr> {
    let rest = path.to_bytes_with_nul().strip_prefix(directory.to_bytes());
    let rest = rest.and_then(|rest| rest.strip_prefix(b"/"));
    let rest = rest.and_then(|rest| CStr::from_bytes_with_nul(rest).ok());
    rest.filter(|rest| !rest.is_empty()).ok_or(sys::EINVAL).at(Deed::Target)
}

fn prefix<'b>(name: &[u8], length: usize, buffer: &'b mut [u8; PATH_MAX]) -> Result<&'b CStr> {
    /// ENAMETOOLONG.
    const TOO_LONG: sys::Errno = 36;
    let (Some(from), Some(to)) = (name.get(..length), buffer.get_mut(..length)) else {
        return Err(TOO_LONG).at(Deed::Target);
    };
    to.copy_from_slice(from);
    if let Some(end) = buffer.get_mut(length) {
        *end = 0;
    }
    CStr::from_bytes_until_nul(buffer).map_err(|_| TOO_LONG).at(Deed::Target)
}

/// Takes an object that is there already for the one that was to be made.
pub(crate) fn exists(errno: sys::Errno) -> core::result::Result<(), sys::Errno> {
    if errno == sys::EEXIST { Ok(()) } else { Err(errno) }
}

/// Writes a number as decimal digits, right-aligned.
pub(crate) fn number_into(digits: &mut [u8], mut number: u32) {
    for digit in digits.iter_mut().rev() {
        *digit = b'0' + (number % 10) as u8;
        number /= 10;
    }
}
