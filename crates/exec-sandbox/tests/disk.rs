//! The real file system answers like the table does, and never through a link.

#![allow(clippy::unwrap_used, reason = "a test")]

mod common;

use std::fs;
use std::os::unix::fs::{MetadataExt, symlink};
use std::time::{Duration, Instant};

use exec_sandbox::legacy::Profile;
use exec_sandbox::plan::{Mount, Plan};
use exec_sandbox::policy::{Disk, Facts, Host, Kind, Policy, Refusal};

#[test]
fn what_is_there_is_seen_as_it_is() {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path().canonicalize().unwrap();
    fs::create_dir(root.join("d")).unwrap();
    fs::write(root.join("f"), "hello").unwrap();
    symlink("d", root.join("l")).unwrap();
    let disk = Disk::patient();
    let kind = |name: &str| disk.look(&root.join(name)).unwrap().map(|object| object.kind);
    assert_eq!(kind("d"), Some(Kind::Directory));
    assert_eq!(kind("f"), Some(Kind::File));
    assert_eq!(kind("l"), Some(Kind::Link));
    assert_eq!((kind("none"), kind("f/below")), (None, None));
    let object = disk.look(&root.join("f")).unwrap().unwrap();
    let known = fs::metadata(root.join("f")).unwrap();
    assert_eq!((object.device, object.inode), (known.dev(), known.ino()));
    assert_eq!(disk.read_link(&root.join("l")).unwrap().to_str(), Some("d"));
    assert_eq!(disk.read_file(&root.join("f"), 4).unwrap(), b"hell");
    assert!(disk.read_file(&root.join("d"), 4).is_err());
    assert!(disk.read_file(&root.join("l"), 4).is_err(), "a link is not followed");
    let mut names = disk.list(&root, 3).unwrap();
    names.sort();
    let expected = [("d", Kind::Directory), ("f", Kind::File), ("l", Kind::Link)];
    assert_eq!(names, expected.map(|(name, kind)| (name.into(), kind)));
    assert!(disk.list(&root, 2).is_err(), "a bound is a bound");
    assert!(disk.may_add(&root));
    assert!(!disk.may_add(&root.join("none")));
    assert!(Disk::until(Instant::now()).out_of_time());
    assert!(!Disk::until(Instant::now() + Duration::from_secs(600)).out_of_time());
}

#[test]
fn a_link_on_the_way_is_refused_by_the_kernel() {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path().canonicalize().unwrap();
    fs::create_dir(root.join("d")).unwrap();
    fs::write(root.join("d/f"), "").unwrap();
    symlink("d", root.join("l")).unwrap();
    assert!(Disk::patient().look(&root.join("l/f")).is_err());
    assert!(Disk::patient().read_file(&root.join("l/f"), 1).is_err());
}

#[test]
fn a_worktree_on_disk_is_planned_with_witnesses() {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path().canonicalize().unwrap();
    let (work, main) = (root.join("work"), root.join("main/.git"));
    fs::create_dir_all(main.join("worktrees/work")).unwrap();
    fs::create_dir(&work).unwrap();
    fs::write(work.join(".git"), format!("gitdir: {}\n", main.join("worktrees/work").display()))
        .unwrap();
    fs::write(main.join("worktrees/work/commondir"), "../..\n").unwrap();
    let Profile::WorkspaceWrite { network_access, .. } = Profile::workspace_write(Vec::new())
    else {
        panic!("another profile");
    };
    let profile = Profile::WorkspaceWrite {
        writable_roots: vec![root.clone()],
        network_access,
        exclude_tmpdir_env_var: true,
        exclude_slash_tmp: true,
    };
    let facts = Facts { cwd: work.clone(), ..Facts::default() };
    let policy =
        Policy::resolve(&profile.context(&work).unwrap(), &facts, &Disk::patient()).unwrap();
    let view = Plan::build(&policy, &Disk::patient()).unwrap().view.unwrap();
    let read_only = |path: &std::path::Path| {
        let access = exec_sandbox::plan::Access::ReadOnly;
        view.mounts.contains(&Mount::Bind { path: path.to_owned(), access })
    };
    assert!(read_only(&work.join(".git")));
    assert!(read_only(&main));
    let known = fs::metadata(&main).unwrap();
    let witness = view.witnesses.iter().find(|witness| witness.path == main).unwrap();
    assert_eq!((witness.device, witness.inode), (known.dev(), known.ino()));
}

#[test]
fn a_scan_that_takes_too_long_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path().canonicalize().unwrap();
    let lines = ["read :root".to_owned(), format!("deny {}/**/*.env", root.display())];
    let intent = common::entries(&lines.each_ref().map(String::as_str));
    let facts = Facts { cwd: "/".into(), ..Facts::default() };
    let refusal = Policy::resolve(&intent, &facts, &Disk::until(Instant::now())).unwrap_err();
    assert!(matches!(refusal, Refusal::Scan { .. }), "{refusal}");
    assert!(!refusal.is_policy());
    Policy::resolve(&intent, &facts, &Disk::patient()).unwrap();
}
