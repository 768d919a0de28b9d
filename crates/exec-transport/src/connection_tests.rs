//! A connection over a pipe that counts reads and writes, and takes what the test lets it take.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::task::Waker;

use super::*;

#[derive(Default)]
struct PipeState {
    /// What each read returns; an empty queue is pending, an empty chunk is the end.
    input: VecDeque<Vec<u8>>,
    reads: usize,
    writes: Vec<Vec<u8>>,
    /// Bytes that the pipe still takes.
    room: usize,
}

#[derive(Clone, Default)]
struct Pipe(Arc<Mutex<PipeState>>);

impl Pipe {
    fn push(&self, bytes: &[u8]) {
        self.0.lock().unwrap().input.push_back(bytes.to_vec());
    }

    fn set_room(&self, room: usize) {
        self.0.lock().unwrap().room = room;
    }

    fn reads(&self) -> usize {
        self.0.lock().unwrap().reads
    }

    fn take_writes(&self) -> Vec<Vec<u8>> {
        std::mem::take(&mut self.0.lock().unwrap().writes)
    }
}

impl AsyncRead for Pipe {
    fn poll_read(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let mut state = self.0.lock().unwrap();
        state.reads += 1;
        match state.input.pop_front() {
            None => Poll::Pending,
            Some(chunk) => {
                buffer.put_slice(&chunk);
                Poll::Ready(Ok(()))
            }
        }
    }
}

impl AsyncWrite for Pipe {
    fn poll_write(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let mut state = self.0.lock().unwrap();
        if state.room == 0 {
            return Poll::Pending;
        }
        let taken = bytes.len().min(state.room);
        state.room -= taken;
        state.writes.push(bytes[..taken].to_vec());
        Poll::Ready(Ok(taken))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

const SMALL: Limits =
    Limits { frame_bytes_max: 1000, message_bytes_max: 4000, send_fragment_bytes: 100 };

fn websocket(role: ws::Role, early: &[u8]) -> (Connection, Pipe) {
    let pipe = Pipe::default();
    pipe.set_room(usize::MAX);
    let io = Box::pin(pipe.clone());
    (Connection::websocket(io, role, "test:1".into(), SMALL, early).unwrap(), pipe)
}

/// What a client's connection sends for these messages.
fn client_bytes(messages: &[&str]) -> Vec<u8> {
    let (mut client, pipe) = websocket(ws::Role::Client, &[]);
    for message in messages {
        client.send(message.as_bytes()).unwrap();
    }
    assert!(flush(&mut client).is_ready());
    pipe.take_writes().concat()
}

fn poll(connection: &mut Connection) -> Poll<Result<Option<Vec<u8>>, Error>> {
    connection.poll_message(&mut Context::from_waker(Waker::noop()))
}

fn flush(connection: &mut Connection) -> Poll<()> {
    connection.poll_flush(&mut Context::from_waker(Waker::noop())).map(|result| result.unwrap())
}

fn message(connection: &mut Connection) -> Option<String> {
    let Poll::Ready(result) = poll(connection) else { panic!("nothing arrived") };
    result.unwrap().map(|bytes| String::from_utf8(bytes).unwrap())
}

#[test]
fn messages_of_one_read_are_returned_without_reading_again() {
    let (mut server, pipe) = websocket(ws::Role::Server, &[]);
    pipe.push(&client_bytes(&["one", "two", "three"]));
    for expected in ["one", "two", "three"] {
        assert_eq!(message(&mut server).as_deref(), Some(expected));
        assert_eq!(pipe.reads(), 1);
    }
    assert!(poll(&mut server).is_pending());
    assert_eq!(pipe.reads(), 2);
}

#[test]
fn a_message_may_come_with_the_upgrade_and_end_later() {
    let bytes = client_bytes(&["early", "late"]);
    let (mut server, pipe) = websocket(ws::Role::Server, &bytes[..bytes.len() - 2]);
    assert_eq!(message(&mut server).as_deref(), Some("early"));
    assert_eq!(pipe.reads(), 0);
    pipe.push(&bytes[bytes.len() - 2..]);
    assert_eq!(message(&mut server).as_deref(), Some("late"));
    assert_eq!(server.bytes_received(), bytes.len() as u64);
}

#[test]
fn many_messages_leave_in_one_write() {
    let (mut server, pipe) = websocket(ws::Role::Server, &[]);
    for _ in 0..100 {
        server.send(b"hello").unwrap();
    }
    assert_eq!(server.pending_output(), 700);
    assert!(flush(&mut server).is_ready());
    assert_eq!(pipe.take_writes().len(), 1);
    assert_eq!(server.pending_output(), 0);
}

#[test]
fn a_pipe_that_takes_little_gets_every_byte_in_order() {
    let (mut server, pipe) = websocket(ws::Role::Server, &[]);
    pipe.set_room(0);
    server.send(b"hello").unwrap();
    server.send_with(5, |out| out.extend_from_slice(b"world")).unwrap();
    assert!(flush(&mut server).is_pending());
    for _ in 0..13 {
        pipe.set_room(1);
        assert!(flush(&mut server).is_pending());
    }
    pipe.set_room(1);
    assert!(flush(&mut server).is_ready());
    assert_eq!(pipe.take_writes().concat(), b"\x81\x05hello\x81\x05world");
}

#[test]
fn a_ping_is_answered_while_the_owner_only_reads() {
    let (mut server, pipe) = websocket(ws::Role::Server, &[]);
    pipe.push(b"\x89\x82\0\0\0\0hi");
    assert!(poll(&mut server).is_pending());
    assert_eq!(pipe.take_writes().concat(), b"\x8a\x02hi");
}

#[test]
fn a_peers_close_is_answered_and_ends_the_stream() {
    let (mut server, pipe) = websocket(ws::Role::Server, &[]);
    pipe.push(b"\x88\x82\0\0\0\0\x03\xe8\x81\x81\0\0\0\0x");
    assert_eq!(message(&mut server), None);
    assert_eq!(message(&mut server), None);
    assert_eq!(pipe.take_writes().concat(), b"\x88\x02\x03\xe8");
    assert!(matches!(server.send(b"x"), Err(Error::Closed)));
}

#[test]
fn our_close_lets_the_peers_messages_in_until_it_answers() {
    let (mut server, pipe) = websocket(ws::Role::Server, &[]);
    server.send(b"last").unwrap();
    server.start_close();
    assert!(matches!(server.send(b"x"), Err(Error::Closed)));
    assert!(flush(&mut server).is_ready());
    assert_eq!(pipe.take_writes().concat(), b"\x81\x04last\x88\x02\x03\xe8");
    pipe.push(&client_bytes(&["crossing"]));
    pipe.push(b"\x88\x80\0\0\0\0");
    assert_eq!(message(&mut server).as_deref(), Some("crossing"));
    assert_eq!(message(&mut server), None);
    assert!(pipe.take_writes().is_empty());
}

#[test]
fn a_violation_ends_the_stream_in_silence() {
    let (mut server, pipe) = websocket(ws::Role::Server, &[]);
    pipe.push(b"\x81\x01x");
    assert!(matches!(poll(&mut server), Poll::Ready(Err(Error::Protocol(_)))));
    assert_eq!(message(&mut server), None);
    assert!(pipe.take_writes().is_empty());
}

#[test]
fn the_end_of_the_pipe_is_the_end_of_the_stream_even_inside_a_frame() {
    let (mut server, pipe) = websocket(ws::Role::Server, &[]);
    pipe.push(b"\x81\x85\0\0\0\0he");
    pipe.push(b"");
    assert_eq!(message(&mut server), None);
}

#[test]
fn one_poll_does_a_bounded_amount_of_work() {
    let (mut server, pipe) = websocket(ws::Role::Server, &[]);
    for _ in 0..100 {
        pipe.push(b"\x8a\x80\0\0\0\0");
    }
    assert!(poll(&mut server).is_pending());
    assert_eq!(pipe.reads(), TURNS_PER_POLL);
    pipe.set_room(0);
    server.send(&[b'x'; 100]).unwrap();
    assert!(flush(&mut server).is_pending());
}

#[test]
fn a_message_above_the_limit_is_not_sent_and_harms_nothing() {
    let (mut server, pipe) = websocket(ws::Role::Server, &[]);
    assert!(matches!(
        server.send(&[b'x'; 4001]),
        Err(Error::MessageTooLarge { len: 4001, max: 4000 })
    ));
    assert!(matches!(server.send_with(2, |_| {}), Err(Error::LengthMismatch { .. })));
    server.send(b"ok").unwrap();
    assert!(flush(&mut server).is_ready());
    assert_eq!(pipe.take_writes().concat(), b"\x81\x02ok");
}

#[test]
fn pings_exist_on_websockets_only() {
    let (mut server, pipe) = websocket(ws::Role::Server, &[]);
    assert!(server.supports_ping());
    server.ping();
    assert!(flush(&mut server).is_ready());
    assert_eq!(pipe.take_writes().concat(), b"\x89\x00");

    let (mut memory, _other) = crate::memory_pair(100);
    assert!(!memory.supports_ping());
    memory.ping();
    memory.start_close();
    assert_eq!(memory.pending_output(), 0);
}

#[test]
fn peers_have_labels() {
    let (server, _) = websocket(ws::Role::Server, &[]);
    assert_eq!(server.peer().to_string(), "websocket test:1");
    assert_eq!(Peer::Stdio.to_string(), "stdio");
    assert_eq!(Peer::Memory.to_string(), "memory");
}

#[tokio::test]
async fn memory_carries_lines_both_ways_through_a_small_buffer() {
    let (mut left, mut right) = crate::memory_pair(7);
    let long = "x".repeat(10_000);
    left.send(b"{}").unwrap();
    left.send(long.as_bytes()).unwrap();
    right.send(b"from the right").unwrap();
    let left_side = async {
        left.flush().await.unwrap();
        left.next_message().await
    };
    let (sent, received) = tokio::join!(left_side, async {
        let first = right.next_message().await.unwrap();
        let second = right.next_message().await.unwrap();
        right.flush().await.unwrap();
        (first, second)
    });
    assert_eq!(sent.unwrap().unwrap(), b"from the right");
    assert_eq!(received, (Some(b"{}".to_vec()), Some(long.into_bytes())));
    left.close().await;
    assert_eq!(right.next_message().await.unwrap(), None);
}

#[tokio::test]
async fn stdio_skips_blank_lines_and_drops_an_unended_one() {
    let mut out = Vec::new();
    let input: &'static [u8] = b"{\"a\":1}\r\n\n   \n{\"b\":2}\nunended";
    let mut connection = crate::stdio(input, tokio::io::sink());
    while let Some(message) = connection.next_message().await.unwrap() {
        out.push(String::from_utf8(message).unwrap());
    }
    assert_eq!(out, ["{\"a\":1}", "{\"b\":2}"]);
    assert_eq!(connection.peer(), &Peer::Stdio);
}
