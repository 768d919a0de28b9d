//! Placeholders in real directories: made, counted, removed; after a kill, beside another server,
//! and where somebody makes them real.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Barrier;
use std::thread;

use exec_sandbox::linux::placeholders::{HoldError, Registry};
use exec_sandbox::plan::{MaskMode, Mount, Placeholder, PlaceholderKind, Root, View};

struct Scene {
    directory: tempfile::TempDir,
}

impl Scene {
    fn new() -> Scene {
        let directory = tempfile::tempdir().unwrap();
        fs::create_dir(directory.path().join("w")).unwrap();
        Scene { directory }
    }

    fn state(&self) -> PathBuf {
        self.directory.path().join("state/placeholders")
    }

    fn registry(&self) -> Registry {
        Registry::open(&self.state()).unwrap()
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().canonicalize().unwrap().join("w").join(name)
    }

    fn wanted(&self, names: &[&str]) -> Vec<Placeholder> {
        let kind = PlaceholderKind::Directory;
        names.iter().map(|name| Placeholder { path: self.path(name), kind }).collect()
    }

    fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(self.path("")).unwrap();
        let mut names: Vec<String> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    /// Nothing in the workspace, nothing to remember.
    fn assert_clean(&self) {
        assert_eq!(self.names(), Vec::<String>::new());
        let journals = fs::read_dir(self.state()).unwrap().map(|entry| entry.unwrap());
        for journal in journals {
            assert_eq!(journal.metadata().unwrap().len(), 0, "{journal:?}");
        }
    }
}

#[test]
fn made_for_the_first_and_removed_after_the_last() {
    let scene = Scene::new();
    let registry = scene.registry();
    let both = scene.wanted(&[".git", ".codex"]);
    let first = registry.hold(&both).unwrap();
    assert_eq!(scene.names(), [".codex", ".git"]);
    assert!(registry.is_placeholder(&scene.path(".git")));
    assert!(!registry.is_placeholder(&scene.path("")) && !registry.is_placeholder(Path::new("/")));
    let second = registry.hold(&scene.wanted(&[".git"])).unwrap();
    drop(first);
    assert_eq!(scene.names(), [".git"]);
    drop(second);
    scene.assert_clean();
    assert!(!registry.is_placeholder(&scene.path(".git")));
    // A file is made and removed like a directory.
    let file = Placeholder { path: scene.path("f"), kind: PlaceholderKind::File };
    let held = registry.hold(std::slice::from_ref(&file)).unwrap();
    assert_eq!(fs::metadata(scene.path("f")).unwrap().len(), 0);
    drop(held);
    scene.assert_clean();
}

#[test]
fn what_is_made_real_stays() {
    let scene = Scene::new();
    let registry = scene.registry();
    // Filled.
    let held = registry.hold(&scene.wanted(&[".git"])).unwrap();
    fs::write(scene.path(".git/HEAD"), "x").unwrap();
    drop(held);
    assert_eq!(fs::read_to_string(scene.path(".git/HEAD")).unwrap(), "x");
    fs::remove_dir_all(scene.path(".git")).unwrap();
    // Replaced, by a directory, a file, a link.
    let replace: [&dyn Fn(&Path); 3] =
        [&|path| fs::create_dir(path).unwrap(), &|path| fs::write(path, "").unwrap(), &|path| {
            std::os::unix::fs::symlink("/nonexistent", path).unwrap()
        }];
    for replace in replace {
        let held = registry.hold(&scene.wanted(&[".git"])).unwrap();
        // Kept under another name, so that its inode is not used again.
        fs::rename(scene.path(".git"), scene.path("old")).unwrap();
        replace(&scene.path(".git"));
        assert!(!registry.is_placeholder(&scene.path(".git")));
        drop(held);
        assert!(fs::symlink_metadata(scene.path(".git")).is_ok());
        fs::remove_dir(scene.path("old")).unwrap();
        let at = scene.path(".git");
        fs::remove_dir(&at).or_else(|_| fs::remove_file(&at)).unwrap();
    }
    // Removed.
    let held = registry.hold(&scene.wanted(&[".git"])).unwrap();
    fs::remove_dir(scene.path(".git")).unwrap();
    drop(held);
    scene.assert_clean();
}

#[test]
fn what_is_there_already_is_not_ours() {
    let scene = Scene::new();
    let registry = scene.registry();
    fs::create_dir(scene.path(".git")).unwrap();
    assert!(!registry.is_placeholder(&scene.path(".git")));
    let error = registry.hold(&scene.wanted(&[".codex", ".git"])).unwrap_err();
    assert!(matches!(&error, HoldError::Appeared(path) if *path == scene.path(".git")), "{error}");
    // What was made before the refusal is given back.
    assert_eq!(scene.names(), [".git"]);
    let missing = Placeholder { path: scene.path("no/.git"), kind: PlaceholderKind::Directory };
    assert!(matches!(registry.hold(&[missing]), Err(HoldError::System { .. })));
    // Through a link nothing is made.
    std::os::unix::fs::symlink("/tmp", scene.path("link")).unwrap();
    let linked = Placeholder { path: scene.path("link/.x"), kind: PlaceholderKind::Directory };
    assert!(matches!(registry.hold(&[linked]), Err(HoldError::System { .. })));
}

/// Replaced while the first command runs and made anew for a second: the first one's end must not
/// take the second one's away.
#[test]
fn an_old_use_does_not_count_for_a_new_object() {
    let scene = Scene::new();
    let registry = scene.registry();
    let first = registry.hold(&scene.wanted(&[".git"])).unwrap();
    fs::rename(scene.path(".git"), scene.path("kept")).unwrap();
    let second = registry.hold(&scene.wanted(&[".git"])).unwrap();
    drop(first);
    assert!(scene.path(".git").exists());
    drop(second);
    fs::remove_dir(scene.path("kept")).unwrap();
    scene.assert_clean();
}

#[test]
fn sixteen_commands_at_once_leave_nothing() {
    let scene = Scene::new();
    let registry = scene.registry();
    let wanted = scene.wanted(&[".git", ".codex", ".agents", ".aws"]);
    let together = Barrier::new(16);
    thread::scope(|scope| {
        for _ in 0..16 {
            scope.spawn(|| {
                together.wait();
                for _ in 0..50 {
                    let held = registry.hold(&wanted).unwrap();
                    assert!(wanted.iter().all(|placeholder| placeholder.path.is_dir()));
                    drop(held);
                }
            });
        }
    });
    scene.assert_clean();
}

#[test]
fn two_servers_do_not_take_each_others_away() {
    let scene = Scene::new();
    let (one, two) = (scene.registry(), scene.registry());
    let first = one.hold(&scene.wanted(&[".git"])).unwrap();
    assert!(two.is_placeholder(&scene.path(".git")), "the other's journal says so");
    let second = two.hold(&scene.wanted(&[".git"])).unwrap();
    drop(first);
    assert!(scene.path(".git").exists(), "the second still needs it");
    assert!(one.is_placeholder(&scene.path(".git")));
    drop(second);
    scene.assert_clean();
    // And both at once, many times.
    let wanted = scene.wanted(&[".git", ".codex"]);
    thread::scope(|scope| {
        for registry in [&one, &two, &one, &two] {
            scope.spawn(|| {
                for _ in 0..100 {
                    let held = registry.hold(&wanted).unwrap();
                    assert!(wanted.iter().all(|placeholder| placeholder.path.is_dir()));
                    drop(held);
                }
            });
        }
    });
    scene.assert_clean();
    drop((one, two));
    let left: Vec<_> = fs::read_dir(scene.state()).unwrap().collect();
    assert_eq!(left.len(), 1, "only the lock: {left:?}");
}

/// In the child of the test below: hold, say so, and wait for the kill.
const HOLD: &str = "EXEC_SANDBOX_HOLD";

#[test]
fn after_a_kill_the_next_server_clears_away() {
    if let Some(root) = std::env::var_os(HOLD) {
        let root = PathBuf::from(root);
        let registry = Registry::open(&root.join("state/placeholders")).unwrap();
        let kind = PlaceholderKind::Directory;
        let wanted = [".git", ".codex", ".real"]
            .map(|name| Placeholder { path: root.join("w").join(name), kind });
        let held = registry.hold(&wanted).unwrap();
        println!("\nheld");
        let mut line = String::new();
        std::io::stdin().read_line(&mut line).unwrap();
        drop(held);
        return;
    }
    let scene = Scene::new();
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "after_a_kill_the_next_server_clears_away", "--nocapture"])
        .env(HOLD, scene.directory.path().canonicalize().unwrap())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap() == "held"));
    // While it lives, another server leaves them alone.
    drop(scene.registry());
    assert_eq!(scene.names(), [".codex", ".git", ".real"]);
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(scene.names(), [".codex", ".git", ".real"], "a kill cleans nothing up");
    fs::write(scene.path(".real/file"), "").unwrap();
    drop(scene.registry());
    assert_eq!(scene.names(), [".real"]);
    fs::remove_dir_all(scene.path(".real")).unwrap();
    scene.assert_clean();
}

#[test]
fn what_was_only_going_to_be_made_is_cleared_away_too() {
    let scene = Scene::new();
    fs::create_dir_all(scene.state()).unwrap();
    fs::create_dir(scene.path("old")).unwrap();
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    let (now, before) = (now.as_nanos(), now.as_nanos() - 3_600_000_000_000);
    fs::create_dir(scene.path("new")).unwrap();
    let line = |when: u128, name: &str| format!("intent d {when} {}\0", scene.path(name).display());
    // Killed just after `mkdir`; and long before somebody made a directory of that name.
    let text = line(now, "new") + &line(before, "old") + &line(now, "never");
    fs::write(scene.state().join("1-0.journal"), text).unwrap();
    drop(scene.registry());
    assert_eq!(scene.names(), ["old"]);
}

#[test]
fn what_we_may_not_make_is_skipped_or_refused() {
    // SAFETY: asks for a number.
    if unsafe { libc::geteuid() } != 0 {
        exec_testkit::skip("needs root, to become somebody else");
        return;
    }
    const NOBODY: u32 = 65534;
    let scene = Scene::new();
    let top = scene.directory.path();
    fs::set_permissions(top, fs::Permissions::from_mode(0o755)).unwrap();
    fs::create_dir_all(scene.state()).unwrap();
    for path in [top.join("state"), scene.state()] {
        std::os::unix::fs::chown(path, Some(NOBODY), Some(NOBODY)).unwrap();
    }
    fs::create_dir(scene.path("theirs")).unwrap();
    fs::create_dir(scene.path("shut")).unwrap();
    std::os::unix::fs::chown(scene.path("shut"), Some(NOBODY), Some(NOBODY)).unwrap();
    fs::set_permissions(scene.path("shut"), fs::Permissions::from_mode(0o555)).unwrap();
    let theirs = scene.wanted(&["theirs/.git"]);
    let shut = scene.wanted(&["shut/.git"]);
    // Only this thread changes its user; the C library would change all.
    let (skipped, refused, fitted) = thread::scope(|scope| {
        let worker = scope.spawn(|| {
            // SAFETY: plain numbers; this thread ends as what it becomes.
            unsafe {
                assert_eq!(libc::syscall(libc::SYS_setresgid, NOBODY, NOBODY, NOBODY), 0);
                assert_eq!(libc::syscall(libc::SYS_setresuid, NOBODY, NOBODY, NOBODY), 0);
            }
            let registry = scene.registry();
            let held = registry.hold(&theirs).unwrap();
            let mask = |path: &Path| Mount::MaskDirectory {
                path: path.to_owned(),
                mode: MaskMode::Listed,
                passages: vec![],
                files: vec![],
            };
            let view = View {
                mounts: vec![
                    Mount::Root(Root::HostReadOnly),
                    mask(&theirs[0].path),
                    mask(Path::new("/other")),
                ],
                placeholders: theirs.clone(),
                witnesses: vec![],
                writable: vec![],
            };
            (held.skipped().to_vec(), registry.hold(&shut).map(drop), held.fit(view).mounts)
        });
        worker.join().unwrap()
    });
    assert_eq!(skipped, [theirs[0].path.clone()]);
    // The command owns this directory and could first make it writable.
    assert!(matches!(refused, Err(HoldError::Unprotectable(_))), "{refused:?}");
    assert_eq!(fitted.len(), 2);
    assert_eq!(scene.names(), ["shut", "theirs"]);
}
