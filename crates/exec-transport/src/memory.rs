//! A client and a server in one process.

use crate::connection::{Connection, Peer};
use crate::limits::Limits;

/// Two connected ends. Each direction holds `buffer_bytes` before its writer has to wait.
pub fn memory_pair(buffer_bytes: usize) -> (Connection, Connection) {
    let (left, right) = tokio::io::duplex(buffer_bytes);
    let end = |io| Connection::lines(Box::pin(io), Peer::Memory, Limits::default());
    (end(left), end(right))
}
