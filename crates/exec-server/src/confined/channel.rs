//! Messages, and descriptors with them, over a stream socket: what server and worker speak through.
//!
//! A frame is four bytes, the length of its text with the highest bit for "a descriptor comes with
//! it", and the text. The descriptor travels with the first byte of its frame, so that it is there
//! when the frame is.

use std::collections::VecDeque;
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::task::{Context, Poll, ready};

use exec_protocol::limits::MESSAGE_BYTES_MAX;
use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags,
};
use tokio::io::unix::AsyncFd;

const HEAD_BYTES: usize = 4;
const WITH_DESCRIPTOR: u32 = 1 << 31;

/// Largest text of a frame: any message, and its envelope.
const TEXT_BYTES_MAX: usize = MESSAGE_BYTES_MAX + (1 << 16);

/// What one read takes at most, unless more of a frame is known to come.
const READ_BYTES: usize = 64 << 10;

/// Descriptors that came and wait for the rest of their frames.
const DESCRIPTORS_MAX: usize = 8;

/// What is said in one piece.
#[derive(Debug)]
pub(super) struct Message {
    pub(super) text: Vec<u8>,
    pub(super) descriptor: Option<OwnedFd>,
}

/// Frames as they come in.
#[derive(Default)]
pub(super) struct Frames {
    incoming: Vec<u8>,
    descriptors: VecDeque<OwnedFd>,
}

/// One end, for a task.
pub(super) struct Channel {
    socket: AsyncFd<OwnedFd>,
    frames: Frames,
    outgoing: VecDeque<Outgoing>,
    outgoing_bytes: usize,
}

/// A frame on its way.
struct Outgoing {
    head: [u8; HEAD_BYTES],
    text: Vec<u8>,
    descriptor: Option<OwnedFd>,
    sent: usize,
}

impl Channel {
    /// On a socket that does not block.
    pub(super) fn new(socket: OwnedFd) -> io::Result<Self> {
        Ok(Self {
            socket: watch(socket)?,
            frames: Frames::default(),
            outgoing: VecDeque::new(),
            outgoing_bytes: 0,
        })
    }

    /// Bytes that are not sent yet.
    pub(super) fn pending_output(&self) -> usize {
        self.outgoing_bytes
    }

    /// Queues a message.
    pub(super) fn send(&mut self, text: Vec<u8>, descriptor: Option<OwnedFd>) -> io::Result<()> {
        let frame = Outgoing::new(text, descriptor)?;
        self.outgoing_bytes += frame.text.len();
        self.outgoing.push_back(frame);
        Ok(())
    }

    /// Sends what is queued.
    pub(super) fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while let Some(frame) = self.outgoing.front_mut() {
            let mut guard = ready!(self.socket.poll_write_ready(cx))?;
            match guard.try_io(|socket| Ok(frame.send(socket.get_ref())?)) {
                Ok(sent) => frame.sent += sent?,
                Err(_would_block) => continue,
            }
            // It has gone with the first byte.
            frame.descriptor = None;
            if frame.is_sent() {
                self.outgoing_bytes -= frame.text.len();
                self.outgoing.pop_front();
            }
        }
        Poll::Ready(Ok(()))
    }

    /// The next message, or nothing at the end.
    pub(super) fn poll_receive(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<Option<Message>>> {
        loop {
            if let Some(message) = self.frames.take()? {
                return Poll::Ready(Ok(Some(message)));
            }
            let mut guard = ready!(self.socket.poll_read_ready(cx))?;
            match guard.try_io(|socket| self.frames.fill(socket.get_ref())) {
                Err(_would_block) => {}
                Ok(filled) => {
                    if !filled? {
                        return Poll::Ready(Ok(None));
                    }
                }
            }
        }
    }
}

/// Sends a message on a socket that blocks.
pub(super) fn send(socket: &OwnedFd, text: Vec<u8>, descriptor: Option<OwnedFd>) -> io::Result<()> {
    let mut frame = Outgoing::new(text, descriptor)?;
    while !frame.is_sent() {
        frame.sent += frame.send(socket)?;
        frame.descriptor = None;
    }
    Ok(())
}

impl Frames {
    /// Waits for the next message on a socket that blocks; nothing at the end.
    pub(super) fn receive(&mut self, socket: &OwnedFd) -> io::Result<Option<Message>> {
        loop {
            if let Some(message) = self.take()? {
                return Ok(Some(message));
            }
            if !self.fill(socket)? {
                return Ok(None);
            }
        }
    }

    fn take(&mut self) -> io::Result<Option<Message>> {
        let Some(head) = self.incoming.first_chunk() else { return Ok(None) };
        let head = u32::from_le_bytes(*head);
        let len = usize::try_from(head & !WITH_DESCRIPTOR).unwrap_or(usize::MAX);
        if len > TEXT_BYTES_MAX {
            return Err(invalid("a frame is too long"));
        }
        let end = HEAD_BYTES + len;
        if self.incoming.len() < end {
            // Not all of it at once: that much is only promised.
            self.incoming.reserve((end - self.incoming.len()).min(1 << 20));
            return Ok(None);
        }
        let descriptor = match head & WITH_DESCRIPTOR {
            0 => None,
            _ => Some(self.descriptors.pop_front().ok_or(invalid("a descriptor is missing"))?),
        };
        let rest = self.incoming.split_off(end);
        let mut text = std::mem::replace(&mut self.incoming, rest);
        text.drain(..HEAD_BYTES);
        Ok(Some(Message { text, descriptor }))
    }

    /// Reads once. False at the end.
    fn fill(&mut self, socket: &OwnedFd) -> io::Result<bool> {
        let start = self.incoming.len();
        let room = READ_BYTES.max(self.incoming.capacity() - start);
        self.incoming.resize(start + room, 0);
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let mut parts = [IoSliceMut::new(&mut self.incoming[start..])];
        let received =
            rustix::net::recvmsg(socket, &mut parts, &mut control, RecvFlags::CMSG_CLOEXEC);
        let bytes = received.as_ref().map_or(0, |received| received.bytes);
        self.incoming.truncate(start + bytes);
        for message in control.drain() {
            if let RecvAncillaryMessage::ScmRights(received) = message {
                self.descriptors.extend(received);
            }
        }
        received?;
        match bytes {
            0 if start == 0 => Ok(false),
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            _ if self.descriptors.len() > DESCRIPTORS_MAX => Err(invalid("too many descriptors")),
            _ => Ok(true),
        }
    }
}

/// Watches a descriptor that the value owns.
pub(super) fn watch(fd: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    // SAFETY: an owned descriptor stays the same and open for as long as it is registered.
    unsafe { AsyncFd::register(fd) }.map_err(io::Error::from)
}

impl Outgoing {
    fn new(text: Vec<u8>, descriptor: Option<OwnedFd>) -> io::Result<Self> {
        let len = u32::try_from(text.len()).ok().filter(|_| text.len() <= TEXT_BYTES_MAX);
        let len = len.ok_or(io::ErrorKind::FileTooLarge)?;
        let flag = if descriptor.is_some() { WITH_DESCRIPTOR } else { 0 };
        Ok(Self { head: (len | flag).to_le_bytes(), text, descriptor, sent: 0 })
    }

    fn is_sent(&self) -> bool {
        self.sent == HEAD_BYTES + self.text.len()
    }

    fn send(&self, socket: &OwnedFd) -> rustix::io::Result<usize> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        let lent = self.descriptor.as_ref().map(|descriptor| [descriptor.as_fd()]);
        if let Some(lent) = &lent
            && !control.push(SendAncillaryMessage::ScmRights(lent))
        {
            return Err(Errno::INVAL);
        }
        let head = &self.head[self.sent.min(HEAD_BYTES)..];
        let text = &self.text[self.sent.saturating_sub(HEAD_BYTES)..];
        let parts = [IoSlice::new(head), IoSlice::new(text)];
        rustix::net::sendmsg(socket, &parts, &mut control, SendFlags::NOSIGNAL)
    }
}

fn invalid(text: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::poll_fn;
    use std::io::{Read, Write};
    use std::os::unix::net::UnixStream;

    fn pair() -> (Channel, UnixStream) {
        let (one, other) = UnixStream::pair().unwrap();
        one.set_nonblocking(true).unwrap();
        (Channel::new(one.into()).unwrap(), other)
    }

    fn both() -> (Channel, Channel) {
        let (one, other) = pair();
        other.set_nonblocking(true).unwrap();
        (one, Channel::new(other.into()).unwrap())
    }

    #[tokio::test]
    async fn messages_arrive_whole_in_order_and_with_their_descriptors() {
        let (mut one, mut other) = both();
        let file = |text: &str| {
            let mut file = tempfile::tempfile().unwrap();
            file.write_all(text.as_bytes()).unwrap();
            Some(OwnedFd::from(file))
        };
        let texts: Vec<(Vec<u8>, bool)> = (0..40)
            .map(|round: usize| (vec![b'x'; (round * 7919) % 300_000], round.is_multiple_of(3)))
            .collect();
        for (index, (text, lent)) in texts.iter().enumerate() {
            let descriptor = if *lent { file(&index.to_string()) } else { None };
            one.send(text.clone(), descriptor).unwrap();
        }
        let mut received = Vec::new();
        while received.len() < texts.len() {
            let message = poll_fn(|cx| {
                if let Poll::Ready(Err(error)) = one.poll_flush(cx) {
                    panic!("{error}");
                }
                other.poll_receive(cx)
            })
            .await;
            received.push(message.unwrap().unwrap());
        }
        for (index, (message, (text, lent))) in received.into_iter().zip(&texts).enumerate() {
            assert_eq!(&message.text, text, "message {index}");
            assert_eq!(message.descriptor.is_some(), *lent, "message {index}");
            if let Some(descriptor) = message.descriptor {
                let mut file = std::fs::File::from(descriptor);
                std::io::Seek::rewind(&mut file).unwrap();
                let mut content = String::new();
                file.read_to_string(&mut content).unwrap();
                assert_eq!(content, index.to_string());
            }
        }
        assert_eq!(one.pending_output(), 0);
        drop(one);
        assert!(poll_fn(|cx| other.poll_receive(cx)).await.unwrap().is_none());
    }

    #[tokio::test]
    async fn what_is_no_frame_is_refused() {
        for bytes in [
            [0xff_u8, 0xff, 0xff, 0x7f].as_slice(),
            // A descriptor that did not come.
            &[1, 0, 0, 0x80, b'x'],
            // Half a frame and the end.
            &[2, 0, 0, 0, b'x'],
        ] {
            let (mut channel, mut raw) = pair();
            raw.write_all(bytes).unwrap();
            drop(raw);
            assert!(poll_fn(|cx| channel.poll_receive(cx)).await.is_err(), "{bytes:?}");
        }
    }
}
