//! The small world that one attempt is made in: a workspace, things outside of it that must not
//! change, and secrets that must not be told.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use super::policy::Policy;

/// Everybody may make files here, and no policy but the one that says so lets commands write here.
pub const WORLDS: &str = "/var/tmp";

/// The id of an ordinary user.
pub const NOBODY: u32 = 65534;

/// Where and for whom an attempt is made.
pub struct World {
    folder: tempfile::TempDir,
    /// A word that only this attempt's processes and messages carry.
    pub nonce: String,
    /// What the secret files say.
    pub secret: String,
    /// A process of the same user outside.
    pub victim: Option<Child>,
    before: Snapshot,
}

/// What every watched name was.
type Snapshot = BTreeMap<PathBuf, String>;

impl World {
    /// `owner` owns everything in it. `setup` is a script that changes it before anything is tried.
    pub fn new(policy: Policy, owner: u32, setup: &str) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let nonce = format!("escape-{}-{number}-", std::process::id());
        let mixed = (u64::from(std::process::id()) << 32 | u64::from(number))
            .wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let folder = tempfile::Builder::new().prefix("escape-").tempdir_in(WORLDS).unwrap();
        let secret = format!("secret:{mixed:016x}");
        let world = World { folder, nonce, secret, victim: None, before: BTreeMap::new() };
        world.furnish(policy);
        if !setup.is_empty() {
            let status = Command::new("/bin/sh")
                .args(["-ec", setup])
                .current_dir(world.path())
                .env("SECRET", &world.secret)
                .status()
                .unwrap();
            assert!(status.success(), "setup: {setup}");
        }
        give(world.path(), owner);
        give(&world.shared_memory(), owner);
        world
    }

    /// Making files is most of the time that the suite takes, so there are only those that matter.
    fn furnish(&self, policy: Policy) {
        let file = |path: &str, text: &str| {
            let path = self.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        let intact = |path: &str| file(path, "intact\n");
        let secret = |path: &str| file(path, &format!("{}\n", self.secret));
        for path in [
            "out/canary",
            "out/dir/inner",
            "ws/a.txt",
            "ws/src/main.rs",
            "ws/.git/config",
            "ws/.git/hooks/sample",
            "ws/.codex/config.toml",
            "ws/.agents/skill",
            "ws/.aws/credentials",
        ] {
            intact(path);
        }
        secret("out/secret");
        match policy {
            Policy::TwoRoots => intact("two/ok"),
            Policy::WorkspaceTemporary => {
                intact("tmp/ok");
                intact("ws/sub/ok");
            }
            Policy::NestedRoots => intact("ws/sub/ok"),
            Policy::Denies | Policy::EverythingButDenied => {
                for path in ["ws/docs/readme", "ws/top/docs/readme", "ws/secrets/open/ok"] {
                    intact(path);
                }
                for path in [
                    "ws/secrets/key",
                    "ws/key.pem",
                    "ws/app.env",
                    "ws/.hidden.env",
                    "ws/deep/one/two/prod.env",
                    "ws/dir.env/inner",
                    "ws/target/plain",
                    "ws/top/private",
                ] {
                    secret(path);
                }
                symlink("target/plain", self.path().join("ws/link.env")).unwrap();
            }
            _ => {}
        }
        fs::write(self.shared_memory(), "intact\n").unwrap();
    }

    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    pub fn join(&self, path: &str) -> PathBuf {
        self.path().join(path)
    }

    /// A file of the host in `/dev/shm`.
    pub fn shared_memory(&self) -> PathBuf {
        Path::new("/dev/shm").join(&self.nonce)
    }

    /// Remembers how everything is, right before the attempt.
    pub fn remember(&mut self) {
        self.before = self.snapshot();
    }

    /// Which names that the policy protects are not what they were.
    pub fn changed(&self, policy: Policy) -> Vec<PathBuf> {
        let after = self.snapshot();
        let names =
            self.before.keys().chain(after.keys().filter(|name| !self.before.contains_key(*name)));
        let differs = |name: &&PathBuf| self.before.get(*name) != after.get(*name);
        names.filter(differs).filter(|name| policy.protects(name)).cloned().collect()
    }

    fn snapshot(&self) -> Snapshot {
        let mut snapshot = BTreeMap::new();
        look(self.path(), Path::new(""), &mut snapshot);
        for entry in fs::read_dir("/dev/shm").unwrap().flatten() {
            if entry.file_name().to_string_lossy().starts_with(&self.nonce) {
                snapshot.insert(entry.path(), described(&entry.path()));
            }
        }
        snapshot
    }

    /// A process that sleeps, of the given user.
    pub fn start_victim(&mut self, owner: u32) {
        use std::os::unix::process::CommandExt as _;
        let mut sleep = Command::new("sleep");
        sleep.arg("1000").env_clear().env("PATH", "/usr/bin:/bin").stdin(Stdio::null());
        if owner != 0 {
            sleep.uid(owner).gid(owner);
        }
        self.victim = Some(sleep.spawn().unwrap());
    }

    pub fn victim_is_dead(&mut self) -> bool {
        self.victim.as_mut().is_some_and(|victim| victim.try_wait().unwrap().is_some())
    }
}

impl Drop for World {
    fn drop(&mut self) {
        if let Some(mut victim) = self.victim.take() {
            victim.kill().ok();
            victim.wait().ok();
        }
        for entry in fs::read_dir("/dev/shm").into_iter().flatten().flatten() {
            if entry.file_name().to_string_lossy().starts_with(&self.nonce) {
                fs::remove_file(entry.path()).ok();
            }
        }
    }
}

/// All names below a folder, and what they are.
fn look(root: &Path, below: &Path, snapshot: &mut Snapshot) {
    for entry in fs::read_dir(root.join(below)).into_iter().flatten().flatten() {
        let name = below.join(entry.file_name());
        snapshot.insert(name.clone(), described(&entry.path()));
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            look(root, &name, snapshot);
        }
    }
}

fn described(path: &Path) -> String {
    let Ok(data) = fs::symlink_metadata(path) else { return "gone".to_owned() };
    let about = format!("{} {:o} {}:{}", data.ino(), data.mode(), data.uid(), data.gid());
    if data.is_dir() {
        return about;
    }
    if data.is_symlink() {
        return format!("{about} -> {:?}", fs::read_link(path));
    }
    let text = if data.is_file() { fs::read(path).unwrap_or_default() } else { Vec::new() };
    let text = String::from_utf8_lossy(&text).into_owned();
    format!("{about} {} links, {}.{}: {text}", data.nlink(), data.mtime(), data.mtime_nsec())
}

/// Gives a folder and all below to somebody.
pub fn give(path: &Path, owner: u32) {
    if owner == 0 {
        return;
    }
    std::os::unix::fs::lchown(path, Some(owner), Some(owner)).unwrap();
    if fs::symlink_metadata(path).unwrap().is_dir() {
        for entry in fs::read_dir(path).unwrap() {
            give(&entry.unwrap().path(), owner);
        }
    }
}
