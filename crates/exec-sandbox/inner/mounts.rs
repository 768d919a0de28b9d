//! Mounts by descriptor: trees are cloned, given their attributes while nobody sees them, and then put
//! in their place. No path is looked up twice.

use core::ffi::CStr;

use crate::failure::{At, Result};
use crate::format::{Deed, Object};
use crate::sys::{self, Errno, Fd, nr, nr_new};

pub const READ_ONLY: u64 = 1;
pub const NO_SUID: u64 = 2;
pub const NO_DEVICES: u64 = 4;
pub const NO_EXEC: u64 = 8;

/// Whether what is mounted below belongs to it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Depth {
    Alone,
    WithAllBelow,
}

impl Depth {
    fn flag(self) -> usize {
        match self {
            Depth::Alone => 0,
            Depth::WithAllBelow => sys::AT_RECURSIVE,
        }
    }
}

/// A copy of the mounts at and below an open object, attached nowhere.
pub fn clone_tree(source: &Fd, depth: Depth) -> Result<Fd> {
    const OPEN_TREE_CLONE: usize = 1;
    let flags = OPEN_TREE_CLONE | sys::O_CLOEXEC | sys::AT_EMPTY_PATH | depth.flag();
    sys::with_text(nr_new::OPEN_TREE, c"", |empty| [source.raw(), empty, flags, 0, 0, 0])
        .map(Fd::new)
        .at(Deed::Clone)
}

/// Adds attributes to a mount. What the host forbids stays forbidden: nothing is ever taken away.
pub fn restrict(tree: &Fd, attributes: u64, depth: Depth) -> Result<()> {
    // To set, to clear, propagation, user namespace.
    let wanted: [u64; 4] = [attributes, 0, 0, 0];
    let flags = sys::AT_EMPTY_PATH | depth.flag();
    let (wanted, size) = ((&raw const wanted).addr(), size_of_val(&wanted));
    let args = [tree.raw(), c"".as_ptr().addr(), flags, wanted, size, 0];
    // SAFETY: `wanted` is a `struct mount_attr` and outlives the call, as does the text.
    unsafe { sys::call(nr_new::MOUNT_SETATTR, args) }.map(drop).at(Deed::Attributes)
}

/// Puts a detached tree over an open object.
pub fn attach(tree: &Fd, target: &Fd) -> Result<()> {
    const FROM_DESCRIPTOR: usize = 4;
    const TO_DESCRIPTOR: usize = 0x40;
    let flags = FROM_DESCRIPTOR | TO_DESCRIPTOR;
    sys::with_text(nr_new::MOVE_MOUNT, c"", |empty| {
        [tree.raw(), empty, target.raw(), empty, flags, 0]
    })
    .map(drop)
    .at(Deed::Attach)
}

/// Clones, restricts and attaches.
pub fn bind(source: &Fd, target: &Fd, attributes: u64, depth: Depth) -> Result<Fd> {
    let tree = clone_tree(source, depth)?;
    restrict(&tree, attributes, depth)?;
    attach(&tree, target)?;
    Ok(tree)
}

/// A new file system, attached nowhere.
pub fn file_system(kind: &CStr, options: &[(&CStr, &CStr)], attributes: u64) -> Result<Fd> {
    make_file_system(kind, options, attributes).at(Deed::FileSystem)
}

fn make_file_system(
    kind: &CStr,
    options: &[(&CStr, &CStr)],
    attributes: u64,
) -> core::result::Result<Fd, Errno> {
    const CLOSE_ON_EXEC: usize = 1;
    const SET_STRING: usize = 1;
    const CREATE: usize = 6;
    let context = sys::with_text(nr_new::FSOPEN, kind, |kind| [kind, CLOSE_ON_EXEC, 0, 0, 0, 0])?;
    let context = Fd::new(context);
    for (key, value) in options {
        let args = [context.raw(), SET_STRING, key.as_ptr().addr(), value.as_ptr().addr(), 0, 0];
        // SAFETY: both texts outlive the call.
        unsafe { sys::call(nr_new::FSCONFIG, args) }?;
    }
    sys::plain(nr_new::FSCONFIG, [context.raw(), CREATE, 0, 0, 0, 0])?;
    let args = [context.raw(), CLOSE_ON_EXEC, attributes as usize, 0, 0, 0];
    sys::plain(nr_new::FSMOUNT, args).map(Fd::new)
}

/// From now on no mount of the host appears here, and none of ours there.
pub fn make_private() -> Result<()> {
    const RECURSIVE_PRIVATE: usize = 0x4000 | 1 << 18;
    sys::with_text(nr::MOUNT, c"/", |root| [0, root, 0, RECURSIVE_PRIVATE, 0, 0])
        .map(drop)
        .at(Deed::Other)
}

/// Refuses to go on if what is at the path here is not the object that the server looked at.
pub fn witness(path: &CStr, object: Object) -> Result<()> {
    let found = sys::open_plain(sys::AT_FDCWD, path, 0).at(Deed::Source)?;
    compare(&found, Some(object))
}

/// Refuses an object that is not the one the server looked at.
pub fn compare(found: &Fd, expected: Option<Object>) -> Result<()> {
    let Some(expected) = expected else { return Ok(()) };
    let stat = sys::stat(found.raw()).at(Deed::Compare)?;
    let found = Object { major: stat.major, minor: stat.minor, inode: stat.inode };
    if found == expected { Ok(()) } else { Err(sys::ESTALE).at(Deed::Compare) }
}
