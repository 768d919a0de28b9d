//! FIFOs, sockets and devices: nobody waits, and nobody at the other end notices.

use std::fs;
use std::io::Read;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc::sync_channel;
use std::time::Duration;

use exec_fs::Links::{Follow, Refuse};
use exec_fs::{
    Cancel, Handles, Missing, Recursion, Replacement, copy, get_metadata, metadata_cached,
    read_directory, read_file, read_file_cached, remove, rename, search, walk, write_file,
};
use exec_protocol::fs::{OpenMode, SearchParams, WalkOptions};

use crate::support::*;

/// Fails if the call has not come back by then.
fn within_reason<T: Send + 'static>(call: impl FnOnce() -> T + Send + 'static) -> T {
    let (sender, receiver) = sync_channel(1);
    std::thread::spawn(move || sender.send(call()));
    receiver.recv_timeout(Duration::from_secs(10)).expect("a call that waits for nobody")
}

fn everything(path: &Path, scratch: &Path) {
    let cancel = Cancel::new();
    for links in [Follow, Refuse] {
        read_file(path, links, 1000).map(drop).unwrap_err();
        get_metadata(path, links).unwrap();
        metadata_cached(path, links);
        assert!(!matches!(read_file_cached(path, links, 1000), Some(Ok(_))));
        for replacement in [Replacement::InPlace, Replacement::Atomic] {
            // Refused; or, for a device, done.
            write_file(path, b"", links, replacement).ok();
        }
    }
    let handles = Handles::new(10);
    for mode in [OpenMode::Read, OpenMode::Replace] {
        handles.open("h", path, mode).unwrap_err();
    }
    read_directory(path, &cancel).unwrap_err();
    let options = WalkOptions {
        max_depth: 1,
        max_directories: 1,
        max_entries: 1,
        follow_directory_symlinks: true,
        prune_hidden_directories: false,
    };
    assert!(walk(path, &options, &cancel).unwrap().entries.is_empty());
    copy(path, &scratch.join("copy"), Recursion::Tree, &cancel).unwrap_err();
    let params: SearchParams = serde_json::from_str(r#"{"path":"/","pattern":"x"}"#).unwrap();
    search(path, &params, &cancel).map(drop).unwrap_err();
}

#[test]
fn no_call_waits_for_a_special_file() {
    let fixture = Fixture::new();
    let scratch = fixture.root().to_owned();
    for name in ["fifo", "sock", "/dev/zero", "/dev/null", "/dev/tty", "/dev/random"] {
        let (path, scratch) = (fixture.at(name), scratch.clone());
        if path.exists() {
            println!("{name}");
            within_reason(move || everything(&path, &scratch));
        }
    }
    // As one of many.
    let root = fixture.root().to_owned();
    within_reason(move || {
        let params: SearchParams = serde_json::from_str(r#"{"path":"/","pattern":"abc"}"#).unwrap();
        assert_eq!(search(&root, &params, &Cancel::new()).unwrap().matches.len(), 1);
        fs::create_dir(root.join("many")).unwrap();
        fifo(&root.join("many/fifo"));
        copy(&root.join("many"), &root.join("copied"), Recursion::Tree, &Cancel::new()).unwrap();
        rename(&root.join("many/fifo"), &root.join("many/fifo2"), exec_fs::Existing::Keep).unwrap();
        let all = (Recursion::Tree, Missing::Refuse);
        remove(&root.join("many"), all.0, all.1, Follow, &Cancel::new()).unwrap();
    });
}

#[test]
fn a_full_fifo_with_a_reader_is_refused_all_the_same() {
    let fixture = Fixture::new();
    let path: PathBuf = fixture.at("fifo");
    let mut reader = fs::OpenOptions::new().read(true).custom_flags(0o4000).open(&path).unwrap();
    let refused = within_reason(move || {
        let data = vec![0; 1 << 20];
        outcome(write_file(&path, &data, Follow, Replacement::InPlace))
    });
    assert_eq!(refused, NO_DEVICE);
    assert_eq!(reader.read(&mut [0; 8]).unwrap_or(0), 0, "something was written");
}

#[test]
fn a_writer_that_waits_for_a_reader_goes_on_waiting() {
    let fixture = Fixture::new();
    let path = fixture.at("fifo");
    let (sender, receiver) = sync_channel(1);
    let writer = path.clone();
    std::thread::spawn(move || {
        let opened = fs::OpenOptions::new().write(true).open(writer);
        sender.send(opened.is_ok()).unwrap();
    });
    for _ in 0..20 {
        read_file(&path, Follow, 10).unwrap_err();
        read_file(&path, Refuse, 10).unwrap_err();
        assert!(read_file_cached(&path, Follow, 10).is_none());
        std::thread::sleep(Duration::from_millis(2));
    }
    assert!(receiver.try_recv().is_err(), "the writer was woken by a look at the file");
    // Lets the writer go, so that the thread ends.
    fs::OpenOptions::new().read(true).open(&path).unwrap();
    assert_eq!(receiver.recv_timeout(Duration::from_secs(10)), Ok(true));
}
