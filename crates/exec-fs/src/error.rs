//! Why a call failed, in the words of the protocol, and what kind of failure that is.

use std::io;
use std::path::PathBuf;

use exec_protocol::bytes::Base64Error;
use exec_protocol::path_uri::PathUriError;
use rustix::io::Errno;

use crate::limits::{WALK_DEPTH_MAX, WALK_DIRECTORIES_MAX, WALK_ENTRIES_MAX};

/// Why a call failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The operating system refused.
    #[error("{}", os_text(.0))]
    Os(#[from] io::Error),
    /// A link where none may be followed.
    #[error("path contains a symbolic link")]
    SymbolicLink,
    /// Following links: a directory, a FIFO or a device where a file is needed.
    #[error("path `{}` is not a file", .0.display())]
    NotAFile(PathBuf),
    /// Not following links: the same.
    #[error("path is not a regular file")]
    NotRegular,
    /// The root directory, where something inside a directory is needed.
    #[error("path must name an entry")]
    NoEntry,
    /// More than one answer can carry.
    #[error("file is too large to read: limit is {limit} bytes")]
    TooLarge {
        /// In bytes.
        limit: u64,
    },
    /// The content to write did not decode.
    #[error("fs/writeFile requires valid base64 dataBase64: {0}")]
    Base64(#[from] Base64Error),
    /// The root directory was to be created.
    #[error("directory already exists")]
    DirectoryExists,
    /// A listing that no answer can carry.
    #[error("fs/readDirectory returned {count} entries; limit is {limit}")]
    TooManyEntries {
        /// How many there are.
        count: u64,
        /// How many there may be.
        limit: u64,
    },
    /// A walk that may look at nothing.
    #[error("filesystem walk limits must be greater than zero")]
    WalkOfNothing,
    /// A walk that wants too much.
    #[error(
        "filesystem walk limits exceed maximums: depth={WALK_DEPTH_MAX}, \
         directories={WALK_DIRECTORIES_MAX}, entries={WALK_ENTRIES_MAX}"
    )]
    WalkTooLarge,
    /// Refusing links and removing a tree do not go together.
    #[error("recursive no-follow removal is unsupported")]
    RecursiveNoFollow,
    /// A directory was to be copied as if it were a file.
    #[error("fs/copy requires recursive: true when sourcePath is a directory")]
    CopyNotRecursive,
    /// The copy would never end.
    #[error("fs/copy cannot copy a directory to itself or one of its descendants")]
    CopyIntoItself,
    /// A FIFO, a socket or a device.
    #[error("fs/copy only supports regular files, directories, and symlinks")]
    CopyUnsupported,
    /// Somebody moved a directory out of the tree that is being worked on.
    #[error("a directory was moved away while its parent was being worked on")]
    Moved,
    /// The client uses that name already.
    #[error("file handle `{0}` already exists")]
    HandleExists(String),
    /// The table of open files is full.
    #[error("at most {limit} file handles may be open per connection")]
    TooManyHandles {
        /// How many there may be.
        limit: usize,
    },
    /// A name that is too long for an open file.
    #[error("file handle ID must not exceed {limit} bytes")]
    HandleIdTooLong {
        /// In bytes.
        limit: usize,
    },
    /// No open file has that name.
    #[error("unknown file handle `{0}`")]
    UnknownHandle(String),
    /// An empty block, or one that is too long.
    #[error("file read block length must be between 1 and {limit}")]
    ReadLength {
        /// In bytes.
        limit: usize,
    },
    /// An empty block, or one that is too long.
    #[error("file write block length must be between 1 and {limit}")]
    WriteLength {
        /// In bytes.
        limit: usize,
    },
    /// A block that would end beyond what a file can be.
    #[error("file write range exceeds the signed 64-bit file offset limit")]
    WriteRange,
    /// A pattern, a glob or a limit of a search makes no sense.
    #[error("invalid search: {0}")]
    Search(String),
    /// The client uses that name already.
    #[error("watch `{0}` already exists")]
    WatchExists(String),
    /// No watch has that name.
    #[error("unknown watch `{0}`")]
    UnknownWatch(String),
    /// The table of watches is full.
    #[error("at most {limit} watches may be active per connection")]
    TooManyWatches {
        /// How many there may be.
        limit: usize,
    },
    /// A name that is too long for a watch.
    #[error("watch ID must not exceed {limit} bytes")]
    WatchIdTooLong {
        /// In bytes.
        limit: usize,
    },
    /// The system offers no more watching.
    #[error("cannot watch: {0}")]
    Watch(String),
    /// A path that the protocol cannot carry.
    #[error(transparent)]
    Uri(#[from] PathUriError),
    /// Nobody waits for the answer any more.
    #[error("cancelled")]
    Cancelled,
}

/// What kind of failure it was, as the protocol tells them apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorKind {
    /// There is no such file.
    NotFound,
    /// The request cannot be granted.
    Invalid,
    /// Everything else.
    Other,
}

impl Error {
    /// Which kind.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Error::Os(error) => match Errno::from_io_error(error) {
                Some(Errno::NOENT) => ErrorKind::NotFound,
                Some(Errno::ACCESS | Errno::PERM | Errno::INVAL) => ErrorKind::Invalid,
                _ => ErrorKind::Other,
            },
            Error::UnknownHandle(_) | Error::UnknownWatch(_) => ErrorKind::NotFound,
            Error::SymbolicLink
            | Error::NotAFile(_)
            | Error::NotRegular
            | Error::NoEntry
            | Error::TooLarge { .. }
            | Error::Base64(_)
            | Error::WalkOfNothing
            | Error::WalkTooLarge
            | Error::CopyNotRecursive
            | Error::CopyIntoItself
            | Error::CopyUnsupported
            | Error::HandleExists(_)
            | Error::TooManyHandles { .. }
            | Error::HandleIdTooLong { .. }
            | Error::ReadLength { .. }
            | Error::WriteLength { .. }
            | Error::WriteRange
            | Error::Search(_)
            | Error::WatchExists(_)
            | Error::TooManyWatches { .. }
            | Error::WatchIdTooLong { .. } => ErrorKind::Invalid,
            Error::DirectoryExists
            | Error::TooManyEntries { .. }
            | Error::RecursiveNoFollow
            | Error::Moved
            | Error::Watch(_)
            | Error::Uri(_)
            | Error::Cancelled => ErrorKind::Other,
        }
    }

    /// The operating system's number, if it was that which refused.
    pub(crate) fn errno(&self) -> Option<Errno> {
        if let Error::Os(error) = self { Errno::from_io_error(error) } else { None }
    }

    /// Another error, if it is [`Error::NoEntry`].
    pub(crate) fn if_no_entry(self, other: impl Into<Error>) -> Self {
        if matches!(self, Error::NoEntry) { other.into() } else { self }
    }
}

impl From<Errno> for Error {
    fn from(errno: Errno) -> Self {
        Error::Os(errno.into())
    }
}

/// The system's text and number. The reference is linked with musl; where its words differ from
/// those of the library we happen to be linked with, they are used everywhere.
pub(crate) fn os_text(error: &io::Error) -> String {
    let text = match Errno::from_io_error(error) {
        Some(Errno::LOOP) => "Symbolic link loop",
        Some(Errno::NAMETOOLONG) => "Filename too long",
        Some(Errno::BUSY) => "Resource busy",
        Some(Errno::XDEV) => "Cross-device link",
        Some(Errno::IO) => "I/O error",
        Some(Errno::MFILE) => "No file descriptors available",
        Some(Errno::NOMEM) => "Out of memory",
        Some(Errno::OVERFLOW) => "Value too large for data type",
        _ => return error.to_string(),
    };
    format!("{text} (os error {})", error.raw_os_error().unwrap_or(0))
}
