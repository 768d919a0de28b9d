//! Full disks, read-only places, no server, and progress on a real terminal.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use crate::support::{Stage, exec_server, noise};

/// A file system of that size, gone with this.
struct SmallDisk(PathBuf);

impl SmallDisk {
    fn new(at: PathBuf, options: &str) -> Option<Self> {
        fs::create_dir(&at).unwrap();
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", options, "tmpfs"]).arg(&at).stderr(Stdio::null());
        if mount.status().is_ok_and(|status| status.success()) {
            return Some(Self(at));
        }
        exec_testkit::skip("cannot mount a small tmpfs");
        None
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        Command::new("umount").arg(&self.0).status().unwrap();
    }
}

#[test]
fn a_full_disk_on_either_side_is_said_and_leaves_no_complete_name() {
    let stage = Stage::new();
    let Some(disk) = SmallDisk::new(stage.at("disk"), "size=2m") else { return };
    stage.write("big", noise(8 << 20));
    let down = stage.run(["cp", &stage.there("big"), "disk/copy"]);
    assert_eq!(down.code, Some(1));
    assert!(down.stderr.contains("No space left on device"), "{}", down.stderr);
    assert!(fs::read_dir(&disk.0).unwrap().next().is_none(), "a part nobody asked to keep");
    let up = stage.run(["cp", "big", &stage.there("disk/copy")]);
    assert_eq!(up.code, Some(1));
    assert!(up.stderr.contains("No space left on device"), "{}", up.stderr);
}

#[test]
fn a_read_only_destination_is_said() {
    let stage = Stage::new();
    let Some(_disk) = SmallDisk::new(stage.at("disk"), "size=1m,ro") else { return };
    stage.write("tree/a", "a");
    for (from, to) in [
        (stage.there("tree"), "disk/x".to_owned()),
        ("tree".to_owned(), stage.there("disk/x")),
        (stage.there("tree/a"), "disk/x".to_owned()),
    ] {
        let done = stage.run(["cp", "-r", &from, &to]);
        assert_eq!(done.code, Some(1), "{from}");
        assert!(done.stderr.contains("Read-only file system"), "{}", done.stderr);
        assert_eq!(done.stderr.lines().count(), 1, "{}", done.stderr);
    }
}

#[test]
fn no_server_is_255_with_a_hint() {
    let mut command = exec_server();
    let output = command.args(["ls", "--url", "ws://127.0.0.1:1"]).output().unwrap();
    let text = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(255));
    assert!(text.ends_with("(is it running? `exec-server serve` prints its address)\n"), "{text}");
}

#[test]
fn progress_is_shown_on_a_terminal_only() {
    let stage = Stage::new();
    stage.write("big", noise(16 << 20));
    let copy = ["cp", "big", &stage.there("copy")];
    assert_eq!(stage.run(copy).well().stderr, "");
    // A terminal of the executor's making, and the command on it.
    let on_terminal = |extra: &[&str]| {
        let mut run = exec_server();
        run.current_dir(stage.at("")).args(["run", "--tty", "--"]);
        run.arg(env!("CARGO_BIN_EXE_exec-server")).args(copy).args(["--url", stage.url()]);
        let output = run.args(extra).stdin(Stdio::null()).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    let shown = on_terminal(&[]);
    assert!(shown.contains(" of 16.0 MiB  ") && shown.contains("/1 files  big"), "{shown:?}");
    assert!(shown.ends_with("\r\u{1b}[K"), "the line is left empty: {shown:?}");
    assert_eq!(on_terminal(&["--quiet"]), "");
}
