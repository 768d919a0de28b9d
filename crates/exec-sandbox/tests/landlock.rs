//! Landlock rules in the real kernel, on a forked child.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod support;

use std::ffi::CString;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use exec_sandbox::linux::landlock::{self, Ruleset, Wanted, access};
use exec_sandbox::plan::Network;
use support::{errno_of, in_child};

fn text(path: &Path) -> CString {
    CString::new(path.as_os_str().as_bytes()).unwrap()
}

fn at(text: &CString) -> i64 {
    text.as_ptr().addr().cast_signed() as i64
}

/// Makes the kernel's object; the child only has to enter it.
fn prepare(ruleset: &Ruleset) -> i32 {
    #[repr(C, packed)]
    struct PathBeneath {
        access: u64,
        parent: i32,
    }
    let attributes = ruleset.attributes();
    // SAFETY: structures as the kernel knows them, alive during the calls.
    unsafe {
        let made = libc::syscall(
            libc::SYS_landlock_create_ruleset,
            attributes.as_ptr(),
            size_of_val(&attributes),
            0,
        );
        let made = i32::try_from(made).unwrap();
        assert!(made >= 0, "{}", std::io::Error::last_os_error());
        for rule in &ruleset.rules {
            let parent = libc::open(text(&rule.path).as_ptr(), libc::O_PATH | libc::O_CLOEXEC);
            if parent < 0 {
                continue;
            }
            let access = match rule.path.is_dir() {
                true => rule.access,
                false => rule.access & access::OF_FILES,
            };
            let beneath = PathBeneath { access, parent };
            let added = libc::syscall(libc::SYS_landlock_add_rule, made, 1, &raw const beneath, 0);
            assert_eq!(added, 0, "{:?}: {}", rule.path, std::io::Error::last_os_error());
            libc::close(parent);
        }
        made
    }
}

/// The errno of a call under the rules.
fn under(ruleset: i32, number: i64, arguments: [i64; 6]) -> i32 {
    let status = in_child(|| {
        // SAFETY: plain numbers.
        unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) };
        let entered =
            errno_of(libc::SYS_landlock_restrict_self, [i64::from(ruleset), 0, 0, 0, 0, 0]);
        if entered == 0 { errno_of(number, arguments) } else { 255 }
    });
    status.code().unwrap()
}

fn check_writes(ruleset: &Ruleset, writable: &Path, outside: &Path) {
    let ruleset = prepare(ruleset);
    let here = i64::from(libc::AT_FDCWD);
    let open = |path: &Path, flags: i32| {
        under(ruleset, libc::SYS_openat, [here, at(&text(path)), i64::from(flags), 0o600, 0, 0])
    };
    let rename = |from: &Path, to: &Path| {
        let (from, to) = (text(from), text(to));
        under(ruleset, libc::SYS_renameat2, [here, at(&from), here, at(&to), 0, 0])
    };
    let create = libc::O_WRONLY | libc::O_CREAT;
    assert_eq!(open(&writable.join("new"), create), 0);
    assert_eq!(open(&outside.join("new"), create), libc::EACCES);
    assert_eq!(open(&outside.join("file"), libc::O_RDONLY), 0);
    assert_eq!(open(&outside.join("file"), libc::O_WRONLY), libc::EACCES);
    assert_eq!(open(Path::new("/dev/null"), libc::O_WRONLY), 0);
    let truncate = text(&outside.join("file"));
    assert_eq!(under(ruleset, libc::SYS_truncate, [at(&truncate), 0, 0, 0, 0, 0]), libc::EACCES);
    fs::create_dir_all(writable.join("deep")).unwrap();
    assert_eq!(rename(&writable.join("new"), &writable.join("deep/moved")), 0);
    assert_eq!(rename(&outside.join("file"), &writable.join("stolen")), libc::EACCES);
    assert_eq!(rename(&writable.join("deep/moved"), &outside.join("put")), libc::EACCES);
    let directory = text(&outside.join("dir"));
    assert_eq!(
        under(ruleset, libc::SYS_mkdirat, [here, at(&directory), 0o700, 0, 0, 0]),
        libc::EACCES
    );
    assert_eq!(fs::read_to_string(outside.join("file")).unwrap(), "kept");
    // SAFETY: made by `prepare`, and nobody else's.
    unsafe { libc::close(ruleset) };
}

#[test]
fn nothing_outside_the_writable_directories_can_be_written() {
    let abi = landlock::abi();
    if abi < 3 {
        exec_testkit::skip(format!("Landlock {abi}: 3 is needed"));
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let (writable, outside) = (dir.path().join("w"), dir.path().join("o"));
    fs::create_dir(&writable).unwrap();
    fs::create_dir(&outside).unwrap();
    fs::write(outside.join("file"), "kept").unwrap();
    let roots: Vec<PathBuf> = vec![writable.clone(), dir.path().join("missing")];
    let layer = landlock::second_layer(abi, &roots, Network::Isolated).unwrap();
    check_writes(&layer, &writable, &outside);
    let wanted = Wanted {
        reads_everything: true,
        writable: &roots,
        carve_outs: &[],
        protects_metadata: false,
        accept_unprotected_metadata: false,
        network: Network::Isolated,
    };
    check_writes(&landlock::alone(abi, &wanted).unwrap(), &writable, &outside);
}

#[test]
fn signals_end_at_the_commands_own_processes() {
    let abi = landlock::abi();
    if abi < 6 {
        exec_testkit::skip(format!("Landlock {abi}: 6 is needed"));
        return;
    }
    let layer = landlock::second_layer(abi, &[], Network::Host).unwrap();
    let ruleset = prepare(&layer);
    let parent = i64::from(std::process::id());
    assert_eq!(under(ruleset, libc::SYS_kill, [parent, 0, 0, 0, 0, 0]), libc::EPERM);
    // SAFETY: made by `prepare`, and nobody else's.
    unsafe { libc::close(ruleset) };
}
