//! A view as bubblewrap's arguments. Pure: the tests compare lists.
//!
//! They are handed over in a descriptor (`--args`), so that nobody inside can read them. Where the
//! command starts, what it is and its environment are not in there: the program inside knows.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use crate::linux::proc_covers::ProcCovers;
use crate::plan::{Access, MaskMode, Mount, Network, Root, View};

/// bubblewrap takes no more, those of its command line included.
const ARGUMENTS_MAX: usize = 9000;
/// Kept for the command line: `bwrap --args 5 -- program` and some air.
const ARGUMENTS_RESERVED: usize = 16;

/// What bubblewrap has to know besides the view.
#[derive(Debug, Clone, Copy)]
pub struct Surroundings<'a> {
    /// Whether the command has a network.
    pub network: Network,
    /// Whether no user namespace can be made inside: the kernel's own limit, as a second layer
    /// below the filter's. Only if this bubblewrap has the option.
    pub disable_user_namespaces: bool,
    /// An empty file of mode `0000` on the host, mounted over files that are hidden.
    pub empty_file: &'a Path,
    /// What to cover in `/proc`.
    pub covers: &'a ProcCovers,
    /// Where bubblewrap writes the number of the process it made.
    pub info_descriptor: Option<i32>,
}

/// Why bubblewrap cannot make this view. Nothing runs then.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unexpressible {
    /// bubblewrap's own limit.
    #[error("the policy needs {0} arguments, and bubblewrap takes {ARGUMENTS_MAX} at most")]
    TooMany(usize),
    /// Arguments are separated by NUL, and mount points are found from the root.
    #[error("{0:?} is not an absolute path without NUL and without `.` or `..`")]
    Path(PathBuf),
    /// bubblewrap mounts from the host, so a directory mounted on itself loses what was mounted
    /// below it.
    #[error("pinning {pin:?} would uncover {covered:?}")]
    PinUncovers {
        /// The directory to be pinned.
        pin: PathBuf,
        /// What was mounted below before.
        covered: PathBuf,
    },
    /// bubblewrap follows links.
    #[error("bubblewrap cannot protect the link {0:?}; the builtin engine can")]
    PinLink(PathBuf),
    /// Something is mounted before the root is.
    #[error("the view does not begin with its root")]
    NoRoot,
}

/// The content of the arguments' descriptor, each argument ended by a NUL.
pub fn arguments(view: &View, around: &Surroundings<'_>) -> Result<Vec<u8>, Unexpressible> {
    let list = argument_list(view, around)?;
    let mut bytes = Vec::with_capacity(list.iter().map(|argument| argument.len() + 1).sum());
    for argument in &list {
        bytes.extend_from_slice(argument);
        bytes.push(0);
    }
    Ok(bytes)
}

fn argument_list(view: &View, around: &Surroundings<'_>) -> Result<Vec<Vec<u8>>, Unexpressible> {
    let mut list = List::default();
    // The program inside reaps; bubblewrap's own reaper would only be one process more. No new
    // session: the terminal is taken inside, and the filter keeps it from being typed into.
    list.words(&["--as-pid-1", "--die-with-parent"]);
    list.words(&["--unshare-user", "--unshare-pid", "--unshare-ipc", "--unshare-uts"]);
    if around.network == Network::Isolated {
        list.words(&["--unshare-net"]);
    }
    if around.disable_user_namespaces {
        list.words(&["--disable-userns"]);
    }
    if let Some(descriptor) = around.info_descriptor {
        list.words(&["--info-fd", &descriptor.to_string()]);
    }
    let Some(Mount::Root(root)) = view.mounts.first() else { return Err(Unexpressible::NoRoot) };
    for (index, mount) in view.mounts.iter().enumerate() {
        list.seal_masks(place(mount))?;
        list.mount(mount, &view.mounts[..index], *root, around)?;
    }
    list.seal_masks(None)?;
    if devices_are_on_top(&view.mounts) {
        list.at("--remount-ro", Path::new("/dev"))?;
    }
    list.words(&["--cap-drop", "ALL"]);
    match list.arguments.len() {
        count if count > ARGUMENTS_MAX - ARGUMENTS_RESERVED => Err(Unexpressible::TooMany(count)),
        _ => Ok(list.arguments),
    }
}

#[derive(Default)]
struct List {
    arguments: Vec<Vec<u8>>,
    /// Masks that are still writable, each below the one before: bubblewrap makes the mount points
    /// in them itself, so they are sealed when nothing more comes below.
    unsealed: Vec<PathBuf>,
}

impl List {
    fn words(&mut self, words: &[&str]) {
        self.arguments.extend(words.iter().map(|word| word.as_bytes().to_vec()));
    }

    /// Seals the masks that the next mount is not below; all, if there is none.
    fn seal_masks(&mut self, next: Option<&Path>) -> Result<(), Unexpressible> {
        let below =
            |mask: &PathBuf| next.is_some_and(|next| next != mask && next.starts_with(mask));
        while let Some(mask) = self.unsealed.pop_if(|mask| !below(mask)) {
            self.at("--remount-ro", &mask)?;
        }
        Ok(())
    }

    /// An option and its path.
    fn at(&mut self, option: &str, path: &Path) -> Result<(), Unexpressible> {
        self.words(&[option]);
        self.arguments.push(checked(path)?.to_vec());
        Ok(())
    }

    /// An option, a source on the host, and where it goes.
    fn bind_at(&mut self, option: &str, from: &Path, to: &Path) -> Result<(), Unexpressible> {
        self.at(option, from)?;
        self.arguments.push(checked(to)?.to_vec());
        Ok(())
    }

    fn mount(
        &mut self,
        mount: &Mount,
        before: &[Mount],
        root: Root,
        around: &Surroundings<'_>,
    ) -> Result<(), Unexpressible> {
        let slash = Path::new("/");
        match mount {
            Mount::Root(Root::HostReadOnly) => self.bind_at("--ro-bind", slash, slash),
            Mount::Root(Root::HostWritable) => self.bind_at("--bind", slash, slash),
            Mount::Root(Root::Empty) => self.at("--tmpfs", slash),
            Mount::Devices => {
                self.at("--dev", Path::new("/dev"))?;
                // Of its own, since `/dev` is sealed at the end.
                self.words(&["--perms", "1777"]);
                self.at("--tmpfs", Path::new("/dev/shm"))
            }
            Mount::SharedMemory => {
                let shm = Path::new("/dev/shm");
                self.bind_at("--bind-try", shm, shm)
            }
            Mount::Bind { path, access } => self.bind_at(bind(*access), path, path),
            Mount::Pin(path) => self.pin(path, before),
            Mount::PinLink(path) => Err(Unexpressible::PinLink(path.clone())),
            Mount::Link { path, target } => self.link(path, target),
            // Files to mount on need not be made: bubblewrap does, where it mounts a file.
            Mount::MaskDirectory { path, mode, passages, files: _ } => {
                self.mask_directory(path, *mode, passages)
            }
            Mount::MaskFile(path) => self.bind_at("--ro-bind", around.empty_file, path),
            Mount::Processes => self.processes(root, around),
            Mount::SealRoot => self.at("--remount-ro", slash),
        }
    }

    fn pin(&mut self, path: &Path, before: &[Mount]) -> Result<(), Unexpressible> {
        let mut access = Access::ReadOnly;
        for mount in before {
            let Some(place) = place(mount) else { continue };
            if place != path && place.starts_with(path) {
                let (pin, covered) = (path.to_owned(), place.to_owned());
                return Err(Unexpressible::PinUncovers { pin, covered });
            }
            if path.starts_with(place) {
                access = given(mount, access);
            }
        }
        self.bind_at(bind(access), path, path)
    }

    fn mask_directory(
        &mut self,
        path: &Path,
        mode: MaskMode,
        passages: &[PathBuf],
    ) -> Result<(), Unexpressible> {
        let mode = match mode {
            MaskMode::Closed => "000",
            MaskMode::Passage => "111",
            MaskMode::Listed => "555",
        };
        self.words(&["--perms", mode]);
        self.at("--tmpfs", path)?;
        for passage in passages {
            self.words(&["--perms", "111"]);
            self.at("--dir", passage)?;
        }
        self.unsealed.push(path.to_owned());
        Ok(())
    }

    fn link(&mut self, path: &Path, target: &Path) -> Result<(), Unexpressible> {
        let says = target.as_os_str().as_bytes();
        if says.contains(&0) || says.is_empty() {
            return Err(Unexpressible::Path(target.to_owned()));
        }
        self.words(&["--symlink"]);
        self.arguments.push(says.to_vec());
        self.arguments.push(checked(path)?.to_vec());
        Ok(())
    }

    fn processes(&mut self, root: Root, around: &Surroundings<'_>) -> Result<(), Unexpressible> {
        self.at("--proc", Path::new("/proc"))?;
        // An empty root has no `/sys`, and needs none made.
        let there = |path: &&PathBuf| root != Root::Empty || path.starts_with("/proc");
        for path in around.covers.read_only.iter().filter(there) {
            self.bind_at("--ro-bind", path, path)?;
        }
        for path in around.covers.hidden_files.iter().filter(there) {
            self.bind_at("--ro-bind", around.empty_file, path)?;
        }
        for path in around.covers.hidden_directories.iter().filter(there) {
            self.mask_directory(path, MaskMode::Listed, &[])?;
            self.seal_masks(None)?;
        }
        Ok(())
    }
}

fn bind(access: Access) -> &'static str {
    match access {
        Access::ReadOnly => "--ro-bind",
        Access::Writable => "--bind",
    }
}

/// Whether what is at `/dev` in the end is the private one, and not something mounted later.
fn devices_are_on_top(mounts: &[Mount]) -> bool {
    let covers = |mount: &&Mount| place(mount).is_some_and(|at| Path::new("/dev").starts_with(at));
    mounts.iter().rev().find(covers) == Some(&Mount::Devices)
}

/// Where a mount is put.
fn place(mount: &Mount) -> Option<&Path> {
    match mount {
        Mount::Root(_) => Some(Path::new("/")),
        Mount::Devices => Some(Path::new("/dev")),
        Mount::SharedMemory => Some(Path::new("/dev/shm")),
        Mount::Processes => Some(Path::new("/proc")),
        Mount::Bind { path, .. }
        | Mount::Pin(path)
        | Mount::PinLink(path)
        | Mount::Link { path, .. }
        | Mount::MaskDirectory { path, .. }
        | Mount::MaskFile(path) => Some(path),
        Mount::SealRoot => None,
    }
}

/// Whether what lies below the mount may be changed, given what was true before it.
fn given(mount: &Mount, before: Access) -> Access {
    match mount {
        Mount::Root(Root::HostWritable) | Mount::Devices | Mount::SharedMemory => Access::Writable,
        Mount::Bind { access, .. } => *access,
        Mount::Pin(_) | Mount::PinLink(_) | Mount::Link { .. } | Mount::SealRoot => before,
        Mount::Root(Root::HostReadOnly | Root::Empty)
        | Mount::MaskDirectory { .. }
        | Mount::MaskFile(_)
        | Mount::Processes => Access::ReadOnly,
    }
}

fn checked(path: &Path) -> Result<&[u8], Unexpressible> {
    let bytes = path.as_os_str().as_bytes();
    let dots = bytes.split(|byte| *byte == b'/').any(|name| name == b"." || name == b"..");
    if !path.is_absolute() || bytes.contains(&0) || dots {
        return Err(Unexpressible::Path(PathBuf::from(OsStr::from_bytes(bytes))));
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn covers() -> ProcCovers {
        ProcCovers {
            read_only: vec!["/proc/sys".into(), "/proc/mtrr".into()],
            hidden_files: vec!["/proc/kcore".into()],
            hidden_directories: vec!["/proc/scsi".into(), "/sys/firmware".into()],
        }
    }

    fn listed(mounts: Vec<Mount>, network: Network) -> Result<String, Unexpressible> {
        let covers = covers();
        let around = Surroundings {
            network,
            disable_user_namespaces: false,
            empty_file: Path::new("/state/empty"),
            covers: &covers,
            info_descriptor: None,
        };
        let view = View { mounts, placeholders: vec![], witnesses: vec![], writable: vec![] };
        let list = argument_list(&view, &around)?;
        Ok(list.iter().map(|word| str::from_utf8(word).unwrap()).collect::<Vec<_>>().join(" "))
    }

    /// What stands between the namespaces and `--cap-drop ALL`.
    fn check(mounts: Vec<Mount>, expected: &str) {
        let list = listed(mounts, Network::Host).unwrap();
        let begin = "--as-pid-1 --die-with-parent \
             --unshare-user --unshare-pid --unshare-ipc --unshare-uts ";
        let middle = list.strip_prefix(begin).unwrap().strip_suffix("--cap-drop ALL").unwrap();
        let expected: Vec<&str> = expected.split_whitespace().collect();
        assert_eq!(middle.split_whitespace().collect::<Vec<_>>(), expected);
    }

    fn bound(path: &str, access: Access) -> Mount {
        Mount::Bind { path: path.into(), access }
    }

    fn masked(path: &str, mode: MaskMode, passages: &[&str]) -> Mount {
        let passages = passages.iter().map(PathBuf::from).collect();
        Mount::MaskDirectory { path: path.into(), mode, passages, files: vec![] }
    }

    const HOST: Mount = Mount::Root(Root::HostReadOnly);

    #[test]
    fn a_workspace_with_protected_names() {
        check(
            vec![
                HOST,
                Mount::Devices,
                bound("/srv/repo", Access::Writable),
                bound("/srv/repo/.git", Access::ReadOnly),
                masked("/srv/repo/.codex", MaskMode::Listed, &[]),
                Mount::MaskFile("/srv/repo/.env".into()),
                Mount::Processes,
            ],
            "--ro-bind / / --dev /dev --perms 1777 --tmpfs /dev/shm --bind /srv/repo /srv/repo
             --ro-bind /srv/repo/.git /srv/repo/.git
             --perms 555 --tmpfs /srv/repo/.codex --remount-ro /srv/repo/.codex
             --ro-bind /state/empty /srv/repo/.env
             --proc /proc --ro-bind /proc/sys /proc/sys --ro-bind /proc/mtrr /proc/mtrr
             --ro-bind /state/empty /proc/kcore
             --perms 555 --tmpfs /proc/scsi --remount-ro /proc/scsi
             --perms 555 --tmpfs /sys/firmware --remount-ro /sys/firmware --remount-ro /dev",
        );
    }

    #[test]
    fn something_open_below_something_closed() {
        check(
            vec![
                HOST,
                bound("/r", Access::Writable),
                masked("/r/a", MaskMode::Passage, &["/r/a/b", "/r/a/b/c"]),
                bound("/r/a/b", Access::Writable),
                bound("/r/a/b/c", Access::ReadOnly),
                masked("/r/x", MaskMode::Closed, &[]),
            ],
            "--ro-bind / / --bind /r /r
             --perms 111 --tmpfs /r/a --perms 111 --dir /r/a/b --perms 111 --dir /r/a/b/c
             --bind /r/a/b /r/a/b --ro-bind /r/a/b/c /r/a/b/c --remount-ro /r/a
             --perms 000 --tmpfs /r/x --remount-ro /r/x",
        );
    }

    #[test]
    fn masks_are_sealed_after_the_last_mount_below_them() {
        check(
            vec![
                HOST,
                masked("/a", MaskMode::Passage, &["/a/b"]),
                masked("/a/b", MaskMode::Passage, &[]),
                bound("/a/b/file", Access::ReadOnly),
                bound("/a/other", Access::ReadOnly),
                masked("/ab", MaskMode::Closed, &[]),
                Mount::SealRoot,
            ],
            "--ro-bind / / --perms 111 --tmpfs /a --perms 111 --dir /a/b
             --perms 111 --tmpfs /a/b --ro-bind /a/b/file /a/b/file --remount-ro /a/b
             --ro-bind /a/other /a/other --remount-ro /a
             --perms 000 --tmpfs /ab --remount-ro /ab --remount-ro /",
        );
    }

    #[test]
    fn an_empty_root_is_sealed_at_the_end_and_has_no_sys() {
        check(
            vec![
                Mount::Root(Root::Empty),
                Mount::Link { path: "/bin".into(), target: "usr/bin".into() },
                Mount::Devices,
                bound("/usr", Access::ReadOnly),
                Mount::Processes,
                Mount::SealRoot,
            ],
            "--tmpfs / --symlink usr/bin /bin --dev /dev --perms 1777 --tmpfs /dev/shm --ro-bind /usr /usr
             --proc /proc --ro-bind /proc/sys /proc/sys --ro-bind /proc/mtrr /proc/mtrr
             --ro-bind /state/empty /proc/kcore
             --perms 555 --tmpfs /proc/scsi --remount-ro /proc/scsi
             --remount-ro / --remount-ro /dev",
        );
        check(
            vec![Mount::Root(Root::HostWritable), Mount::Devices, Mount::SharedMemory],
            "--bind / / --dev /dev --perms 1777 --tmpfs /dev/shm --bind-try /dev/shm /dev/shm --remount-ro /dev",
        );
    }

    #[test]
    fn what_is_mounted_on_devices_is_not_sealed_with_them() {
        check(
            vec![HOST, Mount::Devices, bound("/dev/dri", Access::ReadOnly)],
            "--ro-bind / / --dev /dev --perms 1777 --tmpfs /dev/shm
             --ro-bind /dev/dri /dev/dri --remount-ro /dev",
        );
        check(
            vec![HOST, Mount::Devices, bound("/dev", Access::Writable)],
            "--ro-bind / / --dev /dev --perms 1777 --tmpfs /dev/shm --bind /dev /dev",
        );
    }

    #[test]
    fn a_pinned_directory_stays_as_it_is() {
        let pin = |path: &str| Mount::Pin(path.into());
        check(
            vec![HOST, bound("/r", Access::Writable), pin("/r/a"), pin("/r/a/b"), pin("/etc")],
            "--ro-bind / / --bind /r /r --bind /r/a /r/a --bind /r/a/b /r/a/b --ro-bind /etc /etc",
        );
        check(
            vec![
                Mount::Root(Root::HostWritable),
                bound("/r", Access::ReadOnly),
                pin("/r/a"),
                pin("/rest"),
            ],
            "--bind / / --ro-bind /r /r --ro-bind /r/a /r/a --bind /rest /rest",
        );
        let uncovering = vec![
            HOST,
            bound("/r", Access::Writable),
            Mount::MaskFile("/r/a/s".into()),
            pin("/r/a"),
        ];
        let error = Unexpressible::PinUncovers { pin: "/r/a".into(), covered: "/r/a/s".into() };
        assert_eq!(listed(uncovering, Network::Host), Err(error));
    }

    #[test]
    fn namespaces_and_descriptors() {
        let list = listed(vec![HOST], Network::Isolated).unwrap();
        assert_eq!(list.matches("--unshare-net").count(), 1);
        assert!(!list.contains("--new-session") && !list.contains("--disable-userns"));
        let covers = covers();
        let around = Surroundings {
            network: Network::Host,
            disable_user_namespaces: true,
            empty_file: Path::new("/e"),
            covers: &covers,
            info_descriptor: Some(6),
        };
        let view =
            View { mounts: vec![HOST], placeholders: vec![], witnesses: vec![], writable: vec![] };
        let bytes = arguments(&view, &around).unwrap();
        let text = String::from_utf8(bytes).unwrap();
        assert!(text.contains("\0--disable-userns\0--info-fd\x006\0--ro-bind\0/\0/\0"), "{text:?}");
        assert!(text.ends_with("--cap-drop\0ALL\0") && !text.contains("--unshare-net"));
    }

    #[test]
    fn what_cannot_be_said_is_refused() {
        for path in ["relative", "/a/../b", "/a/.", "/a\0b", ""] {
            let found = listed(vec![HOST, bound(path, Access::ReadOnly)], Network::Host);
            assert_eq!(found, Err(Unexpressible::Path(path.into())), "{path:?}");
        }
        let link = |target: &str| Mount::Link { path: "/bin".into(), target: target.into() };
        assert!(listed(vec![HOST, link("")], Network::Host).is_err());
        assert!(listed(vec![HOST, link("a\0b")], Network::Host).is_err());
        let pinned = listed(vec![HOST, Mount::PinLink("/l".into())], Network::Host);
        assert_eq!(pinned, Err(Unexpressible::PinLink("/l".into())));
        assert!(listed(vec![HOST, bound("/a/..b/.c", Access::ReadOnly)], Network::Host).is_ok());
        assert_eq!(listed(vec![], Network::Host), Err(Unexpressible::NoRoot));
        assert_eq!(listed(vec![Mount::Devices, HOST], Network::Host), Err(Unexpressible::NoRoot));
        let many = |count| {
            let files = (0..count).map(|index| Mount::MaskFile(format!("/{index}").into()));
            listed(std::iter::once(HOST).chain(files).collect(), Network::Host)
        };
        assert!(many(2990).is_ok());
        assert!(matches!(many(3000), Err(Unexpressible::TooMany(9011))), "{:?}", many(3000).err());
    }
}
