//! Finds what exists of a pattern's matches. Bounded in every direction; whoever reaches a bound has
//! not seen everything, and nothing may run.

use std::io;
use std::path::{Path, PathBuf};

use super::glob::{Pattern, Progress};
use super::host::{Host, Kind};
use super::refusal::Refusal;

/// Matches of one policy's patterns together.
pub const MATCHES_MAX: usize = 8192;
/// Names looked at for one policy.
pub const VISITED_MAX: usize = 1_000_000;
/// Directories below a pattern's base, where the policy sets no bound.
const DEPTH_MAX: usize = 256;

/// What is left of the bounds.
#[derive(Debug)]
pub(super) struct Budget {
    matches: usize,
    visited: usize,
    depth_max: usize,
}

impl Budget {
    /// For one policy; at most so many directories deep.
    pub(super) fn new(depth_max: Option<usize>) -> Self {
        Self { matches: 0, visited: 0, depth_max: depth_max.unwrap_or(DEPTH_MAX).min(DEPTH_MAX) }
    }
}

/// A match: its path, free of links up to its last name, and what it is.
pub(super) type Match = (PathBuf, Kind);

/// Everything below the directory that matches. Below a match nothing is looked for: it is all denied.
pub(super) fn scan(
    host: &impl Host,
    pattern: &Pattern,
    base: &Path,
    budget: &mut Budget,
) -> Result<Vec<Match>, Refusal> {
    let stop = |reason: String| Refusal::Scan {
        entry: pattern.entry,
        pattern: pattern.text.clone(),
        reason,
    };
    let mut matches = Vec::new();
    let mut ahead: Vec<(PathBuf, Progress, usize)> = vec![(base.to_owned(), pattern.start(), 1)];
    while let Some((directory, progress, depth)) = ahead.pop() {
        if host.out_of_time() {
            return Err(stop("it took too long".to_owned()));
        }
        let names = match host.list(&directory, VISITED_MAX - budget.visited) {
            Ok(names) => names,
            // Gone since; or somebody else's, and as closed to the command as it is to us.
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error)
                if error.kind() == io::ErrorKind::PermissionDenied && !host.may_add(&directory) =>
            {
                continue;
            }
            Err(error) if error.kind() == io::ErrorKind::QuotaExceeded => {
                return Err(stop(format!("more than {VISITED_MAX} names")));
            }
            Err(error) => return Err(stop(format!("{}: {error}", directory.display()))),
        };
        budget.visited += names.len();
        for (name, kind) in names {
            let (next, matched) = pattern.advance(&progress, &name);
            let path = directory.join(&name);
            if matched {
                budget.matches += 1;
                if budget.matches > MATCHES_MAX {
                    return Err(stop(format!("more than {MATCHES_MAX} matches")));
                }
                matches.push((path, kind));
            } else if kind == Kind::Directory && !next.is_over() && depth < budget.depth_max {
                ahead.push((path, next, depth + 1));
            } else if kind == Kind::Directory && !next.is_over() && depth >= DEPTH_MAX {
                return Err(stop(format!("more than {DEPTH_MAX} directories deep")));
            }
        }
    }
    matches.sort();
    Ok(matches)
}
