//! What the server keeps on the disk for sandboxes: bubblewrap's empty file, and the journal of the
//! names that it makes for the time of a command.

use std::io;
use std::path::{Path, PathBuf};

use exec_sandbox::linux::bwrap::{Bwrap, Tools};
use exec_sandbox::linux::placeholders::{Held, HoldError, Registry};
use exec_sandbox::plan::Plan;
use exec_sandbox::policy::{Disk, Host, Kind, Object};

/// Opened when the first command is confined.
#[derive(Debug)]
pub(crate) struct State {
    directory: PathBuf,
    registry: Registry,
}

impl State {
    /// In a directory that is the server's alone.
    pub(crate) fn open(directory: PathBuf) -> io::Result<Self> {
        use std::os::unix::fs::DirBuilderExt as _;
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&directory)?;
        // Commands see it by its real name.
        let directory = directory.canonicalize()?;
        let registry = Registry::open(&directory.join("placeholders"))?;
        Ok(Self { directory, registry })
    }

    /// No command may see it.
    pub(crate) fn directory(&self) -> &Path {
        &self.directory
    }

    /// bubblewrap, ready to be launched.
    pub(crate) fn tools(&self, bwrap: Bwrap) -> io::Result<Tools> {
        Tools::new(bwrap, &self.directory)
    }

    /// Makes the names that a plan needs, until the result is dropped, and takes from the plan what
    /// needs none.
    pub(crate) fn hold(&self, plan: &mut Plan) -> Result<Option<Held>, HoldError> {
        let Some(view) = plan.view.take() else { return Ok(None) };
        let held = self.registry.hold(&view.placeholders)?;
        plan.view = Some(held.fit(view));
        Ok(Some(held))
    }

    /// The disk as it is without what the server made.
    pub(crate) fn seen_by(&self, disk: Disk) -> Seen<'_> {
        Seen { disk, registry: &self.registry }
    }
}

/// The disk, where a name that stands for nothing counts as missing.
#[derive(Debug)]
pub(crate) struct Seen<'a> {
    disk: Disk,
    registry: &'a Registry,
}

impl Host for Seen<'_> {
    fn look(&self, path: &Path) -> io::Result<Option<Object>> {
        let object = self.disk.look(path)?;
        let stands_for_nothing =
            |object: &Object| object.kind == Kind::Directory && self.registry.is_placeholder(path);
        Ok(object.filter(|object| !stands_for_nothing(object)))
    }

    fn read_link(&self, path: &Path) -> io::Result<PathBuf> {
        self.disk.read_link(path)
    }

    fn read_file(&self, path: &Path, bytes_max: usize) -> io::Result<Vec<u8>> {
        self.disk.read_file(path, bytes_max)
    }

    fn list(&self, path: &Path, entries_max: usize) -> io::Result<Vec<(std::ffi::OsString, Kind)>> {
        self.disk.list(path, entries_max)
    }

    fn may_add(&self, directory: &Path) -> bool {
        self.disk.may_add(directory)
    }

    fn out_of_time(&self) -> bool {
        self.disk.out_of_time()
    }
}
