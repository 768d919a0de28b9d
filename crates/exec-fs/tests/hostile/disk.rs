//! A full disk, a read-only one, and a tree mounted into itself: in a mount namespace of one
//! thread, which takes everything with it when it ends.

use std::fs;
use std::path::Path;

use exec_fs::Links::{Follow, Refuse};
use exec_fs::{
    Cancel, Handles, Missing, Parents, Recursion, Replacement, copy, create_directory, remove,
    rename, walk, write_file,
};
use exec_protocol::fs::{OpenMode, WalkOptions};
use rustix::mount::{
    MountFlags, MountPropagationFlags, mount, mount_bind, mount_change, mount_remount,
};
use rustix::thread::{UnshareFlags, unshare_unsafe};

use crate::support::*;

/// Runs where mounting is allowed and seen by nobody else.
fn with_private_mounts(name: &str, test: impl FnOnce(&Path) + Send) {
    let dir = tempfile::tempdir().unwrap();
    std::thread::scope(|scope| {
        let run = || {
            // SAFETY: only the mounts and the working directory become this thread's own;
            // descriptors, on whose sharing others rely, stay shared.
            let unshared = unsafe { unshare_unsafe(UnshareFlags::NEWNS | UnshareFlags::FS) };
            let private = MountPropagationFlags::PRIVATE | MountPropagationFlags::REC;
            if let Err(error) = unshared.and_then(|()| mount_change("/", private)) {
                exec_testkit::skip(format_args!("{name}: no private mounts: {error}"));
                return;
            }
            test(dir.path());
        };
        scope.spawn(run).join().unwrap();
    });
}

const FULL: &str = "-32603 No space left on device (os error 28)";
const READ_ONLY: &str = "-32603 Read-only file system (os error 30)";

#[test]
fn a_full_disk_is_told_and_an_atomic_write_leaves_the_old_content() {
    with_private_mounts("full disk", |dir| {
        mount("tmpfs", dir, "tmpfs", MountFlags::empty(), c"size=1m").unwrap();
        let (old, source) = (dir.join("old"), dir.join("source"));
        fs::write(&old, "old content").unwrap();
        fs::write(&source, vec![1; 600 << 10]).unwrap();
        let large = vec![7; 2 << 20];
        for links in [Follow, Refuse] {
            assert_eq!(outcome(write_file(&old, &large, links, Replacement::Atomic)), FULL);
            let new = dir.join("new");
            assert_eq!(outcome(write_file(&new, &large, links, Replacement::Atomic)), FULL);
        }
        assert_eq!(fs::read(&old).unwrap(), b"old content");
        assert_eq!(fs::read_dir(dir).unwrap().count(), 2, "something was left behind");
        let copied = copy(&source, &dir.join("copy"), Recursion::Single, &Cancel::new());
        assert_eq!(outcome(copied), FULL);
        fs::remove_file(dir.join("copy")).unwrap();
        let handles = Handles::new(1);
        handles.open("h", &dir.join("stream"), OpenMode::Replace).unwrap();
        assert_eq!(outcome(handles.write_block("h", 0, &large[..1 << 20])), FULL);
        handles.write_block("h", 0, b"the handle is still good").unwrap();
        handles.close("h").unwrap();
        let plain = write_file(&dir.join("stream"), &large, Follow, Replacement::InPlace);
        assert_eq!(outcome(plain), FULL);
    });
}

#[test]
fn a_read_only_disk_is_told_by_every_call_that_writes() {
    with_private_mounts("read-only disk", |dir| {
        mount("tmpfs", dir, "tmpfs", MountFlags::empty(), None).unwrap();
        fs::write(dir.join("f"), "abc").unwrap();
        fs::create_dir(dir.join("d")).unwrap();
        mount_remount(dir, MountFlags::RDONLY, c"").unwrap();
        let cancel = Cancel::new();
        for links in [Follow, Refuse] {
            for replacement in [Replacement::InPlace, Replacement::Atomic] {
                for name in ["f", "new"] {
                    let got = outcome(write_file(&dir.join(name), b"x", links, replacement));
                    assert_eq!(got, READ_ONLY, "{name}, {links:?}, {replacement:?}");
                }
            }
            for parents in [Parents::Create, Parents::Require] {
                let got = outcome(create_directory(&dir.join("new"), parents, links));
                assert_eq!(got, READ_ONLY);
            }
            let single = (Recursion::Single, Missing::Accept);
            assert_eq!(
                outcome(remove(&dir.join("f"), single.0, single.1, links, &cancel)),
                READ_ONLY
            );
        }
        let renamed = rename(&dir.join("f"), &dir.join("g"), exec_fs::Existing::Replace);
        assert_eq!(outcome(renamed), READ_ONLY);
        let copied = copy(&dir.join("f"), &dir.join("g"), Recursion::Single, &cancel);
        assert_eq!(outcome(copied), READ_ONLY);
        let removed = remove(&dir.join("d"), Recursion::Tree, Missing::Accept, Follow, &cancel);
        assert_eq!(outcome(removed), READ_ONLY);
        let opened = Handles::new(1).open("h", &dir.join("f"), OpenMode::Replace);
        assert_eq!(outcome(opened), READ_ONLY);
        assert_eq!(fs::read(dir.join("f")).unwrap(), b"abc");
    });
}

#[test]
fn a_tree_mounted_into_itself_is_walked_and_copied_to_an_end() {
    with_private_mounts("bind mount", |dir| {
        fs::create_dir_all(dir.join("a/b/c")).unwrap();
        fs::write(dir.join("a/f"), "").unwrap();
        mount_bind(dir.join("a"), dir.join("a/b")).unwrap();
        for follow in [false, true] {
            let options = WalkOptions {
                max_depth: 64,
                max_directories: 1000,
                max_entries: 1000,
                follow_directory_symlinks: follow,
                prune_hidden_directories: false,
            };
            let walked = walk(&dir.join("a"), &options, &Cancel::new()).unwrap();
            assert!(!walked.truncated && walked.entries.len() < 10, "{walked:?}");
        }
        copy(&dir.join("a"), &dir.join("copy"), Recursion::Tree, &Cancel::new()).unwrap();
        // The destination lies in the source, but no `..` leads there.
        fs::create_dir(dir.join("elsewhere")).unwrap();
        mount_bind(dir.join("a/b"), dir.join("elsewhere")).unwrap();
        let inside =
            copy(&dir.join("a"), &dir.join("elsewhere/new"), Recursion::Tree, &Cancel::new());
        assert_eq!(
            outcome(inside),
            "-32600 fs/copy cannot copy a directory to itself or one of its descendants"
        );
        let removed =
            remove(&dir.join("a"), Recursion::Tree, Missing::Accept, Follow, &Cancel::new());
        assert_eq!(outcome(removed), "-32603 Resource busy (os error 16)", "it is a mount point");
    });
}
