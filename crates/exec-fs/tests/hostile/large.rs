//! Files and directories of a size nobody expects.

use std::fs;
use std::os::unix::fs::FileExt;

use exec_fs::Links::Follow;
use exec_fs::limits::READ_FILE_BYTES_MAX;
use exec_fs::{
    Cancel, Handles, Missing, Recursion, get_metadata, read_directory, read_directory_json,
    read_file, remove, search, walk,
};
use exec_protocol::fs::{OpenMode, SearchParams, WalkOptions};

use crate::support::*;

#[test]
fn a_sparse_file_of_a_tebibyte_is_no_burden() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("huge");
    let file = fs::File::create(&path).unwrap();
    if let Err(error) = file.set_len(1 << 40) {
        exec_testkit::skip(format_args!("no file of a tebibyte here: {error}"));
        return;
    }
    file.write_at(b"tail", (1 << 40) - 4).unwrap();
    assert_eq!(get_metadata(&path, Follow).unwrap().size, 1 << 40);
    let too_large = "-32600 file is too large to read: limit is 536870912 bytes";
    assert_eq!(outcome(read_file(&path, Follow, READ_FILE_BYTES_MAX)), too_large);
    let handles = Handles::new(1);
    handles.open("h", &path, OpenMode::Read).unwrap();
    let mut buffer = Vec::new();
    let block = handles.read_block("h", (1 << 40) - 6, 100, &mut buffer).unwrap();
    assert_eq!((&buffer[..block.bytes], block.eof), (b"\0\0tail".as_slice(), true));
    // Its first byte shows that it is not text.
    let params: SearchParams = serde_json::from_str(r#"{"path":"/","pattern":"tail"}"#).unwrap();
    assert_eq!(search(dir.path(), &params, &Cancel::new()).unwrap().matches, []);
}

#[test]
fn a_directory_of_a_hundred_thousand_is_counted_walked_and_removed() {
    let dir = memory_directory();
    let large = dir.path().join("large");
    fs::create_dir(&large).unwrap();
    for n in 0..100_000 {
        fs::File::create(large.join(format!("{n:05}"))).unwrap();
    }
    let cancel = Cancel::new();
    let too_many = "-32603 fs/readDirectory returned 100000 entries; limit is 50000";
    assert_eq!(outcome(read_directory(&large, &cancel)), too_many);
    let mut json = Vec::new();
    assert_eq!(outcome(read_directory_json(&large, &cancel, &mut json)), too_many);
    assert!(json.is_empty());
    let options = WalkOptions {
        max_depth: 0,
        max_directories: 1,
        max_entries: 5000,
        follow_directory_symlinks: false,
        prune_hidden_directories: false,
    };
    let walked = walk(&large, &options, &cancel).unwrap();
    assert!(walked.truncated);
    let expected: Vec<_> =
        (0..5000).map(|n| format!("file://{}/{n:05}", large.display())).collect();
    let got: Vec<_> = walked.entries.iter().map(|entry| entry.path.as_str()).collect();
    assert_eq!(got, expected);
    remove(&large, Recursion::Tree, Missing::Refuse, Follow, &cancel).unwrap();
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
}
