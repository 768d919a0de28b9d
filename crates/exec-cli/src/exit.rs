//! What the program's exit status says, in one place.
//!
//! | status | meaning |
//! | --- | --- |
//! | 0 | done |
//! | 1 | it could not start, or the request was refused |
//! | 2 | wrong usage (from the argument parser) |
//! | 126, 127 | `run`: the program could not be started, or was not found |
//! | 255 | `run`, `shell`: no connection, or it was lost; nothing is known of the command |
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
    let status = error.downcast_ref::<ExecServerError>().map_or(1, status);
    ExitCode::from(status)
}

fn status(error: &ExecServerError) -> u8 {
    match error {
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
