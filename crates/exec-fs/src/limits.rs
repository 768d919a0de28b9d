//! The bounds of the file calls that the protocol or this crate fixes. Those a server decides are
//! arguments.

use std::time::Duration;

/// Largest file that `fs/readFile` gives, whatever the message could carry.
pub const READ_FILE_BYTES_MAX: u64 = 512 << 20;

/// Files that a connection may have open.
pub const HANDLES_MAX: usize = 128;

/// Longest name of an open file, in bytes.
pub const HANDLE_ID_BYTES_MAX: usize = 32;

/// Largest block read from or written to an open file.
pub const BLOCK_BYTES_MAX: usize = 1 << 20;

/// Entries of a directory listing.
pub const READ_DIRECTORY_ENTRIES_MAX: u64 = 50_000;

/// Levels below the root of a walk.
pub const WALK_DEPTH_MAX: u64 = 64;

/// Directories that a walk enters.
pub const WALK_DIRECTORIES_MAX: u64 = 10_000;

/// Entries that a walk looks at.
pub const WALK_ENTRIES_MAX: u64 = 50_000;

/// What the items of a walk may amount to, each charged with [`WALK_ITEM_BYTES`] and its texts.
pub const WALK_BYTES_MAX: usize = 4 << 20;

/// Charged for each item of a walk besides its texts.
pub const WALK_ITEM_BYTES: usize = 64;

// A walk's answer is one message: an item is an object of two strings, so three values.
const _: () = assert!(WALK_ENTRIES_MAX * 3 + 16 <= exec_protocol::limits::JSON_VALUES_MAX as u64);
// And so is a listing: an object of three members for each entry, so four values.
const _: () =
    assert!(READ_DIRECTORY_ENTRIES_MAX * 4 + 16 <= exec_protocol::limits::JSON_VALUES_MAX as u64);

/// Bytes copied between two looks at whether the call is cancelled.
pub(crate) const COPY_PIECE_BYTES: usize = 1 << 20;

/// Buffer for the entries of a directory.
pub(crate) const ENTRIES_BYTES: usize = 64 << 10;

/// Directories that a removal or a copy holds open, above which it finds its way back by `..`.
pub(crate) const DESCENT_OPEN_MAX: usize = 64;

/// Links followed for one path, as the kernel does.
pub(crate) const LINKS_MAX: usize = 40;

/// Matching lines that a search gives when it is not told.
pub const SEARCH_MATCHES_DEFAULT: u32 = 1000;

/// Matching lines that a search may be told to give.
pub const SEARCH_MATCHES_MAX: u32 = 10_000;

/// Size of the matches in JSON that a search gives when it is not told.
pub const SEARCH_BYTES_DEFAULT: u64 = 4 << 20;

/// Size of the matches in JSON that a search may be told to give.
pub const SEARCH_BYTES_MAX: u64 = 16 << 20;

/// JSON values that the matches of a search may amount to.
pub(crate) const SEARCH_VALUES_MAX: usize = 200_000;

// An answer is one message; errors come on top, each an object of two strings.
const _: () = assert!(
    SEARCH_VALUES_MAX + SEARCH_ERRORS_MAX * 3 + 16 <= exec_protocol::limits::JSON_VALUES_MAX
);
const _: () = assert!(SEARCH_BYTES_MAX * 2 <= exec_protocol::limits::MESSAGE_BYTES_MAX as u64);

/// Lines of context on each side of a match.
pub const SEARCH_CONTEXT_MAX: u32 = 20;

/// Text given of one line.
pub const SEARCH_LINE_BYTES_MAX: usize = 4096;

/// Longest pattern or glob, in bytes.
pub const SEARCH_PATTERN_BYTES_MAX: usize = 4096;

/// Globs of one search.
pub const SEARCH_GLOBS_MAX: usize = 64;

/// Errors that a search lists.
pub const SEARCH_ERRORS_MAX: usize = 100;

/// Entries of one directory that a search visits.
pub(crate) const SEARCH_ENTRIES_MAX: usize = 100_000;

/// Largest file of rules that is heeded.
pub(crate) const SEARCH_RULES_BYTES: u64 = 1 << 20;

/// Memory for the lines of one file; a file with a longer line is an error.
pub(crate) const SEARCH_HEAP_BYTES: usize = 8 << 20;

/// Size of a compiled regular expression.
pub(crate) const SEARCH_REGEX_BYTES: usize = 10 << 20;

/// Watches of a connection.
pub const WATCHES_MAX: usize = 64;

/// Longest name of a watch, in bytes.
pub const WATCH_ID_BYTES_MAX: usize = 64;

/// Paths in one `fs/changed`, above which the client is told to look at everything again.
pub const WATCH_PATHS_MAX: usize = 1024;

/// How long changes are gathered before they are told.
pub const WATCH_WINDOW: Duration = Duration::from_millis(50);

/// Missing paths watched at once by a connection.
pub const MISSING_PATHS_MAX: usize = 64;

/// Most that is copied of a file that the kernel makes up as it is read.
pub(crate) const MADE_UP_BYTES_MAX: u64 = 16 << 20;
