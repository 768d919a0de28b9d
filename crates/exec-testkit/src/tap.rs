//! A tap on the wire: a WebSocket proxy on loopback between a client and an executor. It records
//! every message of both directions, and a function may pass, change, answer or lose each one, or
//! cut the line at it.
//!
//! A cut drops the TCP connections without a close frame and leaves the line down: whoever
//! connects is hung up on, until [`WireTap::restore`].

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use futures_util::{SinkExt, StreamExt};
use serde_json::Value;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::handshake::server::{Request, Response};
use tokio_tungstenite::tungstenite::http::HeaderValue;
use tokio_tungstenite::{WebSocketStream, accept_hdr_async, client_async};

/// A wait for a message that never comes fails after this long.
const WAIT_MAX: Duration = Duration::from_secs(30);

/// How many messages a failed wait shows.
const TAIL_LEN: usize = 6;

/// Which way a message travels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// From the client to the executor.
    ToExecutor,
    /// From the executor to the client.
    ToClient,
}

/// A message, as it came in.
#[derive(Debug, Clone, PartialEq)]
pub struct Tapped {
    /// The number of its connection, from 1.
    pub connection: usize,
    /// Which way it travels.
    pub direction: Direction,
    /// The JSON-RPC message; null when it is not JSON.
    pub message: Value,
}

impl Tapped {
    /// Is this a request or notification of this name?
    pub fn is_call(&self, method: &str) -> bool {
        self.message["method"] == method
    }
}

/// What becomes of a message.
#[derive(Debug, Clone, PartialEq)]
pub enum Verdict {
    /// It goes through.
    Pass,
    /// This one goes through in its place.
    Replace(Value),
    /// It is lost, and this one goes back to its sender.
    Answer(Value),
    /// It is lost.
    Lose,
    /// It is lost, and the line is cut.
    Cut,
    /// It goes through, and the line is cut.
    PassThenCut,
}

/// Decides on each message.
pub type Judge = Box<dyn FnMut(&Tapped) -> Verdict + Send>;

/// The proxy. Dropped means stopped, and its connections with it.
pub struct WireTap {
    url: String,
    shared: Arc<Shared>,
    _task: TaskOwner,
}

impl WireTap {
    /// A tap that passes everything on to the executor at `upstream`, such as `ws://127.0.0.1:4000`.
    pub async fn start(upstream: &str) -> Result<Self> {
        Self::judging(upstream, |_| Verdict::Pass).await
    }

    /// A tap that asks `judge` about every message.
    pub async fn judging(
        upstream: &str,
        judge: impl FnMut(&Tapped) -> Verdict + Send + 'static,
    ) -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await.context("cannot bind the tap")?;
        let url = format!("ws://{}", listener.local_addr()?);
        let shared = Arc::new(Shared {
            upstream: upstream.to_owned(),
            judge: Mutex::new(Box::new(judge)),
            tapped: Mutex::default(),
            changes: watch::Sender::new(0),
            line: watch::Sender::new(Line { cuts: 0, up: true }),
        });
        let task = tokio::spawn(serve(listener, Arc::clone(&shared)));
        Ok(WireTap { url, shared, _task: TaskOwner(task) })
    }

    /// Where the client connects.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// All messages so far, in the order in which they came in.
    pub fn tapped(&self) -> Vec<Tapped> {
        lock(&self.shared.tapped).clone()
    }

    /// The requests and notifications of this name so far.
    pub fn calls(&self, method: &str) -> Vec<Tapped> {
        self.tapped().into_iter().filter(|tapped| tapped.is_call(method)).collect()
    }

    /// Waits until `n` messages fit, and gives the last of them.
    pub async fn wait_for_nth(&self, n: usize, fits: impl Fn(&Tapped) -> bool) -> Result<Tapped> {
        let mut changes = self.shared.changes.subscribe();
        let found = async {
            loop {
                changes.borrow_and_update();
                let found = {
                    let tapped = lock(&self.shared.tapped);
                    tapped.iter().filter(|tapped| fits(tapped)).nth(n.saturating_sub(1)).cloned()
                };
                if let Some(tapped) = found {
                    return tapped;
                }
                // The sender lives as long as `self`.
                changes.changed().await.ok();
            }
        };
        tokio::time::timeout(WAIT_MAX, found)
            .await
            .with_context(|| format!("no such message on the wire; the last were {}", self.tail()))
    }

    /// Waits until the line is down.
    pub async fn wait_cut(&self) -> Result<()> {
        let mut line = self.shared.line.subscribe();
        let down = line.wait_for(|line| !line.up);
        tokio::time::timeout(WAIT_MAX, down)
            .await
            .with_context(|| format!("the line was not cut; the last were {}", self.tail()))??;
        Ok(())
    }

    fn tail(&self) -> String {
        let tapped = self.tapped();
        let last = tapped.iter().rev().take(TAIL_LEN).rev();
        last.map(|tapped| format!("\n{:?} {}", tapped.direction, tapped.message)).collect()
    }

    /// Cuts the line now.
    pub fn cut(&self) {
        self.shared.cut();
    }

    /// Lets clients connect again after a cut.
    pub fn restore(&self) {
        self.shared.line.send_modify(|line| line.up = true);
    }
}

/// Aborts its task when dropped.
pub(crate) struct TaskOwner(pub(crate) JoinHandle<()>);

impl Drop for TaskOwner {
    fn drop(&mut self) {
        self.0.abort();
    }
}

struct Line {
    /// A connection ends with the first cut after it, however soon the line is up again.
    cuts: usize,
    up: bool,
}

struct Shared {
    upstream: String,
    judge: Mutex<Judge>,
    tapped: Mutex<Vec<Tapped>>,
    /// Counts the messages, to wake [`WireTap::wait_for_nth`].
    changes: watch::Sender<usize>,
    line: watch::Sender<Line>,
}

impl Shared {
    /// Judges first and records second: who sees a message recorded can rely on its verdict.
    fn judge(&self, tapped: Tapped) -> Verdict {
        let verdict = lock(&self.judge)(&tapped);
        lock(&self.tapped).push(tapped);
        self.changes.send_modify(|count| *count += 1);
        verdict
    }

    fn cut(&self) {
        self.line.send_modify(|line| {
            line.cuts += 1;
            line.up = false;
        });
    }
}

async fn serve(listener: TcpListener, shared: Arc<Shared>) {
    let mut connections = JoinSet::new();
    let mut number = 0;
    while let Ok((client, _)) = listener.accept().await {
        let mut line = shared.line.subscribe();
        let Line { cuts, up: true } = *line.borrow() else { continue };
        number += 1;
        let shared = Arc::clone(&shared);
        connections.spawn(async move {
            tokio::select! {
                biased;
                _ = line.wait_for(|line| line.cuts != cuts) => {}
                // Either end may leave in any way it likes; the other is then hung up on.
                _ = relay(client, number, &shared) => {}
            }
        });
        while connections.try_join_next().is_some() {}
    }
}

async fn relay(client: TcpStream, connection: usize, shared: &Shared) -> Result<()> {
    let (mut client, mut executor) = join(client, &shared.upstream).await?;
    loop {
        let (direction, message) = tokio::select! {
            message = client.next() => (Direction::ToExecutor, message),
            message = executor.next() => (Direction::ToClient, message),
        };
        let Some(message) = message.transpose()? else { return Ok(()) };
        let (from, to) = match direction {
            Direction::ToExecutor => (&mut client, &mut executor),
            Direction::ToClient => (&mut executor, &mut client),
        };
        let Some(parsed) = json(&message) else {
            // The library itself answers pings and close frames of each side.
            if message.is_close() {
                return Ok(());
            }
            continue;
        };
        match shared.judge(Tapped { connection, direction, message: parsed }) {
            Verdict::Pass => to.send(message).await?,
            Verdict::Replace(other) => to.send(text(&other)).await?,
            Verdict::Answer(answer) => from.send(text(&answer)).await?,
            Verdict::Lose => {}
            Verdict::Cut => {
                shared.cut();
                return Ok(());
            }
            Verdict::PassThenCut => {
                to.send(message).await?;
                shared.cut();
                return Ok(());
            }
        }
    }
}

type Socket = WebSocketStream<TcpStream>;

/// Accepts the client and connects to the executor, with the client's credential.
async fn join(client: TcpStream, upstream: &str) -> Result<(Socket, Socket)> {
    client.set_nodelay(true)?;
    let mut credential: Option<HeaderValue> = None;
    #[expect(clippy::result_large_err, reason = "the library gives the callback its type")]
    let keep_credential = |request: &Request, response: Response| {
        credential = request.headers().get("authorization").cloned();
        Ok(response)
    };
    let client = accept_hdr_async(client, keep_credential).await?;
    let mut request = upstream.into_client_request()?;
    if let Some(credential) = credential {
        request.headers_mut().insert("authorization", credential);
    }
    let Some(address) = request.uri().authority().map(|authority| authority.to_string()) else {
        bail!("{upstream} names no host");
    };
    let executor = TcpStream::connect(address).await?;
    executor.set_nodelay(true)?;
    let (executor, _) = client_async(request, executor).await?;
    Ok((client, executor))
}

fn json(message: &Message) -> Option<Value> {
    match message {
        Message::Text(text) => Some(serde_json::from_str(text).unwrap_or_default()),
        Message::Binary(bytes) => Some(serde_json::from_slice(bytes).unwrap_or_default()),
        Message::Ping(_) | Message::Pong(_) | Message::Close(_) | Message::Frame(_) => None,
    }
}

fn text(message: &Value) -> Message {
    Message::text(message.to_string())
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().expect("no holder of the tap's locks panics")
}
