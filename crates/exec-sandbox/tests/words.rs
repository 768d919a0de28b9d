//! What people write and read: flat policies, explanations.

#![allow(clippy::unwrap_used, reason = "a test")]

mod common;

use std::path::{Path, PathBuf};

use exec_sandbox::explain::{explain, explain_path};
use exec_sandbox::legacy::Profile;
use exec_sandbox::plan::Plan;
use exec_sandbox::policy::{Facts, Policy, Table};

use common::entries;

fn facts() -> Facts {
    Facts { cwd: "/srv/repo".into(), tmpdir: Some("/var/tmp".into()), ..Facts::default() }
}

#[test]
fn a_flat_policy_survives_the_way_there_and_back() {
    for text in [
        r#"{"type":"danger-full-access"}"#,
        r#"{"type":"external-sandbox","network_access":"enabled"}"#,
        r#"{"type":"external-sandbox","network_access":"restricted"}"#,
        r#"{"type":"read-only","network_access":false}"#,
        r#"{"type":"read-only","network_access":true}"#,
        r#"{"type":"workspace-write","writable_roots":["/srv/extra"],"network_access":true,"exclude_tmpdir_env_var":true,"exclude_slash_tmp":true}"#,
        r#"{"type":"workspace-write","writable_roots":[],"network_access":false,"exclude_tmpdir_env_var":false,"exclude_slash_tmp":false}"#,
    ] {
        let profile: Profile = serde_json::from_str(text).unwrap();
        assert_eq!(serde_json::to_string(&profile).unwrap(), text);
        let intent = profile.context(Path::new("/srv/repo")).unwrap();
        assert_eq!(Profile::equivalent(&intent, &facts()).unwrap(), Some(profile));
    }
    let short: Profile = serde_json::from_str(r#"{"type":"workspace-write"}"#).unwrap();
    assert_eq!(short, Profile::workspace_write(Vec::new()));
    let short: Profile = serde_json::from_str(r#"{"type":"read-only"}"#).unwrap();
    assert_eq!(short, Profile::read_only());
    assert!(serde_json::from_str::<Profile>(r#"{"type":"managed"}"#).is_err());
}

#[test]
fn the_entries_are_those_that_the_client_sends() {
    let intent = Profile::workspace_write(vec!["/srv/extra".into()])
        .context(Path::new("/srv/repo"))
        .unwrap();
    let sent = serde_json::to_value(&intent).unwrap();
    let entries = sent["permissions"]["file_system"]["entries"].as_array().unwrap();
    let words: Vec<String> = entries
        .iter()
        .map(|entry| {
            let value = &entry["path"]["value"];
            let what = value["subpath"].as_str().or(value["kind"].as_str());
            let what = what.or(entry["path"]["path"].as_str()).unwrap();
            format!("{} {what}", entry["access"].as_str().unwrap())
        })
        .collect();
    assert_eq!(
        words,
        [
            "read root",
            "write project_roots",
            "write file:///srv/extra",
            "write slash_tmp",
            "write tmpdir",
            "read .git",
            "read .agents",
            "read .codex",
            "read .aws",
        ]
    );
    assert_eq!(entries[5]["missing_path_behavior"], "skip");
    assert_eq!(sent["workspaceRoots"].as_array().unwrap().len(), 2);
}

#[test]
fn an_intent_without_a_flat_form_has_none() {
    let none = |lines: &[&str]| Profile::equivalent(&entries(lines), &facts()).unwrap();
    assert_eq!(none(&["read :root", "write /opt"]), None);
    assert_eq!(none(&["read :minimal", "write :project_roots"]), None);
    let restricted = exec_protocol::sandbox::Network::Restricted;
    let full = Profile::ExternalSandbox { network_access: restricted };
    assert_eq!(none(&["write :root"]), Some(full));
}

#[test]
fn a_policy_and_its_plan_can_be_read() {
    let host = Table::new().directory("/srv/repo/.git").file("/srv/repo/a/k\u{1b}.env", "");
    let lines = [
        "read :root",
        "write :project_roots",
        "deny /srv/repo/**/*.env",
        "write /opt/none",
        "write :project_roots/.agents",
        "write :project_roots/.aws",
    ];
    let facts = Facts { tmpdir: None, ..facts() };
    let policy = Policy::resolve(&entries(&lines), &facts, &host).unwrap();
    let plan = Plan::build(&policy, &host).unwrap();
    let expected = "\
network: closed
working directory: /srv/repo
files:
  read-only  /  (entry 0)
  writable   /srv/repo  (entry 1)
  read-only  /srv/repo/.codex  (protected name, missing)
  read-only  /srv/repo/.git  (protected name)
  denied     /srv/repo/a/k\\u{1b}.env  (entry 2, by pattern)
  no effect  /opt/none  (entry 3: does not exist)
  no effect  /srv/repo/.agents  (entry 4: does not exist)
  no effect  /srv/repo/.aws  (entry 5: does not exist)
plan:
  network: a namespace of its own
  system calls: no sockets, no breaking in
  root: the host's, read-only
  private devices on /dev
  its own processes on /proc
  writable /srv/repo
  masked directory /srv/repo/.codex (empty)
  read-only /srv/repo/.git
  in place /srv/repo/a
  masked file /srv/repo/a/k\\u{1b}.env
  on the host, while it runs: /srv/repo/.codex
";
    assert_eq!(explain(&policy, &plan), expected);
    let of = |path: &str| explain_path(&policy, &PathBuf::from(path));
    assert_eq!(of("/srv/repo/.git/x"), "read-only: protected name for /srv/repo/.git");
    assert_eq!(of("/srv/repo/new.env"), "denied: entry 2, pattern /srv/repo/**/*.env");
    assert_eq!(of("/etc"), "read-only: entry 0 for /");
}
