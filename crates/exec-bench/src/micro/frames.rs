//! A server's end of a WebSocket whose client sends the same frame for ever, in memory.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use anyhow::{Context as _, Result};
use exec_transport::{AcceptPolicy, Connection, WsAuth, accept};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

const UPGRADE: &[u8] = b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\n\
    Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
    Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n";
const MASK: [u8; 4] = [0x12, 0x34, 0x56, 0x78];

/// A connection that has always another message.
pub(super) struct Replayed {
    connection: Connection,
}

impl Replayed {
    /// Its messages have `len` bytes.
    pub(super) fn new(len: usize) -> Result<Self> {
        let pipe = Pipe { upgrade: UPGRADE, frame: frame(len), at: 0 };
        let address = ([127, 0, 0, 1], 1).into();
        let policy = AcceptPolicy::for_listener(address, WsAuth::None);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let connection = runtime.block_on(accept(pipe, address, &policy))?;
        Ok(Self { connection: connection.context("the upgrade was refused")? })
    }

    /// The length of the next message.
    pub(super) fn next(&mut self) -> Option<usize> {
        let mut context = Context::from_waker(Waker::noop());
        loop {
            match self.connection.poll_message(&mut context) {
                Poll::Ready(Ok(Some(message))) => return Some(message.len()),
                Poll::Ready(Ok(None) | Err(_)) => return None,
                // The connection gives others a turn after some reads; here there are none.
                Poll::Pending => {}
            }
        }
    }
}

/// A text frame, masked.
fn frame(len: usize) -> Vec<u8> {
    let mut frame = vec![0x81];
    match (u8::try_from(len), u16::try_from(len)) {
        (Ok(len @ ..=125), _) => frame.push(0x80 | len),
        (_, Ok(len)) => {
            frame.push(0x80 | 126);
            frame.extend(len.to_be_bytes());
        }
        (_, Err(_)) => {
            frame.push(0x80 | 127);
            frame.extend((len as u64).to_be_bytes());
        }
    }
    frame.extend(MASK);
    frame.extend((0..len).map(|at| b'x' ^ MASK[at % 4]));
    frame
}

/// Gives the upgrade, then the frame again and again; takes everything.
struct Pipe {
    /// What is left of it.
    upgrade: &'static [u8],
    frame: Vec<u8>,
    at: usize,
}

impl AsyncRead for Pipe {
    fn poll_read(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if !self.upgrade.is_empty() {
            let (now, later) = self.upgrade.split_at(self.upgrade.len().min(buffer.remaining()));
            buffer.put_slice(now);
            self.upgrade = later;
            return Poll::Ready(Ok(()));
        }
        while buffer.remaining() > 0 {
            let rest = &self.frame[self.at..];
            let len = rest.len().min(buffer.remaining());
            buffer.put_slice(&rest[..len]);
            self.at = (self.at + len) % self.frame.len();
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Pipe {
    fn poll_write(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_of_every_size_arrive_whole() {
        for len in [0, 80, 126, 65_535, 65_536] {
            let mut replayed = Replayed::new(len).unwrap();
            for _ in 0..3 {
                assert_eq!(replayed.next(), Some(len));
            }
        }
    }
}
