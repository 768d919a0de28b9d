//! Why an intent is not enforced, in words for whoever wrote it.

use std::io;
use std::path::PathBuf;

use exec_protocol::path_uri::PathUriError;

/// Nothing runs, because of this.
#[derive(Debug, thiserror::Error)]
pub enum Refusal {
    /// A path of another system.
    #[error("sandbox entry {entry}: {reason}")]
    Foreign {
        /// Which entry, from 0.
        entry: usize,
        /// Why it is none of ours.
        reason: PathUriError,
    },
    /// A directory of the context that is of another system.
    #[error("sandbox context: {0}")]
    ForeignContext(PathUriError),
    /// More than we are willing to look at.
    #[error("sandbox policy has more than {max} {what}")]
    TooMany {
        /// Of what.
        what: &'static str,
        /// The bound.
        max: usize,
    },
    /// A temporary directory that would open more than a temporary directory should.
    #[error("sandbox: TMPDIR {} {reason}", path.display())]
    Tmpdir {
        /// As given.
        path: PathBuf,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// The command could change where the entry's path leads.
    #[error(
        "sandbox entry {entry} for {} crosses {}, a link in a writable directory",
        path.display(),
        link.display()
    )]
    WritableLink {
        /// Which entry, from 0.
        entry: usize,
        /// Its path.
        path: PathBuf,
        /// The link.
        link: PathBuf,
    },
    /// More links than a path may have.
    #[error("sandbox: too many links on the way to {}", path.display())]
    LinkLoop {
        /// The path.
        path: PathBuf,
    },
    /// A glob that is not understood, or would have to be looked for everywhere.
    #[error("sandbox entry {entry}: pattern {pattern:?} {reason}")]
    Pattern {
        /// Which entry, from 0.
        entry: usize,
        /// As given.
        pattern: String,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// A glob whose matches could not all be found.
    #[error("sandbox entry {entry}: looking for pattern {pattern:?} stopped: {reason}")]
    Scan {
        /// Which entry, from 0.
        entry: usize,
        /// As given.
        pattern: String,
        /// At what.
        reason: String,
    },
    /// The command would start where it may not be.
    #[error("sandbox: the working directory {} {reason}", path.display())]
    Cwd {
        /// Which.
        path: PathBuf,
        /// Why not.
        reason: &'static str,
    },
    /// A rule about a place that has no counterpart in the sandbox.
    #[error("sandbox entry {entry} for {}: {reason}", path.display())]
    Unenforceable {
        /// Which entry, from 0.
        entry: usize,
        /// Its path.
        path: PathBuf,
        /// Why not.
        reason: &'static str,
    },
    /// This platform's mechanism has no words for it.
    #[error("sandbox: {0}")]
    Inexpressible(String),
    /// The host did not let us look.
    #[error("sandbox: cannot examine {}: {source}", path.display())]
    Host {
        /// What.
        path: PathBuf,
        /// Its words.
        source: io::Error,
    },
}

impl Refusal {
    /// Whether the policy is at fault (−32602) and not the host (−32603).
    pub fn is_policy(&self) -> bool {
        !matches!(self, Refusal::Host { .. } | Refusal::Scan { .. })
    }

    /// The JSON-RPC code.
    pub fn code(&self) -> i64 {
        if self.is_policy() { -32602 } else { -32603 }
    }
}
