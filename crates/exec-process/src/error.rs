//! What can fail between a command and a running child.

use std::io;

use exec_sandbox::launch::Failure;

use crate::limits::Unenforceable;

/// Why a process could not be started or reached.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// `argv` names no program.
    #[error("missing program for pipe spawn")]
    NoProgram,
    /// An argument or a path holds a NUL.
    #[error("nul byte found in provided data")]
    NulInArgv,
    /// A variable holds a NUL.
    #[error("data provided contains a nul byte")]
    NulInEnv,
    /// A limit cannot be enforced here; nothing was started.
    #[error(transparent)]
    Limit(#[from] Unenforceable),
    /// The operating system refused.
    #[error("{}", os_text(.0))]
    Spawn(#[source] io::Error),
    /// What was to confine the command could not be set up; nothing of it ran.
    #[error("cannot confine the command: cannot {0}")]
    Confine(#[source] Failure),
    /// The process has been terminated.
    #[error("failed to write to process stdin")]
    WriteAfterTerminate,
    /// The operating system would not deliver the signal.
    #[error("failed to signal process: {}", os_text(.0))]
    Signal(#[source] io::Error),
    /// The process has no terminal, or has lost it.
    #[error("process has no terminal to resize")]
    NoTerminal,
}

/// `No such file or directory (os error 2)`: as `std` writes it.
fn os_text(error: &io::Error) -> String {
    error.to_string()
}
