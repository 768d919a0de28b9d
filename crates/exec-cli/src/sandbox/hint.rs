//! After a denial: what was probably refused, and the flag that would allow it.
//!
//! The command's own words are all there is to go by, so this says "probably", and names a path only
//! if the policy really keeps it from being written.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use exec_protocol::sandbox::{Access, Network};
use exec_sandbox::explain::explain_path;
use exec_sandbox::policy::Policy;

/// How programs say it.
const REFUSALS: [&str; 4] = [
    "read-only file system",
    "permission denied",
    "operation not permitted",
    "device or resource busy",
];

/// The same for the network, which is not there.
const NO_NETWORK: [&str; 6] = [
    "network is unreachable",
    "could not resolve",
    "name resolution",
    "name or service not known",
    "cannot assign requested address",
    "connection refused",
];

/// Paths that are explained.
const PATHS_MAX: usize = 3;

/// What to tell the person, given the end of what the command wrote.
pub(super) fn lines(policy: &Policy, cwd: &Path, words: &str) -> Vec<String> {
    let mut lines = Vec::new();
    for path in refused_paths(policy, cwd, words).into_iter().take(PATHS_MAX) {
        let dir = nearest_directory(&path);
        let shown = path.display().to_string().escape_debug().to_string();
        let why = explain_path(policy, &path);
        lines.push(format!(
            "the sandbox probably refused to change {shown} ({why}); `--writable {}` would allow \
             it unless a protected name is in the way",
            dir.display().to_string().escape_debug()
        ));
    }
    let is_offline = policy.network == Network::Restricted;
    if is_offline && says(words, &NO_NETWORK) {
        lines.push(
            "the sandbox probably refused the network; `--network` would allow it".to_owned(),
        );
    }
    if lines.is_empty() {
        let network = if is_offline { ", `--network` to use the network" } else { "" };
        lines.push(format!(
            "the sandbox probably refused something: `--writable DIR` allows to change files in \
             DIR{network}; `--explain` shows what holds"
        ));
    }
    lines
}

fn says(words: &str, phrases: &[&str]) -> bool {
    let words = words.to_lowercase();
    phrases.iter().any(|phrase| words.contains(phrase))
}

/// Names in lines that tell of a refusal, as far as the policy does not let them be written.
fn refused_paths(policy: &Policy, cwd: &Path, words: &str) -> BTreeSet<PathBuf> {
    words
        .lines()
        .filter(|line| says(line, &REFUSALS))
        .flat_map(names)
        .map(|name| cwd.join(name))
        .filter(|path| policy.decide(path).access != Access::Write)
        .collect()
}

/// What may be names of files in a message: whatever is quoted; else the last word between colons, if
/// it looks like a path or the message is about making it. The first part names who speaks.
fn names(line: &str) -> Vec<&str> {
    const QUOTES: [char; 5] = ['\'', '"', '‘', '’', '`'];
    if line.contains(QUOTES) {
        let quoted = line.split(QUOTES).skip(1).step_by(2);
        return quoted.filter(|name| !name.is_empty()).collect();
    }
    let last_word = |part: &'_ str| part.trim_end().rfind(' ').map_or(0, |space| space + 1);
    let parts = line.split(": ").skip(1).map(|part| (part, part[last_word(part)..].trim()));
    let is_name = |(part, word): &(&str, &str)| word.contains('/') || part.starts_with("cannot ");
    parts.filter(is_name).map(|(_, word)| word).filter(|word| !word.is_empty()).collect()
}

/// The directory to name in a flag: the nearest that exists.
fn nearest_directory(path: &Path) -> &Path {
    path.ancestors().skip(1).find(|dir| dir.is_dir()).unwrap_or(Path::new("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found_in_the_words_of_common_programs() {
        for (line, expected) in [
            ("touch: cannot touch '/etc/x': Read-only file system", &["/etc/x"][..]),
            ("sh: 1: cannot create /etc/x: Read-only file system", &["/etc/x"]),
            ("sh: 1: cannot create x: Permission denied", &["x"]),
            ("/bin/bash: line 1: /etc/x: Read-only file system", &["/etc/x"]),
            ("mkdir: cannot create directory ‘a’: Read-only file system", &["a"]),
            ("OSError: [Errno 30] Read-only file system: '/srv/a.txt'", &["/srv/a.txt"]),
            ("cp: cannot create regular file 'b': Permission denied", &["b"]),
            ("nothing", &[]),
        ] {
            assert_eq!(names(line), expected, "{line}");
        }
    }
}
