//! Examples: commands that a rule must, or must not, match. They are checked when the file is loaded,
//! against the rules of the call they stand in.

use std::fmt;

use crate::error::Problem;
use crate::host::{HostExecutables, Places};
use crate::rule::{Location, PrefixRule};

/// What an example shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expectation {
    /// From `match`.
    Match,
    /// From `not_match`.
    NoMatch,
}

/// The examples of one call, and the rules it made.
#[derive(Debug, Clone)]
pub(crate) struct Examples {
    /// Which rules of the file, in order.
    pub(crate) rules: std::ops::Range<usize>,
    pub(crate) matching: Vec<Vec<String>>,
    pub(crate) not_matching: Vec<Vec<String>>,
    pub(crate) location: Location,
}

/// An example that does not hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// The call it stands in.
    pub location: Location,
    /// What was expected of it.
    pub expectation: Expectation,
    /// The command, quoted for a shell.
    pub command: String,
}

impl fmt::Display for Failure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let says = match self.expectation {
            Expectation::Match => "no rule of this call matches",
            Expectation::NoMatch => "a rule of this call matches, but should not:",
        };
        write!(formatter, "{}: {says} `{}`", self.location, self.command)
    }
}

/// Splits an example as a POSIX shell would.
pub(crate) fn split(text: &str) -> Result<Vec<String>, &'static str> {
    match shlex::split(text) {
        None => Err("example string has invalid shell syntax"),
        Some(words) if words.is_empty() => Err("example cannot be an empty string"),
        Some(words) => Ok(words),
    }
}

/// A command as a shell reads it back.
pub fn joined<S: AsRef<str>>(command: &[S]) -> String {
    // Only a NUL cannot be quoted, and no command has one.
    shlex::try_join(command.iter().map(AsRef::as_ref))
        .unwrap_or_else(|_| "unable to render example".to_owned())
}

/// The rules of one call against a command: by name, then by the path's last component.
fn matching<'a>(
    rules: &'a [PrefixRule],
    command: &[String],
    hosts: &HostExecutables,
    places: &Places,
) -> Option<(&'a PrefixRule, Vec<String>, Option<std::path::PathBuf>)> {
    let (first, arguments) = command.split_first()?;
    let by_name = |name: &str| {
        rules.iter().find(|rule| *rule.first == *name && rule.accepts_arguments(arguments))
    };
    let prefix = |rule: &PrefixRule| {
        let words = std::iter::once(rule.first.to_string());
        words.chain(arguments[..rule.rest.len()].iter().cloned()).collect()
    };
    if let Some(rule) = by_name(first) {
        return Some((rule, prefix(rule), None));
    }
    let (path, name) = hosts.resolve(first, places)?;
    let rule = by_name(&name)?;
    Some((rule, prefix(rule), Some(path)))
}

/// Every example of a call that does not hold.
pub(crate) fn failures(
    examples: &Examples,
    rules: &[PrefixRule],
    hosts: &HostExecutables,
    places: &Places,
) -> Vec<Failure> {
    let failure = |expectation, command: &Vec<String>| Failure {
        location: examples.location.clone(),
        expectation,
        command: joined(command),
    };
    let matches = |command: &Vec<String>| matching(rules, command, hosts, places).is_some();
    let unwanted = examples.not_matching.iter().filter(|command| matches(command));
    let missing = examples.matching.iter().filter(|command| !matches(command));
    let unwanted = unwanted.map(|command| failure(Expectation::NoMatch, command));
    unwanted.chain(missing.map(|command| failure(Expectation::Match, command))).collect()
}

/// The first complaint about the examples of a call, in the reference's words.
pub(crate) fn check(
    examples: &Examples,
    rules: &[PrefixRule],
    hosts: &HostExecutables,
    places: &Places,
) -> Result<(), Problem> {
    for command in &examples.not_matching {
        if let Some((rule, prefix, path)) = matching(rules, command, hosts, places) {
            let path = path.map(AbsolutePathBuf);
            let message = format!(
                "expected example to not match rule `PrefixRuleMatch {{ matched_prefix: {prefix:?}, \
                 decision: {:?}, resolved_program: {path:?}, justification: {:?} }}`: {}",
                rule.decision,
                rule.justification,
                joined(command)
            );
            return Err(Problem::new(message)
                .at(Some(examples.location.clone()))
                .hint("take the example out of `not_match`, or make the pattern narrower"));
        }
    }
    let unmatched: Vec<String> = examples
        .matching
        .iter()
        .filter(|command| matching(rules, command, hosts, places).is_none())
        .map(|command| joined(command))
        .collect();
    if unmatched.is_empty() {
        return Ok(());
    }
    let rules: Vec<String> = rules.iter().map(PrefixRule::describe).collect();
    let message = format!(
        "expected every example to match at least one rule. rules: {rules:?}; \
         unmatched examples: {unmatched:?}"
    );
    Err(Problem::new(message)
        .at(Some(examples.location.clone()))
        .hint("words are compared exactly, one by one, from the program on"))
}

/// Shows a path as the reference does.
#[derive(Debug)]
#[expect(dead_code, reason = "read by its Debug only")]
struct AbsolutePathBuf(std::path::PathBuf);
