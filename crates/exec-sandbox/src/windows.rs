//! A policy in the means of Windows: an account or token, and what it may write. Pure, and refuses
//! what those means cannot express. Nothing here calls Windows.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use exec_protocol::sandbox::{Network, WindowsSandboxLevel};

use crate::policy::{Access, Files, Policy, Refusal, Rules, State};

/// What a launcher on Windows would set up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Confinement {
    /// By which means.
    pub means: Means,
    /// Whether the account that has no network is used.
    pub offline: bool,
    /// What may be written.
    pub writable: Vec<PathBuf>,
    /// What may not, inside that. Never made where it does not exist.
    pub read_only: Vec<PathBuf>,
    /// What may not even be read.
    pub denied: Vec<PathBuf>,
}

/// How a command is held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Means {
    /// The same user with a token that can write only where a capability allows.
    RestrictedToken,
    /// An account of its own, with access lists.
    OwnAccount,
}

/// Finds the means, or says why there are none.
pub fn confine(
    policy: &Policy,
    level: WindowsSandboxLevel,
    managed_network: bool,
) -> Result<Confinement, Refusal> {
    let refuse = |text: &str| Err(Refusal::Inexpressible(text.to_owned()));
    let means = match level {
        WindowsSandboxLevel::Disabled => return refuse("the Windows sandbox is disabled"),
        WindowsSandboxLevel::Mxc => return refuse("this executor has no MXC sandbox"),
        WindowsSandboxLevel::RestrictedToken => Means::RestrictedToken,
        WindowsSandboxLevel::Elevated => Means::OwnAccount,
    };
    let Files::Ruled(rules) = &policy.files else {
        return refuse("a policy that does not restrict files cannot be enforced on Windows");
    };
    if managed_network && means != Means::OwnAccount {
        return refuse("a managed network needs the elevated Windows sandbox");
    }
    if means == Means::RestrictedToken && !policy.full_read() {
        return refuse("a restricted token cannot restrict what is read");
    }
    if rules.access(Path::new("/")) == Access::Write {
        return refuse("the whole disk cannot be made writable on Windows");
    }
    if !rules.pinned_links.is_empty() {
        return refuse("a link in a writable directory cannot be kept in place on Windows");
    }
    if !rules.patterns.is_empty() && means == Means::RestrictedToken {
        return refuse("a restricted token cannot hide what matches a pattern");
    }
    if let Some(path) = reopened(rules) {
        let text = format!("{} is writable inside a directory that is not", path.display());
        return Err(Refusal::Inexpressible(text));
    }
    let with = |access: Access| {
        let present = |state: State| matches!(state, State::Present(_));
        let of = rules.by_path.iter().filter(move |(_, rule)| rule.access == access);
        of.filter(move |(_, rule)| present(rule.state)).map(|(path, _)| path.clone())
    };
    let inside =
        |path: &PathBuf| path.parent().is_some_and(|parent| rules.access(parent) == Access::Write);
    Ok(Confinement {
        means,
        offline: policy.network == Network::Restricted || managed_network,
        writable: with(Access::Write).collect(),
        read_only: with(Access::Read).filter(inside).collect(),
        denied: with(Access::Deny).filter(|path| path != Path::new("/")).collect(),
    })
}

/// A writable directory below one that was carved out of a writable one: access lists inherit the
/// other way.
fn reopened(rules: &Rules) -> Option<&Path> {
    let writable: BTreeSet<&Path> = rules
        .by_path
        .iter()
        .filter(|(_, rule)| rule.access == Access::Write)
        .map(|(path, _)| path.as_path())
        .collect();
    writable.iter().copied().find(|path| {
        let mut above = path.ancestors().skip(1);
        let carved = above.position(|above| {
            rules.by_path.get(above).is_some_and(|rule| rule.access != Access::Write)
        });
        carved.is_some() && above.any(|above| writable.contains(above))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::legacy::Profile;
    use crate::policy::{Facts, Table};
    use exec_protocol::sandbox::SandboxContext;

    fn resolve(intent: &SandboxContext) -> Policy {
        let host = Table::new().directory("/w/.git").directory("/w/a/b").directory("/tmp");
        let facts = Facts { cwd: "/w".into(), ..Facts::default() };
        Policy::resolve(intent, &facts, &host).unwrap()
    }

    fn workspace() -> SandboxContext {
        Profile::workspace_write(Vec::new()).context(Path::new("/w")).unwrap()
    }

    fn with_entries(entries: &str) -> SandboxContext {
        serde_json::from_str(&format!(
            r#"{{"permissions":{{"type":"managed","network":"enabled","file_system":{{
            "type":"restricted","entries":[
            {{"path":{{"type":"special","value":{{"kind":"root"}}}},"access":"read"}}{entries}]}}}},
            "windowsSandboxLevel":"elevated"}}"#
        ))
        .unwrap()
    }

    #[test]
    fn a_workspace_is_what_a_token_can_hold() {
        let held =
            confine(&resolve(&workspace()), WindowsSandboxLevel::RestrictedToken, false).unwrap();
        assert_eq!(held.means, Means::RestrictedToken);
        assert!(held.offline);
        assert_eq!(held.writable, [Path::new("/tmp"), Path::new("/w")]);
        // What does not exist is not made.
        assert_eq!(held.read_only, [Path::new("/w/.git")]);
        assert!(held.denied.is_empty());
    }

    #[test]
    fn what_windows_cannot_hold_is_refused() {
        use WindowsSandboxLevel::{Disabled, Elevated, Mxc, RestrictedToken};
        let entry = |path: &str, access: &str| {
            format!(r#",{{"path":{{"type":"path","path":"file://{path}"}},"access":"{access}"}}"#)
        };
        let deny = with_entries(&entry("/w/a", "deny"));
        let again = with_entries(
            &[entry("/w", "write"), entry("/w/a", "read"), entry("/w/a/b", "write")].concat(),
        );
        let full = Profile::DangerFullAccess.context(Path::new("/w")).unwrap();
        let table = [
            (&workspace(), Disabled, false, "disabled"),
            (&workspace(), Mxc, false, "MXC"),
            (&workspace(), RestrictedToken, true, "elevated"),
            (&deny, RestrictedToken, false, "what is read"),
            (&again, Elevated, false, "/w/a/b is writable"),
            (&full, Elevated, false, "does not restrict"),
        ];
        for (intent, level, managed, expected) in table {
            let refusal = resolve_and(intent, level, managed).expect_err(expected);
            assert!(refusal.to_string().contains(expected), "{refusal}");
        }
        assert_eq!(resolve_and(&deny, Elevated, false).unwrap().denied, [Path::new("/w/a")]);
    }

    fn resolve_and(
        intent: &SandboxContext,
        level: WindowsSandboxLevel,
        managed: bool,
    ) -> Result<Confinement, Refusal> {
        confine(&resolve(intent), level, managed)
    }
}
