//! From flags to the intent that a client would send.

use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use exec_protocol::path_uri::PathUri;
use exec_protocol::sandbox::{
    Access, Entry, EntryPath, FileSystem, Network, Permissions, SandboxContext,
};
use exec_sandbox::legacy::Profile;

/// Largest policy file.
const POLICY_BYTES_MAX: u64 = 1 << 20;

/// What `--policy`, `--writable` and `--network` stand for together.
pub(super) fn context(
    policy: &str,
    writable: &[PathBuf],
    network: bool,
    cwd: &Path,
) -> anyhow::Result<SandboxContext> {
    let writable = writable
        .iter()
        .map(|dir| {
            let dir = cwd.join(dir);
            // A missing directory would silently grant nothing.
            dir.canonicalize().with_context(|| format!("cannot make {} writable", dir.display()))
        })
        .collect::<anyhow::Result<Vec<_>>>()?;
    let mut context = match policy {
        "read-only" => Profile::read_only().context(cwd)?,
        "workspace-write" => Profile::workspace_write(Vec::new()).context(cwd)?,
        file => from_file(Path::new(file), cwd)?,
    };
    grant(&mut context.permissions, &writable)?;
    if network {
        open_network(&mut context.permissions);
    }
    Ok(context)
}

/// A full context is told from a flat policy by its `permissions`.
fn from_file(path: &Path, cwd: &Path) -> anyhow::Result<SandboxContext> {
    let shown = path.display();
    let size =
        std::fs::metadata(path).with_context(|| format!("cannot read the policy {shown}"))?;
    if size.len() > POLICY_BYTES_MAX {
        bail!("the policy {shown} is larger than {POLICY_BYTES_MAX} bytes");
    }
    let text =
        std::fs::read_to_string(path).with_context(|| format!("cannot read the policy {shown}"))?;
    let broken = || format!("the policy {shown} cannot be used");
    let value: serde_json::Value = serde_json::from_str(&text).with_context(broken)?;
    if value.get("permissions").is_some() {
        return serde_json::from_value(value).with_context(broken);
    }
    let profile: Profile = serde_json::from_value(value).with_context(broken)?;
    profile.context(cwd).with_context(broken)
}

fn grant(permissions: &mut Permissions, writable: &[PathBuf]) -> anyhow::Result<()> {
    let Permissions::Managed { file_system: FileSystem::Restricted { entries, .. }, .. } =
        permissions
    else {
        return Ok(());
    };
    for dir in writable {
        let path = EntryPath::Path { path: PathUri::from_native(dir)? };
        entries.push(Entry { path, access: Access::Write, missing_path_behavior: None });
    }
    Ok(())
}

fn open_network(permissions: &mut Permissions) {
    match permissions {
        Permissions::Managed { network, .. } | Permissions::External { network } => {
            *network = Network::Enabled;
        }
        Permissions::Disabled => {}
    }
}
