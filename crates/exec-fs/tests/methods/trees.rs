//! `fs/readDirectory`, `fs/walk`, `fs/remove`, `fs/rename`.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use exec_fs::Links::{Follow, Refuse};
use exec_fs::{
    Cancel, Existing, Missing, Recursion, create_directory, read_directory, read_directory_json,
    remove, rename, walk, walk_json,
};
use exec_protocol::fs::{ReadDirectoryResult, WalkKind, WalkOptions, WalkResult};

use crate::support::*;

const OPTIONS: WalkOptions = WalkOptions {
    max_depth: 8,
    max_directories: 100,
    max_entries: 1000,
    follow_directory_symlinks: false,
    prune_hidden_directories: false,
};

#[test]
fn read_directory_rows() {
    let fixture = Fixture::new();
    let bad = fixture.root().join(OsStr::from_bytes(b"bad\xff\"\n"));
    fs::write(&bad, "").unwrap();
    let listed = read_directory(fixture.root(), &Cancel::new()).unwrap();
    let got: BTreeMap<_, _> = listed
        .entries
        .iter()
        .map(|entry| (entry.file_name.as_str(), (entry.is_directory, entry.is_file)))
        .collect();
    // Links as their targets; the broken ones are left out.
    let expected = BTreeMap::from([
        ("bad\u{fffd}\"\n", (false, true)),
        ("dir", (true, false)),
        ("f", (false, true)),
        ("fifo", (false, false)),
        ("ld", (true, false)),
        ("lf", (false, true)),
        ("sock", (false, false)),
    ]);
    assert_eq!(got, expected);
    let mut json = b"before".to_vec();
    read_directory_json(fixture.root(), &Cancel::new(), &mut json).unwrap();
    let decoded: ReadDirectoryResult = serde_json::from_slice(&json[6..]).unwrap();
    assert_eq!(decoded, listed);
    for (name, expected) in [
        ("f", NOT_A_DIRECTORY),
        ("fifo", NOT_A_DIRECTORY),
        ("br", MISSING),
        ("loop", LOOP),
        ("ld", "ok"),
    ] {
        let got = outcome(read_directory(&fixture.at(name), &Cancel::new()));
        assert_eq!(got, expected, "for {name}");
        json.truncate(6);
        let got = outcome(read_directory_json(&fixture.at(name), &Cancel::new(), &mut json));
        assert_eq!(got, expected, "for {name}");
        assert!(expected == "ok" || json == b"before", "something was left in the buffer");
    }
}

/// Both ways of walking, which have to agree. Paths are told from the root, directories with a
/// slash at the end.
fn walked(root: &Path, options: WalkOptions) -> (Vec<String>, Vec<String>, bool) {
    let result = walk(root, &options, &Cancel::new()).unwrap();
    let mut json = Vec::new();
    walk_json(root, &options, &Cancel::new(), &mut json).unwrap();
    assert_eq!(serde_json::from_slice::<WalkResult>(&json).unwrap(), result);
    let prefix = format!("file://{}/", root.display());
    let below = |uri: &str| uri.strip_prefix(&prefix).unwrap_or(uri).to_owned();
    let entries = result.entries.iter().map(|entry| {
        let slash = if entry.kind == WalkKind::Directory { "/" } else { "" };
        below(entry.path.as_str()) + slash
    });
    let errors =
        result.errors.iter().map(|it| format!("{}: {}", below(it.path.as_str()), it.message));
    (entries.collect(), errors.collect(), result.truncated)
}

/// `.h/in a/up->.. a/x a/y/z b/q "c c%é" fifo la->a lb->(nothing) lf->file`
fn tree() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    for name in [".h", "a/y", "b"] {
        fs::create_dir_all(at(name)).unwrap();
    }
    for name in [".h/in", "a/x", "a/y/z", "b/q", "c c%é"] {
        fs::write(at(name), "").unwrap();
    }
    fifo(&at("fifo"));
    for (target, name) in [("a", "la"), ("nope", "lb"), ("c c%é", "lf"), ("..", "a/up")] {
        symlink(target, at(name)).unwrap();
    }
    dir
}

const PLAIN: [&str; 9] =
    [".h/", "a/", "b/", "c%20c%25%C3%A9", ".h/in", "a/x", "a/y/", "b/q", "a/y/z"];
const FOLLOWED: [&str; 11] =
    [".h/", "a/", "b/", "c%20c%25%C3%A9", "la/", ".h/in", "a/up/", "a/x", "a/y/", "b/q", "a/y/z"];

#[test]
fn a_walk_is_breadth_first_and_sorted() {
    let dir = tree();
    let follow = WalkOptions { follow_directory_symlinks: true, ..OPTIONS };
    assert_eq!(walked(dir.path(), OPTIONS), (PLAIN.map(str::to_owned).to_vec(), vec![], false));
    // Each real directory is entered once; `la` and `a/up` are listed only.
    assert_eq!(walked(dir.path(), follow), (FOLLOWED.map(str::to_owned).to_vec(), vec![], false));
    let pruned = WalkOptions { prune_hidden_directories: true, ..OPTIONS };
    let expected: Vec<_> = PLAIN.iter().filter(|name| **name != ".h/in").copied().collect();
    assert_eq!(walked(dir.path(), pruned).0, expected);
    let shallow = |max_depth| walked(dir.path(), WalkOptions { max_depth, ..OPTIONS });
    assert_eq!((shallow(0).0.len(), shallow(0).2), (4, false));
    assert_eq!((shallow(1).0.len(), shallow(1).2), (8, false));
}

#[test]
fn a_walks_limits_stop_it_where_the_protocol_says() {
    let dir = tree();
    let follow = WalkOptions { follow_directory_symlinks: true, ..OPTIONS };
    // What each allowance of entries lists; FIFOs and skipped links count, broken links do not.
    let plain = [1, 2, 3, 4, 4, 4, 4, 5, 5, 6, 7, 8, 9];
    let followed = [1, 2, 3, 4, 4, 5, 5, 6, 7, 8, 9, 10, 11];
    for (at, max) in (1..=13).enumerate() {
        let listed = walked(dir.path(), WalkOptions { max_entries: max, ..OPTIONS });
        assert_eq!((listed.0.len(), listed.2), (plain[at], max < 13), "plain {max}");
        let listed = walked(dir.path(), WalkOptions { max_entries: max, ..follow });
        assert_eq!((listed.0.len(), listed.2), (followed[at], max < 13), "followed {max}");
    }
    for (max, expected) in [(1, 4), (2, 5), (3, 7), (4, 8), (5, 9)] {
        let listed = walked(dir.path(), WalkOptions { max_directories: max, ..OPTIONS });
        assert_eq!((listed.0.len(), listed.2), (expected, max < 5), "{max} directories");
    }
    for (max, expected) in [(1, 5), (2, 6), (3, 9), (4, 10), (5, 11)] {
        let listed = walked(dir.path(), WalkOptions { max_directories: max, ..follow });
        assert_eq!((listed.0.len(), listed.2), (expected, max < 5), "{max} directories, followed");
    }
    // What would not be entered anyway does not use up anything.
    let small = tempfile::tempdir().unwrap();
    fs::create_dir_all(small.path().join("a/.h")).unwrap();
    symlink("a", small.path().join("la")).unwrap();
    let options = WalkOptions { max_directories: 2, prune_hidden_directories: true, ..follow };
    let expected = vec!["a/".to_owned(), "la/".to_owned(), "a/.h/".to_owned()];
    assert_eq!(walked(small.path(), options), (expected, vec![], false));
}

#[test]
fn a_walks_answer_stays_below_four_mebibytes() {
    let dir = memory_directory();
    // A character that takes three in a URI.
    let name = |n: usize| format!("{n:05}{}", "%".repeat(250));
    let uri = format!("file://{}/{}", dir.path().display(), name(0)).len() + 2 * 250;
    let fit = (4 << 20) / (64 + uri);
    for n in 0..fit + 2 {
        fs::write(dir.path().join(name(n)), "").unwrap();
    }
    let all = WalkOptions { max_entries: 50_000, ..OPTIONS };
    let (entries, _, truncated) = walked(dir.path(), all);
    assert_eq!((entries.len(), truncated), (fit, true));
    for n in fit..fit + 2 {
        fs::remove_file(dir.path().join(name(n))).unwrap();
    }
    let (entries, _, truncated) = walked(dir.path(), all);
    assert_eq!((entries.len(), truncated), (fit, false));
}

#[test]
fn walk_rows_for_the_root() {
    let fixture = Fixture::new();
    symlink("none", fixture.at("lost")).unwrap();
    let follow = WalkOptions { follow_directory_symlinks: true, ..OPTIONS };
    let check = |name: &str, options: &WalkOptions, expected: Result<usize, &str>| {
        let got = walk(&fixture.at(name), options, &Cancel::new());
        let got = got.map(|result| result.entries.len()).map_err(|e| outcome::<()>(Err(e)));
        assert_eq!(got.as_ref().map(|n| *n).map_err(String::as_str), expected, "for {name}");
    };
    check("dir", &OPTIONS, Ok(1));
    check("ld", &OPTIONS, Ok(0));
    check("ld", &follow, Ok(1));
    for name in ["f", "lf", "fifo"] {
        check(name, &OPTIONS, Ok(0));
        check(name, &follow, Ok(0));
    }
    for name in ["none", "lost"] {
        check(name, &OPTIONS, Err(MISSING));
        check(name, &follow, Err(MISSING));
    }
    check("f/x", &OPTIONS, Err(NOT_A_DIRECTORY));
    let zero = Err("-32600 filesystem walk limits must be greater than zero");
    let large = Err(
        "-32600 filesystem walk limits exceed maximums: depth=64, directories=10000, entries=50000",
    );
    check("none", &WalkOptions { max_entries: 0, ..OPTIONS }, zero);
    check("dir", &WalkOptions { max_directories: 0, max_depth: 65, ..OPTIONS }, zero);
    check("dir", &WalkOptions { max_depth: 65, ..OPTIONS }, large);
    check("dir", &WalkOptions { max_directories: 10_001, ..OPTIONS }, large);
    check("dir", &WalkOptions { max_entries: 50_001, ..OPTIONS }, large);
    check("dir", &WalkOptions { max_depth: 64, ..OPTIONS }, Ok(1));
}

#[test]
fn what_a_walk_cannot_read_is_listed_as_an_error() {
    if !rustix::process::geteuid().is_root() {
        exec_testkit::skip("only root can take a thread's rights away");
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir_all(dir.path().join("closed/in")).unwrap();
    fs::create_dir(dir.path().join("open")).unwrap();
    fs::write(dir.path().join("open/f"), "").unwrap();
    let mode = |name: &str, mode| {
        fs::set_permissions(dir.path().join(name), fs::Permissions::from_mode(mode)).unwrap();
    };
    mode("", 0o755);
    mode("closed", 0o700);
    let (sub, root, denied) = std::thread::scope(|scope| {
        let walks = || {
            // Of this thread only, which ends with it.
            let nobody = rustix::fs::Uid::from_raw(65534);
            rustix::thread::set_thread_res_uid(None, nobody, None).unwrap();
            let closed = dir.path().join("closed");
            let denied = outcome(read_directory(&closed, &Cancel::new()));
            (walked(dir.path(), OPTIONS), walked(&closed, OPTIONS), denied)
        };
        scope.spawn(walks).join().unwrap()
    });
    let denied_text = "Permission denied (os error 13)";
    assert_eq!(sub.0, ["closed/", "open/", "open/f"]);
    assert_eq!(sub.1, [format!("closed: {denied_text}")]);
    assert_eq!(root.0, Vec::<String>::new());
    assert_eq!(root.1, [format!("file://{}/closed: {denied_text}", dir.path().display())]);
    assert_eq!(denied, format!("-32600 {denied_text}"));
}

#[test]
fn a_name_that_is_not_text_is_told_exactly() {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join(OsStr::from_bytes(b"d\xff"))).unwrap();
    fs::write(dir.path().join(OsStr::from_bytes(b"d\xff/f\xfe")), "").unwrap();
    assert_eq!(walked(dir.path(), OPTIONS).0, ["d%FF/", "d%FF/f%FE"]);
}

#[test]
fn long_calls_stop_when_they_are_cancelled() {
    let dir = tree();
    let cancel = Cancel::new();
    cancel.cancel();
    let cancelled = "-32603 cancelled";
    assert_eq!(outcome(walk(dir.path(), &OPTIONS, &cancel)), cancelled);
    assert_eq!(outcome(read_directory(dir.path(), &cancel)), cancelled);
    let result = remove(dir.path(), Recursion::Tree, Missing::Accept, Follow, &cancel);
    assert_eq!(outcome(result), cancelled);
    assert!(dir.path().join("a/x").exists());
}

#[test]
fn remove_rows() {
    use Missing::{Accept, Refuse as Report};
    use Recursion::{Single, Tree};
    let fixture = Fixture::new();
    let check = |name: &str, recursion, missing, links, expected: &str| {
        let got = outcome(remove(&fixture.at(name), recursion, missing, links, &Cancel::new()));
        assert_eq!(got, expected, "for {name}, {recursion:?}, {missing:?}, {links:?}");
    };
    for missing in [Accept, Report] {
        let absent = if missing == Accept { "ok" } else { MISSING };
        for recursion in [Single, Tree] {
            check("none", recursion, missing, Follow, absent);
            check("none/x", recursion, missing, Follow, absent);
            check("f/x", recursion, missing, Follow, NOT_A_DIRECTORY);
        }
        let unsupported = "-32603 recursive no-follow removal is unsupported";
        check("f", Tree, missing, Refuse, unsupported);
        check("none", Tree, missing, Refuse, unsupported);
        check("none", Single, missing, Refuse, absent);
        check("ld/x", Single, missing, Refuse, NOT_A_DIRECTORY);
        for name in ["lf", "ld", "br"] {
            check(name, Single, missing, Refuse, LINKED);
        }
    }
    check("dir", Single, Accept, Follow, "-32603 Directory not empty (os error 39)");
    check("dir", Single, Accept, Refuse, "-32603 Directory not empty (os error 39)");
    check("/", Single, Accept, Follow, "-32603 Resource busy (os error 16)");
    check("/", Tree, Accept, Follow, "-32603 Resource busy (os error 16)");
    check("/", Single, Accept, Refuse, NO_ENTRY);
    for name in ["ld", "lf", "br", "fifo"] {
        check(name, Tree, Report, Follow, "ok");
        assert!(!fixture.at(name).is_symlink() && !fixture.at(name).exists());
    }
    assert!(fixture.at("dir/x").exists() && fixture.at("f").exists());
    create_directory(&fixture.at("e"), exec_fs::Parents::Create, Follow).unwrap();
    check("e", Single, Report, Refuse, "ok");
    check("f", Single, Report, Refuse, "ok");
    check("dir", Tree, Report, Follow, "ok");
    assert!(!fixture.at("dir").exists());
}

#[test]
fn a_deep_and_wide_tree_is_removed_and_what_its_links_name_stays() {
    let fixture = Fixture::new();
    let mut deep = fixture.at("tree");
    fs::create_dir(&deep).unwrap();
    for level in 0..150 {
        symlink(fixture.at("dir"), deep.join("outside")).unwrap();
        fs::write(deep.join(format!("file{level}")), "").unwrap();
        fs::create_dir(deep.join("side")).unwrap();
        deep.push("d");
        fs::create_dir(&deep).unwrap();
    }
    for n in 0..1000 {
        fs::write(fixture.at("tree").join(format!("wide-{n:0100}")), "").unwrap();
    }
    remove(&fixture.at("tree"), Recursion::Tree, Missing::Refuse, Follow, &Cancel::new()).unwrap();
    assert!(!fixture.at("tree").exists() && fixture.at("dir/x").exists());
}

#[test]
fn rename_rows() {
    let fixture = Fixture::new();
    fs::write(fixture.at("g"), "g").unwrap();
    let check = |from: &str, to: &str, existing, expected: &str| {
        let got = outcome(rename(&fixture.at(from), &fixture.at(to), existing));
        assert_eq!(got, expected, "for {from} to {to}, {existing:?}");
    };
    use Existing::{Keep, Replace};
    check("none", "x", Replace, MISSING);
    check("g", "none/x", Replace, MISSING);
    check("g", "f", Keep, EXISTS);
    assert_eq!(fs::read(fixture.at("f")).unwrap(), b"abc");
    check("g", "f", Replace, "ok");
    assert_eq!(fs::read(fixture.at("f")).unwrap(), b"g");
    check("f", "dir", Replace, IS_A_DIRECTORY);
    check("dir", "f", Replace, NOT_A_DIRECTORY);
    check("dir", "dir/in", Replace, "-32600 Invalid argument (os error 22)");
    check("lf", "l2", Keep, "ok");
    assert!(fixture.at("l2").is_symlink() && fixture.at("f").exists());
    check("dir", "moved", Keep, "ok");
    assert!(fixture.at("moved/x").exists());
    check("/proc/version", "x", Replace, "-32603 Cross-device link (os error 18)");
}
