//! Every bound of the server, with its arithmetic. Handed down as arguments, so that tests can pass
//! small ones.

use std::time::Duration;

use exec_process::log::LogLimits;
use exec_protocol::limits::{MESSAGE_BYTES_MAX, RETAINED_BYTES, RETAINED_CHUNKS_MAX};

/// Largest piece of output in one notification. A pipe holds as much.
const CHUNK_BYTES: usize = 64 << 10;

/// Output of one process that may wait for a slow client before the child is slowed.
const UNSENT_BYTES_MAX: usize = 256 << 10;

// What is unsent is never dropped, so it has to be retained; one read may overshoot.
const _: () = assert!(UNSENT_BYTES_MAX + CHUNK_BYTES <= RETAINED_BYTES);

/// Beginning and end kept of each stream for `process/snapshot`.
const SNAPSHOT_BYTES_MAX: usize = 256 << 10;

/// A connection's outgoing bytes above which no more output is taken from the logs.
pub(crate) const OUTPUT_HIGH_WATER: usize = 256 << 10;

/// A connection's outgoing bytes that are worth a write of their own.
pub(crate) const FLUSH_BYTES: usize = 128 << 10;

/// A connection's outgoing bytes above which no more requests are read: the peer asks, but does
/// not take the answers.
pub(crate) const ANSWERS_HIGH_WATER: usize = 8 << 20;

/// Requests of one connection that wait for a slot before no more are read.
pub(crate) const WAITING_REQUESTS_MAX: usize = 1024;

/// Requests, in bytes, that are read although there is no room for them.
pub(crate) const READ_AHEAD_BYTES: usize = 1 << 20;

/// Notices of one session that wait to be sent, and are dropped beyond; they carry no data that
/// could not be asked for.
pub(crate) const NOTICES_MAX: usize = 1024;

/// Requests a connection works on at once, in each of its two pools.
pub const CONCURRENT_REQUESTS: usize = 128;

/// Connections at once, those that still shake hands included.
pub(crate) const CONNECTIONS_MAX: usize = 4096;

/// Sessions at once, detached ones included.
pub(crate) const SESSIONS_MAX: usize = 4096;

/// File calls that run at once, over all connections; more wait for a place.
pub(crate) const FILE_CALLS_MAX: usize = 64;

/// How long resolving a policy, and setting up a sandbox, may take. It is a matter of milliseconds,
/// unless a file system hangs.
pub(crate) const POLICY_TIME_MAX: Duration = Duration::from_secs(10);

/// Workers for confined file calls that are kept; each is a process of a few megabytes.
pub(crate) const CONFINED_WORKERS_MAX: usize = 8;

/// How long a worker is kept that nobody asks.
pub(crate) const CONFINED_IDLE: Duration = Duration::from_secs(10);

/// How long a worker that is told to end may take.
pub(crate) const CONFINED_END_TIME_MAX: Duration = Duration::from_secs(2);

/// Calls that one worker works on at once, and that wait for it.
pub(crate) const CONFINED_CALLS_MAX: usize = 64;

/// Bytes on their way to a worker above which it is given no more calls.
pub(crate) const CONFINED_UNSENT_BYTES: usize = 1 << 20;

/// What is kept of what a worker says besides its answers.
pub(crate) const CONFINED_STDERR_BYTES: usize = 4 << 10;

/// Files up to this size come out of a worker as an answer, larger ones as a descriptor.
pub(crate) const CONFINED_ANSWER_BYTES: usize = 256 << 10;

/// Watches inside a sandbox for one connection; each has a worker of its own.
pub(crate) const CONFINED_WATCHES_MAX: usize = 4;

/// Least that a client has to take in one message.
pub(crate) const CLIENT_MESSAGE_BYTES_MIN: u64 = 1 << 20;

/// Largest file `fs/readFile` gives to a client that takes messages of `message_bytes`: a third
/// larger in base64, and with its envelope, it has to fit one message.
pub(crate) const fn read_file_bytes_max(message_bytes: u64) -> u64 {
    let fits = message_bytes.saturating_sub(1 << 10) / 4 * 3;
    if fits < READ_FILE_BYTES_MAX { fits } else { READ_FILE_BYTES_MAX }
}

/// Largest file `fs/readFile` gives at all.
const READ_FILE_BYTES_MAX: u64 = 512 << 20;

/// A file is sent in pieces of this size, and held as a whole only if it is not larger. Divisible
/// by three, so that pieces become base64 one by one.
pub(crate) const FILE_PIECE_BYTES: usize = 3 << 19;

/// Files up to this size are read without a thread, if they are in memory already.
pub(crate) const CACHED_READ_BYTES: usize = 1 << 20;

/// How often an idle peer is asked for a sign of life.
pub(crate) const KEEPALIVE: Duration = Duration::from_secs(30);

/// How long a peer may send nothing at all, not even the answer to a ping.
pub(crate) const SILENCE_MAX: Duration = Duration::from_secs(120);

/// How long the owner of a session has to show life when somebody else wants to resume it.
pub(crate) const TAKE_OVER_PROBE: Duration = Duration::from_secs(1);

/// How long a closed process can still be read.
pub(crate) const EVICT_AFTER: Duration = Duration::from_secs(30);

/// How long a session outlives its connection.
pub const DETACHED_LIFE: Duration = Duration::from_secs(30);

/// The limits of one process's log, for a configured amount of retained output.
pub(crate) fn log_limits(retained_bytes: usize) -> LogLimits {
    LogLimits {
        retained_bytes_max: retained_bytes,
        retained_chunks_max: RETAINED_CHUNKS_MAX,
        unsent_bytes_max: UNSENT_BYTES_MAX,
        chunk_bytes_max: CHUNK_BYTES,
        snapshot_bytes_max: SNAPSHOT_BYTES_MAX,
    }
}

/// Most output that can be configured to be retained: all of it has to fit one answer.
pub(crate) const RETAINED_BYTES_MAX: usize = (MESSAGE_BYTES_MAX - (8 << 20)) / 4 * 3;
