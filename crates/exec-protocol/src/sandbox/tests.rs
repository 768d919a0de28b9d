//! What is accepted as an intent, what is refused, and what restricts.

use super::*;

const ROOT: &str = r#"{"path":{"type":"special","value":{"kind":"root"}},"access":"write"}"#;

fn managed(entries: &str, network: &str) -> String {
    format!(
        r#"{{"type":"managed","file_system":{{"type":"restricted","entries":[{entries}]}},"network":"{network}"}}"#
    )
}

fn decode(permissions: &str, more: &str) -> Result<SandboxContext, serde_json::Error> {
    serde_json::from_str(&format!(
        r#"{{"permissions":{permissions},"windowsSandboxLevel":"disabled"{more}}}"#
    ))
}

#[test]
fn only_intents_that_allow_everything_do_not_restrict() {
    let git = r#"{"path":{"type":"path","path":"file:///r/.git"},"access":"read"}"#;
    let glob = |access: &str| {
        format!(r#"{{"path":{{"type":"glob_pattern","pattern":"/r/*"}},"access":"{access}"}}"#)
    };
    let minimal = r#"{"path":{"type":"special","value":{"kind":"minimal"}},"access":"read"}"#;
    let with = |more: &str| managed(&format!("{ROOT},{more}"), "enabled");
    let table = [
        (r#"{"type":"disabled"}"#.to_owned(), false),
        (r#"{"type":"external","network":"enabled"}"#.to_owned(), false),
        (r#"{"type":"external","network":"restricted"}"#.to_owned(), true),
        (managed(ROOT, "enabled"), false),
        (managed(&ROOT.replace("write", "deny"), "enabled"), true),
        (managed(&ROOT.replace("write", "read"), "enabled"), true),
        (managed(ROOT, "restricted"), true),
        (with(git), true),
        (with(&git.replace("read", "write")), false),
        (with(&glob("deny")), true),
        (with(&glob("read")), false),
        (with(minimal), false),
        (with(&ROOT.replace("write", "read")), false),
        (managed("", "enabled"), true),
        (managed(minimal, "enabled"), true),
    ];
    for (permissions, restricts) in table {
        let context = decode(&permissions, "").unwrap();
        assert_eq!(context.restricts(), restricts, "{permissions}");
    }
}

#[test]
fn older_spellings_and_unknown_members_are_accepted() {
    let entry = |path: &str, access: &str| {
        managed(&format!(r#"{{"path":{path},"access":"{access}","later":1}}"#), "restricted")
    };
    let special = |kind: &str| format!(r#"{{"type":"special","value":{{"kind":{kind}}}}}"#);
    for permissions in [
        entry(&special(r#""root""#), "none"),
        entry(&special(r#""current_working_directory","subpath":"docs""#), "read"),
        entry(&special(r#""unknown","path":":later","subpath":"x""#), "read"),
        entry(r#"{"type":"path","path":"file:///%C3%A9"}"#, "deny"),
        r#"{"type":"disabled","network":"enabled"}"#.to_owned(),
    ] {
        decode(&permissions, "").expect(&permissions);
    }
    for more in [
        r#","windowsSandboxPrivateDesktop":true"#,
        r#","policyContext":null,"cwd":null,"workspaceRoots":null"#,
        r#","temporaryDirectories":[],"userHomeDir":"file:///users/u""#,
        r#","sandboxOverride":"bypassSandboxFirstAttempt","useLegacyLandlock":true"#,
        r#","windowsSandboxProxySettingsMode":"preserve""#,
    ] {
        let context = decode(&managed("", "restricted"), more).expect(more);
        assert!(context.restricts(), "{more}");
    }
}

#[test]
fn what_is_no_intent_is_refused() {
    let restricted = |more: &str| {
        format!(
            r#"{{"type":"managed","file_system":{{"type":"restricted","entries":[]{more}}},"network":"restricted"}}"#
        )
    };
    let path = |path: &str| managed(&format!(r#"{{"path":{path},"access":"read"}}"#), "restricted");
    for permissions in [
        r#"{"type":"external"}"#.to_owned(),
        r#"{"type":"managed","file_system":{"type":"unrestricted"}}"#.to_owned(),
        r#"{"type":"managed","network":"enabled"}"#.to_owned(),
        r#"{"type":"read-only","network_access":false}"#.to_owned(),
        r#"{"type":"workspace-write"}"#.to_owned(),
        restricted(r#","glob_scan_max_depth":0"#),
        managed("", "partly"),
        managed(&ROOT.replace("write", "execute"), "restricted"),
        managed(&ROOT.replace("\"root\"", "\"newer\""), "restricted"),
        path(r#"{"type":"path","path":"/native"}"#),
        path(r#"{"type":"path","path":"relative"}"#),
        path(r#"{"type":"path"}"#),
        path(r#"{"type":"other","path":"file:///x"}"#),
        path(r#"{"type":"special","value":{"kind":"unknown"}}"#),
    ] {
        assert!(decode(&permissions, "").is_err(), "{permissions}");
    }
    let no_level = format!(r#"{{"permissions":{}}}"#, managed("", "restricted"));
    assert!(serde_json::from_str::<SandboxContext>(&no_level).is_err());
    for more in [r#","sandboxOverride":"other""#, r#","windowsSandboxProxySettingsMode":"other""#] {
        assert!(decode(&managed("", "restricted"), more).is_err(), "{more}");
    }
    // Decoded, but of another system.
    for uri in ["file:///C:/x", "file://host/x"] {
        let entry = format!(r#"{{"path":{{"type":"path","path":"{uri}"}},"access":"read"}}"#);
        let context = decode(&managed(&entry, "restricted"), "").unwrap();
        assert!(context.foreign_path().is_some(), "{uri}");
    }
}
