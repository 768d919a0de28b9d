//! A byte pipe that carries whole messages, owned and polled by one task.
//!
//! ```text
//! pipe -> scratch (shared by the thread) -> decoder -> message
//!                        `-> remainder: what followed a message in the same read
//! send, pongs, close -> output -> pipe, in as few writes as it takes
//! ```
//!
//! Nothing here waits or spawns. At rest a connection holds the pipe, a decoder between two
//! messages and no buffers to speak of.

use std::fmt;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::error::Error;
use crate::limits::{CLOSE_TIMEOUT, KEEP_IDLE_BYTES, Limits, SCRATCH_BYTES, TURNS_PER_POLL};
use crate::lines::LineDecoder;
use crate::output::Output;
use crate::scratch::Scratch;
use crate::ws::{self, Item};

/// A pipe that bytes go through in both directions.
pub trait Io: AsyncRead + AsyncWrite + Send + 'static {}

impl<T: AsyncRead + AsyncWrite + Send + 'static> Io for T {}

/// Who is at the other end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Peer {
    /// A WebSocket, with the address of the peer.
    WebSocket(String),
    /// The process that holds our stdin and stdout, or whose we hold.
    Stdio,
    /// The same process.
    Memory,
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::WebSocket(address) => write!(f, "websocket {address}"),
            Self::Stdio => f.write_str("stdio"),
            Self::Memory => f.write_str("memory"),
        }
    }
}

/// Whole messages over a byte pipe. See the module's documentation for who drives it.
pub struct Connection {
    io: Pin<Box<dyn Io>>,
    peer: Peer,
    limits: Limits,
    framing: Framing,
    /// Bytes read but not decoded, because a message ended before them.
    remainder: Vec<u8>,
    remainder_start: usize,
    received: u64,
    output: Output,
    /// Largest message that is sent as a whole.
    send_bytes_max: usize,
    /// Bytes were written to the pipe that it may still hold back.
    unflushed: bool,
    /// The stream of incoming messages is over.
    ended: bool,
}

enum Framing {
    Lines(LineDecoder),
    WebSocket(ws::Session),
}

impl Connection {
    /// One message for each line.
    pub(crate) fn lines(io: Pin<Box<dyn Io>>, peer: Peer, limits: Limits) -> Self {
        Self::new(io, peer, limits, Framing::Lines(LineDecoder::new(limits.message_bytes_max)))
    }

    /// A WebSocket after its handshake; `early` are bytes that came together with it.
    pub(crate) fn websocket(
        io: Pin<Box<dyn Io>>,
        role: ws::Role,
        address: String,
        limits: Limits,
        early: &[u8],
    ) -> Result<Self, Error> {
        let framing = Framing::WebSocket(ws::Session::new(role, limits)?);
        let mut connection = Self::new(io, Peer::WebSocket(address), limits, framing);
        connection.received = early.len() as u64;
        connection.remainder = early.to_vec();
        Ok(connection)
    }

    fn new(io: Pin<Box<dyn Io>>, peer: Peer, limits: Limits, framing: Framing) -> Self {
        Self {
            io,
            peer,
            send_bytes_max: limits.message_bytes_max,
            limits,
            framing,
            remainder: Vec::new(),
            remainder_start: 0,
            received: 0,
            output: Output::default(),
            unflushed: false,
            ended: false,
        }
    }

    /// Sends no message above what the peer takes, nor above the connection's own limit.
    pub fn limit_messages(&mut self, peer_takes: u64) {
        let own = self.limits.message_bytes_max;
        self.send_bytes_max = usize::try_from(peer_takes).map_or(own, |bytes| bytes.min(own));
    }

    /// Who is at the other end, as a label for error texts.
    pub fn peer(&self) -> &Peer {
        &self.peer
    }

    /// Every byte received, pongs included: as long as it grows, the peer is alive.
    pub fn bytes_received(&self) -> u64 {
        self.received
    }

    /// The next whole message. `Ok(None)` means that the peer ended the stream; after an error, too,
    /// there is nothing more to read and the connection is to be dropped.
    ///
    /// Answers to pings and to a close frame are queued here and written as far as the pipe takes
    /// them now. So look at [`Connection::pending_output`] afterwards.
    pub fn poll_message(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Vec<u8>>, Error>> {
        if self.ended {
            return Poll::Ready(Ok(None));
        }
        let queued = self.output.queued_until();
        let result = self.poll_item(cx);
        let (end, result) = match result {
            Poll::Pending => (false, Poll::Pending),
            Poll::Ready(Ok(Item::Message(message))) => (false, Poll::Ready(Ok(Some(message)))),
            Poll::Ready(Ok(Item::End)) => (true, Poll::Ready(Ok(None))),
            Poll::Ready(Err(error)) => (true, Poll::Ready(Err(error))),
        };
        if end {
            self.ended = true;
            self.set_remainder(&[]);
        }
        if self.output.queued_until() > queued {
            // A failure to write shows in the owner's next flush, or as the end of the stream.
            drop(self.poll_flush(cx));
        }
        result
    }

    /// Like [`Connection::poll_message`], and flushes what is queued while it waits. Cancel-safe.
    pub async fn next_message(&mut self) -> Result<Option<Vec<u8>>, Error> {
        std::future::poll_fn(|cx| {
            let flushed = self.poll_flush(cx);
            match (self.poll_message(cx), flushed) {
                (Poll::Pending, Poll::Ready(Err(error))) => Poll::Ready(Err(error)),
                (result, _) => result,
            }
        })
        .await
    }

    /// Queues one message. Never waits: the caller looks at [`Connection::pending_output`].
    ///
    /// # Errors
    /// A message above the limit, or after [`Connection::start_close`], is refused; the connection
    /// stays usable.
    pub fn send(&mut self, message: &[u8]) -> Result<(), Error> {
        self.send_with(message.len(), |out| out.extend_from_slice(message))
    }

    /// Queues a message of exactly `len` bytes that `fill` appends to the output buffer, without a
    /// copy in between. `fill` must not touch what is already there.
    ///
    /// # Errors
    /// As for [`Connection::send`]; and when `fill` appends another number of bytes, nothing is
    /// queued.
    pub fn send_with(&mut self, len: usize, fill: impl FnOnce(&mut Vec<u8>)) -> Result<(), Error> {
        let max = self.send_bytes_max;
        if len > max {
            return Err(Error::MessageTooLarge { len, max });
        }
        match &mut self.framing {
            Framing::WebSocket(session) => session.message(&mut self.output, len, fill),
            Framing::Lines(_) => append_line(self.output.buffer_mut(), len, fill),
        }
    }

    /// Begins a message that is sent in parts, for what is too large to be held. Until the last part
    /// is queued no other message may be, only control frames. It has no limit here: its maker
    /// knows what the peer takes.
    pub fn begin_parts(&mut self, first: &[u8]) -> Result<(), Error> {
        match &mut self.framing {
            Framing::WebSocket(session) => session.begin_parts(&mut self.output, first),
            Framing::Lines(_) => {
                self.output.buffer_mut().extend_from_slice(first);
                Ok(())
            }
        }
    }

    /// Queues a further part, of exactly `len` bytes and not above a frame's limit.
    ///
    /// # Errors
    /// As for [`Connection::send_with`].
    pub fn send_part(
        &mut self,
        len: usize,
        last: bool,
        fill: impl FnOnce(&mut Vec<u8>),
    ) -> Result<(), Error> {
        let max = self.limits.frame_bytes_max;
        if len > max {
            return Err(Error::MessageTooLarge { len, max });
        }
        match &mut self.framing {
            Framing::WebSocket(session) => session.part(&mut self.output, len, last, fill),
            Framing::Lines(_) if last => append_line(self.output.buffer_mut(), len, fill),
            Framing::Lines(_) => {
                fill(self.output.buffer_mut());
                Ok(())
            }
        }
    }

    /// Bytes queued and not yet taken by the pipe.
    pub fn pending_output(&self) -> usize {
        self.output.pending().len()
    }

    /// Writes as much as the pipe takes now. Ready when everything is out.
    pub fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        for _ in 0..TURNS_PER_POLL {
            if let Framing::WebSocket(session) = &mut self.framing {
                session.queue_late_pong(&mut self.output);
            }
            if self.output.is_empty() {
                if self.unflushed {
                    ready!(self.io.as_mut().poll_flush(cx)).map_err(Error::io("flush"))?;
                    self.unflushed = false;
                }
                return Poll::Ready(Ok(()));
            }
            let written = ready!(self.io.as_mut().poll_write(cx, self.output.pending()));
            match written.map_err(Error::io("write"))? {
                0 => {
                    let source = io::ErrorKind::WriteZero.into();
                    return Poll::Ready(Err(Error::Io { action: "write", source }));
                }
                count => self.output.advance(count),
            }
            self.unflushed = true;
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    /// Waits until everything queued is out. Cancel-safe.
    pub async fn flush(&mut self) -> Result<(), Error> {
        std::future::poll_fn(|cx| self.poll_flush(cx)).await
    }

    /// Whether [`Connection::ping`] does anything.
    pub fn supports_ping(&self) -> bool {
        match self.framing {
            Framing::WebSocket(_) => true,
            Framing::Lines(_) => false,
        }
    }

    /// Queues an empty ping, where there are pings.
    pub fn ping(&mut self) {
        if let Framing::WebSocket(session) = &mut self.framing {
            session.ping(&mut self.output);
        }
    }

    /// Queues the last frame of a WebSocket, a normal close. Messages of the peer still arrive until
    /// it answers; nothing can be sent any more. On lines it does nothing.
    pub fn start_close(&mut self) {
        if let Framing::WebSocket(session) = &mut self.framing {
            session.close(&mut self.output);
        }
    }

    /// Flushes what is queued, for a second at most, and shuts the pipe down.
    pub async fn close(mut self) {
        let last = async {
            self.flush().await?;
            std::future::poll_fn(|cx| self.io.as_mut().poll_shutdown(cx))
                .await
                .map_err(Error::io("shut down"))
        };
        match tokio::time::timeout(CLOSE_TIMEOUT, last).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::debug!(peer = %self.peer, %error, "close failed"),
            Err(_) => tracing::debug!(peer = %self.peer, "peer did not read the last bytes"),
        }
    }

    fn poll_item(&mut self, cx: &mut Context<'_>) -> Poll<Result<Item, Error>> {
        if let Some(item) = self.decode_remainder()? {
            return Poll::Ready(Ok(item));
        }
        let mut scratch = Scratch::take();
        for _ in 0..TURNS_PER_POLL {
            let mut buffer = ReadBuf::new(&mut scratch);
            match self.io.as_mut().poll_read(cx, &mut buffer) {
                Poll::Ready(Ok(())) => {}
                // TLS reports a close without its goodbye so. Messages know their own length.
                Poll::Ready(Err(error)) if error.kind() == io::ErrorKind::UnexpectedEof => {
                    return Poll::Ready(Ok(Item::End));
                }
                Poll::Ready(Err(error)) => return Poll::Ready(Err(Error::io("read")(error))),
                Poll::Pending => {
                    self.output.rest();
                    return Poll::Pending;
                }
            }
            let mut input = buffer.filled();
            if input.is_empty() {
                return Poll::Ready(Ok(Item::End));
            }
            self.received += input.len() as u64;
            if let Some(item) = self.decode(&mut input)? {
                self.set_remainder(input);
                return Poll::Ready(Ok(item));
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    fn decode_remainder(&mut self) -> Result<Option<Item>, Error> {
        if self.remainder.is_empty() {
            return Ok(None);
        }
        let remainder = std::mem::take(&mut self.remainder);
        let mut input = &remainder[self.remainder_start..];
        let item = self.decode(&mut input)?;
        self.remainder_start = remainder.len() - input.len();
        let used_up = input.is_empty();
        self.remainder = remainder;
        if used_up {
            self.set_remainder(&[]);
        }
        Ok(item)
    }

    fn set_remainder(&mut self, bytes: &[u8]) {
        debug_assert!(bytes.len() <= SCRATCH_BYTES);
        self.remainder_start = 0;
        self.remainder.clear();
        self.remainder.extend_from_slice(bytes);
        if bytes.is_empty() && self.remainder.capacity() > KEEP_IDLE_BYTES {
            self.remainder = Vec::new();
        }
    }

    fn decode(&mut self, input: &mut &[u8]) -> Result<Option<Item>, Error> {
        match &mut self.framing {
            Framing::Lines(lines) => Ok(lines.decode(input)?.map(Item::Message)),
            Framing::WebSocket(session) => session.decode(input, &mut self.output),
        }
    }
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection")
            .field("peer", &self.peer)
            .field("received", &self.received)
            .field("pending_output", &self.pending_output())
            .field("ended", &self.ended)
            .finish_non_exhaustive()
    }
}

fn append_line(
    out: &mut Vec<u8>,
    len: usize,
    fill: impl FnOnce(&mut Vec<u8>),
) -> Result<(), Error> {
    let start = out.len();
    out.reserve(len + 1);
    fill(out);
    let filled = out.len() - start;
    if filled != len {
        out.truncate(start);
        return Err(Error::LengthMismatch { announced: len, filled });
    }
    debug_assert!(memchr::memchr(b'\n', &out[start..]).is_none(), "a message is one line");
    out.push(b'\n');
    Ok(())
}

#[cfg(test)]
#[path = "connection_tests.rs"]
mod tests;
