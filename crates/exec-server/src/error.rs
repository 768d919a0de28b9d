//! What a handler can say went wrong, and the one place that knows the codes.

use exec_protocol::id::ProcessId;
use exec_protocol::jsonrpc::{RpcError, code};
use exec_protocol::path_uri::PathUriError;

/// Why a request was not carried out.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error("exec-server stub does not implement `{0}` yet")]
    NoSuchMethod(String),
    #[error("{0}")]
    Params(String),
    #[error("client must call initialize before using {0} methods")]
    NotInitialized(&'static str),
    #[error("client must send initialized before using {0} methods")]
    NotConfirmed(&'static str),
    #[error("initialize may only be sent once per connection")]
    InitializedTwice,
    #[error("unknown session id {0}")]
    UnknownSession(String),
    #[error("session {0} is already attached to another connection")]
    SessionAttached(String),
    #[error("too many sessions")]
    TooManySessions,
    #[error("argv must not be empty")]
    EmptyArgv,
    #[error("cwd URI `{uri}` is not valid on this exec-server host: {source}")]
    ForeignCwd { uri: String, source: PathUriError },
    #[error("invalid sandbox permission path URI: {0}")]
    ForeignPermission(PathUriError),
    #[error("sandbox intent cannot be enforced on this executor")]
    CannotConfine,
    #[error("sandbox context has symbolic entries but no cwd")]
    NoPolicyCwd,
    /// What a confined worker answered.
    #[error("{}", .0.message)]
    Inside(RpcError),
    #[error("the sandboxed file worker failed: {0}")]
    Worker(String),
    #[error("sandbox intent cannot be enforced on this executor: {0}")]
    NoEngine(String),
    #[error("sandbox intent cannot be enforced on this executor: it has no managed network")]
    NoManagedNetwork,
    #[error("cannot confine the command: {0}")]
    Unprotected(String),
    #[error(transparent)]
    Refused(#[from] exec_sandbox::policy::Refusal),
    #[error("native MXC is unavailable on this executor")]
    NoMxc,
    #[error("network proxy intent cannot be enforced on this executor")]
    CannotProxy,
    #[error("process start mode `{0}` is not allowed by this executor")]
    ModeNotAllowed(&'static str),
    #[error("too many processes")]
    TooManyProcesses,
    #[error("process {0} already exists")]
    ProcessExists(ProcessId),
    #[error("unknown process id {0}")]
    UnknownProcess(ProcessId),
    #[error("process {0} has no terminal")]
    NoTerminal(ProcessId),
    #[error("process {0} has a terminal; write 0x04 to end its input")]
    TerminalHasNoEof(ProcessId),
    #[error("limit `{0}` must be at least 1")]
    ZeroLimit(&'static str),
    #[error("terminal size must be at least 1 by 1")]
    NoSize,
    #[error(transparent)]
    Process(#[from] exec_process::Error),
    #[error(transparent)]
    ForeignPath(#[from] PathUriError),
    #[error(transparent)]
    File(#[from] exec_fs::Error),
    #[error(transparent)]
    Http(#[from] exec_http::Error),
    #[error(transparent)]
    Environment(#[from] exec_environment::Error),
    #[error("the answer does not fit a message")]
    AnswerTooLarge,
    #[error("internal error")]
    Internal,
}

impl From<&Error> for RpcError {
    fn from(error: &Error) -> Self {
        let code = match error {
            Error::NoSuchMethod(_) => code::METHOD_NOT_FOUND,
            Error::Params(_)
            | Error::EmptyArgv
            | Error::ForeignCwd { .. }
            | Error::ForeignPermission(_)
            | Error::CannotConfine
            | Error::NoPolicyCwd
            | Error::NoEngine(_)
            | Error::NoManagedNetwork
            | Error::NoMxc
            | Error::CannotProxy
            | Error::ZeroLimit(_)
            | Error::Process(exec_process::Error::Limit(_))
            | Error::NoSize => code::INVALID_PARAMS,
            Error::NotInitialized(_)
            | Error::NotConfirmed(_)
            | Error::InitializedTwice
            | Error::UnknownSession(_)
            | Error::TooManySessions
            | Error::ModeNotAllowed(_)
            | Error::TooManyProcesses
            | Error::ProcessExists(_)
            | Error::UnknownProcess(_)
            | Error::NoTerminal(_)
            | Error::TerminalHasNoEof(_)
            | Error::ForeignPath(_) => code::INVALID_REQUEST,
            Error::Refused(refusal) => refusal.code(),
            Error::Inside(error) => error.code,
            Error::SessionAttached(_) => code::SESSION_ATTACHED,
            Error::File(error) => match error.kind() {
                exec_fs::ErrorKind::NotFound => code::NOT_FOUND,
                exec_fs::ErrorKind::Invalid => code::INVALID_REQUEST,
                exec_fs::ErrorKind::Other => code::INTERNAL,
            },
            Error::Http(error) => match error.kind() {
                exec_http::ErrorKind::Params => code::INVALID_PARAMS,
                exec_http::ErrorKind::Failed => code::INTERNAL,
            },
            Error::Environment(error) => match error.kind() {
                exec_environment::ErrorKind::Params => code::INVALID_PARAMS,
                exec_environment::ErrorKind::Request => code::INVALID_REQUEST,
                exec_environment::ErrorKind::Failed => code::INTERNAL,
            },
            Error::Process(_)
            | Error::Unprotected(_)
            | Error::Worker(_)
            | Error::AnswerTooLarge
            | Error::Internal => code::INTERNAL,
        };
        RpcError { code, message: error.to_string() }
    }
}
