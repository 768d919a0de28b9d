//! Every kind of host, and what people are told there.

use super::super::{Own, Step};
use super::*;
use crate::linux::bwrap::Bwrap;

fn good() -> Facts {
    let bwrap =
        Bwrap { path: "/usr/bin/bwrap".into(), version: "0.8".into(), disable_userns: true };
    Facts {
        bwrap: Ok(bwrap),
        bwrap_namespaces: Ok(()),
        own: Own::default(),
        landlock: 7,
        notification: true,
        host: HostFacts::default(),
    }
}

/// Neither we nor bubblewrap can make namespaces.
fn bad(host: HostFacts) -> Facts {
    let mut own = Own::default();
    own.errors[Step::Namespaces as usize] = Some(libc::EPERM);
    let said = "bwrap: No permissions to create new namespace.".to_owned();
    Facts { own, bwrap_namespaces: Err(said), host, ..good() }
}

#[test]
fn the_best_that_works_is_chosen() {
    let without_own = Facts { own: bad(HostFacts::default()).own, ..good() };
    let without_bwrap = Facts { bwrap: Err("no".into()), ..good() };
    let nothing = bad(HostFacts::default());
    let check = |facts: &Facts, ordered, expected: Option<Engine>| {
        assert_eq!(choose(ordered, facts).ok(), expected, "{facts:?} {ordered:?}");
    };
    check(&good(), None, Some(Engine::Builtin));
    check(&without_own, None, Some(Engine::Bwrap));
    check(&without_bwrap, None, Some(Engine::Builtin));
    // The weaker engine is never chosen, only ordered.
    check(&nothing, None, None);
    check(&nothing, Some(Engine::LandlockOnly), Some(Engine::LandlockOnly));
    // What was ordered is used or nothing.
    check(&good(), Some(Engine::Bwrap), Some(Engine::Bwrap));
    check(&without_bwrap, Some(Engine::Bwrap), None);
    check(&without_own, Some(Engine::Builtin), None);
    check(&Facts { landlock: 0, ..good() }, Some(Engine::LandlockOnly), None);
    check(&Facts { landlock: 2, ..good() }, Some(Engine::LandlockOnly), None);
    check(&Facts { landlock: 3, ..good() }, Some(Engine::LandlockOnly), Some(Engine::LandlockOnly));
}

#[test]
fn the_likely_cause_decides_the_advice() {
    let none = HostFacts::default();
    for (host, expected) in [
        (none, "Ask the administrator"),
        (HostFacts { container: true, ..none }, "container's seccomp or AppArmor profile"),
        (HostFacts { apparmor_restricts: true, ..none }, "apparmor_restrict_unprivileged_userns"),
        (HostFacts { unprivileged_clone_is_off: true, ..none }, "unprivileged_userns_clone to 1"),
        (
            HostFacts { user_namespaces_limit_is_zero: true, container: true, ..none },
            "user.max_user_namespaces",
        ),
        // These two do not concern root.
        (
            HostFacts {
                root: true,
                apparmor_restricts: true,
                unprivileged_clone_is_off: true,
                ..none
            },
            "Ask the administrator",
        ),
        (HostFacts { wsl1: true, ..none }, "WSL 2"),
    ] {
        let told = choose(None, &bad(host)).unwrap_err();
        assert!(told.starts_with("Commands cannot be sandboxed on this host. "), "{told}");
        assert_eq!(told.matches(expected).count(), 1, "{host:?}: {told}");
    }
}

#[test]
fn reasons_name_the_step() {
    let why = |facts: &Facts, engine| match facts.verdict(engine) {
        Verdict::Usable => panic!("usable"),
        Verdict::Unusable { why, remedy } => (why, remedy),
    };
    let mut masked = good();
    masked.own.errors[Step::ProcMount as usize] = Some(libc::EPERM);
    masked.host.container = true;
    let (reason, remedy) = why(&masked, Engine::Builtin);
    assert_eq!(reason, "The server cannot mount /proc in a namespace: Operation not permitted.");
    assert!(remedy.contains("systempaths=unconfined"), "{remedy}");

    let mut full = good();
    full.own.errors[Step::Namespaces as usize] = Some(libc::ENOSPC);
    let (reason, _) = why(&full, Engine::Builtin);
    assert_eq!(reason, "The server cannot make namespaces: the limit of namespaces is reached.");

    let missing = Facts { bwrap: Err("/usr/bin/bwrap does not exist".into()), ..good() };
    let (reason, remedy) = why(&missing, Engine::Bwrap);
    assert_eq!(reason, "There is no usable bubblewrap: /usr/bin/bwrap does not exist.");
    assert!(remedy.starts_with("Install bubblewrap"), "{remedy}");

    let said = "bwrap: loopback: Failed RTM_NEWADDR: Operation not permitted".to_owned();
    let loopback = Facts { bwrap_namespaces: Err(said), ..good() };
    let (reason, remedy) = why(&loopback, Engine::Bwrap);
    assert!(reason.starts_with("bubblewrap fails here: bwrap: loopback:"), "{reason}");
    assert!(remedy.contains("`builtin`"), "{remedy}");

    let (reason, _) = why(&Facts { landlock: 0, ..good() }, Engine::LandlockOnly);
    assert_eq!(reason, "This kernel has no Landlock.");
}

#[test]
fn root_is_warned() {
    assert!(good().warnings().is_empty());
    let host = HostFacts { root: true, ..HostFacts::default() };
    let warnings = Facts { host, ..good() }.warnings();
    assert_eq!(warnings.len(), 1);
    assert!(warnings[0].contains("runs as root"));
}
