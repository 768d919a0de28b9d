//! All bounds. Those of the wire are constants; those of one end are in [`Limits`], so that tests can
//! pass small ones.

use std::time::Duration;

/// The longest frame either end may send, and so the longest WebSocket message.
pub const FRAME_BYTES_MAX: usize = 256 << 10;
/// The longest name of a stream.
pub const STREAM_ID_BYTES_MAX: usize = 128;
/// The longest `harness_key_authorization`.
pub const AUTHORIZATION_BYTES_MAX: usize = 4096;
/// The longest message inside a stream.
pub const MESSAGE_BYTES_MAX: usize = 64 << 20;
/// The plaintext of one record.
pub(crate) const RECORD_BYTES_MAX: usize = 60 << 10;
/// What AES-GCM adds to a record.
pub(crate) const TAG_BYTES: usize = 16;
/// The ciphertext of one record.
pub(crate) const CIPHERTEXT_BYTES_MAX: usize = RECORD_BYTES_MAX + TAG_BYTES;

/// How far ahead of the next expected frame a frame may be.
pub(crate) const WINDOW_FRAMES: u64 = 64;
/// How much may wait for an earlier frame.
pub(crate) const WINDOW_BYTES: usize = 1 << 20;
/// The payload of one frame of a reliable stream. Of these a full window holds exactly its bytes.
pub const SEGMENT_BYTES_MAX: usize = 16 << 10;
/// The segments of a full record.
pub(crate) const SEGMENTS_MAX: u32 = 4;
const _: () = assert!(SEGMENT_BYTES_MAX as u64 * WINDOW_FRAMES == WINDOW_BYTES as u64);
const _: () = assert!(CIPHERTEXT_BYTES_MAX <= SEGMENT_BYTES_MAX * SEGMENTS_MAX as usize);
// A frame has a name, numbers and one record at most.
const _: () = assert!(CIPHERTEXT_BYTES_MAX + STREAM_ID_BYTES_MAX + 1024 <= FRAME_BYTES_MAX);

/// What one end is willing to spend.
#[derive(Debug, Clone)]
pub struct Limits {
    /// Streams of an executor, those included whose last messages were not yet taken.
    pub streams_max: usize,
    /// Handshakes of an executor that wait for the registry.
    pub pending_max: usize,
    /// Failed handshakes after which an executor answers none for `failure_pause`.
    pub failures_max: u32,
    /// See `failures_max`.
    pub failure_pause: Duration,
    /// The longest message that is sent or accepted.
    pub message_bytes_max: usize,
    /// Messages of a stream that wait to be taken. A plain stream is reset beyond; a reliable one
    /// stops its peer.
    pub unread_messages_max: usize,
    /// Bytes of such messages, likewise.
    pub unread_bytes_max: usize,
    /// Bytes that wait to be sent. A message is accepted while fewer wait.
    pub unsent_bytes_max: usize,
    /// How long the registry may take.
    pub validation: Duration,
    /// How long a harness waits for the executor's half of the handshake.
    pub handshake: Duration,
    /// How long frames may wait for an earlier one, before the stream counts as broken. On a reliable
    /// stream `silence` is used instead.
    pub gap: Duration,
    /// A reliable stream says something at least this often.
    pub heartbeat: Duration,
    /// A reliable stream that hears nothing for so long has lost its peer.
    pub silence: Duration,
    /// How long a reliable stream waits for a new socket.
    pub pause: Duration,
    /// How long a stream that is being closed waits until its peer has everything.
    pub linger: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            streams_max: 128,
            pending_max: 32,
            failures_max: 8,
            failure_pause: Duration::from_secs(10),
            message_bytes_max: MESSAGE_BYTES_MAX,
            unread_messages_max: 128,
            unread_bytes_max: 1 << 20,
            unsent_bytes_max: 1 << 20,
            validation: Duration::from_secs(10),
            handshake: Duration::from_secs(10),
            gap: Duration::from_secs(10),
            heartbeat: Duration::from_secs(15),
            silence: Duration::from_secs(60),
            pause: Duration::from_secs(60),
            linger: Duration::from_secs(10),
        }
    }
}
