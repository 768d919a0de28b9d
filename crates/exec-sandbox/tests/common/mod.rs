//! Intents in one line each, and a file system made of mounts.

#![allow(
    unreachable_pub,
    dead_code,
    clippy::unwrap_used,
    clippy::wildcard_enum_match_arm,
    reason = "shared by tests, of which each uses a part"
)]

pub mod simulator;

use exec_protocol::sandbox::SandboxContext;

/// An intent with these entries, as JSON.
pub fn context(entries: &str) -> SandboxContext {
    let text = format!(
        r#"{{"permissions":{{"type":"managed","network":"restricted","file_system":{{
        "type":"restricted","entries":[{entries}]}}}},"windowsSandboxLevel":"disabled",
        "workspaceRoots":["file:///srv/repo"]}}"#
    );
    serde_json::from_str(&text).expect("a context")
}

/// An intent about a workspace in `/srv/repo`: `read /x` and the like, one entry each; `:word` is a special kind.
pub fn entries(lines: &[&str]) -> SandboxContext {
    let entry = |line: &&str| {
        let (access, path) = line.split_once(' ').expect("access and path");
        let path = match path.split_once(':') {
            Some(("", kind)) => match kind.split_once('/') {
                Some((kind, subpath)) => format!(
                    r#"{{"type":"special","value":{{"kind":"{kind}","subpath":"{subpath}"}}}}"#
                ),
                None => format!(r#"{{"type":"special","value":{{"kind":"{kind}"}}}}"#),
            },
            _ if path.contains(['*', '{']) => {
                format!(r#"{{"type":"glob_pattern","pattern":"{path}"}}"#)
            }
            _ => format!(r#"{{"type":"path","path":"file://{path}"}}"#),
        };
        format!(r#"{{"path":{path},"access":"{access}"}}"#)
    };
    context(&lines.iter().map(entry).collect::<Vec<_>>().join(","))
}
