//! `fs/copy`.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

use exec_fs::{Cancel, Recursion, copy};

use crate::support::*;

struct Case(Fixture);

impl Case {
    fn new() -> Self {
        let fixture = Fixture::new();
        fs::create_dir_all(fixture.at("src/sub")).unwrap();
        fs::write(fixture.at("src/a"), "abc").unwrap();
        fs::write(fixture.at("src/sub/b"), "b").unwrap();
        symlink("a", fixture.at("src/l")).unwrap();
        symlink("sub", fixture.at("src/ld")).unwrap();
        symlink("src", fixture.at("lsrc")).unwrap();
        fifo(&fixture.at("src/fifo"));
        Self(fixture)
    }

    #[track_caller]
    fn check(&self, from: &str, to: &str, recursion: Recursion, expected: &str) {
        let got = copy(&self.0.at(from), &self.0.at(to), recursion, &Cancel::new());
        assert_eq!(outcome(got), expected, "for {from} to {to}, {recursion:?}");
    }

    fn text(&self, name: &str) -> String {
        fs::read_to_string(self.0.at(name)).unwrap()
    }
}

use Recursion::{Single, Tree};

const INTO_ITSELF: &str =
    "-32600 fs/copy cannot copy a directory to itself or one of its descendants";
const UNSUPPORTED: &str = "-32600 fs/copy only supports regular files, directories, and symlinks";

#[test]
fn rows_for_files_and_links() {
    let case = Case::new();
    fs::set_permissions(case.0.at("f"), fs::Permissions::from_mode(0o4751)).unwrap();
    fs::write(case.0.at("g"), "something longer").unwrap();
    case.check("f", "new", Single, "ok");
    case.check("f", "g", Tree, "ok");
    assert_eq!((case.text("g"), case.text("new")), ("abc".to_owned(), "abc".to_owned()));
    for name in ["g", "new"] {
        assert_eq!(fs::metadata(case.0.at(name)).unwrap().mode() & 0o7777, 0o4751);
    }
    // Through a link at the destination, also a broken one.
    symlink("g", case.0.at("lg")).unwrap();
    case.check("dir/x", "lg", Single, "ok");
    assert!(case.text("g") == "x" && case.0.at("lg").is_symlink());
    case.check("f", "br", Single, "ok");
    assert_eq!(case.text("none"), "abc");
    case.check("lf", "l2", Single, "ok");
    assert_eq!(fs::read_link(case.0.at("l2")).unwrap().to_str(), Some("f"));
    case.check("lf", "l2", Single, EXISTS);
    case.check("lsrc", "l3", Single, "ok");
    case.check("lf", "dir", Single, EXISTS);
    case.check("missing", "y", Single, MISSING);
    case.check("f", "missing/y", Single, MISSING);
    case.check("f", "dir", Single, IS_A_DIRECTORY);
    case.check("fifo", "y", Tree, UNSUPPORTED);
    case.check("sock", "y", Single, UNSUPPORTED);
    case.check("/dev/zero", "y", Single, UNSUPPORTED);
    case.check("f", "fifo", Single, NO_DEVICE);
    case.check("f", "/dev/null", Single, "ok");
    case.check("/proc/self/status", "status", Single, "ok");
    assert!(case.text("status").starts_with("Name:"));
}

#[test]
fn a_file_copied_onto_itself_keeps_its_content() {
    let case = Case::new();
    fs::hard_link(case.0.at("f"), case.0.at("hard")).unwrap();
    for name in ["f", "lf", "hard", "dir/../f"] {
        case.check("f", name, Single, "ok");
        assert_eq!(case.text("f"), "abc", "after copying to {name}");
    }
    assert_eq!(fs::metadata(case.0.at("f")).unwrap().nlink(), 2);
}

#[test]
fn rows_for_directories() {
    let case = Case::new();
    case.check(
        "src",
        "x",
        Single,
        "-32600 fs/copy requires recursive: true when sourcePath is a directory",
    );
    case.check("src", "dst", Tree, "ok");
    assert!(case.text("dst/a") == "abc" && case.text("dst/sub/b") == "b");
    assert_eq!(fs::read_link(case.0.at("dst/ld")).unwrap().to_str(), Some("sub"));
    assert!(!case.0.at("dst/fifo").exists());
    case.check("src", "dst", Tree, EXISTS);
    for name in ["dst/l", "dst/ld", "dst/a"] {
        fs::remove_file(case.0.at(name)).unwrap();
    }
    fs::write(case.0.at("dst/own"), "kept").unwrap();
    case.check("src", "dst", Tree, "ok");
    assert!(case.text("dst/own") == "kept" && case.text("dst/a") == "abc");
    case.check("src", "new1/new2/deep", Tree, "ok");
    assert_eq!(case.text("new1/new2/deep/sub/b"), "b");
    case.check("src", "f", Tree, EXISTS);
    for name in ["src", "src/sub/new", "src/new/deep", "lsrc", "lsrc/new"] {
        case.check("src", name, Tree, INTO_ITSELF);
    }
    assert!(!case.0.at("src/new").exists());
    case.check("src/sub", "src", Tree, "ok");
    assert_eq!(case.text("src/b"), "b");
}

#[test]
fn what_is_in_the_way_is_told_or_led_through() {
    let case = Case::new();
    for name in ["s/sub", "outside", "d"] {
        fs::create_dir_all(case.0.at(name)).unwrap();
    }
    fs::write(case.0.at("s/sub/b"), "b").unwrap();
    fs::write(case.0.at("s/file"), "new").unwrap();
    symlink("../outside", case.0.at("d/sub")).unwrap();
    symlink("../f", case.0.at("d/file")).unwrap();
    // As any program would, links at the destination are written through.
    case.check("s", "d", Tree, "ok");
    assert!(case.text("outside/b") == "b" && case.text("f") == "new");
    fs::create_dir_all(case.0.at("d2/file")).unwrap();
    case.check("s", "d2", Tree, IS_A_DIRECTORY);
    fs::create_dir(case.0.at("d3")).unwrap();
    fs::write(case.0.at("d3/sub"), "").unwrap();
    case.check("s", "d3", Tree, EXISTS);
}

#[test]
fn holes_stay_holes_and_all_bytes_arrive() {
    let case = Case::new();
    let content: Vec<u8> =
        (0..3_500_000u32).map(|n| n.to_le_bytes()[2] ^ n.to_le_bytes()[0]).collect();
    fs::write(case.0.at("big"), &content).unwrap();
    case.check("big", "big2", Single, "ok");
    assert!(fs::read(case.0.at("big2")).unwrap() == content);
    let sparse = fs::OpenOptions::new().write(true).open(case.0.at("big")).unwrap();
    sparse.set_len(1 << 40).unwrap();
    std::os::unix::fs::FileExt::write_at(&sparse, b"end", (1 << 40) - 3).unwrap();
    case.check("big", "big2", Single, "ok");
    let copied = fs::metadata(case.0.at("big2")).unwrap();
    assert_eq!(copied.len(), 1 << 40);
    assert!(copied.blocks() * 512 < 64 << 20, "the hole was filled");
}

#[test]
fn a_deep_and_wide_tree_arrives_whole() {
    let case = Case::new();
    let mut deep = case.0.at("tree");
    fs::create_dir(&deep).unwrap();
    for level in 0..100 {
        fs::write(deep.join("file"), format!("{level}")).unwrap();
        fs::create_dir(deep.join("side")).unwrap();
        deep.push("d");
        fs::create_dir(&deep).unwrap();
    }
    for n in 0..700 {
        fs::create_dir(case.0.at("tree").join(format!("wide-{n:0100}"))).unwrap();
    }
    case.check("tree", "copy", Tree, "ok");
    let mut copied = case.0.at("copy");
    for level in 0..100 {
        assert_eq!(fs::read_to_string(copied.join("file")).unwrap(), format!("{level}"));
        assert!(copied.join("side").is_dir());
        copied.push("d");
    }
    assert_eq!(fs::read_dir(case.0.at("copy")).unwrap().count(), 703);
}

#[test]
fn a_cancelled_copy_stops() {
    let case = Case::new();
    let cancel = Cancel::new();
    cancel.cancel();
    let result = copy(&case.0.at("src"), &case.0.at("dst"), Tree, &cancel);
    assert_eq!(outcome(result), "-32603 cancelled");
    assert!(!case.0.at("dst/a").exists());
}
