//! Rules about the manifests: a crate uses only crates that stand before it in the list of members,
//! takes the workspace's lints, and has a licence.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result};
use toml::{Table, Value};

use super::Finding;

/// What a pure crate may not use.
const IMPURE: &[(&str, &[&str])] = &[
    ("exec-protocol", &["tokio", "libc"]),
    ("exec-relay", &["tokio", "libc", "getrandom"]),
    ("exec-rules", &["tokio", "libc"]),
];

/// A member of the workspace.
struct Member {
    /// The manifest, from the root.
    path: String,
    manifest: Table,
}

/// Everything that is wrong with the manifests.
pub(super) fn check(root: &Path) -> Result<Vec<Finding>> {
    let workspace = read(root, "Cargo.toml")?;
    let list = at(&workspace, &["workspace", "members"]).and_then(Value::as_array);
    let mut members = Vec::new();
    for directory in list.context("Cargo.toml has no list of members")? {
        let directory = directory.as_str().context("a member is not a string")?;
        let path = format!("{directory}/Cargo.toml");
        members.push(Member { manifest: read(root, &path)?, path });
    }
    let mut findings = check_members(&members);
    if !root.join("LICENSE").is_file() {
        findings.push(Finding::error("LICENSE", None, "the licence itself is missing"));
    }
    Ok(findings)
}

fn read(root: &Path, path: &str) -> Result<Table> {
    let text =
        fs::read_to_string(root.join(path)).with_context(|| format!("cannot read {path}"))?;
    text.parse().with_context(|| format!("cannot parse {path}"))
}

/// The members are in the order of the list.
fn check_members(members: &[Member]) -> Vec<Finding> {
    let names: Vec<&str> = members.iter().map(|member| name(&member.manifest)).collect();
    let mut findings = Vec::new();
    for (position, Member { path, manifest }) in members.iter().enumerate() {
        let mut error = |message: String| findings.push(Finding::error(path, None, message));
        if at(manifest, &["lints", "workspace"]) != Some(&Value::Boolean(true)) {
            error("`lints.workspace = true` is missing".to_owned());
        }
        if !has_licence(manifest) {
            error("the field `license` is missing".to_owned());
        }
        for dependency in dependencies(manifest) {
            if names[position..].contains(&dependency) {
                error(format!("uses {dependency}, which does not stand before it in the list"));
            }
            let impure = IMPURE.iter().filter(|(pure, _)| *pure == names[position]);
            if impure.flat_map(|(_, impure)| *impure).any(|impure| *impure == dependency) {
                error(format!("uses {dependency}, but is pure"));
            }
        }
    }
    findings
}

fn name(manifest: &Table) -> &str {
    at(manifest, &["package", "name"]).and_then(Value::as_str).unwrap_or_default()
}

fn has_licence(manifest: &Table) -> bool {
    match at(manifest, &["package", "license"]) {
        Some(Value::String(licence)) => !licence.is_empty(),
        Some(Value::Table(inherited)) => inherited.get("workspace") == Some(&Value::Boolean(true)),
        _ => false,
    }
}

/// What the crate itself needs, on any platform; not what only its tests need.
fn dependencies(manifest: &Table) -> Vec<&str> {
    let mut tables = vec![manifest];
    if let Some(Value::Table(targets)) = manifest.get("target") {
        tables.extend(targets.values().filter_map(Value::as_table));
    }
    let mut found = Vec::new();
    for table in tables {
        for kind in ["dependencies", "build-dependencies"] {
            let entries = table.get(kind).and_then(Value::as_table).into_iter().flatten();
            found.extend(entries.map(|(key, value)| package(key, value)));
        }
    }
    found
}

/// A dependency may be renamed by its `package`.
fn package<'a>(key: &'a str, value: &'a Value) -> &'a str {
    value.get("package").and_then(Value::as_str).unwrap_or(key)
}

fn at<'a>(table: &'a Table, path: &[&str]) -> Option<&'a Value> {
    let (first, rest) = path.split_first()?;
    rest.iter().try_fold(table.get(*first)?, |value, key| value.get(key))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn member(name: &str, rest: &str) -> Member {
        let text = format!("package.name = '{name}'\npackage.license.workspace = true\n{rest}");
        Member { path: format!("crates/{name}/Cargo.toml"), manifest: text.parse().unwrap() }
    }

    /// What is said of two members, of which the second has these lines.
    fn check_second(name: &str, rest: &str, expected: &[&str]) {
        let first = member("first", "lints.workspace = true");
        let found = check_members(&[first, member(name, rest), member("last", "")]);
        let path = format!("crates/{name}/Cargo.toml");
        let found: Vec<&str> = found
            .iter()
            .filter(|finding| finding.path == path)
            .map(|finding| finding.message.as_str())
            .collect();
        assert_eq!(found.len(), expected.len(), "{found:?}");
        for (found, expected) in found.iter().zip(expected) {
            assert!(found.contains(expected), "{found}");
        }
    }

    #[test]
    fn a_crate_uses_only_crates_before_it() {
        let lints = "lints.workspace = true\n";
        let check = |rest: &str, expected: &[&str]| {
            check_second("second", &format!("{lints}{rest}"), expected);
        };
        check("dependencies.first.workspace = true", &[]);
        check("dependencies.last.workspace = true", &["uses last"]);
        check("build-dependencies.last = '1'", &["uses last"]);
        check("target.'cfg(unix)'.dependencies.last = '1'", &["uses last"]);
        check("dependencies.alias = { package = 'last', path = '../last' }", &["uses last"]);
        check("dev-dependencies.last.workspace = true", &[]);
        check("dependencies.serde.workspace = true", &[]);
    }

    #[test]
    fn lints_and_licence_are_stated() {
        check_second("second", "", &["lints.workspace"]);
        check_second("second", "lints.workspace = false", &["lints.workspace"]);
        let bare = Member {
            path: "a".to_owned(),
            manifest: "package.name = 'a'\nlints.workspace = true".parse().unwrap(),
        };
        let found = check_members(&[bare]);
        assert_eq!(found.len(), 1);
        assert!(found[0].message.contains("license"));
    }

    #[test]
    fn the_protocol_is_pure() {
        let rest = "lints.workspace = true\ndependencies.tokio.workspace = true";
        check_second("exec-protocol", rest, &["uses tokio, but is pure"]);
        check_second("second", rest, &[]);
    }
}
