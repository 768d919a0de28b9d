//! Adding a rule to a rules file, as an approval does.
//!
//! The file itself is locked, as the reference locks it, so both can amend it at once. Because others
//! wait for that lock by its inode, the file is not replaced: the line is appended by one write, and
//! taken back if that fails.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use rustix::fs::{FlockOperation, flock};

use crate::error::{Error, Problem};
use crate::limits::FILE_BYTES_MAX;
use crate::network::{Access, Protocol, normal_host};
use crate::risk;
use crate::rule::{Decision, quoted};
use crate::set::{LoadOptions, RiskyRules, RuleSet, Source};

/// What became of an amendment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Amended {
    /// The line was added.
    Added,
    /// The same line was there already.
    Present,
}

/// Adds a rule about commands that begin with these words.
pub fn append_prefix_rule<S: AsRef<str>>(
    path: &Path,
    words: &[S],
    decision: Decision,
    risky: RiskyRules,
) -> Result<Amended, Error> {
    if risky == RiskyRules::Refuse
        && decision == Decision::Allow
        && let Some(reason) = risk::of_prefix(words)
    {
        let message = format!("this rule would let anything run: {reason}");
        return Err(Error::Refused(Box::new(Problem::new(message))));
    }
    append(path, &prefix_rule_line(words, decision))
}

/// Adds a rule about a host.
pub fn append_network_rule(
    path: &Path,
    host: &str,
    protocol: Protocol,
    access: Access,
    justification: Option<&str>,
) -> Result<Amended, Error> {
    let refused = |message: String| Error::Refused(Box::new(Problem::new(message)));
    let host = quoted(&normal_host(host).map_err(refused)?);
    let (protocol, decision) = (protocol.as_str(), access.as_str());
    let mut line =
        format!("network_rule(host={host}, protocol=\"{protocol}\", decision=\"{decision}\"");
    if let Some(text) = justification {
        line.push_str(", justification=");
        line.push_str(&quoted(text));
    }
    line.push(')');
    append(path, &line)
}

/// The line for a prefix rule, spelled as the reference does.
pub fn prefix_rule_line<S: AsRef<str>>(words: &[S], decision: Decision) -> String {
    let words: Vec<String> = words.iter().map(|word| quoted(word.as_ref())).collect();
    format!("prefix_rule(pattern=[{}], decision=\"{decision}\")", words.join(", "))
}

fn append(path: &Path, line: &str) -> Result<Amended, Error> {
    // A line that does not load would make the whole file useless.
    let options = LoadOptions { risky: RiskyRules::Accept, ..LoadOptions::default() };
    RuleSet::parse(&[Source::new("the new rule", line)], &options)?;
    append_line(path, line).map_err(|source| Error::Amend { path: path.to_owned(), source })
}

fn append_line(path: &Path, line: &str) -> io::Result<Amended> {
    if let Some(directory) = path.parent() {
        fs::create_dir_all(directory)?;
    }
    let mut file = open_locked(path)?;
    let limit = u64::try_from(FILE_BYTES_MAX).unwrap_or(u64::MAX);
    let length = file.metadata()?.len();
    if length > limit {
        return Err(io::Error::other("the file is too large for a rules file"));
    }
    let mut text = String::new();
    (&mut file).take(limit + 1).read_to_string(&mut text)?;
    if text.lines().any(|present| present == line) {
        return Ok(Amended::Present);
    }
    let separator = if text.is_empty() || text.ends_with('\n') { "" } else { "\n" };
    let addition = format!("{separator}{line}\n");
    if text.len() + addition.len() > FILE_BYTES_MAX {
        return Err(io::Error::other("the file would be too large for a rules file"));
    }
    if let Err(error) = file.write_all(addition.as_bytes()).and_then(|()| file.sync_data()) {
        // Half a line would make the file useless.
        file.set_len(length)?;
        return Err(error);
    }
    Ok(Amended::Added)
}

/// Opens and locks the file; again, if somebody replaced it while we waited. The lock goes with it.
fn open_locked(path: &Path) -> io::Result<File> {
    const ATTEMPTS: usize = 16;
    for _ in 0..ATTEMPTS {
        let file = OpenOptions::new().create(true).read(true).append(true).open(path)?;
        flock(&file, FlockOperation::LockExclusive)?;
        let (ours, there) = (file.metadata()?, fs::metadata(path));
        if there.is_ok_and(|there| there.ino() == ours.ino() && there.dev() == ours.dev()) {
            return Ok(file);
        }
    }
    Err(io::Error::other("the file is being replaced all the time"))
}
