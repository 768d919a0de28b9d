//! `fs/open`, `fs/readBlock`, `fs/writeBlock`, `fs/close`.

use std::fs;

use exec_fs::handles::Block;
use exec_fs::limits::{BLOCK_BYTES_MAX, HANDLES_MAX};
use exec_fs::{Error, Handles};
use exec_protocol::fs::OpenMode::{Read, Replace, Update};

use crate::support::*;

fn read(handles: &Handles, id: &str, offset: u64, len: u64) -> Result<(Vec<u8>, bool), Error> {
    let mut buffer = Vec::new();
    let Block { bytes, eof } = handles.read_block(id, offset, len, &mut buffer)?;
    Ok((buffer[..bytes].to_vec(), eof))
}

#[test]
fn open_rows() {
    let fixture = Fixture::new();
    let handles = Handles::new(HANDLES_MAX);
    let check = |id: &str, name: &str, mode, expected: &str| {
        let got = fixture.outcome(handles.open(id, &fixture.at(name), mode));
        assert_eq!(got, expected, "for {id}, {name}, {mode:?}");
    };
    check("a", "f", Read, "ok");
    check("a", "none", Read, "-32600 file handle `a` already exists");
    check("", "lf", Read, "ok");
    check(&"x".repeat(33), "f", Read, "-32600 file handle ID must not exceed 32 bytes");
    check(&"x".repeat(32), "f", Read, "ok");
    check("b", "dir", Read, "-32600 path `D/dir` is not a file");
    check("b", "fifo", Read, "-32600 path `D/fifo` is not a file");
    check("b", "/dev/null", Read, "-32600 path `/dev/null` is not a file");
    check("b", "sock", Read, NO_DEVICE);
    check("b", "br", Read, MISSING);
    check("b", "f/x", Read, NOT_A_DIRECTORY);
    check("b", "dir", Replace, IS_A_DIRECTORY);
    check("b", "/", Replace, IS_A_DIRECTORY);
    check("b", "fifo", Replace, NO_DEVICE);
    check("b", "/dev/null", Replace, "-32600 path `/dev/null` is not a file");
    check("b", "none/x", Replace, MISSING);
    // A failure gave the name back.
    check("b", "br", Replace, "ok");
    assert!(fixture.at("none").exists());
    check("c", "lf", Replace, "ok");
    assert_eq!(fs::read(fixture.at("f")).unwrap(), b"");
    assert_eq!(handles.len(), 5);
    let small = Handles::new(2);
    small.open("1", &fixture.at("f"), Read).unwrap();
    small.open("2", &fixture.at("f"), Read).unwrap();
    let full = "-32600 at most 2 file handles may be open per connection";
    assert_eq!(outcome(small.open("3", &fixture.at("none1"), Read)), full);
    let exists = "-32600 file handle `1` already exists";
    assert_eq!(outcome(small.open("1", &fixture.at("none1"), Read)), exists);
    small.close("1").unwrap();
    small.open("3", &fixture.at("f"), Read).unwrap();
}

#[test]
fn update_keeps_what_is_there() {
    let fixture = Fixture::new();
    let handles = Handles::new(HANDLES_MAX);
    fs::write(fixture.at("f"), b"one two").unwrap();
    handles.open("a", &fixture.at("f"), Update).unwrap();
    handles.write_block("a", 4, b"TWO+").unwrap();
    assert_eq!(fs::read(fixture.at("f")).unwrap(), b"one TWO+");
    handles.open("b", &fixture.at("fresh"), Update).unwrap();
    handles.write_block("b", 1, b"x").unwrap();
    assert_eq!(fs::read(fixture.at("fresh")).unwrap(), b"\0x");
    let refused = |name: &str| fixture.outcome(handles.open("c", &fixture.at(name), Update));
    assert_eq!(refused("dir"), IS_A_DIRECTORY);
    assert_eq!(refused("fifo"), NO_DEVICE);
}

#[test]
fn read_block_rows() {
    let fixture = Fixture::new();
    let handles = Handles::new(HANDLES_MAX);
    handles.open("r", &fixture.at("f"), Read).unwrap();
    assert_eq!(read(&handles, "r", 0, 3).unwrap(), (b"abc".to_vec(), false));
    assert_eq!(read(&handles, "r", 0, 4).unwrap(), (b"abc".to_vec(), true));
    assert_eq!(read(&handles, "r", 1, 1).unwrap(), (b"b".to_vec(), false));
    assert_eq!(read(&handles, "r", 30, 4).unwrap(), (Vec::new(), true));
    let length = "-32600 file read block length must be between 1 and 1048576";
    for len in [0, BLOCK_BYTES_MAX as u64 + 1, u64::MAX] {
        assert_eq!(outcome(read(&handles, "r", 0, len)), length);
        assert_eq!(outcome(read(&handles, "unknown", 0, len)), length);
    }
    let id = "x".repeat(33);
    let long = "-32600 file handle ID must not exceed 32 bytes";
    assert_eq!(outcome(read(&handles, &id, 0, 0)), long);
    assert_eq!(outcome(handles.write_block(&id, 0, b"")), long);
    assert_eq!(outcome(handles.close(&id)), long);
    assert_eq!(outcome(read(&handles, "u", 0, 1)), "-32004 unknown file handle `u`");
    // A length that is wrong does not close, an offset that is wrong does.
    let invalid = "-32600 Invalid argument (os error 22)";
    assert_eq!(outcome(read(&handles, "r", i64::MAX as u64, 4)), invalid);
    assert_eq!(outcome(read(&handles, "r", 0, 1)), "-32004 unknown file handle `r`");
    handles.open("r", &fixture.at("f"), Read).unwrap();
    assert_eq!(outcome(read(&handles, "r", u64::MAX, 4)), invalid);
    assert!(handles.is_empty());
}

#[test]
fn write_block_rows() {
    let fixture = Fixture::new();
    let handles = Handles::new(HANDLES_MAX);
    handles.open("w", &fixture.at("new"), Replace).unwrap();
    handles.write_block("w", 4, b"tail").unwrap();
    handles.write_block("w", 0, b"h").unwrap();
    assert_eq!(fs::read(fixture.at("new")).unwrap(), b"h\0\0\0tail");
    let length = "-32600 file write block length must be between 1 and 1048576";
    assert_eq!(outcome(handles.write_block("w", 0, b"")), length);
    assert_eq!(outcome(handles.write_block("u", 0, &vec![0; BLOCK_BYTES_MAX + 1])), length);
    let range = "-32600 file write range exceeds the signed 64-bit file offset limit";
    for offset in [1 << 63, (1 << 63) - 1, (1 << 63) - 2, u64::MAX] {
        assert_eq!(outcome(handles.write_block("w", offset, b"hi")), range, "at {offset}");
    }
    assert_eq!(
        outcome(handles.write_block("w", (1 << 63) - 4, b"hi")),
        "-32603 File too large (os error 27)"
    );
    assert_eq!(outcome(handles.write_block("u", 0, b"x")), "-32004 unknown file handle `u`");
    // The wrong direction: a failed write leaves the handle, a failed read closes it.
    let direction = "-32603 Bad file descriptor (os error 9)";
    handles.open("r", &fixture.at("f"), Read).unwrap();
    assert_eq!(outcome(handles.write_block("r", 0, b"x")), direction);
    assert_eq!(read(&handles, "r", 0, 1).unwrap().0, b"a");
    assert_eq!(outcome(read(&handles, "w", 0, 1)), direction);
    assert_eq!(outcome(handles.write_block("w", 0, b"x")), "-32004 unknown file handle `w`");
}

#[test]
fn closing_what_is_not_open_is_no_error() {
    let handles = Handles::new(1);
    handles.close("x").unwrap();
    handles.close("x").unwrap();
}

#[test]
fn a_name_goes_to_exactly_one_of_many_openings() {
    let fixture = Fixture::new();
    for _ in 0..50 {
        let handles = Handles::new(HANDLES_MAX);
        let opened = std::thread::scope(|scope| {
            let openings: Vec<_> = (0..4)
                .map(|_| scope.spawn(|| handles.open("h", &fixture.at("f"), Read).is_ok()))
                .collect();
            openings
                .into_iter()
                .filter(|_| true)
                .map(|it| it.join().unwrap())
                .filter(|ok| *ok)
                .count()
        });
        assert_eq!((opened, handles.len()), (1, 1));
    }
}

#[test]
fn a_cached_block_is_the_same_block() {
    let fixture = Fixture::new();
    let content: Vec<u8> = (0..300_000u32).map(|n| n.to_le_bytes()[1]).collect();
    fs::write(fixture.at("big"), &content).unwrap();
    let handles = Handles::new(HANDLES_MAX);
    handles.open("h", &fixture.at("big"), Read).unwrap();
    let mut buffer = Vec::new();
    for (offset, len) in [(0, 4096), (299_000, 1000), (299_000, 4096), (400_000, 1)] {
        let expected = read(&handles, "h", offset, len).unwrap();
        // Just written, so it is cached; a file system that cannot say so answers nothing.
        if let Some(block) = handles.read_block_cached("h", offset, len, &mut buffer) {
            let Block { bytes, eof } = block.unwrap();
            assert_eq!((buffer[..bytes].to_vec(), eof), expected, "at {offset}");
        }
    }
    let unknown = handles.read_block_cached("u", 0, 1, &mut buffer);
    assert_eq!(outcome(unknown.unwrap()), "-32004 unknown file handle `u`");
    // An error is for the other call to say, which also closes.
    assert!(handles.read_block_cached("h", u64::MAX, 2, &mut buffer).is_none());
}
