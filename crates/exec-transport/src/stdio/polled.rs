//! A pipe or socket that this process was started with, read or written without blocking a thread.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::unix::AsyncFd;
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Direction {
    Read,
    Write,
}

/// One direction of stdio.
#[derive(Debug)]
pub(super) struct Polled {
    fd: AsyncFd<File>,
    /// The status flags to put back on drop, when the open file is shared with others.
    restore: Option<libc::c_int>,
}

impl Polled {
    /// `None` when the descriptor is of a kind that cannot be polled.
    pub(super) fn open(fd: &impl AsFd, direction: Direction) -> io::Result<Option<Self>> {
        let copy = File::from(fd.as_fd().try_clone_to_owned()?);
        let kind = copy.metadata()?.file_type();
        if !kind.is_fifo() && !kind.is_socket() {
            return Ok(None);
        }
        let interest = match direction {
            Direction::Read => Interest::READABLE,
            Direction::Write => Interest::WRITABLE,
        };
        if kind.is_fifo()
            && let Ok(own) = reopen(copy.as_fd(), direction)
        {
            return Ok(Some(Self { fd: register(own, interest)?, restore: None }));
        }
        let flags = status_flags(copy.as_fd())?;
        let restore = (flags & libc::O_NONBLOCK == 0).then_some(flags);
        set_status_flags(copy.as_fd(), flags | libc::O_NONBLOCK)?;
        match register(copy, interest) {
            Ok(fd) => Ok(Some(Self { fd, restore })),
            Err(error) => {
                set_status_flags(fd.as_fd(), flags)?;
                Err(error)
            }
        }
    }
}

impl Drop for Polled {
    fn drop(&mut self) {
        if let Some(flags) = self.restore {
            // Nobody is left to tell, and the pipe is ours no longer.
            set_status_flags(self.fd.get_ref().as_fd(), flags).ok();
        }
    }
}

impl AsyncRead for Polled {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        loop {
            let mut guard = ready!(self.fd.poll_read_ready(cx))?;
            let unfilled = buffer.initialize_unfilled();
            match guard.try_io(|fd| fd.get_ref().read(unfilled)) {
                Ok(Ok(count)) => {
                    buffer.advance(count);
                    return Poll::Ready(Ok(()));
                }
                Ok(Err(error)) if error.kind() == io::ErrorKind::Interrupted => {}
                Ok(Err(error)) => return Poll::Ready(Err(error)),
                Err(_would_block) => {}
            }
        }
    }
}

impl AsyncWrite for Polled {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        loop {
            let mut guard = ready!(self.fd.poll_write_ready(cx))?;
            match guard.try_io(|fd| fd.get_ref().write(bytes)) {
                Ok(Err(error)) if error.kind() == io::ErrorKind::Interrupted => {}
                Ok(result) => return Poll::Ready(result),
                Err(_would_block) => {}
            }
        }
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

/// Opens a pipe once more through `/proc`. O_NONBLOCK belongs to the open file, and the one we were
/// given may also be our stderr, or in use by the process that started us.
fn reopen(fd: BorrowedFd<'_>, direction: Direction) -> io::Result<File> {
    OpenOptions::new()
        .read(direction == Direction::Read)
        .write(direction == Direction::Write)
        .custom_flags(libc::O_NONBLOCK | libc::O_CLOEXEC)
        .open(format!("/proc/self/fd/{}", fd.as_raw_fd()))
}

fn register(file: File, interest: Interest) -> io::Result<AsyncFd<File>> {
    // SAFETY: the descriptor must stay open and the same until the `AsyncFd` is dropped. The `File`
    // owns it, always names the same one, and is only ever lent out by shared reference.
    unsafe { AsyncFd::register_with_interest(file, interest) }.map_err(Into::into)
}

fn status_flags(fd: BorrowedFd<'_>) -> io::Result<libc::c_int> {
    // SAFETY: F_GETFL takes no argument and touches no memory; the descriptor is open, as `fd` is
    // borrowed from its owner.
    let flags = unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_GETFL) };
    if flags == -1 { Err(io::Error::last_os_error()) } else { Ok(flags) }
}

fn set_status_flags(fd: BorrowedFd<'_>, flags: libc::c_int) -> io::Result<()> {
    // SAFETY: F_SETFL takes an integer and touches no memory; the descriptor is open, as `fd` is
    // borrowed from its owner.
    let result = unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_SETFL, flags) };
    if result == -1 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixStream;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    #[tokio::test]
    async fn a_pipe_is_polled_through_a_file_of_its_own() {
        let (reader, writer) = io::pipe().unwrap();
        let mut read = Polled::open(&reader, Direction::Read).unwrap().unwrap();
        let mut write = Polled::open(&writer, Direction::Write).unwrap().unwrap();
        write.write_all(b"hello").await.unwrap();
        let mut bytes = [0; 5];
        read.read_exact(&mut bytes).await.unwrap();
        assert_eq!(&bytes, b"hello");
        assert_eq!(status_flags(reader.as_fd()).unwrap() & libc::O_NONBLOCK, 0);
        drop((writer, write));
        assert_eq!(read.read(&mut bytes).await.unwrap(), 0);
    }

    #[tokio::test]
    async fn a_full_pipe_waits_for_its_reader() {
        let (reader, writer) = io::pipe().unwrap();
        let mut read = Polled::open(&reader, Direction::Read).unwrap().unwrap();
        let mut write = Polled::open(&writer, Direction::Write).unwrap().unwrap();
        let sent = vec![7; 1 << 20];
        let mut got = vec![0; 1 << 20];
        let (wrote, read) = tokio::join!(write.write_all(&sent), read.read_exact(&mut got));
        wrote.unwrap();
        read.unwrap();
        assert_eq!(got, sent);
    }

    #[tokio::test]
    async fn a_socket_gets_its_flags_back() {
        let (left, right) = UnixStream::pair().unwrap();
        let mut polled = Polled::open(&left, Direction::Write).unwrap().unwrap();
        assert_ne!(status_flags(left.as_fd()).unwrap() & libc::O_NONBLOCK, 0);
        polled.write_all(b"x").await.unwrap();
        drop(polled);
        assert_eq!(status_flags(left.as_fd()).unwrap() & libc::O_NONBLOCK, 0);
        let mut byte = [0];
        (&right).read_exact(&mut byte).unwrap();
        assert_eq!(&byte, b"x");
    }

    #[tokio::test]
    async fn a_regular_file_is_not_polled() {
        let file = tempfile::tempfile().unwrap();
        assert!(Polled::open(&file, Direction::Read).unwrap().is_none());
    }
}
