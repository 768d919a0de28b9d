//! What the program's exit status says, in one place.
//!
//! | status | meaning |
//! | --- | --- |
//! | 0 | done |
//! | 1 | it could not start, or the request was refused; a file was not copied; `search`: nothing found |
//! | 2 | wrong usage (from the argument parser); `search`: it failed |
//! | 126, 127 | `run`: the program could not be started, or was not found |
//! | 130 | `watch`: interrupted |
//! | 141 | file commands: whoever read the output has left |
//! | 255 | no connection, or it was lost; nothing is known of the command |
//! | other | `run`, `shell`: the command's own |

use std::process::ExitCode;

use exec_client::ExecServerError;
use exec_protocol::jsonrpc::code;

/// How a command of ours ended when nothing went wrong.
pub(crate) enum Outcome {
    Done,
    /// With the status of a process it ran.
    Code(i32),
}

/// As a shell tells of a program that SIGPIPE has ended.
pub(crate) const BROKEN_PIPE: i32 = 128 + libc::SIGPIPE;

/// The same for Ctrl-C.
pub(crate) const INTERRUPTED: i32 = 128 + libc::SIGINT;

/// So that it is told from a search that found nothing.
pub(crate) const SEARCH_FAILED: u8 = 2;

/// An error that is a sentence already, and its status.
#[derive(Debug)]
pub(crate) struct Plain {
    text: String,
    status: u8,
}

impl Plain {
    pub(crate) fn new(text: String, lost: bool) -> Self {
        Self { text, status: if lost { LOST } else { 1 } }
    }

    /// The same sentence with another status, unless the connection is to blame.
    pub(crate) fn with_status(error: anyhow::Error, status: u8) -> anyhow::Error {
        match status_of(&error) {
            LOST => error,
            _ => Self { text: error.to_string(), status }.into(),
        }
    }
}

impl std::fmt::Display for Plain {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(&self.text)
    }
}

impl std::error::Error for Plain {}

const LOST: u8 = 255;
const CANNOT_EXECUTE: u8 = 126;
const NOT_FOUND: u8 = 127;

pub(crate) fn as_process(code: i32) -> ExitCode {
    // Exit codes fit a byte; −1 is what a server says that does not know.
    ExitCode::from(u8::try_from(code).unwrap_or(LOST))
}

/// Prints an error and chooses the status for it.
pub(crate) fn failed(error: &anyhow::Error) -> ExitCode {
    eprintln!("Error: {error:#}");
    ExitCode::from(status_of(error))
}

/// The status for an error.
pub(crate) fn status_of(error: &anyhow::Error) -> u8 {
    match error.downcast_ref::<Plain>() {
        Some(plain) => plain.status,
        None => error.downcast_ref::<ExecServerError>().map_or(1, status),
    }
}

fn status(error: &ExecServerError) -> u8 {
    match error {
        // Its sandbox, not the command itself.
        ExecServerError::Rpc { message, .. } if message.starts_with("cannot confine ") => 1,
        ExecServerError::Rpc { code: code::INTERNAL, message } => {
            if message.ends_with("(os error 2)") { NOT_FOUND } else { CANNOT_EXECUTE }
        }
        ExecServerError::ConnectionLost(_)
        | ExecServerError::ProcessLost(_)
        | ExecServerError::Connect { .. }
        | ExecServerError::Timeout { .. } => LOST,
        ExecServerError::Refused { .. }
        | ExecServerError::SpawnProgram { .. }
        | ExecServerError::Initialize { .. }
        | ExecServerError::Rpc { .. }
        | ExecServerError::TooManyRequests { .. }
        | ExecServerError::Protocol(_)
        | ExecServerError::Unsupported(_)
        | ExecServerError::WriteRefused(_)
        | ExecServerError::OutputTooLarge { .. }
        | _ => 1,
    }
}
