//! Odd spellings: refused, or exactly what the system makes of them.

use std::ffi::OsStr;
use std::fs;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use exec_fs::Links::{Follow, Refuse};
use exec_fs::{
    Cancel, Missing, Parents, Recursion, Replacement, create_directory, get_metadata,
    metadata_cached, read_directory, read_file, remove, write_file,
};
use exec_protocol::fs::WalkOptions;
use exec_protocol::path_uri::PathUri;
use proptest::prelude::*;

use crate::support::*;

#[test]
fn too_long_is_too_long() {
    let fixture = Fixture::new();
    let long = "-32603 Filename too long (os error 36)";
    let component = fixture.at(&"x".repeat(4096));
    let path = fixture.at(&"dir/".repeat(2000));
    for path in [component, path] {
        for links in [Follow, Refuse] {
            assert_eq!(outcome(read_file(&path, links, 10)), long);
            assert_eq!(outcome(get_metadata(&path, links)), long);
            assert_eq!(outcome(write_file(&path, b"", links, Replacement::InPlace)), long);
            assert_eq!(outcome(write_file(&path, b"", links, Replacement::Atomic)), long);
            let removed = remove(&path, Recursion::Single, Missing::Accept, links, &Cancel::new());
            assert_eq!(outcome(removed), long);
        }
        assert!(metadata_cached(&path, Follow).is_none());
        assert_eq!(outcome(create_directory(&path, Parents::Require, Follow)), long);
        assert_eq!(outcome(read_directory(&path, &Cancel::new())), long);
    }
    // The longest name there is still has room for an atomic write beside it.
    let name = fixture.at(&"y".repeat(255));
    write_file(&name, b"1", Follow, Replacement::Atomic).unwrap();
    write_file(&name, b"2", Follow, Replacement::Atomic).unwrap();
    assert_eq!(read_file(&name, Refuse, 10).unwrap(), b"2");
}

#[test]
fn a_zero_byte_is_refused_everywhere() {
    let invalid = "-32600 Invalid argument (os error 22)";
    let path = Path::new("/tmp/a\0b");
    for links in [Follow, Refuse] {
        assert_eq!(outcome(read_file(path, links, 10)), invalid);
        assert_eq!(outcome(get_metadata(path, links)), invalid);
        assert_eq!(outcome(write_file(path, b"", links, Replacement::Atomic)), invalid);
    }
    assert!(metadata_cached(path, Follow).is_none());
}

#[test]
fn slashes_and_dots_mean_what_they_mean_to_the_system() {
    let fixture = Fixture::new();
    let spell = |text: &str| PathBuf::from(format!("{}/{text}", fixture.root().display()));
    for name in ["f", "/f", "//f", "./f", "dir/../f", "dir//..//f", "ld/../f"] {
        assert_eq!(read_file(&spell(name), Follow, 10).unwrap(), b"abc", "for {name}");
    }
    // `ld` is a link, so that it may not even be passed on the way back.
    assert_eq!(outcome(read_file(&spell("ld/../f"), Refuse, 10)), NOT_A_DIRECTORY);
    assert_eq!(read_file(&spell("dir/..//./f"), Refuse, 10).unwrap(), b"abc");
    for name in ["dir/..", "dir/.", "dir/../"] {
        let removed =
            remove(&spell(name), Recursion::Tree, Missing::Accept, Follow, &Cancel::new());
        assert_eq!(outcome(removed), "-32603 Resource busy (os error 16)", "for {name}");
        assert!(outcome(write_file(&spell(name), b"", Follow, Replacement::Atomic)) != "ok");
    }
    assert!(fixture.at("dir/x").exists());
}

#[test]
fn names_that_are_not_text_work() {
    let fixture = Fixture::new();
    let name = fixture.root().join(OsStr::from_bytes(b"\xff\xfe \n\x01"));
    for replacement in [Replacement::InPlace, Replacement::Atomic] {
        write_file(&name, b"odd", Refuse, replacement).unwrap();
        assert_eq!(read_file(&name, Refuse, 10).unwrap(), b"odd");
    }
    // Over the wire and back.
    let uri = PathUri::from_native(&name).unwrap();
    assert_eq!(uri.to_native().unwrap(), name);
}

#[test]
fn ways_around_through_proc_are_exact_or_refused() {
    let fixture = Fixture::new();
    let around = PathBuf::from(format!("/proc/self/root{}/f", fixture.root().display()));
    assert_eq!(read_file(&around, Follow, 10).unwrap(), b"abc");
    assert_eq!(outcome(read_file(&around, Refuse, 10)), NOT_A_DIRECTORY);
    let file = fs::File::open(fixture.at("f")).unwrap();
    let by_number = PathBuf::from(format!("/dev/fd/{}", file.as_raw_fd()));
    assert_eq!(read_file(&by_number, Follow, 10).unwrap(), b"abc");
    assert_eq!(outcome(read_file(&by_number, Refuse, 10)), NOT_A_DIRECTORY);
    let written = write_file(&around, b"new", Follow, Replacement::Atomic);
    written.unwrap();
    assert_eq!(fs::read(fixture.at("f")).unwrap(), b"new");
}

#[test]
fn loops_of_links_end() {
    let fixture = Fixture::new();
    std::os::unix::fs::symlink("b/x", fixture.at("a")).unwrap();
    std::os::unix::fs::symlink("a/y", fixture.at("b")).unwrap();
    for name in ["loop", "a", "b", "a/z"] {
        assert_eq!(outcome(read_file(&fixture.at(name), Follow, 10)), LOOP, "for {name}");
        for replacement in [Replacement::InPlace, Replacement::Atomic] {
            let got = outcome(write_file(&fixture.at(name), b"", Follow, replacement));
            assert_eq!(got, LOOP, "for {name}, {replacement:?}");
        }
    }
    std::os::unix::fs::symlink(".", fixture.at("dir/self")).unwrap();
    let options = WalkOptions {
        max_depth: 64,
        max_directories: 10_000,
        max_entries: 50_000,
        follow_directory_symlinks: true,
        prune_hidden_directories: false,
    };
    let walked = exec_fs::walk(&fixture.at("dir"), &options, &Cancel::new()).unwrap();
    assert_eq!((walked.entries.len(), walked.truncated), (2, false));
}

/// Whether the system's own look at each prefix shows a link.
fn has_link(path: &Path) -> bool {
    let mut prefix = PathBuf::new();
    let parts = path.as_os_str().as_bytes().split(|&byte| byte == b'/');
    parts.filter(|part| !part.is_empty()).any(|part| {
        prefix = Path::new("/").join(&prefix).join(OsStr::from_bytes(part));
        prefix.symlink_metadata().is_ok_and(|it| it.is_symlink())
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..Default::default() })]

    /// Any name, made by the system: its URI names that file and no other, on the way there and back.
    #[test]
    fn a_uri_opens_what_the_system_made(
        names in proptest::collection::vec(
            proptest::collection::vec(any::<u8>().prop_filter("no name has it", |byte| {
                !matches!(byte, 0 | b'/')
            }), 1..20), 1..4),
    ) {
        prop_assume!(names.iter().all(|name| name != b"." && name != b".."));
        let directory = memory_directory();
        let root = fs::canonicalize(directory.path()).unwrap();
        let native = names.iter().fold(root, |path, name| path.join(OsStr::from_bytes(name)));
        fs::create_dir_all(native.parent().unwrap()).unwrap();
        fs::write(&native, &names[0]).unwrap();
        let inode = fs::metadata(&native).unwrap().ino();
        let uri = PathUri::from_native(&native).unwrap().as_str().to_owned();
        let heard = PathUri::try_from(uri.clone()).unwrap().to_native().unwrap();
        prop_assert_eq!(heard.as_os_str(), native.as_os_str(), "by way of {}", uri);
        prop_assert_eq!(fs::metadata(&heard).unwrap().ino(), inode);
        for links in [Follow, Refuse] {
            prop_assert_eq!(&read_file(&heard, links, 100).unwrap(), &names[0]);
        }
        // As the answer to a call.
        let real = exec_fs::canonicalize(&heard).unwrap();
        let again = PathUri::from_native(&real).unwrap();
        prop_assert_eq!(again.as_str(), &uri);
        // Letters need no encoding.
        let loose = uri.replace("%C3%A9", "\u{e9}");
        if let Ok(path) = PathUri::try_from(loose).and_then(|uri| uri.to_native()) {
            prop_assert_eq!(fs::metadata(path).unwrap().ino(), inode);
        }
    }

    /// Random ways through a small tree: the same file, size and error as the system says, and
    /// with links refused exactly the ways without one.
    #[test]
    fn any_path_is_resolved_as_the_system_does(
        parts in proptest::collection::vec(
            prop_oneof!["f", "dir", "x", "ld", "lf", "br", "none", Just("..".to_owned()),
                Just(".".to_owned()), Just(String::new())], 1..7),
    ) {
        thread_local!(static FIXTURE: Fixture = Fixture::new());
        FIXTURE.with(|fixture| {
            let root = fs::canonicalize(fixture.root()).unwrap();
            let path = PathBuf::from(format!("{}/{}", root.display(), parts.join("/")));
            let system = fs::metadata(&path).map(|it| (it.is_dir(), it.size()));
            let ours = get_metadata(&path, Follow).map(|it| (it.is_directory, it.size));
            prop_assert_eq!(system.as_ref().ok(), ours.as_ref().ok());
            if let (Err(system), Err(ours)) = (&system, &ours) {
                let text = system.to_string().replace("Too many levels of symbolic links",
                    "Symbolic link loop");
                prop_assert_eq!(ours.to_string(), text);
            }
            if let Some(cached) = metadata_cached(&path, Follow) {
                prop_assert_eq!(cached.ok(), get_metadata(&path, Follow).ok());
            }
            // `..` and `.` at the end name no entry, which only refusing links needs.
            let last = parts.iter().rev().find(|part| !part.is_empty()).map(String::as_str);
            if !matches!(last, Some(".." | ".") | None) {
                let refused = get_metadata(&path, Refuse);
                if has_link(&path) {
                    prop_assert!(refused.is_err());
                } else if parts.last().is_some_and(|part| !part.is_empty()) {
                    prop_assert_eq!(refused.ok().map(|it| (it.is_directory, it.size)), ours.ok());
                }
            }
            Ok(())
        })?;
    }
}
