//! Random policies on random hosts: what a plan does is what the policy says, and what the policy
//! says is what the entries mean.

#![allow(clippy::unwrap_used, reason = "a test")]

mod common;

use std::path::{Path, PathBuf};

use exec_protocol::sandbox::Access;
use exec_sandbox::plan::Plan;
use exec_sandbox::policy::{Facts, Host, Kind, METADATA, Policy, Refusal, State, Table};
use proptest::prelude::*;

use common::entries;
use common::simulator::{Seen, Simulator};

/// A host by lines: `d path`, `f path`, `l path target`.
fn host(lines: &[(char, String, String)]) -> Table {
    let mut table = Table::new().directory("/srv/repo").directory("/tmp").directory("/usr/bin");
    for (kind, path, other) in lines {
        // Nothing can be below a file or a link.
        let path = Path::new(path);
        let blocked = path.ancestors().skip(1).any(|above| {
            let object = table.look(above).unwrap();
            object.is_some_and(|object| object.kind != Kind::Directory)
        });
        if blocked || table.look(path).unwrap().is_some() {
            continue;
        }
        table = match kind {
            'f' => table.file(path, ""),
            'l' => table.link(path, other),
            _ => table.directory(path),
        };
    }
    table
}

fn path() -> impl Strategy<Value = String> {
    let name = prop::sample::select(vec!["a", "b", "c", ".git", ".aws", "x.env"]);
    let base = prop::sample::select(vec!["/srv/repo", "/srv/repo", "/srv", "/tmp", "/usr", ""]);
    (base, prop::collection::vec(name, 0..4)).prop_map(|(base, names)| {
        let path = names.iter().fold(base.to_owned(), |path, name| format!("{path}/{name}"));
        if path.is_empty() { "/".to_owned() } else { path }
    })
}

fn entry() -> impl Strategy<Value = String> {
    let access = prop::sample::select(vec!["read", "write", "write", "deny"]);
    let special = prop::sample::select(vec![":root", ":project_roots", ":minimal", ":slash_tmp"]);
    let glob = prop::sample::select(vec![
        "/srv/repo/**/*.env",
        "/srv/repo/*",
        "/srv/**/b",
        "/tmp/{a,b}/*",
        "/srv/repo/a/**",
        "/usr/b*",
    ]);
    prop_oneof![
        5 => (access.clone(), path()).prop_map(|(access, path)| format!("{access} {path}")),
        2 => (access, special).prop_map(|(access, kind)| format!("{access} {kind}")),
        1 => glob.prop_map(|glob| format!("deny {glob}")),
    ]
}

fn node(links: bool) -> impl Strategy<Value = (char, String, String)> {
    let kinds = if links { vec!['d', 'd', 'f', 'l'] } else { vec!['d', 'd', 'f'] };
    (prop::sample::select(kinds), path(), path())
}

fn facts() -> Facts {
    Facts { cwd: "/".into(), hidden: vec!["/srv/repo/c".into()], ..Facts::default() }
}

fn seen(access: Access) -> Seen {
    match access {
        Access::Deny => Seen::Nothing,
        Access::Read => Seen::ReadOnly,
        Access::Write => Seen::Writable,
    }
}

fn resolve(lines: &[String], facts: &Facts, host: &Table) -> Result<Policy, Refusal> {
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    Policy::resolve(&entries(&lines), facts, host)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_plan_does_what_the_policy_says(
        nodes in prop::collection::vec(node(true), 0..20),
        lines in prop::collection::vec(entry(), 0..9),
    ) {
        let host = host(&nodes);
        let Ok(policy) = resolve(&lines, &facts(), &host) else { return Ok(()) };
        let plan = Plan::build(&policy, &host).unwrap();
        if plan.view.is_none() || !policy.restricts_files() {
            return Ok(());
        }
        let simulator = Simulator::run(&plan, &host);
        for path in host.paths() {
            let is_link = host.look(path).unwrap().unwrap().kind == Kind::Link;
            if is_link || path == Path::new("/") {
                continue;
            }
            let decision = policy.decide(path);
            prop_assert_eq!(simulator.see(path), seen(decision.access), "{:?} {:?}", path, decision);
        }
        for (path, rule) in policy.rules() {
            match rule.state {
                State::Missing { .. } => {
                    prop_assert_ne!(simulator.see(path), Seen::Writable, "{:?}", path);
                }
                State::Present(_) => {}
            }
            for on_way in path.ancestors() {
                prop_assert!(!simulator.can_be_renamed(on_way), "{:?} for {:?}", on_way, path);
            }
        }
        let view = plan.view.as_ref().unwrap();
        for path in host.paths().filter(|path| simulator.see(path) == Seen::Writable) {
            prop_assert!(view.writable.iter().any(|root| path.starts_with(root)), "{:?}", path);
        }
    }

    #[test]
    fn the_policy_says_what_the_entries_mean(
        nodes in prop::collection::vec(node(false), 0..20),
        lines in prop::collection::vec(entry(), 0..9),
    ) {
        let host = host(&nodes);
        let facts = Facts { cwd: "/".into(), ..Facts::default() };
        let Ok(policy) = resolve(&lines, &facts, &host) else { return Ok(()) };
        if !policy.restricts_files() {
            return Ok(());
        }
        let oracle = Oracle::new(&lines, &host);
        for path in host.paths() {
            prop_assert_eq!(policy.decide(path).access, oracle.access(path), "{:?}", path);
        }
    }
}

/// The meaning of entries, by trying all of them.
struct Oracle<'a> {
    host: &'a Table,
    entries: Vec<(PathBuf, Access)>,
    globs: Vec<String>,
}

impl<'a> Oracle<'a> {
    fn new(lines: &[String], host: &'a Table) -> Self {
        let mut this = Self { host, entries: Vec::new(), globs: Vec::new() };
        let mut minimal = false;
        for line in lines {
            let (access, path) = line.split_once(' ').unwrap();
            let access = match access {
                "read" => Access::Read,
                "write" => Access::Write,
                _ => Access::Deny,
            };
            match path {
                ":root" => this.entries.push(("/".into(), access)),
                ":project_roots" => this.entries.push(("/srv/repo".into(), access)),
                ":slash_tmp" => this.entries.push(("/tmp".into(), access)),
                ":minimal" => minimal |= access != Access::Deny,
                glob if glob.contains('*') => this.globs.push(glob.to_owned()),
                path => this.entries.push((path.into(), access)),
            }
        }
        let restricted = this.by_entries(Path::new("/")).is_none_or(|(_, it)| it == Access::Deny);
        let usr = Path::new("/usr");
        if minimal && restricted && this.by_entries(usr).is_none_or(|(_, it)| it == Access::Deny) {
            // Platform files are read where no entry says otherwise at that very path.
            if !this.entries.iter().any(|(path, _)| path == usr) {
                this.entries.push((usr.into(), Access::Read));
            }
        }
        this
    }

    fn exists(&self, path: &Path) -> bool {
        self.host.look(path).unwrap().is_some()
    }

    /// The longest path wins; of equals deny, then write.
    fn by_entries(&self, path: &Path) -> Option<(&Path, Access)> {
        let strength = |access: Access| match access {
            Access::Read => 0,
            Access::Write => 1,
            Access::Deny => 2,
        };
        self.entries
            .iter()
            .filter(|(entry, _)| path.starts_with(entry) && self.exists(entry))
            .max_by_key(|(entry, access)| (entry.components().count(), strength(*access)))
            .map(|(entry, access)| (entry.as_path(), *access))
    }

    fn access(&self, path: &Path) -> Access {
        let globbed =
            |above: &Path| self.globs.iter().any(|glob| matches(glob, above.to_str().unwrap()));
        if path.ancestors().any(globbed) {
            return Access::Deny;
        }
        let Some((winner, access)) = self.by_entries(path) else { return Access::Deny };
        let protected = self.is_metadata(winner, path) || self.is_in_the_way(winner, path);
        if access == Access::Write && protected { Access::Read } else { access }
    }

    /// A file where a protected path needs a directory: it must not become one.
    fn is_in_the_way(&self, winner: &Path, path: &Path) -> bool {
        let protects = |(entry, access): &(PathBuf, Access)| {
            *access != Access::Write && entry.starts_with(path) && entry != path
        };
        let is_file = self.host.look(path).unwrap().is_some_and(|it| it.kind == Kind::File);
        is_file && winner != path && self.entries.iter().any(protects)
    }

    fn is_metadata(&self, winner: &Path, path: &Path) -> bool {
        path.ancestors().any(|name| {
            let Some(root) = name.parent() else { return false };
            let named =
                METADATA.iter().any(|known| name.file_name().is_some_and(|it| it == *known));
            let is_root = self.entries.iter().any(|(entry, _)| entry == root)
                && self.by_entries(root).is_some_and(|(at, it)| at == root && it == Access::Write);
            let opened = self
                .entries
                .iter()
                .any(|(entry, access)| *access == Access::Write && entry.starts_with(name));
            named && is_root && !opened && !winner.starts_with(name)
        })
    }
}

/// The globs used here, by hand.
fn matches(glob: &str, path: &str) -> bool {
    let inside = |base: &str| path.strip_prefix(base).map(|rest| rest.trim_start_matches('/'));
    let name = path.rsplit('/').next().unwrap_or_default();
    match glob {
        "/srv/repo/**/*.env" => path.starts_with("/srv/repo/") && name.ends_with(".env"),
        "/srv/repo/*" => inside("/srv/repo/").is_some_and(|rest| !rest.contains('/')),
        "/srv/**/b" => path.starts_with("/srv/") && name == "b",
        "/tmp/{a,b}/*" => ["/tmp/a/", "/tmp/b/"]
            .iter()
            .any(|base| inside(base).is_some_and(|rest| !rest.contains('/'))),
        "/srv/repo/a/**" => path.starts_with("/srv/repo/a/"),
        "/usr/b*" => inside("/usr/b").is_some_and(|rest| !rest.contains('/')),
        other => panic!("{other} is not known here"),
    }
}
