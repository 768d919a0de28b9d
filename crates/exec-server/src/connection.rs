//! One connection, served by one loop: it takes requests in, works on them, follows the logs of
//! its session, and writes answers and notifications out. All of a connection's state is here.
//!
//! The loop asks for the next [`Event`] and handles it in a plain method. Nothing in it waits: a
//! client that does not read only stops its own output, and can still terminate.

mod handshake;
mod requests;

use std::collections::VecDeque;
use std::future::poll_fn;
use std::ops::ControlFlow;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use exec_process::Process;
use exec_process::log::Event as LogEvent;
use exec_protocol::jsonrpc::{self, Message, RequestId, RpcError, code, encode_notification};
use exec_protocol::methods::{self, Notice};
use exec_protocol::process::{ClosedParams, ExitedParams, OutputEncoder};
use exec_transport::Connection;
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, Sleep};

use crate::limits::{
    ANSWERS_HIGH_WATER, FLUSH_BYTES, KEEPALIVE, OUTPUT_HIGH_WATER, READ_AHEAD_BYTES, SILENCE_MAX,
};
use crate::outbox::Outgoing;
use crate::process_limits;
use crate::reply::{self, Piece, Pieces, Reply};
use crate::scope::Scope;
use crate::server::Server;
use crate::session::ToConnection;

use handshake::Handshake;
use requests::Requests;

/// What a message that waits costs besides its bytes, so that empty ones are bounded too.
const AHEAD_OVERHEAD: usize = 64;

/// Events of a busy connection after which it looks for other things than requests and output.
const REST_EVERY: u32 = 64;

/// Serves a connection until it ends, for whatever reason.
pub(crate) async fn serve(server: Arc<Server>, transport: Connection) {
    let mut stopped = server.stopped();
    // Ends too when the server is gone.
    let stop = Box::pin(async move { drop(stopped.wait_for(|stop| *stop).await) });
    let (to_me, from_session) = mpsc::channel(4);
    let (scope, notices) = Scope::new(server.missing.clone());
    let mut served = Served {
        requests: Requests::new(server.config.concurrent_requests),
        handshake: Handshake::new(server.clone(), to_me, scope),
        notices,
        heard: (transport.bytes_received(), Instant::now()),
        transport,
        server,
        from_session,
        stop,
        probes: Vec::new(),
        turn: 0,
        ahead: VecDeque::new(),
        ahead_bytes: 0,
        pieces: None,
        tick: Box::pin(tokio::time::sleep(KEEPALIVE)),
    };
    let end = served.run().await;
    tracing::debug!(peer = %served.transport.peer(), reason = %end, "connection ended");
    served.finish(end).await;
}

struct Served {
    transport: Connection,
    server: Arc<Server>,
    handshake: Handshake,
    requests: Requests,
    from_session: mpsc::Receiver<ToConnection>,
    /// Notifications that belong to no process.
    notices: mpsc::Receiver<Vec<u8>>,
    stop: Pin<Box<dyn Future<Output = ()> + Send>>,
    /// Those who want to know whether the peer lives, and the bytes it had sent when they asked.
    probes: Vec<(u64, oneshot::Sender<()>)>,
    /// Requests and output take turns; the rest has one now and then.
    turn: u32,
    /// Messages for which there is no room yet. They are read all the same, for a while: otherwise
    /// neither the peer's pongs nor its end would be noticed while a long request is worked on.
    ahead: VecDeque<Vec<u8>>,
    ahead_bytes: usize,
    /// What is left of an answer that has begun to leave.
    pieces: Option<Pieces>,
    /// Bytes received, and when they last grew.
    heard: (u64, Instant),
    tick: Pin<Box<Sleep>>,
}

/// What can happen to a connection.
enum Event {
    Message(Vec<u8>),
    Answer(Reply),
    Piece(Option<Piece>),
    Initialized(handshake::Outcome),
    Output(Arc<Process>),
    Notice(Vec<u8>),
    Session(ToConnection),
    Tick,
    End(End),
}

/// Why a connection ends.
#[derive(Debug, thiserror::Error)]
enum End {
    #[error("the peer closed it")]
    PeerClosed,
    #[error("{0}")]
    Transport(#[from] exec_transport::Error),
    #[error("the peer broke the protocol: {0}")]
    Protocol(&'static str),
    #[error("the peer has been silent for too long")]
    Silent,
    #[error("the session was resumed by another connection")]
    TakenOver,
    #[error("the server stops")]
    Stopped,
    #[error("a file that was being sent could not be read to its end")]
    HalfAnswered,
}

impl Served {
    async fn run(&mut self) -> End {
        loop {
            let event = poll_fn(|cx| self.poll_event(cx)).await;
            if let Err(end) = self.handle(event) {
                return end;
            }
        }
    }

    /// The next event. Writes what has piled up when there is nothing else to do, so that many
    /// small messages leave together.
    fn poll_event(&mut self, cx: &mut Context<'_>) -> Poll<Event> {
        if self.transport.pending_output() >= FLUSH_BYTES
            && let Poll::Ready(Err(error)) = self.transport.poll_flush(cx)
        {
            return Poll::Ready(Event::End(error.into()));
        }
        if self.pieces.is_some() {
            return self.poll_pieces(cx);
        }
        self.turn = self.turn.wrapping_add(1);
        // Otherwise a peer that never pauses could neither be stopped nor asked for a sign of life.
        let rest_first = self.turn.is_multiple_of(REST_EVERY);
        let event = if rest_first { self.poll_rest(cx) } else { None };
        let event = event.or_else(|| {
            if self.turn.is_multiple_of(2) {
                self.poll_output(cx).or_else(|| self.poll_requests(cx))
            } else {
                self.poll_requests(cx).or_else(|| self.poll_output(cx))
            }
        });
        if let Some(event) = event.or_else(|| self.poll_rest(cx)) {
            return Poll::Ready(event);
        }
        match self.transport.poll_flush(cx) {
            Poll::Ready(Err(error)) => Poll::Ready(Event::End(error.into())),
            // Room again: there may be output that waited for it.
            Poll::Ready(Ok(())) => match self.poll_output(cx) {
                Some(event) => Poll::Ready(event),
                None => Poll::Pending,
            },
            Poll::Pending => Poll::Pending,
        }
    }

    /// While an answer leaves in pieces no other message may: they would mix. The peer is listened to
    /// all the same.
    fn poll_pieces(&mut self, cx: &mut Context<'_>) -> Poll<Event> {
        if let Some(event) = self.poll_rest(cx).or_else(|| self.poll_ahead(cx)) {
            return Poll::Ready(event);
        }
        loop {
            if self.transport.pending_output() < OUTPUT_HIGH_WATER
                && let Some(pieces) = &mut self.pieces
                && let Poll::Ready(piece) = pieces.poll_recv(cx)
            {
                return Poll::Ready(Event::Piece(piece));
            }
            if self.transport.pending_output() == 0 {
                return Poll::Pending;
            }
            match self.transport.poll_flush(cx) {
                Poll::Ready(Err(error)) => return Poll::Ready(Event::End(error.into())),
                Poll::Ready(Ok(())) => {}
                Poll::Pending => return Poll::Pending,
            }
        }
    }

    fn poll_requests(&mut self, cx: &mut Context<'_>) -> Option<Event> {
        if let Poll::Ready(outcome) = self.handshake.poll(cx) {
            return Some(Event::Initialized(outcome));
        }
        if let Poll::Ready(answer) = self.requests.poll_answer(cx) {
            return Some(Event::Answer(answer));
        }
        let room = self.transport.pending_output() < ANSWERS_HIGH_WATER
            && self.requests.has_room()
            && !self.handshake.is_busy();
        if room && let Some(message) = self.ahead.pop_front() {
            self.ahead_bytes -= message.len() + AHEAD_OVERHEAD;
            return Some(Event::Message(message));
        }
        if !room {
            return self.poll_ahead(cx);
        }
        match self.transport.poll_message(cx) {
            Poll::Ready(Ok(Some(message))) => Some(Event::Message(message)),
            Poll::Ready(Ok(None)) => Some(Event::End(End::PeerClosed)),
            Poll::Ready(Err(error)) => Some(Event::End(error.into())),
            Poll::Pending => None,
        }
    }

    /// Reads messages for which there is no room yet.
    fn poll_ahead(&mut self, cx: &mut Context<'_>) -> Option<Event> {
        while self.ahead_bytes < READ_AHEAD_BYTES {
            match self.transport.poll_message(cx) {
                Poll::Ready(Ok(Some(message))) => {
                    self.ahead_bytes += message.len() + AHEAD_OVERHEAD;
                    self.ahead.push_back(message);
                }
                Poll::Ready(Ok(None)) => return Some(Event::End(End::PeerClosed)),
                Poll::Ready(Err(error)) => return Some(Event::End(error.into())),
                Poll::Pending => return None,
            }
        }
        None
    }

    fn poll_output(&mut self, cx: &mut Context<'_>) -> Option<Event> {
        if self.transport.pending_output() >= OUTPUT_HIGH_WATER {
            return None;
        }
        if let Poll::Ready(Some(message)) = self.notices.poll_recv(cx) {
            return Some(Event::Notice(message));
        }
        match self.handshake.owned()?.outbox.poll_next(cx)? {
            Outgoing::Grown(process) => Some(Event::Output(process)),
            Outgoing::Notice(message) => Some(Event::Notice(message)),
        }
    }

    fn poll_rest(&mut self, cx: &mut Context<'_>) -> Option<Event> {
        self.answer_probes();
        if let Poll::Ready(Some(told)) = self.from_session.poll_recv(cx) {
            return Some(Event::Session(told));
        }
        if self.stop.as_mut().poll(cx).is_ready() {
            return Some(Event::End(End::Stopped));
        }
        self.tick.as_mut().poll(cx).is_ready().then_some(Event::Tick)
    }

    fn handle(&mut self, event: Event) -> Result<(), End> {
        match event {
            Event::Message(text) => self.message(&text),
            Event::Answer(answer) => self.answer(answer),
            Event::Piece(piece) => self.piece(piece),
            Event::Initialized(outcome) => {
                let answer = self.handshake.conclude(outcome);
                self.transport.limit_messages(self.handshake.message_bytes_max());
                self.answer(Reply::Text(answer))
            }
            Event::Output(process) => self.output(&process),
            Event::Notice(message) => Ok(self.transport.send(&message)?),
            Event::Session(ToConnection::Probe(alive)) => {
                self.transport.ping();
                let heard = self.transport.bytes_received();
                // Where there is no ping, an open connection is a living one.
                if self.transport.supports_ping() {
                    self.probes.push((heard, alive));
                } else {
                    alive.send(()).ok();
                }
                Ok(())
            }
            Event::Session(ToConnection::TakenOver) => Err(End::TakenOver),
            Event::Tick => self.keep_alive(),
            Event::End(end) => Err(end),
        }
    }

    /// Tells those who asked that the peer lives, once it has said something since.
    fn answer_probes(&mut self) {
        let heard = self.transport.bytes_received();
        while self.probes.last().is_some_and(|(then, _)| *then < heard) {
            if let Some((_, alive)) = self.probes.pop() {
                // Nobody waits for it any more: then it does not matter.
                alive.send(()).ok();
            }
        }
    }

    fn keep_alive(&mut self) -> Result<(), End> {
        let now = Instant::now();
        let heard = self.transport.bytes_received();
        if heard != self.heard.0 {
            self.heard = (heard, now);
        } else if self.transport.supports_ping() && now - self.heard.1 >= SILENCE_MAX {
            return Err(End::Silent);
        }
        self.transport.ping();
        self.tick.as_mut().reset(now + KEEPALIVE);
        Ok(())
    }

    fn message(&mut self, text: &[u8]) -> Result<(), End> {
        let message = match jsonrpc::decode(text) {
            Ok(message) => message,
            Err(error) => {
                let message = format!("{}: {error}", self.parse_prefix());
                return self.complain(message);
            }
        };
        match message {
            Message::Request(request) => self.request(&request),
            Message::Notification(notification) => {
                if notification.method == methods::Initialized::NAME {
                    return self.handshake.confirm().map_err(End::Protocol);
                }
                self.complain(format!("unexpected notification `{}`", notification.method))?;
                if self.server.config.tolerate_unknown_notifications {
                    return Ok(());
                }
                Err(End::Protocol("unexpected notification"))
            }
            // We ask the client nothing yet, so nothing can be an answer.
            Message::Response { .. } | Message::Error { .. } => {
                Err(End::Protocol("answer without a request"))
            }
        }
    }

    fn parse_prefix(&self) -> String {
        match self.transport.peer() {
            exec_transport::Peer::WebSocket(address) => format!(
                "failed to parse websocket JSON-RPC message from exec-server websocket {address}"
            ),
            exec_transport::Peer::Stdio | exec_transport::Peer::Memory => {
                "failed to parse JSON-RPC message from exec-server stdio".to_owned()
            }
        }
    }

    /// An error that belongs to no request.
    fn complain(&mut self, message: String) -> Result<(), End> {
        let mut text = Vec::new();
        let error = RpcError { code: code::INVALID_REQUEST, message };
        jsonrpc::encode_error(&mut text, &RequestId::UNREADABLE, &error);
        Ok(self.transport.send(&text)?)
    }

    fn answer(&mut self, answer: Reply) -> Result<(), End> {
        self.pieces = answer.send(&mut self.transport)?;
        Ok(())
    }

    fn piece(&mut self, piece: Option<Piece>) -> Result<(), End> {
        let piece = piece.ok_or(End::HalfAnswered)?;
        if piece.last {
            self.pieces = None;
        }
        Ok(reply::send_piece(&mut self.transport, &piece)?)
    }

    /// Sends a process's next events straight from its log into the outgoing frames.
    fn output(&mut self, process: &Arc<Process>) -> Result<(), End> {
        let transport = &mut self.transport;
        let mut failed = None;
        process.follow(|event| {
            if let Err(error) = send_event(transport, process, &event) {
                failed = Some(error);
                return ControlFlow::Break(());
            }
            if transport.pending_output() >= FLUSH_BYTES {
                return ControlFlow::Break(());
            }
            ControlFlow::Continue(())
        });
        if let Some(error) = failed {
            return Err(error.into());
        }
        Ok(())
    }

    /// Lets go of the session, and says goodbye where that is due.
    async fn finish(self, end: End) {
        let Served { transport, handshake, requests, .. } = self;
        drop(requests);
        drop(handshake);
        match end {
            // Bare close: a peer that broke the protocol gets no further word, but what was
            // queued for it, such as the reason, still goes out.
            End::Protocol(_)
            | End::TakenOver
            | End::Stopped
            | End::PeerClosed
            | End::HalfAnswered => {
                transport.close().await;
            }
            End::Transport(_) | End::Silent => {}
        }
    }
}

fn send_event(
    transport: &mut Connection,
    process: &Process,
    event: &LogEvent<'_>,
) -> Result<(), exec_transport::Error> {
    let mut text = Vec::new();
    let encoded = match event {
        LogEvent::Output { seq, stream, data } => {
            let encoder = OutputEncoder::new(process.id_json(), *seq, *stream, data);
            return transport.send_with(encoder.encoded_len(), |out| encoder.encode_into(out));
        }
        LogEvent::Exited { seq, exit } => {
            let params = ExitedParams {
                process_id: process.id().clone(),
                seq: *seq,
                exit_code: exit.code,
                sandbox_denied: Some(exit.sandbox_denied),
                denials: Vec::new(),
                usage: process_limits::usage(process, exit),
                limit_reached: process_limits::limit_reached(exit),
            };
            encode_notification(&mut text, methods::ProcessExited::NAME, &params)
        }
        LogEvent::Closed { seq } => {
            let params = ClosedParams { process_id: process.id().clone(), seq: *seq };
            encode_notification(&mut text, methods::ProcessClosed::NAME, &params)
        }
    };
    encoded.expect("strings and integers always encode into memory");
    transport.send(&text)
}
