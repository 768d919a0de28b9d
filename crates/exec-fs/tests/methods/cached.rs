//! What the caches answer is what the blocking functions answer.

use std::fs;

use exec_fs::Links::{Follow, Refuse};
use exec_fs::{get_metadata, metadata_cached, read_file, read_file_cached};

use crate::support::*;

const NAMES: [&str; 16] = [
    "f",
    "dir",
    "dir/x",
    "lf",
    "ld",
    "ld/x",
    "br",
    "loop",
    "fifo",
    "sock",
    "f/x",
    "none",
    "none/x",
    "/",
    "/dev/null",
    "/proc/self/status",
];

#[test]
fn metadata_is_the_same_and_usually_there() {
    let fixture = Fixture::new();
    let mut answered = 0;
    for name in NAMES {
        for links in [Follow, Refuse] {
            let path = fixture.at(name);
            let expected = get_metadata(&path, links);
            let Some(got) = metadata_cached(&path, links) else { continue };
            answered += 1;
            match (got, expected) {
                (Ok(got), Ok(expected)) => assert_eq!(got, expected, "for {name}, {links:?}"),
                (got, expected) => assert_eq!(outcome(got), outcome(expected), "for {name}"),
            }
        }
    }
    println!("{answered} of {} answered from the cache", NAMES.len() * 2);
}

#[test]
fn content_is_the_same_and_usually_there() {
    let fixture = Fixture::new();
    fs::write(fixture.at("large"), vec![7; 100_000]).unwrap();
    fs::write(fixture.at("empty"), "").unwrap();
    let mut answered = 0;
    for name in NAMES.iter().copied().chain(["large", "empty"]) {
        for links in [Follow, Refuse] {
            let path = fixture.at(name);
            let expected = read_file(&path, links, 1 << 20);
            let Some(got) = read_file_cached(&path, links, 64 << 10) else { continue };
            answered += 1;
            assert!(name != "large", "larger than asked for");
            match (got, expected) {
                (Ok(got), Ok(expected)) => assert_eq!(got, expected, "for {name}, {links:?}"),
                (got, expected) => assert_eq!(outcome(got), outcome(expected), "for {name}"),
            }
        }
    }
    println!("{answered} of {} answered from the cache", (NAMES.len() + 2) * 2);
}

/// A rename anywhere in the system may get in the way of a look-up without locks.
fn soon<T>(mut ask: impl FnMut() -> Option<T>) -> T {
    (0..10_000).find_map(|_| ask()).expect("answered from the cache")
}

#[test]
fn on_a_common_file_system_the_usual_questions_are_answered() {
    let fixture = Fixture::new();
    if metadata_cached(&fixture.at("f"), Follow).is_none() {
        exec_testkit::skip("the temporary directory's file system has no cached look-ups");
        return;
    }
    get_metadata(&fixture.at("none"), Follow).unwrap_err();
    let missing = soon(|| metadata_cached(&fixture.at("none"), Follow));
    assert_eq!(outcome(missing), MISSING);
    let read = |name: &str| soon(|| read_file_cached(&fixture.at(name), Follow, 10));
    assert_eq!(outcome(read("none")), MISSING);
    assert_eq!(read("f").unwrap(), b"abc");
    // The first to pass a link writes that down, which may wait.
    read_file(&fixture.at("lf"), Follow, 10).unwrap();
    assert_eq!(read("lf").unwrap(), b"abc");
    assert!(read_file_cached(&fixture.at("f"), Follow, 2).is_none());
    assert!(read_file_cached(&fixture.at("fifo"), Follow, 10).is_none());
}
