//! What can go wrong. The words are the reference's, which clients know.

use std::path::PathBuf;

use exec_protocol::path_uri::PathUriError;

use crate::limits::ROOTS_MAX;

/// Why a request was not carried out.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Nothing was asked for.
    #[error("at least one config or requirements path is required")]
    NoPaths,
    /// A path without a key.
    #[error("TOML paths must contain at least one key segment")]
    EmptyPath,
    /// A directory of another system.
    #[error(transparent)]
    Cwd(#[from] PathUriError),
    /// More roots than are looked through.
    #[error("capability root discovery accepts at most {ROOTS_MAX} roots")]
    TooManyRoots,
    /// There is no home to read a configuration from.
    #[error("failed to find Codex home: {0}")]
    ConfigHome(#[source] HomeError),
    /// There is no home to look for plugins in.
    #[error(transparent)]
    Home(#[from] HomeError),
    /// A configuration file cannot be used.
    #[error("failed to load executor-local config: {0}")]
    Config(String),
    /// What was found does not fit an answer.
    #[error("the configuration does not fit a message")]
    TooLarge,
    /// Nobody waits for the answer any more.
    #[error("cancelled")]
    Cancelled,
}

/// What kind of failure it was, as the protocol tells them apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorKind {
    /// The parameters are wrong: invalid params.
    Params,
    /// More than may be asked for: invalid request.
    Request,
    /// The executor's files are wrong: internal error.
    Failed,
}

impl Error {
    /// Which kind.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Error::NoPaths | Error::EmptyPath | Error::Cwd(_) => ErrorKind::Params,
            Error::TooManyRoots => ErrorKind::Request,
            Error::ConfigHome(_)
            | Error::Home(_)
            | Error::Config(_)
            | Error::TooLarge
            | Error::Cancelled => ErrorKind::Failed,
        }
    }
}

/// Why there is no Codex home.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HomeError {
    /// `CODEX_HOME` names nothing.
    #[error("CODEX_HOME points to {0:?}, but that path does not exist")]
    Missing(PathBuf),
    /// `CODEX_HOME` names something else.
    #[error("CODEX_HOME points to {0:?}, but that path is not a directory")]
    NotADirectory(PathBuf),
    /// Neither `CODEX_HOME` nor a home directory is known.
    #[error("could not find home directory")]
    Unknown,
}
