//! Every bound of the client in one place. Those a caller may want to change are only defaults here
//! and stand in [`crate::ExecServerClientConnectOptions`].

use std::time::Duration;

/// Requests sent and not yet answered. One more is refused with `TooManyRequests`.
pub(crate) const IN_FLIGHT_MAX: usize = 1024;

/// Requests on their way to the connection's task. When it is full, callers wait.
pub(crate) const COMMANDS_MAX: usize = 64;

/// Bytes waiting for the socket above which no further requests are taken from the queue.
pub(crate) const OUTPUT_BYTES_HIGH: usize = 8 << 20;

/// One request. The reference accepts messages of 64 MiB but frames of 16 only, and sends what it
/// likes as one frame; so a frame may be as large as a message here, and requests stay below.
pub(crate) const REQUEST_BYTES_MAX: usize = 16 << 20;

/// One `process/write`. Longer writes are cut, each piece under an id of its own, so that a write
/// of any length stays far below the largest message.
pub(crate) const WRITE_BYTES_MAX: usize = 1 << 20;

/// Events of one process held back because an earlier number is missing. While they wait, the
/// missing ones are fetched; what does not fit is fetched too. Larger than the reference's 256 and
/// 1 MiB, because what arrives between a resume and the answer to its `process/read` has to fit.
pub(crate) const EARLY_EVENTS_MAX: usize = 4096;

/// Bytes in those events.
pub(crate) const EARLY_BYTES_MAX: usize = 4 << 20;

/// Events of one process that its handle has not taken yet, apart from their bytes.
pub(crate) const QUEUED_EVENTS_MAX: usize = 16_384;

/// Bytes in those events, unless the options say otherwise.
pub(crate) const QUEUED_BYTES_MAX: usize = 4 << 20;

/// Changes of one watch that were not taken yet. What does not fit is reported as lost.
pub(crate) const QUEUED_CHANGES_MAX: usize = 16_384;

/// Bytes of one streamed HTTP body that were not taken yet. When it is full, the connection is not
/// read until there is room.
pub(crate) const QUEUED_BODY_BYTES_MAX: usize = 4 << 20;

/// One block of a file that is streamed: large enough that the round trip does not count, small
/// enough that several are on their way at once.
pub(crate) const BLOCK_BYTES: usize = 256 << 10;

/// Blocks of one stream that are on their way: what a stream holds in memory is this many blocks.
pub(crate) const BLOCKS_IN_FLIGHT: usize = 8;

/// How often a stream opens its file again without having got anywhere in between.
pub(crate) const REOPENS_MAX: u32 = 8;

/// A file that is sent in one `fs/writeFile` where the server cannot write blocks.
pub(crate) const WHOLE_FILE_BYTES_MAX: usize = 8 << 20;

/// Files of a tree that are copied at once. Times `BLOCKS_IN_FLIGHT` requests it stays far below
/// `IN_FLIGHT_MAX`, and handles far below the 128 of a server.
pub(crate) const TREE_JOBS: usize = 8;

/// Entries of a tree that wait for their turn. What does not fit is reported as failed.
pub(crate) const TREE_ENTRIES_MAX: usize = 1_000_000;

/// Failures that a report lists one by one.
pub(crate) const REPORTED_FAILURES_MAX: usize = 10_000;

/// Directories above a file of a tree.
pub(crate) const TREE_DEPTH_MAX: usize = 256;

/// Messages kept while `initialize` is being answered. What does not fit is fetched afterwards.
pub(crate) const GREETING_MESSAGES_MAX: usize = 1024;

/// Bytes in those messages.
pub(crate) const GREETING_BYTES_MAX: usize = 4 << 20;

/// Output that `communicate` collects, unless the options say otherwise.
pub(crate) const COLLECT_BYTES_MAX: usize = 64 << 20;

/// A longer time is as good as none, and might not fit a clock.
pub(crate) const TIME_MAX: Duration = Duration::from_secs(365 * 24 * 3600);

/// Time to connect, and again for the answer to `initialize`.
pub(crate) const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// How long a lost connection is tried again: less than the 30 s for which servers keep a session.
pub(crate) const RECOVERY_WINDOW: Duration = Duration::from_secs(25);

/// Between two tries.
pub(crate) const RECOVERY_STEP: Duration = Duration::from_millis(100);

/// A connection that was silent for so long is lost. Servers ping every 30 s.
pub(crate) const SILENCE_LIMIT: Duration = Duration::from_secs(90);

/// How long one full process may keep the others from being read.
pub(crate) const STALL_LIMIT: Duration = Duration::from_secs(10);

/// How often a client that does not read shows that it lives.
pub(crate) const STALL_PING: Duration = Duration::from_secs(10);

/// For the last messages of a client that is dropped.
pub(crate) const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);

/// For a spawned server to end by itself after its stdin was closed.
pub(crate) const PROGRAM_EXIT_TIMEOUT: Duration = Duration::from_millis(500);

/// After an exit, how long `collect_for` waits for the streams to close.
pub(crate) const EXIT_GRACE: Duration = Duration::from_millis(100);

// A write, a third larger in base64, has to fit one request.
const _: () = assert!(WRITE_BYTES_MAX / 3 * 4 + 4096 <= REQUEST_BYTES_MAX);
const _: () = assert!(WHOLE_FILE_BYTES_MAX / 3 * 4 + 65_536 <= REQUEST_BYTES_MAX);
// What was held back is delivered at once: it must not be more than a handle's queue is made for.
const _: () = assert!(EARLY_BYTES_MAX <= QUEUED_BYTES_MAX && EARLY_EVENTS_MAX <= QUEUED_EVENTS_MAX);
