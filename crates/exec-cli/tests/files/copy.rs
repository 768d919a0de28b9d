//! `cp`: files and trees, there and back, with what a tree can hold.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{PermissionsExt as _, symlink};

use crate::support::{Stage, exec_server, noise};

#[test]
fn files_go_there_and_back_byte_for_byte() {
    let stage = Stage::new();
    // None, one, around a block, and more than are on their way at once.
    for len in [0, 1, 262_143, 262_144, 262_145, 3 << 20] {
        let content = noise(len);
        stage.write("here", &content);
        stage.run(["cp", "here", &stage.there("there")]).well();
        assert!(fs::read(stage.at("there")).unwrap() == content, "up, {len}");
        stage.run(["cp", &stage.there("there"), "back"]).well();
        assert!(fs::read(stage.at("back")).unwrap() == content, "down, {len}");
        let cat = stage.run(["cat", stage.at("there").to_str().unwrap()]).well();
        assert!(cat.stdout == content, "cat, {len}");
    }
    let rest: Vec<_> = fs::read_dir(stage.at("")).unwrap().collect();
    assert_eq!(rest.len(), 3, "{rest:?}");
}

#[test]
fn destinations_follow_the_rules_of_cp() {
    let stage = Stage::new();
    stage.write("a", "a");
    stage.write("b", "b");
    fs::create_dir(stage.at("to")).unwrap();
    stage.run(["cp", "a", "b", &stage.there("to")]).well();
    assert_eq!(fs::read(stage.at("to/b")).unwrap(), b"b");
    stage.run(["cp", &stage.there("to/a"), &stage.there("to/c")]).well();
    assert_eq!(fs::read(stage.at("to/c")).unwrap(), b"a");
    stage.run(["cp", "-r", &stage.there("to"), "new"]).well();
    stage.run(["cp", "-r", &stage.there("to"), "new"]).well();
    assert_eq!(fs::read(stage.at("new/to/c")).unwrap(), b"a", "into one that exists");
    let check = |args: &[&str], expected: &str| {
        let done = stage.run(args);
        assert_eq!((done.code, done.stderr.as_str()), (Some(1), expected), "{args:?}");
    };
    let to = stage.at("to");
    check(
        &["cp", &stage.there("to"), "x"],
        &format!(
            "Error: cannot copy {}: it is a directory (-r copies it with all it holds)\n",
            to.display()
        ),
    );
    check(
        &["cp", "a", "b"],
        "Error: both paths are here (put a colon before the one on the executor)\n",
    );
    check(
        &["cp", "a", "b", ":/nowhere/at/all"],
        "Error: /nowhere/at/all is not a directory, and only one source fits (mkdir makes one)\n",
    );
    check(
        &["cp", "none", ":/x"],
        "Error: cannot copy none: No such file or directory (os error 2)\n",
    );
}

#[test]
fn a_tree_comes_with_odd_names_and_with_the_links_that_lead_into_it() {
    let stage = Stage::new();
    stage.write("tree/sub/deep/file", "deep");
    stage.write("tree/sp ace %41 #?", "odd");
    let raw = OsStr::from_bytes(b"raw\xff\xfe");
    fs::write(stage.at("tree").join(raw), "raw").unwrap();
    fs::create_dir(stage.at("tree/empty")).unwrap();
    symlink("../sub/deep/file", stage.at("tree/empty/up")).unwrap();
    symlink(stage.at("tree/sub"), stage.at("tree/absolute")).unwrap();
    symlink("/etc/passwd", stage.at("tree/outside")).unwrap();
    let done = stage.run(["cp", "-r", "--json", &stage.there("tree"), "copy"]);
    assert_eq!(done.code, Some(1));
    let report = done.json();
    let counts =
        ["files", "directories", "links", "failuresTotal"].map(|name| report[name].as_u64());
    assert_eq!(counts, [Some(3), Some(4), Some(2), Some(1)], "{report}");
    let outside = stage.at("tree/outside");
    assert_eq!(report["failures"][0]["path"], outside.to_str().unwrap());
    assert_eq!(fs::read(stage.at("copy").join(raw)).unwrap(), b"raw");
    assert_eq!(fs::read(stage.at("copy/sp ace %41 #?")).unwrap(), b"odd");
    assert_eq!(fs::read_link(stage.at("copy/absolute")).unwrap(), std::path::Path::new("sub"));
    assert_eq!(fs::read(stage.at("copy/empty/up")).unwrap(), b"deep");
    assert!(fs::symlink_metadata(stage.at("copy/outside")).is_err());

    let followed = stage.run(["cp", "-r", "-L", &stage.there("tree"), "followed"]).well();
    assert_eq!(followed.stdout, b"");
    assert_eq!(fs::read(stage.at("followed/absolute/deep/file")).unwrap(), b"deep");
    assert!(fs::symlink_metadata(stage.at("followed/outside")).unwrap().is_file());

    let up = stage.run(["cp", "-r", "copy", &stage.there("up")]);
    assert_eq!(up.code, Some(1));
    assert_eq!(up.stderr.lines().count(), 2, "each link is named: {}", up.stderr);
    assert_eq!(fs::read(stage.at("up").join(raw)).unwrap(), b"raw");
    assert!(stage.at("up/empty").is_dir());
    symlink("..", stage.at("copy/sub/loop")).unwrap();
    symlink("../sub", stage.at("copy/empty/there")).unwrap();
    symlink("../empty", stage.at("copy/sub/back")).unwrap();
    let up = stage.run(["cp", "-r", "-L", "copy", &stage.there("up2")]);
    assert!(up.stderr.contains("leads back") && up.code == Some(1), "{}", up.stderr);
    assert_eq!(fs::read(stage.at("up2/absolute/deep/file")).unwrap(), b"deep");
    let down = stage.run(["cp", "-r", "-L", &stage.there("copy"), "down2"]);
    assert!(down.stderr.contains("leads back") && down.code == Some(1), "{}", down.stderr);
    assert_eq!(fs::read(stage.at("down2/absolute/deep/file")).unwrap(), b"deep");
    symlink("copy", stage.at("root")).unwrap();
    let root = stage.run(["cp", "-r", &stage.there("root"), "down3"]);
    assert_eq!(
        (root.code, root.stderr.as_str()),
        (Some(0), ""),
        "a link that was named is followed"
    );
    assert_eq!(fs::read(stage.at("down3/sub/deep/file")).unwrap(), b"deep");
}

#[test]
fn what_fails_is_named_and_the_rest_is_copied() {
    let stage = Stage::new();
    for name in ["a", "b", "c"] {
        stage.write(&format!("tree/{name}"), name);
    }
    // In the way: a directory where a file should go, and a link that leads out.
    fs::create_dir_all(stage.at("copy/b/full")).unwrap();
    stage.write("secret", "secret");
    symlink(stage.at("secret"), stage.at("copy/c")).unwrap();
    let done = stage.run(["cp", "-r", &format!("{}/.", stage.there("tree")), "copy/."]);
    // `tree/.` is `tree`, which goes into `copy`.
    assert_eq!(done.code, Some(0), "{done:?}");
    let done = stage.run(["cp", "-r", &stage.there("tree/b"), &stage.there("tree/c"), "copy"]);
    assert_eq!(done.code, Some(1));
    let expected = "Error: cannot copy ";
    assert!(done.stderr.starts_with(expected) && done.stderr.lines().count() == 1, "{done:?}");
    assert_eq!(
        fs::read(stage.at("secret")).unwrap(),
        b"c",
        "whoever names a link means its target"
    );
}

#[test]
fn a_tree_never_writes_through_a_link_that_is_in_its_way() {
    let stage = Stage::new();
    stage.write("from/tree/file", "new");
    stage.write("from/tree/directory/inner", "new");
    stage.write("secret", "secret");
    fs::create_dir_all(stage.at("tree")).unwrap();
    fs::create_dir(stage.at("elsewhere")).unwrap();
    symlink(stage.at("secret"), stage.at("tree/file")).unwrap();
    symlink(stage.at("elsewhere"), stage.at("tree/directory")).unwrap();
    let done = stage.run(["cp", "-r", &stage.there("from/tree"), "."]);
    assert_eq!(done.code, Some(1), "{done:?}");
    assert!(done.stderr.contains("directory"), "{}", done.stderr);
    assert_eq!(fs::read(stage.at("secret")).unwrap(), b"secret");
    assert!(fs::read_dir(stage.at("elsewhere")).unwrap().next().is_none());
    assert_eq!(fs::read(stage.at("tree/file")).unwrap(), b"new", "the link was replaced");
}

#[test]
fn a_file_that_is_replaced_keeps_its_mode() {
    let stage = Stage::new();
    stage.write("new", "new");
    for (from, to) in
        [("new".to_owned(), stage.there("tool")), (stage.there("new"), "tool".to_owned())]
    {
        let tool = stage.write("tool", "old");
        fs::set_permissions(&tool, fs::Permissions::from_mode(0o755)).unwrap();
        stage.run(["cp", &from, &to]).well();
        assert_eq!(fs::read(&tool).unwrap(), b"new");
        assert_eq!(fs::metadata(&tool).unwrap().permissions().mode() & 0o777, 0o755);
    }
}

#[test]
fn without_an_address_the_executor_is_here() {
    let stage = Stage::new();
    stage.write("a", "a");
    let mut command = exec_server();
    let done = command.args(["cp", "a", ":b"]).current_dir(stage.at("")).status().unwrap();
    assert!(done.success());
    assert_eq!(fs::read(stage.at("b")).unwrap(), b"a");
}
