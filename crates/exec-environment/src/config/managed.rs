//! What a `managed_config.toml`, from before there were requirements, demands.

use serde::Deserialize;
use toml::{Table, Value};

#[derive(Deserialize)]
struct Managed {
    #[serde(default)]
    approval_policy: Option<ApprovalPolicy>,
    #[serde(default)]
    sandbox_mode: Option<SandboxMode>,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
enum ApprovalPolicy {
    Untrusted,
    OnFailure,
    OnRequest,
    Never,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
enum SandboxMode {
    ReadOnly,
    WorkspaceWrite,
    DangerFullAccess,
}

/// The requirements; empty when it demands nothing. A value that is not understood is an error: to
/// pass it over would be to lift a restriction.
pub(super) fn requirements(managed: &Table) -> Result<Table, toml::de::Error> {
    let managed: Managed = Value::Table(managed.clone()).try_into()?;
    let mut table = Table::new();
    let mut demand = |key: &str, allowed: &[&str]| {
        let allowed = allowed.iter().map(|&value| Value::from(value)).collect();
        table.insert(key.to_owned(), Value::Array(allowed));
    };
    if let Some(policy) = managed.approval_policy {
        let policy = match policy {
            ApprovalPolicy::Untrusted => "untrusted",
            ApprovalPolicy::OnFailure | ApprovalPolicy::OnRequest => "on-request",
            ApprovalPolicy::Never => "never",
        };
        demand("allowed_approval_policies", &[policy]);
    }
    match managed.sandbox_mode {
        None => {}
        Some(SandboxMode::ReadOnly) => demand("allowed_sandbox_modes", &["read-only"]),
        Some(SandboxMode::WorkspaceWrite) => {
            demand("allowed_sandbox_modes", &["read-only", "workspace-write"]);
        }
        Some(SandboxMode::DangerFullAccess) => {
            demand("allowed_sandbox_modes", &["read-only", "danger-full-access"]);
        }
    }
    Ok(table)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_settings_become_requirements() {
        let check = |managed: &str, expected: &str| {
            let table = requirements(&managed.parse().unwrap()).unwrap();
            assert_eq!(toml::to_string(&table).unwrap(), expected, "{managed}");
        };
        check("model = \"x\"", "");
        check("sandbox_mode = \"read-only\"", "allowed_sandbox_modes = [\"read-only\"]\n");
        check(
            "sandbox_mode = \"workspace-write\"",
            "allowed_sandbox_modes = [\"read-only\", \"workspace-write\"]\n",
        );
        check(
            "sandbox_mode = \"danger-full-access\"\napproval_policy = \"never\"",
            "allowed_approval_policies = [\"never\"]\n\
             allowed_sandbox_modes = [\"read-only\", \"danger-full-access\"]\n",
        );
        for policy in ["on-failure", "on-request"] {
            check(
                &format!("approval_policy = \"{policy}\""),
                "allowed_approval_policies = [\"on-request\"]\n",
            );
        }
        check("approval_policy = \"untrusted\"", "allowed_approval_policies = [\"untrusted\"]\n");
        for bad in ["sandbox_mode = \"x\"", "sandbox_mode = 5", "approval_policy = {}"] {
            assert!(requirements(&bad.parse().unwrap()).is_err(), "{bad}");
        }
    }
}
