//! The bounds of a request. What a request itself may carry is bounded by the message it came in.

use std::time::Duration;

use exec_protocol::bytes::encoded_len;
use exec_protocol::limits::MESSAGE_BYTES_MAX;

/// Largest body that is answered in one piece.
pub const BODY_BYTES_MAX: usize = (MESSAGE_BYTES_MAX - HEAD_BYTES_MAX) / 4 * 3;

/// Room for everything in an answer that is not its body.
// The client reads at most 417 792 bytes of headers, 100 lines; in JSON a byte becomes two at most.
const HEAD_BYTES_MAX: usize = 1 << 20;

const _: () = assert!(encoded_len(BODY_BYTES_MAX) + HEAD_BYTES_MAX <= MESSAGE_BYTES_MAX);

/// Largest piece of a streamed body.
pub const PIECE_BYTES_MAX: usize = 1 << 20;

/// Headers of a request; the map that holds them panics at 24 576 names.
pub const HEADERS_MAX: usize = 4096;

/// Redirects that are followed.
pub const REDIRECTS_MAX: usize = 10;

/// Streamed bodies of one connection at once.
pub const STREAMS_MAX: usize = 128;

/// How long one address may take to answer a connection attempt.
pub(crate) const CONNECT_MAX: Duration = Duration::from_secs(30);

/// How long an unused connection stays open.
pub(crate) const IDLE_MAX: Duration = Duration::from_secs(30);

/// Unused connections for each host.
pub(crate) const IDLE_PER_HOST_MAX: usize = 4;

/// Largest file of extra certificates.
pub(crate) const CERTIFICATES_BYTES_MAX: u64 = 16 << 20;
