//! The policies that attempts are made under, as a client would send them.

use std::path::Path;

use serde_json::{Value, json};

use super::world::World;

/// Which policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Policy {
    /// Everything may be read, nothing written; no network.
    ReadOnly,
    /// The workspace may be written, as in codex's own mode but without the temporary folders.
    Workspace,
    /// The same with the network.
    WorkspaceOnline,
    /// The same with the temporary folder of the environment.
    WorkspaceTemporary,
    /// The same with `.git` opened by name.
    WorkspaceGit,
    /// Two workspaces.
    TwoRoots,
    /// A workspace and a folder in it that is named, too.
    NestedRoots,
    /// Only what programs need may be read, and the workspace; that may be written.
    Minimal,
    /// A workspace with denied files, folders and patterns, one of them opened again.
    Denies,
    /// The whole disk may be written, but some things are denied.
    EverythingButDenied,
    /// Only the network is closed.
    Offline,
}

/// Names that are protected at the top of what may be written.
const METADATA: [&str; 4] = [".git", ".codex", ".agents", ".aws"];

impl Policy {
    /// Every one of them.
    pub const ALL: [Policy; 11] = [
        Policy::ReadOnly,
        Policy::Workspace,
        Policy::WorkspaceOnline,
        Policy::WorkspaceTemporary,
        Policy::WorkspaceGit,
        Policy::TwoRoots,
        Policy::NestedRoots,
        Policy::Minimal,
        Policy::Denies,
        Policy::EverythingButDenied,
        Policy::Offline,
    ];

    /// Whether this name, from the top of the world, must stay as it is.
    pub fn protects(self, name: &Path) -> bool {
        let mut parts = name.iter().map(|part| part.to_string_lossy());
        let (top, second) = (parts.next().unwrap_or_default(), parts.next());
        let inside = match top.as_ref() {
            "ws" => true,
            "two" => self == Policy::TwoRoots,
            "tmp" => self == Policy::WorkspaceTemporary,
            _ => false,
        };
        if self == Policy::ReadOnly {
            return true;
        }
        if self == Policy::EverythingButDenied {
            return top == "ws" && second.as_deref() == Some("key.pem");
        }
        if self == Policy::Offline {
            return false;
        }
        let Some(second) = second else { return !inside };
        !inside
            || METADATA.contains(&second.as_ref())
                && !(self == Policy::WorkspaceGit && second == ".git")
            || self == Policy::Denies && denied(name)
    }

    /// The member `sandbox` of `process/start`. `programs` holds what commands are made of.
    pub fn context(self, world: &World, programs: &Path) -> Value {
        let open = if self == Policy::WorkspaceOnline { "enabled" } else { "restricted" };
        let file_system = match self {
            Policy::Offline => json!({"type": "unrestricted"}),
            _ => json!({"type": "restricted", "entries": self.entries(world, programs)}),
        };
        let mut roots = vec![uri(&world.join("ws"))];
        if self == Policy::TwoRoots {
            roots.push(uri(&world.join("two")));
        }
        json!({
            "permissions": {"type": "managed", "file_system": file_system, "network": open},
            "cwd": uri(&world.join("ws")),
            "workspaceRoots": roots,
            "windowsSandboxLevel": "disabled",
            "windowsSandboxProxySettingsMode": "reconcile",
            "useLegacyLandlock": false,
        })
    }

    fn entries(self, world: &World, programs: &Path) -> Vec<Value> {
        let root = |access| json!({"path": special("root"), "access": access});
        let at = |path: &str, access: &str| entry(&world.join(path), access);
        let mut entries = match self {
            Policy::ReadOnly => return vec![root("read")],
            Policy::EverythingButDenied => {
                let glob = json!({"type": "glob_pattern", "pattern": format!("{}/**/*.env", world.join("ws").display())});
                let mut entries = vec![
                    root("write"),
                    at("ws/key.pem", "deny"),
                    at("ws/secrets", "deny"),
                    json!({"path": glob, "access": "deny"}),
                ];
                let names = METADATA.iter().map(|name| entry(&Path::new("/").join(name), "write"));
                entries.extend(names);
                return entries;
            }
            Policy::Minimal => {
                vec![json!({"path": special("minimal"), "access": "read"}), entry(programs, "read")]
            }
            _ => vec![root("read")],
        };
        entries.push(json!({"path": special("project_roots"), "access": "write"}));
        for name in METADATA {
            let kind =
                json!({"type": "special", "value": {"kind": "project_roots", "subpath": name}});
            let access =
                if self == Policy::WorkspaceGit && name == ".git" { "write" } else { "read" };
            let entry = json!({"path": kind, "access": access, "missing_path_behavior": "skip"});
            entries.push(entry);
        }
        match self {
            Policy::WorkspaceTemporary => {
                entries.push(json!({"path": special("tmpdir"), "access": "write"}));
            }
            Policy::NestedRoots => entries.push(at("ws/sub", "write")),
            Policy::Denies => {
                let glob =
                    json!({"type": "glob_pattern", "pattern": "codex-project-roots://**/*.env"});
                entries.extend([
                    at("ws/docs", "read"),
                    at("ws/top/docs", "read"),
                    at("ws/secrets", "deny"),
                    at("ws/secrets/open", "write"),
                    at("ws/key.pem", "deny"),
                    at("ws/top/private", "deny"),
                    at("ws/never/made", "deny"),
                    json!({"path": glob, "access": "deny"}),
                ]);
            }
            _ => {}
        }
        entries
    }
}

/// What [`Policy::Denies`] does not let be changed in the workspace.
fn denied(name: &Path) -> bool {
    let below = |part: &str| name.starts_with(part);
    let matching = |part: &std::ffi::OsStr| part.to_string_lossy().ends_with(".env");
    below("ws/secrets") && !below("ws/secrets/open")
        || ["ws/docs", "ws/top/docs", "ws/top/private", "ws/key.pem", "ws/never"]
            .into_iter()
            .any(below)
        || name.iter().any(matching)
}

pub fn uri(path: &Path) -> String {
    format!("file://{}", path.display())
}

pub fn special(kind: &str) -> Value {
    json!({"type": "special", "value": {"kind": kind}})
}

pub fn entry(path: &Path, access: &str) -> Value {
    json!({"path": {"type": "path", "path": uri(path)}, "access": access})
}
