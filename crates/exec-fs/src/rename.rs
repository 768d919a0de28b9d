//! `fs/rename`: one call of the kernel, which checks and acts in one step. A link is renamed itself.

use std::path::Path;

use rustix::fs::{CWD, RenameFlags};

use crate::error::Error;
use crate::resolve;

/// What to do about something that has the new name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Existing {
    /// Replace it, if it is of the same kind.
    Replace,
    /// Fail.
    Keep,
}

/// Renames within one file system.
pub fn rename(source: &Path, destination: &Path, existing: Existing) -> Result<(), Error> {
    let flags = match existing {
        Existing::Replace => RenameFlags::empty(),
        Existing::Keep => RenameFlags::NOREPLACE,
    };
    resolve::without_name(source, |old_directory, old| {
        resolve::with_name(CWD, destination.as_os_str(), |directory, name| {
            rustix::fs::renameat_with(old_directory, old, directory, name, flags)
        })
    })
}
