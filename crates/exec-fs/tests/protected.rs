//! Names that a process must neither make nor remove. They are told once for a process, so all of it
//! is one test.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::io::ErrorKind::ReadOnlyFilesystem;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use exec_fs::Links::{Follow, Refuse};
use exec_fs::{
    Cancel, Error, Existing, Handles, Missing, Parents, Recursion, Replacement, copy,
    create_directory, remove, rename, write_file,
};
use exec_protocol::fs::OpenMode;
use rustix::fs::{CWD, RenameFlags};

/// Of each call.
const ROUNDS: usize = 10_000;

fn refused(what: &str, result: Result<(), Error>) {
    match result {
        Err(Error::Os(error)) if error.kind() == ReadOnlyFilesystem => {}
        other => panic!("{what}: {other:?}"),
    }
}

#[test]
fn protected_names_are_neither_made_nor_removed_by_any_call() {
    let home = tempfile::tempdir().unwrap();
    let root = home.path().canonicalize().unwrap();
    let at = |name: &str| root.join(name);
    fs::create_dir_all(at("sub/tree/d")).unwrap();
    fs::write(at("own"), "own").unwrap();
    fs::create_dir(at("sub/tree/.git")).unwrap();
    symlink(".git", at("dangling")).unwrap();
    symlink("dangling", at("twice")).unwrap();
    symlink(".", at("here")).unwrap();
    exec_fs::protected::protect([at(".git").as_path(), at("sub/no").as_path()]).unwrap();
    exec_fs::protected::protect([at("other").as_path()]).unwrap_err();

    let paths = [".git", "here/.git", "here/here/.git", "sub/../.git", "sub/no", ".//.git"];
    for path in paths.map(at) {
        refuse_all(&path, &at("own"), &at("sub/tree"));
    }
    for path in ["dangling", "twice"].map(at) {
        refused("through a link", write_file(&path, b"x", Follow, Replacement::InPlace));
        refused("through a link", write_file(&path, b"x", Follow, Replacement::Atomic));
        let opened = Handles::new(1).open("h", &path, OpenMode::Replace);
        refused("through a link", opened);
    }
    for path in [".git/hooks/x", "sub/no/such/thing"].map(at) {
        refused("parents", create_directory(&path, Parents::Create, Follow));
        refused("parents", create_directory(&path, Parents::Create, Refuse));
    }
    // Somebody else puts a directory there: it stays, and stays empty.
    fs::create_dir(at(".git")).unwrap();
    refused("inside", create_directory(&at(".git/x"), Parents::Create, Follow));
    refused("inside", create_directory(&at("here/.git/x/y"), Parents::Create, Follow));
    refused("inside", write_file(&at(".git/x"), b"x", Follow, Replacement::InPlace));
    refused("inside", write_file(&at(".git/x"), b"x", Refuse, Replacement::Atomic));
    refused("inside", rename(&at("own"), &at(".git/x"), Existing::Replace));
    refused("away", rename(&at("here/.git"), &at("away"), Existing::Replace));
    let gone = |path: &Path| remove(path, Recursion::Tree, Missing::Accept, Follow, &Cancel::new());
    refused("removed", gone(&at(".git")));
    create_directory(&at(".git"), Parents::Create, Follow).unwrap();
    assert_eq!(fs::read_dir(at(".git")).unwrap().count(), 0);
    fs::remove_dir(at(".git")).unwrap();
    gone(&at(".git")).unwrap();

    // The same names elsewhere are like any other.
    create_directory(&at("new/deep/.git"), Parents::Create, Follow).unwrap();
    write_file(&at("new/no"), b"x", Follow, Replacement::Atomic).unwrap();
    rename(&at("new/no"), &at("new/deep/no"), Existing::Keep).unwrap();
    gone(&at("new")).unwrap();
    assert!(
        matches!(write_file(&at("missing/x"), b"", Follow, Replacement::InPlace), Err(Error::Os(e)) if e.kind() == std::io::ErrorKind::NotFound)
    );
    assert!(
        matches!(write_file(&at("slash/"), b"", Follow, Replacement::InPlace), Err(Error::Os(e)) if e.kind() == std::io::ErrorKind::IsADirectory)
    );

    race(&root);
}

fn refuse_all(path: &Path, file: &Path, tree: &Path) {
    let what = path.display().to_string();
    let cancel = &Cancel::new();
    for replacement in [Replacement::InPlace, Replacement::Atomic] {
        refused(&what, write_file(path, b"x", Follow, replacement));
    }
    refused(&what, Handles::new(1).open("h", path, OpenMode::Replace));
    refused(&what, Handles::new(1).open("h", path, OpenMode::Update));
    for parents in [Parents::Create, Parents::Require] {
        refused(&what, create_directory(path, parents, Follow));
    }
    refused(&what, copy(file, path, Recursion::Single, cancel));
    refused(&what, copy(tree, path, Recursion::Tree, cancel));
    refused(&what, rename(file, path, Existing::Replace));
    refused(&what, rename(tree, path, Existing::Keep));
    assert!(path.symlink_metadata().is_err(), "{what} was made");
}

/// A directory that becomes a link to the protected one's parent, and back.
fn race(root: &Path) {
    let at = |name: &str| -> PathBuf { root.join(name) };
    fs::create_dir(at("d")).unwrap();
    symlink(".", at("alt")).unwrap();
    let (stop, swaps) = (AtomicBool::new(false), AtomicU64::new(0));
    let made = |path: &Path| path.symlink_metadata().is_ok();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                let flags = RenameFlags::EXCHANGE;
                if rustix::fs::renameat_with(CWD, at("d"), CWD, at("alt"), flags).is_ok() {
                    swaps.fetch_add(1, Ordering::Relaxed);
                }
            }
        });
        let (git, deep) = (at("d/.git"), at("d/.git/x/y"));
        for round in 0..ROUNDS {
            // What matters is what there is afterwards.
            match round % 5 {
                0 => drop(write_file(&git, b"x", Follow, Replacement::InPlace)),
                1 => drop(create_directory(&deep, Parents::Create, Follow)),
                2 => drop(copy(&at("own"), &git, Recursion::Single, &Cancel::new())),
                3 => drop(create_directory(&git, Parents::Require, Follow)),
                _ => drop(rename(&at("sub"), &git, Existing::Keep)),
            }
            if made(&at(".git")) {
                break;
            }
        }
        stop.store(true, Ordering::Relaxed);
    });
    assert!(swaps.load(Ordering::Relaxed) > 100, "there was no race");
    assert!(!made(&at(".git")), "the protected name was made");
}
