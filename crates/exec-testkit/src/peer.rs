//! A peer that speaks raw JSON text, over a WebSocket, a child's stdio or any pair of byte streams.
//!
//! It reads only when asked to, so a test can play the slow reader; it never answers, repairs or
//! checks anything by itself. Time limits are its one convenience: no test hangs on a silent server.

use std::collections::VecDeque;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use futures_util::{SinkExt as _, StreamExt as _};
use serde_json::{Value, json};
use tokio::io::{AsyncBufRead, AsyncBufReadExt as _, AsyncRead, AsyncWrite, AsyncWriteExt as _};
use tokio::io::{BufReader, BufWriter};
use tokio::net::TcpStream;
use tokio::process::{Child, Command};
use tokio::time::{Instant, timeout};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;

/// How long [`RawPeer::recv`] and [`RawPeer::call`] wait before they give up.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// The largest message the protocol allows. The reference sends it in a single frame.
const MESSAGE_BYTES_MAX: usize = 64 << 20;

/// One end of a conversation in raw JSON.
pub struct RawPeer {
    wire: Wire,
    /// Messages that [`RawPeer::call`] read past on its way to the answer.
    read_past: VecDeque<Value>,
    next_id: u64,
}

enum Wire {
    WebSocket(WebSocketStream<TcpStream>),
    Lines {
        reader: Box<dyn AsyncBufRead + Send + Unpin>,
        /// `None` once our side is closed.
        writer: Option<Box<dyn AsyncWrite + Send + Unpin>>,
        /// The beginning of a line whose rest has not arrived yet.
        partial: Vec<u8>,
        /// The server, where the line belongs to a process of ours.
        child: Option<Child>,
    },
}

/// What came, if anything did.
#[derive(Debug, Clone, PartialEq)]
pub enum Received {
    /// A message. Text that is not JSON is an error instead.
    Message(Value),
    /// The other side ended the connection.
    Closed,
    /// Nothing within the time given.
    Nothing,
}

impl RawPeer {
    /// Connects to `ws://host:port`.
    pub async fn websocket(url: &str) -> Result<Self> {
        Self::websocket_with_headers(url, &[]).await
    }

    /// Connects with extra request headers, an `authorization` for instance.
    pub async fn websocket_with_headers(
        url: &str,
        headers: &[(&'static str, &str)],
    ) -> Result<Self> {
        let address = url.strip_prefix("ws://").context("not a ws:// URL")?;
        let stream = TcpStream::connect(address.split('/').next().unwrap_or(address)).await?;
        stream.set_nodelay(true)?;
        let mut request = url.into_client_request()?;
        for (name, value) in headers {
            request.headers_mut().insert(*name, value.parse()?);
        }
        let config = WebSocketConfig::default()
            .max_message_size(Some(MESSAGE_BYTES_MAX))
            .max_frame_size(Some(MESSAGE_BYTES_MAX));
        let handshake = tokio_tungstenite::client_async_with_config(request, stream, Some(config));
        let (socket, _response) = timeout(PATIENCE, handshake).await??;
        Ok(Self::on(Wire::WebSocket(socket)))
    }

    /// Starts a server that speaks on its stdin and stdout. It is killed when the peer is dropped.
    pub fn stdio(mut command: Command) -> Result<Self> {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true);
        let mut child = command.spawn().with_context(|| format!("cannot start {command:?}"))?;
        let stdin = child.stdin.take().context("stdin was piped")?;
        let stdout = child.stdout.take().context("stdout was piped")?;
        Ok(Self::on_lines(stdout, stdin, Some(child)))
    }

    /// Speaks in lines over any two byte streams: what is read, and what is written.
    pub fn from_io(
        reader: impl AsyncRead + Send + Unpin + 'static,
        writer: impl AsyncWrite + Send + Unpin + 'static,
    ) -> Self {
        Self::on_lines(reader, writer, None)
    }

    fn on_lines(
        reader: impl AsyncRead + Send + Unpin + 'static,
        writer: impl AsyncWrite + Send + Unpin + 'static,
        child: Option<Child>,
    ) -> Self {
        Self::on(Wire::Lines {
            reader: Box::new(BufReader::new(reader)),
            writer: Some(Box::new(BufWriter::new(writer))),
            partial: Vec::new(),
            child,
        })
    }

    fn on(wire: Wire) -> Self {
        Self { wire, read_past: VecDeque::new(), next_id: 1 }
    }

    /// The server's process id, for a peer made by [`RawPeer::stdio`].
    pub fn server_pid(&self) -> Option<u32> {
        match &self.wire {
            Wire::Lines { child, .. } => child.as_ref().and_then(Child::id),
            Wire::WebSocket(_) => None,
        }
    }

    /// Sends this text as one message, whatever it says.
    pub async fn send_text(&mut self, text: &str) -> Result<()> {
        match &mut self.wire {
            Wire::WebSocket(socket) => Ok(socket.send(Message::text(text)).await?),
            Wire::Lines { .. } => self.send_line(text.as_bytes()).await,
        }
    }

    /// Sends these bytes as one message: a binary one on a WebSocket, a line elsewhere.
    pub async fn send_bytes(&mut self, bytes: &[u8]) -> Result<()> {
        match &mut self.wire {
            Wire::WebSocket(socket) => Ok(socket.send(Message::binary(bytes.to_vec())).await?),
            Wire::Lines { .. } => self.send_line(bytes).await,
        }
    }

    async fn send_line(&mut self, line: &[u8]) -> Result<()> {
        let Wire::Lines { writer, .. } = &mut self.wire else { bail!("not a line transport") };
        let writer = writer.as_mut().context("our side is closed")?;
        writer.write_all(line).await?;
        writer.write_all(b"\n").await?;
        Ok(writer.flush().await?)
    }

    /// The next message; `None` when the connection has ended. Silence is an error.
    pub async fn recv(&mut self) -> Result<Option<Value>> {
        match self.recv_within(PATIENCE).await? {
            Received::Message(message) => Ok(Some(message)),
            Received::Closed => Ok(None),
            Received::Nothing => bail!("no message within {PATIENCE:?}"),
        }
    }

    /// The next message, the end of the connection, or nothing when `patience` has passed.
    pub async fn recv_within(&mut self, patience: Duration) -> Result<Received> {
        if let Some(message) = self.read_past.pop_front() {
            return Ok(Received::Message(message));
        }
        self.read_wire(Instant::now() + patience).await
    }

    async fn read_wire(&mut self, deadline: Instant) -> Result<Received> {
        let remaining = deadline.saturating_duration_since(Instant::now());
        match timeout(remaining, self.wire.read()).await {
            Err(_elapsed) => Ok(Received::Nothing),
            Ok(None) => Ok(Received::Closed),
            Ok(Some(text)) => {
                let message = serde_json::from_slice(&text).with_context(|| {
                    format!(
                        "received something other than JSON: {}",
                        String::from_utf8_lossy(&text)
                    )
                })?;
                Ok(Received::Message(message))
            }
        }
    }

    /// Sends a request with an id of its own and returns the whole answer, result or error. What
    /// arrives in between stays for [`RawPeer::recv`].
    pub async fn call(&mut self, method: &str, params: Value) -> Result<Value> {
        let id = self.next_id;
        self.next_id += 1;
        let request = json!({"id": id, "method": method, "params": params});
        self.send_text(&request.to_string()).await?;
        let deadline = Instant::now() + PATIENCE;
        loop {
            match self.read_wire(deadline).await? {
                Received::Message(message)
                    if message.get("method").is_none() && message["id"] == id =>
                {
                    return Ok(message);
                }
                Received::Message(message) => self.read_past.push_back(message),
                Received::Closed => bail!("connection closed before {method} was answered"),
                Received::Nothing => bail!("{method} was not answered within {PATIENCE:?}"),
            }
        }
    }

    /// Like [`RawPeer::call`], for a call that has to succeed: the `result`.
    pub async fn call_ok(&mut self, method: &str, params: Value) -> Result<Value> {
        let mut answer = self.call(method, params).await?;
        match answer.get_mut("result") {
            Some(result) => Ok(result.take()),
            None => bail!("{method} failed: {answer}"),
        }
    }

    /// Sends a notification.
    pub async fn notify(&mut self, method: &str, params: Value) -> Result<()> {
        self.send_text(&json!({"method": method, "params": params}).to_string()).await
    }

    /// `initialize` and `initialized`; returns the result of the former.
    pub async fn handshake(&mut self) -> Result<Value> {
        let result = self.call_ok("initialize", json!({"clientName": "testkit"})).await?;
        self.notify("initialized", json!({})).await?;
        Ok(result)
    }

    /// Ends our side: a close frame on a WebSocket, end of file elsewhere. Reading goes on.
    pub async fn close(&mut self) -> Result<()> {
        match &mut self.wire {
            Wire::WebSocket(socket) => Ok(socket.close(None).await?),
            Wire::Lines { writer, .. } => match writer.take() {
                Some(mut writer) => Ok(writer.shutdown().await?),
                None => Ok(()),
            },
        }
    }
}

impl Wire {
    /// The text of the next message; `None` at the end. May be dropped at any time and called
    /// again: a half-read line stays in `partial`.
    async fn read(&mut self) -> Option<Vec<u8>> {
        match self {
            Wire::WebSocket(socket) => loop {
                match socket.next().await {
                    Some(Ok(Message::Text(text))) => return Some(text.as_bytes().to_vec()),
                    Some(Ok(Message::Binary(bytes))) => return Some(bytes.to_vec()),
                    Some(Ok(Message::Ping(_) | Message::Pong(_) | Message::Frame(_))) => {}
                    // The reference drops TCP without a close frame, which is an error here.
                    Some(Ok(Message::Close(_)) | Err(_)) | None => return None,
                }
            },
            Wire::Lines { reader, partial, .. } => {
                let ended = matches!(reader.read_until(b'\n', partial).await, Ok(0) | Err(_));
                if ended { None } else { Some(std::mem::take(partial)) }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_call_leaves_notifications_for_recv() {
        let (ours, theirs) = tokio::io::duplex(1024);
        let (our_read, our_write) = tokio::io::split(ours);
        let (their_read, their_write) = tokio::io::split(theirs);
        let mut client = RawPeer::from_io(our_read, our_write);
        let mut server = RawPeer::from_io(their_read, their_write);
        server.send_text(r#"{"method":"first"}"#).await.unwrap();
        server.send_text(r#"{"id":1,"result":{}}"#).await.unwrap();
        assert_eq!(client.call("x", json!({})).await.unwrap(), json!({"id": 1, "result": {}}));
        assert_eq!(client.recv().await.unwrap(), Some(json!({"method": "first"})));
        let request = server.recv().await.unwrap();
        assert_eq!(request, Some(json!({"id": 1, "method": "x", "params": {}})));
        drop(server);
        assert_eq!(client.recv().await.unwrap(), None);
    }

    #[tokio::test]
    async fn a_line_in_two_pieces_survives_a_time_out() {
        let (ours, mut theirs) = tokio::io::duplex(1024);
        let (read, write) = tokio::io::split(ours);
        let mut peer = RawPeer::from_io(read, write);
        theirs.write_all(br#"{"id":"#).await.unwrap();
        let early = peer.recv_within(Duration::from_millis(10)).await.unwrap();
        assert_eq!(early, Received::Nothing);
        theirs.write_all(b"7}\n").await.unwrap();
        assert_eq!(peer.recv().await.unwrap(), Some(json!({"id": 7})));
    }
}
