//! A policy in the language of macOS's sandbox. Pure: text and parameters, tested on any system.
//!
//! Later rules win, so the order is the policy: what every program needs, reads, writes, network, then
//! what is denied whatever was allowed before.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use exec_protocol::sandbox as wire;

use crate::policy::{Access, Files, Kind, Origin, Policy, Refusal, Rule, Rules, State};

/// The only program that may start a sandbox; never one that a `PATH` offers.
pub const PROGRAM: &str = "/usr/bin/sandbox-exec";

/// Closed by default, and what every program needs.
const BASE: &str = "(version 1)
(deny default)
(allow process-exec)
(allow process-fork)
(allow signal (target same-sandbox))
(allow process-info* (target same-sandbox))
(allow sysctl-read)
(allow pseudo-tty)
(allow file-read* file-write* file-ioctl (literal \"/dev/ptmx\"))
(allow file-read* file-write* (regex #\"^/dev/ttys[0-9]+$\"))
(allow file-write-data (require-all (path \"/dev/null\") (vnode-type CHARACTER-DEVICE)))
(allow ipc-posix-sem)
(allow mach-lookup (global-name \"com.apple.system.opendirectoryd.libinfo\"))
";

/// What a program reads before it does anything, where reads are restricted.
const PLATFORM: &str = "(allow file-read* (subpath \"/usr/lib\") (subpath \"/usr/share\") (subpath \"/System\")
  (subpath \"/bin\") (subpath \"/usr/bin\") (subpath \"/sbin\") (subpath \"/usr/sbin\") (subpath \"/Library\")
  (subpath \"/private/etc\") (literal \"/dev/null\") (literal \"/dev/urandom\") (literal \"/\"))
";

/// What the sandbox program is given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Profile {
    /// The rules.
    pub text: String,
    /// The paths they name, so that no path is ever part of the text.
    pub parameters: Vec<(String, PathBuf)>,
}

/// Which ways out are left besides the policy's.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ManagedNetwork {
    /// Where a proxy listens.
    pub loopback_ports: Vec<u16>,
    /// Whether ports may be bound.
    pub local_binding: bool,
}

impl Profile {
    /// The rules for a policy. `managed` means that only a proxy may be reached.
    pub fn of(policy: &Policy, managed: Option<&ManagedNetwork>) -> Result<Self, Refusal> {
        let mut this = Self { text: BASE.to_owned(), parameters: Vec::new() };
        match &policy.files {
            Files::External | Files::Disabled | Files::Open => {
                this.text.push_str("(allow file-read* file-write*)\n");
            }
            Files::Ruled(rules) => this.files(policy, rules)?,
        }
        this.network(policy, managed);
        Ok(this)
    }

    /// The arguments after the program, before the command's own.
    pub fn arguments(&self) -> Vec<std::ffi::OsString> {
        let mut arguments = vec!["-p".into(), self.text.clone().into()];
        for (key, path) in &self.parameters {
            let mut argument = std::ffi::OsString::from(format!("-D{key}="));
            argument.push(path);
            arguments.push(argument);
        }
        arguments.push("--".into());
        arguments
    }

    /// Rules in the order of paths: a directory before what is in it, so the most specific wins.
    fn files(&mut self, policy: &Policy, rules: &Rules) -> Result<(), Refusal> {
        if let Some(link) = rules.pinned_links.keys().next() {
            let text =
                format!("the link {} in a writable directory cannot be kept", link.display());
            return Err(Refusal::Inexpressible(text));
        }
        if rules.by_path.values().any(|rule| rule.origin == Origin::Platform) {
            self.text.push_str(PLATFORM);
        }
        for (path, rule) in &rules.by_path {
            self.rule(path, rule);
        }
        for pattern in &rules.patterns {
            let regex = pattern.regex();
            writeln!(self.text, "(deny file-read* file-write* (regex #\"{regex}\"))").ok();
            let base = self.parameter(&pattern.base);
            // Whoever moves a directory moves the matches in it out from under the pattern.
            writeln!(
                self.text,
                "(deny file-write-unlink (require-all (subpath (param \"{base}\")) (vnode-type DIRECTORY)))"
            )
            .ok();
        }
        for path in self.fixed(policy, rules) {
            let key = self.parameter(&path);
            writeln!(self.text, "(deny file-write-unlink (literal (param \"{key}\")))").ok();
        }
        Ok(())
    }

    fn rule(&mut self, path: &Path, rule: &Rule) {
        if path == Path::new("/") {
            let text = match rule.access {
                Access::Read => "(allow file-read*)\n",
                Access::Write => "(allow file-read* file-write*)\n",
                Access::Deny => "",
            };
            self.text.push_str(text);
            return;
        }
        let key = self.parameter(path);
        let directory = matches!(
            rule.state,
            State::Present(object) if object.kind == Kind::Directory
        ) || matches!(rule.state, State::Missing { .. });
        // A protected name must not come into being either, so it is both a name and a tree.
        let place = match directory {
            true => format!("(literal (param \"{key}\")) (subpath (param \"{key}\"))"),
            false => format!("(literal (param \"{key}\"))"),
        };
        let text = match rule.access {
            Access::Read => {
                format!("(allow file-read* {place})\n(deny file-write* {place})\n")
            }
            Access::Write => format!("(allow file-read* file-write* {place})\n"),
            Access::Deny => format!("(deny file-read* file-write* {place})\n"),
        };
        self.text.push_str(&text);
    }

    /// Directories that must keep their names: the roots, and all between a root and a rule.
    fn fixed(&self, policy: &Policy, rules: &Rules) -> Vec<PathBuf> {
        let mut fixed: Vec<PathBuf> = Vec::new();
        for path in rules.by_path.keys().filter(|path| *path != Path::new("/")) {
            let writable = |above: &&Path| policy.decide(above).access == Access::Write;
            fixed.push(path.clone());
            fixed.extend(path.ancestors().skip(1).take_while(writable).map(Path::to_owned));
        }
        fixed.sort();
        fixed.dedup();
        fixed
    }

    fn network(&mut self, policy: &Policy, managed: Option<&ManagedNetwork>) {
        let Some(managed) = managed else {
            if policy.network == wire::Network::Enabled {
                self.text.push_str("(allow network*)\n(allow system-socket)\n");
            }
            return;
        };
        for port in &managed.loopback_ports {
            writeln!(self.text, "(allow network-outbound (remote ip \"localhost:{port}\"))").ok();
        }
        if managed.local_binding && !managed.loopback_ports.is_empty() {
            self.text.push_str("(allow network-bind (local ip \"localhost:*\"))\n");
            self.text.push_str("(allow network-inbound (local ip \"localhost:*\"))\n");
        }
    }

    fn parameter(&mut self, path: &Path) -> String {
        let known = self.parameters.iter().find(|(_, known)| known == path);
        if let Some((key, _)) = known {
            return key.clone();
        }
        let key = format!("PATH_{}", self.parameters.len());
        self.parameters.push((key.clone(), path.to_owned()));
        key
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::legacy;
    use crate::policy::{Facts, Table};

    fn profile(host: &Table, managed: Option<&ManagedNetwork>) -> Profile {
        let intent = legacy::Profile::workspace_write(Vec::new()).context(Path::new("/w")).unwrap();
        let facts = Facts { cwd: "/w".into(), ..Facts::default() };
        Profile::of(&Policy::resolve(&intent, &facts, host).unwrap(), managed).unwrap()
    }

    #[test]
    fn a_carve_out_follows_the_root_it_narrows() {
        let host = Table::new().directory("/w/.git").directory("/tmp");
        let profile = profile(&host, None);
        let key = |path: &str| {
            let found = profile.parameters.iter().find(|(_, known)| known == Path::new(path));
            found.map(|(key, _)| key.clone()).unwrap()
        };
        let at = |text: &str| profile.text.find(text).unwrap_or_else(|| panic!("{text}"));
        let root =
            at(&format!("(allow file-read* file-write* (literal (param \"{}\"))", key("/w")));
        let git = at(&format!("(deny file-write* (literal (param \"{}\"))", key("/w/.git")));
        let read = at("(allow file-read*)\n");
        assert!(read < root && root < git);
        at(&format!("(deny file-write-unlink (literal (param \"{}\")))", key("/w/.git")));
        // What does not exist is protected by the same words.
        at(&format!("(deny file-write* (literal (param \"{}\"))", key("/w/.codex")));
        assert!(!profile.text.contains("/w"), "no path is part of the text");
        assert!(!profile.text.contains("network"), "the network stays closed");
        assert_eq!(profile.arguments()[0], "-p");
        assert_eq!(profile.arguments().last().unwrap(), "--");
    }

    #[test]
    fn only_the_proxy_can_be_reached() {
        let host = Table::new().directory("/w").directory("/tmp");
        let none = profile(&host, Some(&ManagedNetwork::default()));
        assert!(!none.text.contains("network"));
        let ports = ManagedNetwork { loopback_ports: vec![8080], local_binding: false };
        let some = profile(&host, Some(&ports));
        assert!(some.text.contains("(allow network-outbound (remote ip \"localhost:8080\"))"));
        assert!(!some.text.contains("network-bind"));
    }

    #[test]
    fn a_link_that_cannot_be_kept_is_refused() {
        let host = Table::new().directory("/w/real").directory("/tmp").link("/w/.git", "real");
        let intent = legacy::Profile::workspace_write(Vec::new()).context(Path::new("/w")).unwrap();
        let facts = Facts { cwd: "/w".into(), ..Facts::default() };
        let policy = Policy::resolve(&intent, &facts, &host).unwrap();
        assert!(Profile::of(&policy, None).is_err());
    }
}
