//! Plans as data: what the usual intents come to on a small host.

#![allow(clippy::unwrap_used, reason = "a test")]

mod common;

use std::path::{Path, PathBuf};

use exec_protocol::sandbox::SandboxContext;
use exec_sandbox::legacy::Profile;
use exec_sandbox::plan::{Filter, Mount, Network, Plan};
use exec_sandbox::policy::{Facts, Policy, Refusal, Table};

use common::entries;

fn host() -> Table {
    Table::new()
        .directory("/tmp")
        .directory("/srv/repo/src")
        .directory("/usr/bin")
        .directory("/etc")
        .directory("/dev/shm")
        .directory("/proc/sys")
        .link("/bin", "usr/bin")
}

fn facts() -> Facts {
    Facts { cwd: "/srv/repo".into(), ..Facts::default() }
}

fn plan_of(intent: &SandboxContext, facts: &Facts, host: &Table) -> Result<Plan, Refusal> {
    Plan::build(&Policy::resolve(intent, facts, host)?, host)
}

/// One line for each mount, without the steps that every view has.
fn lines(plan: &Plan) -> Vec<String> {
    let view = plan.view.as_ref().expect("a view");
    let show = |mount: &Mount| match mount {
        Mount::Root(root) => Some(format!("{root:?}")),
        Mount::Devices | Mount::Processes => None,
        Mount::SharedMemory => Some("shm".to_owned()),
        Mount::Bind { path, access } => Some(format!("{access:?} {}", path.display())),
        Mount::Pin(path) => Some(format!("Pin {}", path.display())),
        Mount::PinLink(path) => Some(format!("PinLink {}", path.display())),
        Mount::Link { path, target } => {
            Some(format!("Link {} {}", path.display(), target.display()))
        }
        Mount::MaskDirectory { path, mode, passages, files } => {
            let inside: String =
                passages.iter().chain(files).map(|path| format!(" +{}", path.display())).collect();
            Some(format!("{mode:?} {}{inside}", path.display()))
        }
        Mount::MaskFile(path) => Some(format!("File {}", path.display())),
        Mount::SealRoot => Some("Seal".to_owned()),
    };
    view.mounts.iter().filter_map(show).collect()
}

#[track_caller]
fn check(host: &Table, policy: &[&str], expected: &[&str]) {
    let plan = plan_of(&entries(policy), &facts(), host).expect("a plan");
    assert_eq!(lines(&plan), expected);
}

#[track_caller]
fn refused(host: &Table, policy: &[&str], expected: &str) {
    let refusal = plan_of(&entries(policy), &facts(), host).expect_err("a refusal");
    assert!(refusal.to_string().contains(expected), "{refusal}");
}

#[test]
fn read_only_is_the_host_read_only() {
    let plan =
        plan_of(&Profile::read_only().context(Path::new("/srv/repo")).unwrap(), &facts(), &host())
            .unwrap();
    assert_eq!(lines(&plan), ["HostReadOnly"]);
    assert_eq!((plan.network, plan.filter), (Network::Isolated, Filter::Restricted));
    assert_eq!(plan.cwd, Path::new("/srv/repo"));
    assert_eq!(plan.view.unwrap().writable, [Path::new("/dev"), Path::new("/proc")]);
}

#[test]
fn workspace_write_opens_the_workspace_and_protects_its_metadata() {
    let host = host().directory("/srv/repo/.git");
    let intent = Profile::workspace_write(Vec::new()).context(Path::new("/srv/repo")).unwrap();
    let plan = plan_of(&intent, &facts(), &host).unwrap();
    assert_eq!(
        lines(&plan),
        [
            "HostReadOnly",
            "Writable /srv/repo",
            "Listed /srv/repo/.agents",
            "Listed /srv/repo/.aws",
            "Listed /srv/repo/.codex",
            "ReadOnly /srv/repo/.git",
            "Writable /tmp",
            "Listed /tmp/.agents",
            "Listed /tmp/.aws",
            "Listed /tmp/.codex",
            "Listed /tmp/.git",
        ]
    );
    let view = plan.view.unwrap();
    let placeholders: Vec<_> = view.placeholders.iter().map(|it| it.path.clone()).collect();
    assert_eq!(placeholders.len(), 7);
    assert!(!placeholders.contains(&PathBuf::from("/srv/repo/.git")));
}

#[test]
fn the_most_specific_entry_is_mounted_last() {
    let host = host().directory("/srv/repo/a/b/c/d");
    check(
        &host,
        &[
            "read :root",
            "write :project_roots",
            "deny :project_roots/a",
            "write :project_roots/a/b",
            "read :project_roots/a/b/c",
            "write :project_roots/.git",
            "write :project_roots/.agents",
            "write :project_roots/.codex",
            "write :project_roots/.aws",
            "write :project_roots/a/b/.git",
            "write :project_roots/a/b/.agents",
            "write :project_roots/a/b/.codex",
            "write :project_roots/a/b/.aws",
        ],
        &[
            "HostReadOnly",
            "Writable /srv/repo",
            "Passage /srv/repo/a +/srv/repo/a/b",
            "Writable /srv/repo/a/b",
            "ReadOnly /srv/repo/a/b/c",
        ],
    );
}

#[test]
fn without_the_root_only_what_is_named_is_there() {
    check(
        &host(),
        &["read :minimal", "read /srv/repo", "read /nowhere"],
        &[
            "Empty",
            "Link /bin usr/bin",
            "ReadOnly /etc",
            "ReadOnly /srv/repo",
            "ReadOnly /usr",
            "Seal",
        ],
    );
}

#[test]
fn a_working_directory_that_cannot_be_seen_is_refused() {
    refused(&host(), &["read :root", "deny /srv/repo"], "is denied");
    refused(&host(), &["read :minimal"], "not visible");
}
