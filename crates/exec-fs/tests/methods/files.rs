//! `fs/readFile`, `fs/writeFile`, `fs/getMetadata`, `fs/canonicalize`, `fs/createDirectory`.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

use exec_fs::Links::{self, Follow, Refuse};
use exec_fs::limits::READ_FILE_BYTES_MAX;
use exec_fs::{
    FileReader, Parents, Replacement, canonicalize, create_directory, decode_data, get_metadata,
    read_file, write_file,
};

use crate::support::*;

#[test]
fn read_file_rows() {
    let fixture = Fixture::new();
    let check = |name: &str, links: Links, expected: &str| {
        let got = fixture.outcome(read_file(&fixture.at(name), links, READ_FILE_BYTES_MAX));
        assert_eq!(got, expected, "for {name}, {links:?}");
    };
    check("f", Follow, "ok");
    check("lf", Follow, "ok");
    check("ld/x", Follow, "ok");
    check("none", Follow, MISSING);
    check("none/x", Follow, MISSING);
    check("br", Follow, MISSING);
    check("loop", Follow, LOOP);
    check("f/x", Follow, NOT_A_DIRECTORY);
    check("dir", Follow, "-32600 path `D/dir` is not a file");
    check("ld", Follow, "-32600 path `D/ld` is not a file");
    check("fifo", Follow, "-32600 path `D/fifo` is not a file");
    check("/dev/null", Follow, "-32600 path `/dev/null` is not a file");
    check("/", Follow, "-32600 path `/` is not a file");
    check("sock", Follow, NO_DEVICE);
    check("f", Refuse, "ok");
    check("dir/x", Refuse, "ok");
    check("none", Refuse, MISSING);
    check("none/x", Refuse, MISSING);
    for name in ["dir", "fifo", "/dev/null"] {
        check(name, Refuse, NOT_REGULAR);
    }
    for name in ["lf", "ld", "br", "loop"] {
        check(name, Refuse, LOOP);
    }
    for name in ["ld/x", "f/x", "/proc/self/status", "/dev/fd/0"] {
        check(name, Refuse, NOT_A_DIRECTORY);
    }
    check("sock", Refuse, NO_DEVICE);
    check("/", Refuse, NO_ENTRY);
}

#[test]
fn read_file_gives_the_content_and_knows_its_limit() {
    let fixture = Fixture::new();
    let read = |name: &str, limit| read_file(&fixture.at(name), Follow, limit);
    assert_eq!(read("f", 3).unwrap(), b"abc");
    let too_large = "-32600 file is too large to read: limit is 2 bytes";
    assert_eq!(outcome(read("f", 2)), too_large);
    fs::write(fixture.at("empty"), "").unwrap();
    assert_eq!(read("empty", 0).unwrap(), b"");
    // Of size 0 for stat, and yet with a content.
    let status = read("/proc/self/status", READ_FILE_BYTES_MAX).unwrap();
    assert!(status.starts_with(b"Name:") && status.len() > 500);
    assert_eq!(outcome(read("/proc/self/status", 2)), too_large);
    let sparse = fs::File::create(fixture.at("sparse")).unwrap();
    sparse.set_len(READ_FILE_BYTES_MAX + 1).unwrap();
    assert_eq!(
        outcome(read("sparse", READ_FILE_BYTES_MAX)),
        "-32600 file is too large to read: limit is 536870912 bytes"
    );
}

#[test]
fn a_reader_gives_pieces_and_takes_a_shrinking_file_as_it_is() {
    let fixture = Fixture::new();
    let content: Vec<u8> = (0..10_000u32).map(|n| n.to_le_bytes()[0]).collect();
    fs::write(fixture.at("big"), &content).unwrap();
    let mut reader = FileReader::open(&fixture.at("big"), Follow, 1 << 20).unwrap();
    assert_eq!(reader.size(), 10_000);
    let mut piece = [0; 3000];
    assert_eq!(reader.read(&mut piece).unwrap(), 3000);
    assert_eq!(piece, content[..3000]);
    // Longer now, but it gives what it had.
    fs::OpenOptions::new().append(true).open(fixture.at("big")).unwrap().set_len(20_000).unwrap();
    let mut total = 3000;
    loop {
        match reader.read(&mut piece).unwrap() {
            0 => break,
            got => total += got,
        }
    }
    assert_eq!(total, 10_000);
    let mut reader = FileReader::open(&fixture.at("big"), Follow, 1 << 20).unwrap();
    fs::write(fixture.at("big"), "short").unwrap();
    assert_eq!(reader.read(&mut piece).unwrap(), 5);
    assert_eq!(reader.read(&mut piece).unwrap(), 0);
}

#[test]
fn write_file_rows() {
    for replacement in [Replacement::InPlace, Replacement::Atomic] {
        let atomic = replacement == Replacement::Atomic;
        let fixture = Fixture::new();
        let check = |name: &str, links: Links, expected: &str| {
            let got = fixture.outcome(write_file(&fixture.at(name), b"hi", links, replacement));
            assert_eq!(got, expected, "for {name}, {links:?}, {replacement:?}");
        };
        check("new", Follow, "ok");
        check("lf", Follow, "ok");
        assert_eq!(fs::read_to_string(fixture.at("f")).unwrap(), "hi");
        assert!(fixture.at("lf").is_symlink());
        check("br", Follow, "ok");
        assert_eq!(fs::read_to_string(fixture.at("none")).unwrap(), "hi");
        fs::remove_file(fixture.at("none")).unwrap();
        check("ld/x", Follow, "ok");
        check("none/x", Follow, MISSING);
        check("loop", Follow, LOOP);
        check("f/x", Follow, NOT_A_DIRECTORY);
        for name in ["dir", "ld", "/"] {
            check(name, Follow, IS_A_DIRECTORY);
        }
        let special = if atomic { NOT_REGULAR } else { NO_DEVICE };
        check("fifo", Follow, special);
        check("sock", Follow, special);
        check("/dev/null", Follow, if atomic { NOT_REGULAR } else { "ok" });
        if !atomic {
            check("/dev/full", Follow, "-32603 No space left on device (os error 28)");
        }
        check("f", Refuse, "ok");
        check("new2", Refuse, "ok");
        check("dir", Refuse, IS_A_DIRECTORY);
        for name in ["lf", "ld", "br", "loop"] {
            check(name, Refuse, LOOP);
        }
        for name in ["ld/x", "f/x"] {
            check(name, Refuse, NOT_A_DIRECTORY);
        }
        check("none/x", Refuse, MISSING);
        check("fifo", Refuse, special);
        check("/dev/null", Refuse, NOT_REGULAR);
        check("/", Refuse, NO_ENTRY);
        assert_eq!(fs::read_to_string(fixture.at("dir/x")).unwrap(), "hi");
    }
}

#[test]
fn bad_base64_is_the_calls_own_error() {
    assert_eq!(
        outcome(decode_data("*")),
        "-32600 fs/writeFile requires valid base64 dataBase64: Invalid symbol 42, offset 0."
    );
    assert_eq!(decode_data("aGk=").unwrap(), b"hi");
}

#[test]
fn an_atomic_write_keeps_the_mode_and_a_new_file_takes_the_umask() {
    let fixture = Fixture::new();
    fs::set_permissions(fixture.at("f"), fs::Permissions::from_mode(0o640)).unwrap();
    let inode = fs::metadata(fixture.at("f")).unwrap().ino();
    symlink(fixture.at("lf"), fixture.at("dir/far")).unwrap();
    write_file(&fixture.at("dir/far"), b"new", Follow, Replacement::Atomic).unwrap();
    let after = fs::metadata(fixture.at("f")).unwrap();
    assert_eq!(after.mode() & 0o7777, 0o640);
    assert_ne!(after.ino(), inode);
    assert_eq!(fs::read(fixture.at("f")).unwrap(), b"new");
    fs::write(fixture.at("plain"), "").unwrap();
    write_file(&fixture.at("atomic"), b"", Follow, Replacement::Atomic).unwrap();
    let mode = |name: &str| fs::metadata(fixture.at(name)).unwrap().mode();
    assert_eq!(mode("atomic"), mode("plain"));
}

#[test]
fn get_metadata_rows() {
    let fixture = Fixture::new();
    let check = |name: &str, links: Links, expected: &str| {
        let got = get_metadata(&fixture.at(name), links);
        let kind = got.as_ref().ok().map(|it| {
            let kinds = [(it.is_directory, "dir"), (it.is_file, "file"), (it.is_symlink, "link")];
            kinds.iter().filter(|(is, _)| *is).map(|(_, name)| *name).collect::<Vec<_>>().join("+")
        });
        assert_eq!(kind.unwrap_or_else(|| outcome(got)), expected, "for {name}, {links:?}");
    };
    check("f", Follow, "file");
    check("dir", Follow, "dir");
    check("lf", Follow, "file+link");
    check("ld", Follow, "dir+link");
    check("fifo", Follow, "");
    check("sock", Follow, "");
    check("/dev/null", Follow, "");
    check("/proc/self/root", Follow, "dir+link");
    check("br", Follow, MISSING);
    check("none", Follow, MISSING);
    check("loop", Follow, LOOP);
    check("f/x", Follow, NOT_A_DIRECTORY);
    check("f", Refuse, "file");
    check("dir/x", Refuse, "file");
    check("fifo", Refuse, "");
    check("/", Refuse, "dir");
    for name in ["lf", "ld", "br", "loop"] {
        check(name, Refuse, LINKED);
    }
    for name in ["ld/x", "f/x", "/proc/self/root"] {
        check(name, Refuse, NOT_A_DIRECTORY);
    }
    check("none", Refuse, MISSING);
    let link = get_metadata(&fixture.at("lf"), Follow).unwrap();
    let real = fs::metadata(fixture.at("f")).unwrap();
    assert_eq!(link.size, 3);
    assert_eq!(link.modified_at_ms, real.mtime() * 1000 + real.mtime_nsec() / 1_000_000);
    let born = real.created().ok().and_then(|time| time.duration_since(std::time::UNIX_EPOCH).ok());
    let born = born.map_or(0, |born| i64::try_from(born.as_millis()).unwrap());
    assert_eq!(link.created_at_ms, born);
}

#[test]
fn canonicalize_rows() {
    let fixture = Fixture::new();
    let root = fs::canonicalize(fixture.root()).unwrap();
    assert_eq!(canonicalize(&fixture.at("ld/x")).unwrap(), root.join("dir/x"));
    assert_eq!(canonicalize(&fixture.at("lf")).unwrap(), root.join("f"));
    assert_eq!(canonicalize(&fixture.at("fifo")).unwrap(), root.join("fifo"));
    assert_eq!(outcome(canonicalize(&fixture.at("br"))), MISSING);
    assert_eq!(outcome(canonicalize(&fixture.at("loop"))), LOOP);
    assert_eq!(outcome(canonicalize(&fixture.at("f/x"))), NOT_A_DIRECTORY);
}

#[test]
fn create_directory_rows() {
    let fixture = Fixture::new();
    let check = |name: &str, parents, links: Links, expected: &str| {
        let got = outcome(create_directory(&fixture.at(name), parents, links));
        assert_eq!(got, expected, "for {name}, {parents:?}, {links:?}");
    };
    use Parents::{Create, Require};
    for name in ["dir", "ld", "ld/n1", "n2/y", "/", "/proc/self/root"] {
        check(name, Create, Follow, "ok");
    }
    for name in ["f", "lf", "br", "loop", "fifo"] {
        check(name, Create, Follow, EXISTS);
    }
    check("f/x", Create, Follow, NOT_A_DIRECTORY);
    for name in ["dir", "n3/y/z", "/"] {
        check(name, Create, Refuse, "ok");
    }
    for name in ["f", "lf", "ld", "br", "fifo", "ld/n4", "f/x", "/proc/self/root"] {
        check(name, Create, Refuse, NOT_A_DIRECTORY);
    }
    check("n5", Require, Follow, "ok");
    check("ld/n6", Require, Follow, "ok");
    for name in ["f", "dir", "lf", "ld", "br", "/"] {
        check(name, Require, Follow, EXISTS);
    }
    check("no/y", Require, Follow, MISSING);
    check("f/x", Require, Follow, NOT_A_DIRECTORY);
    check("n7", Require, Refuse, "ok");
    for name in ["f", "dir", "lf", "ld", "br"] {
        check(name, Require, Refuse, EXISTS);
    }
    check("ld/n8", Require, Refuse, NOT_A_DIRECTORY);
    check("no/y", Require, Refuse, MISSING);
    check("/", Require, Refuse, "-32603 directory already exists");
    assert!(!fixture.at("dir/n4").exists() && !fixture.at("dir/n8").exists());
    assert!(fixture.at("n3/y/z").is_dir() && fixture.at("dir/n6").is_dir());
}
