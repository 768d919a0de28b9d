//! What this machine can do, and what it says where it may not.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod support;

use std::process::Command;

use exec_sandbox::linux::bwrap::Places;
use exec_sandbox::linux::probe::{Engine, Facts, Step, Verdict, choose};
use exec_sandbox::linux::seccomp::{Nesting, Options, Reach, Record};
use support::confine;

/// In the child of [`forbidden`]: print what was found.
const REPORT: &str = "EXEC_SANDBOX_PROBE_REPORT";

#[test]
fn facts_agree_with_trying() {
    let facts = Facts::find(&Places::default());
    if std::env::var_os(REPORT).is_some() {
        println!("obstacle {:?}", facts.own.obstacle());
        println!("bwrap {:?}", facts.bwrap_namespaces);
        println!("told {}", choose(None, &facts).unwrap_err());
        return;
    }
    let unshared = Command::new("/usr/bin/unshare")
        .args(["-Urmpf", "--mount-proc", "/bin/true"])
        .output()
        .is_ok_and(|output| output.status.success());
    assert_eq!(facts.own.error(Step::Namespaces).is_none(), unshared, "{facts:?}");
    if unshared {
        assert_eq!(facts.own.obstacle(), None, "{facts:?}");
        assert_eq!(facts.verdict(Engine::Builtin), Verdict::Usable);
        assert_eq!(choose(None, &facts), Ok(Engine::Builtin));
    }
    // SAFETY: asks for a number.
    assert_eq!(facts.host.root, unsafe { libc::geteuid() } == 0);
    assert!(facts.notification || facts.landlock == 0, "both came with Linux 5.x: {facts:?}");
}

/// The same test, run again where no namespaces can be made, because a filter forbids them: as in a
/// container.
#[test]
fn where_namespaces_are_forbidden_it_says_so() {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "facts_agree_with_trying", "--nocapture"]).env(REPORT, "1");
    let options =
        Options { reach: Reach::Network, nesting: Nesting::Refused, record: Record::Nothing };
    let output = confine(&mut command, options).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("obstacle Some((Namespaces, 1))"), "{text}");
    assert!(text.contains("bwrap Err("), "{text}");
    assert!(text.contains("told Commands cannot be sandboxed on this host."), "{text}");
    assert!(text.contains("make namespaces: Operation not permitted"), "{text}");
}

/// And where there is room for no more of them.
#[test]
fn where_the_limit_is_zero_it_says_so() {
    let script = "echo 0 > /proc/sys/user/max_user_namespaces || exit 99; exec \"$0\" \"$@\"";
    let output = Command::new("/usr/bin/unshare")
        .args(["-Ur", "/bin/sh", "-c", script])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", "facts_agree_with_trying", "--nocapture"])
        .env(REPORT, "1")
        .output();
    let Ok(output) = output else {
        exec_testkit::skip("unshare (util-linux) is not installed");
        return;
    };
    if matches!(output.status.code(), Some(1 | 99)) {
        let why = String::from_utf8_lossy(&output.stderr).into_owned();
        exec_testkit::skip(format!("no user namespace to try it in: {why}"));
        return;
    }
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains(&format!("obstacle Some((Namespaces, {}))", libc::ENOSPC)), "{text}");
    assert!(text.contains("the limit of namespaces is reached"), "{text}");
    assert!(text.contains("user.max_user_namespaces"), "{text}");
}
