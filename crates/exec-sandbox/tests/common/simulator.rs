//! Carries a plan out on a table: what would a command see and change?

use std::path::{Path, PathBuf};

use exec_sandbox::plan::{Access, MaskMode, Mount, Plan, Root};
use exec_sandbox::policy::{Host, Kind, Table};

/// The mounts of a plan, each checked when it was made.
pub struct Simulator<'a> {
    host: &'a Table,
    mounts: Vec<(PathBuf, &'a Mount)>,
    placeholders: Vec<PathBuf>,
    sealed: bool,
}

/// What a command finds at a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Seen {
    /// Nothing, or nothing that says anything.
    Nothing,
    /// Something that cannot be changed.
    ReadOnly,
    /// Something that can.
    Writable,
}

impl<'a> Simulator<'a> {
    /// Mounts everything, in order. Panics where a kernel would refuse.
    pub fn run(plan: &'a Plan, host: &'a Table) -> Self {
        let view = plan.view.as_ref().expect("a view");
        let placeholders: Vec<_> = view.placeholders.iter().map(|it| it.path.clone()).collect();
        for path in &placeholders {
            assert_eq!(host.look(path).unwrap(), None, "placeholder where something is");
            let parent = host.look(path.parent().unwrap()).unwrap();
            assert_eq!(parent.map(|it| it.kind), Some(Kind::Directory), "{path:?} has no parent");
        }
        let mut this = Self { host, mounts: Vec::new(), placeholders, sealed: false };
        for mount in &view.mounts {
            assert!(!this.sealed, "{mount:?} after the seal");
            this.mount(mount);
        }
        this
    }

    fn mount(&mut self, mount: &'a Mount) {
        let path = match mount {
            Mount::Root(_) => {
                assert!(self.mounts.is_empty(), "the root comes first");
                PathBuf::from("/")
            }
            Mount::Devices | Mount::SharedMemory => "/dev".into(),
            Mount::Processes => "/proc".into(),
            Mount::SealRoot => {
                self.sealed = true;
                return;
            }
            Mount::Link { path, .. } => {
                assert_eq!(self.mounts.len(), self.links() + 1, "links come before mounts");
                path.clone()
            }
            Mount::Bind { path, .. } => {
                let source = self.host_kind(path).expect("a source");
                self.point(path, source);
                path.clone()
            }
            Mount::Pin(path) => {
                self.point(path, Kind::Directory);
                assert_eq!(self.see(path), Seen::Writable, "{path:?} needs no pin");
                path.clone()
            }
            Mount::PinLink(path) => {
                assert_eq!(self.host_kind(path), Some(Kind::Link));
                assert_eq!(self.see(path), Seen::Writable, "{path:?} cannot be led elsewhere");
                path.clone()
            }
            Mount::MaskDirectory { path, passages, files, .. } => {
                self.point(path, Kind::Directory);
                for (index, inside) in passages.iter().enumerate() {
                    let parent = inside.parent().unwrap();
                    let made = parent == path || passages[..index].iter().any(|it| it == parent);
                    assert!(made, "{inside:?} before its parent");
                }
                for file in files {
                    let parent = file.parent().unwrap();
                    assert!(parent == path || passages.iter().any(|it| it == parent));
                }
                path.clone()
            }
            Mount::MaskFile(path) => {
                self.point(path, Kind::File);
                path.clone()
            }
        };
        self.mounts.push((path, mount));
    }

    fn links(&self) -> usize {
        self.mounts.iter().filter(|(_, mount)| matches!(mount, Mount::Link { .. })).count()
    }

    fn host_kind(&self, path: &Path) -> Option<Kind> {
        self.host.look(path).unwrap().map(|object| object.kind)
    }

    /// A mount point must exist, and be a directory for a directory.
    fn point(&self, path: &Path, wanted: Kind) {
        let exists = match self.layer(path, self.mounts.len()) {
            (_, Mount::Root(Root::Empty)) => true,
            (_, Mount::MaskDirectory { path: mask, passages, files, .. }) => match wanted {
                Kind::Directory => mask == path || passages.iter().any(|it| it == path),
                Kind::File | Kind::Other | Kind::Link => files.iter().any(|it| it == path),
            },
            _ if self.placeholders.iter().any(|it| it == path) => wanted == Kind::Directory,
            _ => {
                let there = self.host_kind(path);
                (there == Some(Kind::Directory)) == (wanted == Kind::Directory) && there.is_some()
            }
        };
        assert!(exists, "no mount point {path:?} for {wanted:?} in {:?}", self.mounts);
    }

    /// The mount that shows a path: the last one on the way to it. A pin shows what was there before.
    fn layer(&self, path: &Path, before: usize) -> (usize, &'a Mount) {
        let shows = |(index, (point, mount)): (usize, &(PathBuf, &'a Mount))| {
            let on_way = path.starts_with(point) && !matches!(mount, Mount::Link { .. });
            on_way.then_some((index, *mount))
        };
        let found = self.mounts[..before].iter().enumerate().rev().find_map(shows);
        match found.expect("the root is on every way") {
            (index, Mount::Pin(_) | Mount::PinLink(_)) => self.layer(path, index),
            found => found,
        }
    }

    /// What a command finds there.
    pub fn see(&self, path: &Path) -> Seen {
        let exists = self.host_kind(path).is_some();
        match self.layer(path, self.mounts.len()).1 {
            Mount::Root(Root::HostReadOnly) if exists => Seen::ReadOnly,
            Mount::Root(Root::HostWritable) => Seen::Writable,
            Mount::Bind { access: Access::ReadOnly, .. } if exists => Seen::ReadOnly,
            Mount::Bind { access: Access::Writable, .. } => Seen::Writable,
            Mount::MaskDirectory { mode: MaskMode::Listed, .. } => Seen::ReadOnly,
            _ => Seen::Nothing,
        }
    }

    /// Whether the name could be taken away from what it stands for: it is in a writable directory,
    /// and nothing is mounted on it.
    pub fn can_be_renamed(&self, path: &Path) -> bool {
        let mounted = self.mounts.iter().any(|(point, _)| point == path);
        let parent = path.parent().is_some_and(|parent| self.see(parent) == Seen::Writable);
        parent && !mounted
    }
}
