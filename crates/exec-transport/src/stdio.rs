//! Lines over stdin and stdout, ours or a child's.
//!
//! Our own are polled when they are pipes or sockets. Files and terminals cannot be, so there
//! tokio's blocking threads read and write.

use std::io;

use tokio::io::{AsyncRead, AsyncWrite};

use crate::connection::{Connection, Peer};
use crate::limits::Limits;

#[cfg(unix)]
mod polled;

/// A connection over any two halves: reads `stdin`, writes `stdout`.
pub fn stdio(
    stdin: impl AsyncRead + Send + 'static,
    stdout: impl AsyncWrite + Send + 'static,
) -> Connection {
    Connection::lines(Box::pin(tokio::io::join(stdin, stdout)), Peer::Stdio, Limits::default())
}

/// A connection over this process's stdin and stdout. Nothing else may use them.
///
/// # Errors
/// When a descriptor is closed, or cannot be registered with the runtime.
#[cfg(unix)]
pub fn process_stdio() -> io::Result<Connection> {
    use polled::{Direction, Polled};

    let stdin = Polled::open(&io::stdin(), Direction::Read)?;
    let stdout = Polled::open(&io::stdout(), Direction::Write)?;
    Ok(match (stdin, stdout) {
        (Some(stdin), Some(stdout)) => stdio(stdin, stdout),
        (Some(stdin), None) => stdio(stdin, tokio::io::stdout()),
        (None, Some(stdout)) => stdio(tokio::io::stdin(), stdout),
        (None, None) => stdio(tokio::io::stdin(), tokio::io::stdout()),
    })
}

/// A connection over this process's stdin and stdout. Nothing else may use them.
///
/// # Errors
/// None here; the signature is that of the other platforms.
#[cfg(not(unix))]
pub fn process_stdio() -> io::Result<Connection> {
    Ok(stdio(tokio::io::stdin(), tokio::io::stdout()))
}
