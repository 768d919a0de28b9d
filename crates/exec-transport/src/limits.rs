//! The bounds of this crate. Those that a server or a test may want to change are in [`Limits`].

use std::time::Duration;

const MIB: usize = 1 << 20;

/// How large frames and messages may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// The largest WebSocket frame accepted, and the largest message sent as one frame.
    pub frame_bytes_max: usize,
    /// The largest message, in both directions. For lines, without the terminator.
    pub message_bytes_max: usize,
    /// The size of frames that a message above `frame_bytes_max` is cut into.
    pub send_fragment_bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            frame_bytes_max: 16 * MIB,
            message_bytes_max: 64 * MIB,
            send_fragment_bytes: 4 * MIB,
        }
    }
}

/// One read takes at most this much; the buffer is shared by all connections of a thread.
pub(crate) const SCRATCH_BYTES: usize = 64 * 1024;

/// Reads, or writes, in one poll before other tasks get a turn.
pub(crate) const TURNS_PER_POLL: usize = 16;

/// A drained output buffer above this is given back at once.
pub(crate) const OUTPUT_KEEP_BUSY_BYTES: usize = 256 * 1024;

/// A buffer above this is given back when the connection has nothing to read or write. Output and
/// input remainder together stay below the 8 KiB that a connection at rest may cost.
pub(crate) const KEEP_IDLE_BYTES: usize = 2 * 1024;

/// Pongs queued and not yet written. Beyond this only the latest ping is answered.
pub(crate) const PONG_BYTES_MAX: usize = 4 * 1024;

/// The head of an HTTP request or answer.
pub(crate) const HEAD_BYTES_MAX: usize = 16 * 1024;

/// Header lines in an HTTP request or answer.
pub(crate) const HEADERS_MAX: usize = 64;

/// Time for a whole HTTP head, and for writing its answer.
pub(crate) const HEAD_TIMEOUT: Duration = Duration::from_secs(10);

/// Time for a TLS handshake.
pub(crate) const TLS_TIMEOUT: Duration = Duration::from_secs(10);

/// Time for the last flush of a connection.
pub(crate) const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);

/// How long, and how much, is read after a plain HTTP answer. Closing with unread input makes the
/// kernel send a reset, which may overtake the answer.
pub(crate) const LINGER_TIMEOUT: Duration = Duration::from_millis(500);
pub(crate) const LINGER_BYTES_MAX: usize = 64 * 1024;

/// The part of a refusing server's body that is kept, and the time it may take.
pub(crate) const REFUSAL_BODY_BYTES_MAX: usize = 1024;
pub(crate) const REFUSAL_BODY_TIMEOUT: Duration = Duration::from_secs(1);

/// A bearer token, presented by a client.
pub(crate) const TOKEN_BYTES_MAX: usize = 8 * 1024;

/// A token or secret file.
pub(crate) const SECRET_FILE_BYTES_MAX: u64 = 1 << 20;

/// Addresses of one host name that are tried.
pub(crate) const ADDRESSES_MAX: usize = 8;

// The other half of the 8 KiB is for the socket's and the decoder's own state.
const _: () = assert!(2 * KEEP_IDLE_BYTES <= 4 * 1024);
