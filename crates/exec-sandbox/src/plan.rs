//! What a launch has to do, as data: comparable in tests, printable for people, the same for every
//! engine.

mod build;

use std::path::PathBuf;

/// Everything that stands between a command and the host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// What the command sees of the file system; `None` leaves it as it is.
    pub view: Option<View>,
    /// What it may reach.
    pub network: Network,
    /// Which system calls it may make.
    pub filter: Filter,
    /// Where it starts: absolute, and free of links where there is a view.
    pub cwd: PathBuf,
}

impl Plan {
    /// Whether anything at all is enforced.
    pub fn confines(&self) -> bool {
        self.view.is_some() || self.filter != Filter::None
    }
}

/// A file system made of mounts, in a mount, process, IPC and host-name namespace of its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct View {
    /// In order: a later mount hides what an earlier one put there. The order is the policy.
    pub mounts: Vec<Mount>,
    /// Names that must exist on the host while the command runs, so that something can be mounted on
    /// them. Whoever launches makes them, counts their users and removes them.
    pub placeholders: Vec<Placeholder>,
    /// Objects that must still be what they were when the plan was made, or nothing runs.
    pub witnesses: Vec<Witness>,
    /// Below these, and nowhere else, Landlock lets the command write. The second layer.
    pub writable: Vec<PathBuf>,
}

/// One step of making the view. All paths are absolute, lexically normal, free of links and as the
/// command sees them; where a source has no member of its own it is the same path on the host.
///
/// A mount point exists already, except directly in an empty root and in the private `/dev`: there
/// it is made, with its parents.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Mount {
    /// What `/` is to begin with.
    Root(Root),
    /// A private `/dev`: the harmless devices, its own `pts` and an empty `shm`.
    Devices,
    /// The host's `/dev/shm`, if it has one.
    SharedMemory,
    /// The host's tree at `path`. Writable or not, never with devices or set-uid.
    Bind {
        /// Where, on the host and in the view.
        path: PathBuf,
        /// Whether it may be changed.
        access: Access,
    },
    /// A directory mounted on itself as it is, so that it can be neither renamed nor removed.
    Pin(PathBuf),
    /// A symbolic link mounted on itself, so that it can be neither renamed, removed nor led
    /// elsewhere. Needs `open_tree` and `move_mount`, both without following.
    PinLink(PathBuf),
    /// A symbolic link like the host's, in an empty root: only there, and before any other mount.
    Link {
        /// Where; its parents are made.
        path: PathBuf,
        /// What it says, as on the host.
        target: PathBuf,
    },
    /// An empty, unchangeable directory instead of what is there.
    MaskDirectory {
        /// What is hidden.
        path: PathBuf,
        /// What may be done with the empty directory.
        mode: MaskMode,
        /// Directories (`111`) made inside before it is sealed, shallow first: mount points for what
        /// is reopened below.
        passages: Vec<PathBuf>,
        /// Empty files made inside after them: mount points for files that are reopened.
        files: Vec<PathBuf>,
    },
    /// An empty file instead of what is there, of no use to anyone (`0000`).
    MaskFile(PathBuf),
    /// The processes of the new namespace, `/proc/sys` and its like read-only, the revealing files
    /// hidden.
    Processes,
    /// The root becomes read-only; for [`Root::Empty`], as the last step.
    SealRoot,
}

/// What `/` is before anything is mounted on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Root {
    /// The host's, read-only.
    HostReadOnly,
    /// The host's, writable.
    HostWritable,
    /// Nothing.
    Empty,
}

/// Whether a tree may be changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// It may not.
    ReadOnly,
    /// It may.
    Writable,
}

/// What may be done with a masked directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MaskMode {
    /// Neither listed nor passed (`000`).
    Closed,
    /// Passed but not listed (`111`): something below is open again.
    Passage,
    /// Listed, and empty (`555`): a protected name that does not exist.
    Listed,
}

/// A name on the host that is made for the time of a command.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Placeholder {
    /// Which; its parent exists.
    pub path: PathBuf,
    /// What kind.
    pub kind: PlaceholderKind,
}

/// What a placeholder is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum PlaceholderKind {
    /// An empty directory.
    Directory,
    /// An empty file.
    File,
}

/// An object as it was when the plan was made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Witness {
    /// Where.
    pub path: PathBuf,
    /// Its device.
    pub device: u64,
    /// Its inode.
    pub inode: u64,
}

/// What a command may reach beyond its own processes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Network {
    /// Nothing: a namespace of its own.
    Isolated,
    /// What the host can.
    Host,
}

/// The system calls that are refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Filter {
    /// None are.
    None,
    /// Those that reach out or break in: no network.
    Restricted,
    /// Those that break in: the network is open.
    NetworkOpen,
}
