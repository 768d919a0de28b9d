//! What can be wrong with rules, with the place and a hint for whoever wrote them.

use std::fmt;
use std::io;
use std::path::PathBuf;

use crate::limits::{FILE_BYTES_MAX, FILES_MAX, RULES_MAX};
use crate::rule::Location;

/// Why rules could not be used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file cannot be read.
    #[error("failed to read policy at {}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A file is wrong.
    #[error("failed to parse policy at {file}: {problem}")]
    Parse {
        /// The file as it was named to us.
        file: String,
        /// What is wrong with it.
        problem: Box<Problem>,
    },
    /// More files than one set may have.
    #[error("more than {FILES_MAX} rules files")]
    TooManyFiles,
    /// A rules file could not be amended.
    #[error("failed to amend {}: {source}", path.display())]
    Amend {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A rule that may not be added.
    #[error("{0}")]
    Refused(Box<Problem>),
}

impl Error {
    /// What a person can do about it.
    pub fn hint(&self) -> Option<&str> {
        match self {
            Self::Parse { problem, .. } | Self::Refused(problem) => problem.hint.as_deref(),
            Self::Read { .. } | Self::TooManyFiles | Self::Amend { .. } => None,
        }
    }
}

/// What is wrong, where, and what to do about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// The place, if there is one.
    pub location: Option<Location>,
    /// In the reference's words, where it has some.
    pub message: String,
    /// Ours.
    pub hint: Option<String>,
}

impl Problem {
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Self { location: None, message: message.into(), hint: None }
    }

    pub(crate) fn at(mut self, location: Option<Location>) -> Self {
        self.location = self.location.or(location);
        self
    }

    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    pub(crate) fn in_file(self, file: &str) -> Error {
        Error::Parse { file: file.to_owned(), problem: Box::new(self) }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(location) = &self.location {
            write!(formatter, "{location}: ")?;
        }
        write!(formatter, "{}", self.message.trim_end())?;
        match &self.hint {
            Some(hint) => write!(formatter, "\nhint: {hint}"),
            None => Ok(()),
        }
    }
}

pub(crate) fn too_large() -> Problem {
    Problem::new(format!("the file is larger than {FILE_BYTES_MAX} bytes"))
        .hint("split it: every *.rules file of the directory is read")
}

pub(crate) fn too_many_rules() -> Problem {
    Problem::new(format!("more than {RULES_MAX} rules"))
        .hint("alternatives for the program count one by one; shorter prefixes cover more")
}
