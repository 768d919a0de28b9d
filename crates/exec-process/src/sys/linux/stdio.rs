//! The child's stdin, stdout and stderr, and the server's ends of them.

use std::ffi::c_int;
use std::fs::OpenOptions;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::fs::OpenOptionsExt;
use std::sync::OnceLock;

use super::raw::{self, raw_result};

/// What the child gets as 0, 1 and 2.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChildStdio {
    /// Two pipes for output, and one for input or `/dev/null`.
    Pipes {
        /// Whether stdin is a pipe.
        stdin: bool,
    },
    /// A socket for input and what is answered to it, and a pipe for what is said besides. Descriptors
    /// can be sent over the socket.
    Socket,
    /// A pseudo-terminal for all three, which controls the child's session.
    Pty {
        /// Lines of the terminal.
        rows: u16,
        /// Columns of the terminal.
        cols: u16,
    },
}

/// Both sides. The server's ends never block; the child's are as any program expects them.
pub(super) struct Stdio {
    pub(super) server: ServerEnds,
    /// For 0, 1 and 2.
    pub(super) child: [RawFd; 3],
    pub(super) has_terminal: bool,
    /// Keeps those of `child` open that are not open anyway.
    _child_ends: [Option<OwnedFd>; 3],
}

/// What the server keeps. With a terminal, `stdout` is its master, for reading and writing.
pub(super) struct ServerEnds {
    pub(super) stdin: Option<OwnedFd>,
    pub(super) stdout: Option<OwnedFd>,
    pub(super) stderr: Option<OwnedFd>,
}

impl Stdio {
    pub(super) fn open(wanted: ChildStdio) -> io::Result<Self> {
        match wanted {
            ChildStdio::Pipes { stdin } => Self::pipes(stdin),
            ChildStdio::Socket => Self::socket(),
            ChildStdio::Pty { rows, cols } => Self::pty(rows, cols),
        }
    }

    fn socket() -> io::Result<Self> {
        let (ours, theirs) = std::os::unix::net::UnixStream::pair()?;
        let (ours, theirs) = (above_stdio(ours.into())?, above_stdio(theirs.into())?);
        let (stderr, child_err) = pipe()?;
        set_nonblocking(&ours)?;
        set_nonblocking(&stderr)?;
        let err = child_err.as_raw_fd();
        Ok(Stdio {
            server: ServerEnds { stdin: None, stdout: Some(ours), stderr: Some(stderr) },
            child: [theirs.as_raw_fd(), err, err],
            has_terminal: false,
            _child_ends: [Some(theirs), Some(child_err), None],
        })
    }

    fn pipes(with_stdin: bool) -> io::Result<Self> {
        let (child_in, stdin) = if with_stdin {
            let (reader, writer) = pipe()?;
            set_nonblocking(&writer)?;
            (Some(reader), Some(writer))
        } else {
            (None, None)
        };
        let (stdout, child_out) = pipe()?;
        let (stderr, child_err) = pipe()?;
        set_nonblocking(&stdout)?;
        set_nonblocking(&stderr)?;
        let first = match &child_in {
            Some(reader) => reader.as_raw_fd(),
            None => dev_null()?,
        };
        Ok(Stdio {
            server: ServerEnds { stdin, stdout: Some(stdout), stderr: Some(stderr) },
            child: [first, child_out.as_raw_fd(), child_err.as_raw_fd()],
            has_terminal: false,
            _child_ends: [child_in, Some(child_out), Some(child_err)],
        })
    }

    fn pty(rows: u16, cols: u16) -> io::Result<Self> {
        let flags = libc::O_NOCTTY | libc::O_NONBLOCK;
        let mut options = OpenOptions::new();
        let master = options.read(true).write(true).custom_flags(flags).open("/dev/ptmx")?;
        let master = above_stdio(master.into())?;
        let unlock: c_int = 0;
        // SAFETY: this request reads one int.
        check(unsafe { libc::ioctl(master.as_raw_fd(), libc::TIOCSPTLCK, &raw const unlock) })?;
        let flags = libc::O_RDWR | libc::O_NOCTTY | libc::O_CLOEXEC;
        // Through the master, so it does not matter which /dev/pts this mount namespace has.
        // SAFETY: this request takes a number and makes a descriptor.
        let slave = check(unsafe { libc::ioctl(master.as_raw_fd(), libc::TIOCGPTPEER, flags) })?;
        // SAFETY: the kernel has just made it for us.
        let slave = above_stdio(unsafe { OwnedFd::from_raw_fd(slave) })?;
        set_window_size(master.as_fd(), rows, cols)?;
        Ok(Stdio {
            server: ServerEnds { stdin: None, stdout: Some(master), stderr: None },
            child: [slave.as_raw_fd(); 3],
            has_terminal: true,
            _child_ends: [Some(slave), None, None],
        })
    }
}

/// Tells a terminal its size. Its foreground processes get SIGWINCH if that changes it.
pub fn set_window_size(master: BorrowedFd<'_>, rows: u16, cols: u16) -> io::Result<()> {
    let size = libc::winsize { ws_row: rows, ws_col: cols, ws_xpixel: 0, ws_ypixel: 0 };
    // SAFETY: this request reads one winsize.
    check(unsafe { libc::ioctl(master.as_raw_fd(), libc::TIOCSWINSZ, &raw const size) }).map(drop)
}

/// Reads once from a server's end. Like [`write`] it goes to the kernel directly, with no file object
/// in between, and never blocks.
pub fn read(fd: BorrowedFd<'_>, buffer: &mut [u8]) -> io::Result<usize> {
    raw_result(raw::read(fd, buffer))
}

/// Writes once to a server's end.
pub fn write(fd: BorrowedFd<'_>, bytes: &[u8]) -> io::Result<usize> {
    raw_result(raw::write(fd, bytes))
}

/// `/dev/null` for reading, opened once. Shared by all children: it has no state.
fn dev_null() -> io::Result<RawFd> {
    static DEV_NULL: OnceLock<OwnedFd> = OnceLock::new();
    if DEV_NULL.get().is_none() {
        let opened = above_stdio(OpenOptions::new().read(true).open("/dev/null")?.into())?;
        // Another thread may have been first; then this one is closed again.
        DEV_NULL.set(opened).ok();
    }
    DEV_NULL.get().map(AsRawFd::as_raw_fd).ok_or_else(|| io::ErrorKind::NotFound.into())
}

/// A pipe: the end to read from, the end to write to.
fn pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    let mut ends: [RawFd; 2] = [-1; 2];
    // SAFETY: the array has room for the two descriptors.
    check(unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) })?;
    // SAFETY: the kernel has just made both for us.
    let (reader, writer) =
        unsafe { (OwnedFd::from_raw_fd(ends[0]), OwnedFd::from_raw_fd(ends[1])) };
    Ok((above_stdio(reader)?, above_stdio(writer)?))
}

/// Moves a descriptor off 0, 1 and 2, where it lands in a server that was started with those closed.
/// The child could otherwise overwrite one end while placing another.
fn above_stdio(fd: OwnedFd) -> io::Result<OwnedFd> {
    if fd.as_raw_fd() > libc::STDERR_FILENO {
        return Ok(fd);
    }
    // SAFETY: takes numbers and makes a descriptor.
    let moved = check(unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_DUPFD_CLOEXEC, 3) })?;
    // SAFETY: the kernel has just made it for us.
    Ok(unsafe { OwnedFd::from_raw_fd(moved) })
}

fn set_nonblocking(fd: &OwnedFd) -> io::Result<()> {
    // A pipe has no other status flags worth keeping.
    // SAFETY: takes numbers only.
    check(unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_SETFL, libc::O_NONBLOCK) }).map(drop)
}

fn check(value: c_int) -> io::Result<c_int> {
    if value < 0 { Err(io::Error::last_os_error()) } else { Ok(value) }
}
