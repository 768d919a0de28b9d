//! The flat policies that people write, and the intents they stand for.

use std::path::{Path, PathBuf};

use exec_protocol::path_uri::{PathUri, PathUriError};
use exec_protocol::sandbox::{
    Access, Entry, EntryPath, FileSystem, MissingPath, Network, Permissions, SandboxContext,
    Special, WindowsSandboxLevel,
};
use serde::{Deserialize, Serialize};

use crate::policy::{Facts, METADATA, Refusal, lexical};

/// A policy in one word and a few switches.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Profile {
    /// No restriction.
    DangerFullAccess,
    /// Somebody else confines the files.
    ExternalSandbox {
        /// Which network.
        #[serde(default = "restricted")]
        network_access: Network,
    },
    /// Everything can be read and nothing changed.
    ReadOnly {
        /// Whether the network is open.
        #[serde(default)]
        network_access: bool,
    },
    /// The workspace can be changed too.
    WorkspaceWrite {
        /// Besides the workspace.
        #[serde(default)]
        writable_roots: Vec<PathBuf>,
        /// Whether the network is open.
        #[serde(default)]
        network_access: bool,
        /// Whether `TMPDIR` stays read-only.
        #[serde(default)]
        exclude_tmpdir_env_var: bool,
        /// Whether `/tmp` stays read-only.
        #[serde(default)]
        exclude_slash_tmp: bool,
    },
}

fn restricted() -> Network {
    Network::Restricted
}

impl Profile {
    /// Everything can be read, nothing changed, nothing reached.
    pub fn read_only() -> Self {
        Profile::ReadOnly { network_access: false }
    }

    /// The workspace, these and the temporary directories can be changed, nothing reached.
    pub fn workspace_write(writable_roots: Vec<PathBuf>) -> Self {
        Profile::WorkspaceWrite {
            writable_roots,
            network_access: false,
            exclude_tmpdir_env_var: false,
            exclude_slash_tmp: false,
        }
    }

    /// The intent, for a workspace. All paths are absolute.
    pub fn context(&self, workspace: &Path) -> Result<SandboxContext, PathUriError> {
        let root = |access| special(Special::Root, access);
        let mut roots = vec![PathUri::from_native(workspace)?];
        let permissions = match self {
            Profile::DangerFullAccess => Permissions::Disabled,
            Profile::ExternalSandbox { network_access } => {
                Permissions::External { network: *network_access }
            }
            Profile::ReadOnly { network_access } => {
                managed(vec![root(Access::Read)], *network_access)
            }
            Profile::WorkspaceWrite {
                writable_roots,
                network_access,
                exclude_tmpdir_env_var,
                exclude_slash_tmp,
            } => {
                let mut entries = vec![root(Access::Read), in_workspace(None, Access::Write)];
                for path in writable_roots {
                    let path = PathUri::from_native(path)?;
                    roots.push(path.clone());
                    let path = EntryPath::Path { path };
                    entries.push(Entry {
                        path,
                        access: Access::Write,
                        missing_path_behavior: None,
                    });
                }
                if !exclude_slash_tmp {
                    entries.push(special(Special::SlashTmp, Access::Write));
                }
                if !exclude_tmpdir_env_var {
                    entries.push(special(Special::Tmpdir, Access::Write));
                }
                for name in METADATA {
                    let entry = in_workspace(Some(name.to_owned()), Access::Read);
                    entries.push(Entry { missing_path_behavior: Some(MissingPath::Skip), ..entry });
                }
                managed(entries, *network_access)
            }
        };
        Ok(SandboxContext {
            permissions,
            windows_sandbox_level: WindowsSandboxLevel::Disabled,
            cwd: Some(PathUri::from_native(workspace)?),
            workspace_roots: Some(roots),
            policy_context: None,
            user_home_dir: None,
            temporary_directories: None,
            windows_sandbox_proxy_settings_mode: None,
            use_legacy_landlock: false,
            sandbox_override: None,
        })
    }

    /// The flat policy that grants what the intent grants, if there is one. Lexical: nothing is
    /// looked at, and what is protected inside a writable directory does not count.
    pub fn equivalent(intent: &SandboxContext, facts: &Facts) -> Result<Option<Self>, Refusal> {
        let (entries, network) = match &intent.permissions {
            Permissions::Disabled => return Ok(Some(Profile::DangerFullAccess)),
            Permissions::External { network } => {
                return Ok(Some(Profile::ExternalSandbox { network_access: *network }));
            }
            Permissions::Managed { file_system: FileSystem::Unrestricted, network } => {
                return Ok(Some(full_access(*network)));
            }
            Permissions::Managed {
                file_system: FileSystem::Restricted { entries, .. },
                network,
            } => (entries, *network),
        };
        let grants = lexical(intent, entries, facts)?;
        if grants.full_write {
            return Ok(Some(full_access(network)));
        }
        let network_access = network == Network::Enabled;
        if !grants.reads_root {
            return Ok(None);
        }
        if grants.writable.is_empty() {
            return Ok(Some(Profile::ReadOnly { network_access }));
        }
        if !grants.writable.iter().any(|path| grants.roots.contains(path)) {
            return Ok(None);
        }
        let temporary = |path: &PathBuf| facts.tmpdir.as_ref() == Some(path);
        let exclude_slash_tmp = !grants.writable.contains(Path::new("/tmp"));
        let exclude_tmpdir_env_var = !grants.writable.iter().any(temporary);
        // The first root is the workspace itself.
        let other = |path: &PathBuf| {
            path != Path::new("/tmp") && !temporary(path) && grants.roots.first() != Some(path)
        };
        Ok(Some(Profile::WorkspaceWrite {
            writable_roots: grants.writable.iter().filter(|path| other(path)).cloned().collect(),
            network_access,
            exclude_tmpdir_env_var,
            exclude_slash_tmp,
        }))
    }
}

fn full_access(network: Network) -> Profile {
    match network {
        Network::Enabled => Profile::DangerFullAccess,
        Network::Restricted => Profile::ExternalSandbox { network_access: network },
    }
}

fn managed(entries: Vec<Entry>, network_access: bool) -> Permissions {
    let network = if network_access { Network::Enabled } else { Network::Restricted };
    let file_system = FileSystem::Restricted { entries, glob_scan_max_depth: None };
    Permissions::Managed { file_system, network }
}

fn special(value: Special, access: Access) -> Entry {
    Entry { path: EntryPath::Special { value }, access, missing_path_behavior: None }
}

fn in_workspace(subpath: Option<String>, access: Access) -> Entry {
    special(Special::ProjectRoots { subpath }, access)
}
