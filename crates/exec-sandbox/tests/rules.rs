//! The rules that are not in the entries: what is protected, refused, left out, and looked for.

#![allow(clippy::unwrap_used, clippy::wildcard_enum_match_arm, reason = "a test")]

mod common;

use std::path::{Path, PathBuf};

use exec_protocol::sandbox::{Access, SandboxContext};
use exec_sandbox::plan::{Filter, Mount, Network, Plan, Root};
use exec_sandbox::policy::{ENTRIES_MAX, Facts, MATCHES_MAX, Policy, Reason, Refusal, Table};

use common::entries;

const WORKSPACE: [&str; 2] = ["read :root", "write :project_roots"];

fn facts() -> Facts {
    Facts { cwd: "/srv/repo".into(), ..Facts::default() }
}

fn host() -> Table {
    Table::new().directory("/srv/repo/src").directory("/tmp").directory("/users/u/.ssh")
}

fn with<'a>(more: &[&'a str]) -> Vec<&'a str> {
    WORKSPACE.iter().copied().chain(more.iter().copied()).collect()
}

#[track_caller]
fn policy(host: &Table, lines: &[&str]) -> Policy {
    Policy::resolve(&entries(lines), &facts(), host).unwrap()
}

#[track_caller]
fn refusal(host: &Table, facts: &Facts, lines: &[&str]) -> Refusal {
    Policy::resolve(&entries(lines), facts, host).expect_err("a refusal")
}

#[track_caller]
fn check(policy: &Policy, table: &[(&str, Access)]) {
    for (path, access) in table {
        let decision = policy.decide(Path::new(path));
        assert_eq!(decision.access, *access, "{path}: {:?}", decision.reason);
    }
}

fn mounts(policy: &Policy, host: &Table) -> Vec<Mount> {
    Plan::build(policy, host).unwrap().view.unwrap().mounts
}

fn pinned(policy: &Policy, host: &Table) -> Vec<PathBuf> {
    let pin = |mount| match mount {
        Mount::Pin(path) | Mount::PinLink(path) => Some(path),
        _ => None,
    };
    mounts(policy, host).into_iter().filter_map(pin).collect()
}

use Access::{Deny, Read, Write};

#[test]
fn the_pointer_of_a_worktree_protects_what_it_names() {
    let host = host()
        .file("/srv/repo/.git", "gitdir: ../main/.git/worktrees/repo\n")
        .file("/srv/main/.git/worktrees/repo/commondir", "../..\n")
        .file("/srv/main/.git/hooks/post-commit", "")
        .directory("/srv/main/src");
    let policy = policy(&host, &with(&["write /srv/main"]));
    check(
        &policy,
        &[
            ("/srv/repo/.git", Read),
            ("/srv/main/.git/worktrees/repo/HEAD", Read),
            ("/srv/main/.git/hooks/post-commit", Read),
            ("/srv/main/src", Write),
        ],
    );
    // The pointer grants nothing.
    let closed = Policy::resolve(&entries(&["write :project_roots"]), &facts(), &host).unwrap();
    check(&closed, &[("/srv/main/.git/hooks/post-commit", Deny), ("/srv/repo/src", Write)]);
}

#[test]
fn the_shared_directory_of_a_worktree_is_protected_elsewhere_too() {
    let host = host()
        .file("/srv/repo/.git", "gitdir: /elsewhere/wt/repo")
        .file("/elsewhere/wt/repo/commondir", "/elsewhere/common")
        .directory("/elsewhere/common/hooks")
        .directory("/elsewhere/free");
    let policy = policy(&host, &with(&["write /elsewhere"]));
    check(
        &policy,
        &[
            ("/elsewhere/wt/repo", Read),
            ("/elsewhere/common/hooks", Read),
            ("/elsewhere/free", Write),
        ],
    );
    assert_eq!(pinned(&policy, &host), [Path::new("/elsewhere/wt")]);
}

#[test]
fn a_file_that_is_no_pointer_protects_only_itself() {
    let host = host().file("/srv/repo/.git", "src");
    check(&policy(&host, &WORKSPACE), &[("/srv/repo/.git", Read), ("/srv/repo/src", Write)]);
}

#[test]
fn a_bare_repository_keeps_what_git_runs() {
    let host = host()
        .file("/srv/repo/HEAD", "")
        .directory("/srv/repo/objects")
        .directory("/srv/repo/refs")
        .directory("/srv/repo/hooks")
        .file("/srv/repo/config", "");
    check(
        &policy(&host, &WORKSPACE),
        &[
            ("/srv/repo/hooks/x", Read),
            ("/srv/repo/config", Read),
            ("/srv/repo/info", Read),
            ("/srv/repo/objects", Write),
        ],
    );
}

#[test]
fn a_metadata_link_is_kept_in_place_and_its_target_protected() {
    let host = host().directory("/srv/repo/deep/real").link("/srv/repo/.git", "deep/real");
    for lines in [with(&[]), with(&["read :project_roots/.git"])] {
        let policy = policy(&host, &lines);
        check(&policy, &[("/srv/repo/deep/real/hooks", Read), ("/srv/repo/deep", Write)]);
        assert_eq!(
            pinned(&policy, &host),
            [Path::new("/srv/repo/deep"), Path::new("/srv/repo/.git")]
        );
    }
}

#[test]
fn what_lies_behind_a_link_of_the_command_is_refused() {
    let host = host().directory("/srv/repo/real").link("/srv/repo/link", "real");
    for line in ["deny :project_roots/link", "read :project_roots/link/x", "deny /srv/repo/link/*"]
    {
        let refusal = refusal(&host, &facts(), &with(&[line]));
        assert!(refusal.to_string().contains("writable directory"), "{refusal}");
        assert_eq!(refusal.code(), -32602);
    }
    // A grant through such a link would be the command's to choose.
    let out = host.clone().link("/srv/repo/out", "/users/u");
    assert!(matches!(
        refusal(&out, &facts(), &with(&["write :project_roots/out"])),
        Refusal::WritableLink { .. }
    ));
    // Of what is writable anyway, it chooses nothing.
    policy(&host, &with(&["write :project_roots/link"]));
}

#[test]
fn links_that_the_command_cannot_move_are_followed() {
    let host =
        host().directory("/data/real/x").link("/srv/repo2", "/data/real").link("/l", "users");
    let policy =
        policy(&host, &["read :root", "write :project_roots", "write /srv/repo2", "deny /l/u"]);
    check(&policy, &[("/data/real/x", Write), ("/users/u/.ssh", Deny), ("/data", Read)]);
    let at_link = Facts { cwd: "/srv/repo2".into(), ..facts() };
    let policy =
        Policy::resolve(&entries(&["read :root", "write /srv/repo2"]), &at_link, &host).unwrap();
    assert_eq!(policy.cwd(), Path::new("/data/real"));
}

#[test]
fn every_directory_on_the_way_to_a_carve_out_is_pinned() {
    let host = host().file("/srv/repo/a/b/c/secret", "");
    let policy = policy(&host, &with(&["deny /srv/repo/a/b/c/secret"]));
    assert_eq!(
        pinned(&policy, &host),
        ["/srv/repo/a", "/srv/repo/a/b", "/srv/repo/a/b/c"].map(Path::new)
    );
}

#[test]
fn what_is_missing_must_not_appear() {
    let policy = policy(
        &host(),
        &with(&[
            "deny :project_roots/no/such",
            "read :project_roots/docs",
            "write /opt/none",
            "read /opt/none2",
        ]),
    );
    check(
        &policy,
        &[
            ("/srv/repo/no", Read),
            ("/srv/repo/docs", Read),
            ("/opt/none", Read),
            ("/srv/repo/.aws", Read),
        ],
    );
    let skipped: Vec<_> = policy.skipped().iter().map(|it| it.entry).collect();
    assert_eq!(skipped, [4, 5]);
    let plan = Plan::build(&policy, &host()).unwrap();
    let placeholders = plan.view.unwrap().placeholders;
    assert!(placeholders.iter().any(|it| it.path == Path::new("/srv/repo/no")));
    assert!(placeholders.iter().any(|it| it.path == Path::new("/srv/repo/docs")));
}

#[test]
fn where_nobody_can_make_a_name_no_placeholder_is_needed() {
    let host = host().foreign("/srv/repo");
    let plan = Plan::build(&policy(&host, &WORKSPACE), &host).unwrap();
    assert_eq!(plan.view.unwrap().placeholders, []);
}

#[test]
fn an_explicit_entry_opens_metadata() {
    let host = host().directory("/srv/repo/.git/refs").directory("/srv/repo/.codex");
    check(
        &policy(&host, &with(&["write :project_roots/.git"])),
        &[("/srv/repo/.git/refs", Write), ("/srv/repo/.codex", Read)],
    );
    check(
        &policy(&host, &with(&["write :project_roots/.git/refs"])),
        &[("/srv/repo/.git/refs", Write), ("/srv/repo/.git", Write)],
    );
    let below = with(&["read :project_roots/.git", "write :project_roots/.git/refs"]);
    check(&policy(&host, &below), &[("/srv/repo/.git/refs", Write), ("/srv/repo/.git", Read)]);
}

#[test]
fn a_subpath_that_leaves_its_root_grants_nothing() {
    for subpath in ["../x", "a/../../x", "/users"] {
        let policy = policy(&host(), &["read :root", &format!("write :project_roots/{subpath}")]);
        assert_eq!(policy.rules().count(), 1, "{subpath}");
    }
}

fn temporary(tmpdir: &str, lines: &[&str]) -> Result<Policy, Refusal> {
    let host = host().file("/file", "").directory("/var/tmp").link("/r", "/");
    let facts = Facts { tmpdir: Some(tmpdir.into()), home: Some("/users/u".into()), ..facts() };
    Policy::resolve(&entries(lines), &facts, &host)
}

#[test]
fn a_temporary_directory_that_opens_too_much_is_refused() {
    let lines = with(&["write :tmpdir", "deny /var/tmp/x"]);
    for (tmpdir, expected) in [
        ("/", "whole disk"),
        ("/r", "whole disk"),
        ("tmp", "not absolute"),
        ("/missing", "does not exist"),
        ("/file", "no directory"),
        ("/srv", "workspace root"),
        ("/users", "home directory"),
        ("/users/u", "home directory"),
        ("/var", "denied path"),
    ] {
        let refusal = temporary(tmpdir, &lines).expect_err(tmpdir);
        assert!(refusal.to_string().contains(expected), "{tmpdir}: {refusal}");
        assert_eq!(refusal.code(), -32602);
    }
    check(&temporary("/tmp", &lines).unwrap(), &[("/tmp/x", Write), ("/tmp/.git", Read)]);
    // Unset or empty grants nothing; open anyway adds nothing.
    check(&temporary("", &lines).unwrap(), &[("/tmp/x", Read)]);
    temporary("/srv", &with(&["write /srv", "write :tmpdir"])).unwrap();
    // Nobody asked for it.
    temporary("/", &WORKSPACE).unwrap();
}

#[test]
fn a_pattern_hides_files_directories_and_where_links_lead() {
    let host = host()
        .file("/srv/repo/.hidden/a.env", "")
        .file("/srv/repo/dir.env/inside", "")
        .file("/users/u/secret", "")
        .link("/srv/repo/link.env", "/users/u/secret")
        .link("/srv/repo/self.env", ".")
        .link("/srv/repo/gone.env", "nowhere");
    let policy = policy(&host, &with(&["deny codex-project-roots://**/*.env"]));
    check(
        &policy,
        &[
            ("/srv/repo/.hidden/a.env", Deny),
            ("/srv/repo/dir.env/inside", Deny),
            ("/users/u/secret", Deny),
            ("/users/u", Read),
            ("/srv/repo/src", Write),
            // Also what does not exist yet, for requests that ask before they do.
            ("/srv/repo/src/new.env", Deny),
        ],
    );
    assert!(matches!(policy.decide(Path::new("/srv/repo/x.env")).reason, Reason::Pattern(2, _)));
    assert!(!policy.full_read());
    let masks = mounts(&policy, &host);
    assert!(masks.contains(&Mount::MaskFile("/users/u/secret".into())));
}

#[test]
fn a_pattern_is_looked_for_only_so_far() {
    let deep = host().file("/srv/repo/1/2/3.env", "").file("/srv/repo/1.env", "");
    let mut intent = entries(&with(&["deny /srv/repo/**/*.env"]));
    set_depth(&mut intent, 2);
    let policy = Policy::resolve(&intent, &facts(), &deep).unwrap();
    let masks = mounts(&policy, &deep);
    assert!(masks.contains(&Mount::MaskFile("/srv/repo/1.env".into())));
    assert!(!masks.contains(&Mount::MaskFile("/srv/repo/1/2/3.env".into())));

    let many = |count: usize| {
        (0..count).fold(host(), |host, index| host.file(format!("/srv/repo/m/{index}.env"), ""))
    };
    let lines = with(&["deny /srv/repo/**/*.env"]);
    Policy::resolve(&entries(&lines), &facts(), &many(MATCHES_MAX)).unwrap();
    let refusal = refusal(&many(MATCHES_MAX + 1), &facts(), &lines);
    assert!(refusal.to_string().contains("8192 matches"), "{refusal}");
    assert_eq!(refusal.code(), -32603);
}

fn set_depth(intent: &mut SandboxContext, depth: usize) {
    use exec_protocol::sandbox::{FileSystem, Permissions};
    let Permissions::Managed {
        file_system: FileSystem::Restricted { glob_scan_max_depth, .. },
        ..
    } = &mut intent.permissions
    else {
        panic!("not restricted");
    };
    *glob_scan_max_depth = std::num::NonZeroUsize::new(depth);
}

#[test]
fn literal_patterns_protect_what_does_not_exist_too() {
    let host = host().file("/srv/repo/k/a.pem", "");
    let intent = |pattern: &str| {
        common::context(&format!(
            r#"{{"path":{{"type":"special","value":{{"kind":"project_roots"}}}},"access":"write"}},
            {{"path":{{"type":"glob_pattern","pattern":"{pattern}"}},"access":"deny"}}"#
        ))
    };
    let literal = |pattern: &str| Policy::resolve(&intent(pattern), &facts(), &host).unwrap();
    check(&literal("/srv/repo/k/a.pem"), &[("/srv/repo/k/a.pem", Deny), ("/srv/repo/k", Write)]);
    let missing = literal("k/b.pem");
    check(&missing, &[("/srv/repo/k/b.pem", Deny)]);
    let plan = Plan::build(&missing, &host).unwrap();
    assert!(plan.view.unwrap().placeholders.iter().any(|it| it.path.ends_with("k/b.pem")));
}

#[test]
fn ten_thousand_entries_are_fine_and_one_more_is_not() {
    let lines: Vec<String> =
        (0..ENTRIES_MAX - 2).map(|it| format!("deny /srv/repo/{it}")).collect();
    let mut all: Vec<&str> = with(&lines.iter().map(String::as_str).collect::<Vec<_>>());
    let host = (0..500).fold(host(), |host, it| host.directory(format!("/srv/repo/{it}")));
    Plan::build(&policy(&host, &all), &host).unwrap();
    all.push("deny /srv/repo/more");
    assert!(matches!(refusal(&host, &facts(), &all), Refusal::TooMany { .. }));
}

#[test]
fn what_is_the_servers_own_is_hidden() {
    let host = host().directory("/srv/repo/state").socket("/tmp/server.sock");
    let facts = Facts {
        hidden: vec!["/srv/repo/state".into(), "/tmp/server.sock".into(), "/nowhere".into()],
        ..facts()
    };
    let policy =
        Policy::resolve(&entries(&with(&["write /srv/repo/state/x"])), &facts, &host).unwrap();
    check(&policy, &[("/srv/repo/state/x", Deny), ("/tmp/server.sock", Deny), ("/tmp", Read)]);
    let mounts = mounts(&policy, &host);
    assert!(mounts.contains(&Mount::MaskFile("/tmp/server.sock".into())));
}

#[test]
fn the_escalation_of_a_session_with_denials_is_enforced() {
    let host = host().directory("/srv/repo/secrets").directory("/dev/shm");
    let policy = policy(
        &host,
        &[
            "write :root",
            "deny /users/u/.ssh",
            "deny /srv/repo/**/*.env",
            "deny /srv/repo/secrets",
            "write /.git",
            "write /.agents",
            "write /.codex",
            "write /.aws",
        ],
    );
    check(
        &policy,
        &[
            ("/etc", Write),
            ("/srv/repo/secrets/x", Deny),
            ("/users/u/.ssh", Deny),
            ("/.git", Write),
        ],
    );
    let mounts = mounts(&policy, &host);
    assert_eq!(mounts[0], Mount::Root(Root::HostWritable));
    assert!(mounts.contains(&Mount::SharedMemory));
    assert!(mounts.contains(&Mount::Pin("/users/u".into())));
}

#[test]
fn profiles_that_open_everything_confine_only_the_network() {
    let plan = |permissions: &str| {
        let text = format!(r#"{{"permissions":{permissions},"windowsSandboxLevel":"disabled"}}"#);
        let intent: SandboxContext = serde_json::from_str(&text).unwrap();
        let policy = Policy::resolve(&intent, &facts(), &host()).unwrap();
        assert!(policy.full_write() && policy.full_read() && !policy.restricts_files());
        Plan::build(&policy, &host()).unwrap()
    };
    let root = r#"{"type":"restricted","entries":[{"path":{"type":"special","value":{"kind":"root"}},"access":"write"}]}"#;
    let managed = |files: &str, network: &str| {
        plan(&format!(r#"{{"type":"managed","file_system":{files},"network":"{network}"}}"#))
    };
    for open in [
        plan(r#"{"type":"disabled"}"#),
        plan(r#"{"type":"external","network":"enabled"}"#),
        managed(r#"{"type":"unrestricted"}"#, "enabled"),
        managed(root, "enabled"),
    ] {
        assert!(!open.confines(), "{open:?}");
    }
    let external = plan(r#"{"type":"external","network":"restricted"}"#);
    assert_eq!((external.view, external.filter), (None, Filter::Restricted));
    for closed in [managed(r#"{"type":"unrestricted"}"#, "restricted"), managed(root, "restricted")]
    {
        assert_eq!((closed.network, closed.filter), (Network::Isolated, Filter::Restricted));
        let view = closed.view.unwrap();
        assert_eq!(view.mounts[0], Mount::Root(Root::HostWritable));
        assert_eq!((view.mounts.len(), view.placeholders.len()), (4, 0));
    }
}

#[test]
fn private_places_are_not_granted_and_cannot_be_half_denied() {
    let host = host().directory("/proc/1/root").file("/proc/kcore", "").file("/dev/sda", "");
    let policy =
        policy(&host, &with(&["write /proc", "read /dev", "deny /proc/kcore", "deny /dev/sda"]));
    assert_eq!(policy.skipped().len(), 3);
    let mounts = mounts(&policy, &host);
    assert!(mounts.contains(&Mount::MaskFile("/proc/kcore".into())));
    let refusal = refusal(&host, &facts(), &with(&["deny /proc/1/root"]));
    assert!(refusal.to_string().contains("processes of its own"), "{refusal}");
}

#[test]
fn the_policy_context_replaces_what_stands_beside_it() {
    let text = r#"{"permissions":{"type":"managed","network":"restricted","file_system":{
        "type":"restricted","entries":[
        {"path":{"type":"special","value":{"kind":"root"}},"access":"read"},
        {"path":{"type":"special","value":{"kind":"current_working_directory"}},"access":"write"},
        {"path":{"type":"glob_pattern","pattern":"*.key"},"access":"deny"}]}},
        "windowsSandboxLevel":"disabled","cwd":"file:///srv/other","workspaceRoots":["file:///srv/other"],
        "policyContext":{"cwd":"file:///srv/repo","workspaceRoots":["file:///srv/repo"]},"future":1}"#;
    let host = host().directory("/srv/other");
    let intent: SandboxContext = serde_json::from_str(text).unwrap();
    let policy = Policy::resolve(&intent, &facts(), &host).unwrap();
    check(
        &policy,
        &[
            ("/srv/repo/src", Write),
            ("/srv/other", Read),
            ("/srv/repo/a.key", Deny),
            ("/srv/other/a.key", Read),
        ],
    );
}

#[test]
fn a_pattern_behind_a_fixed_link_is_about_where_it_leads() {
    let host = host().file("/data/a.env", "").link("/srv/data", "/data");
    let policy = policy(&host, &with(&["write /data", "deny /srv/data/*.env"]));
    check(&policy, &[("/data/a.env", Deny), ("/data/new.env", Deny), ("/data/x", Write)]);
}
