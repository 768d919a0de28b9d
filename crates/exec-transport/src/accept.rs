//! The server's side of a WebSocket's beginning: one HTTP request, read under a deadline.
//!
//! What to answer is decided in `http.rs`; here the bytes move.

use std::net::SocketAddr;
use std::pin::Pin;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::auth::WsAuth;
use crate::connection::{Connection, Io};
use crate::error::Error;
use crate::http::{self, Verdict};
use crate::limits::{HEAD_BYTES_MAX, HEAD_TIMEOUT, LINGER_BYTES_MAX, LINGER_TIMEOUT, Limits};
use crate::ws::Role;

/// Who may connect, and how much they may send.
#[derive(Debug, Clone)]
pub struct AcceptPolicy {
    /// The check of the upgrade's bearer token.
    pub auth: WsAuth,
    /// The check of the `Host` header.
    pub allowed_hosts: AllowedHosts,
    /// The limits of the connection.
    pub limits: Limits,
    /// Time for the whole head of a request.
    pub head_timeout: Duration,
}

/// Which names a request may call us by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AllowedHosts {
    /// Any, or none.
    Any,
    /// None, `localhost` or a literal loopback address, with any port.
    Loopback,
}

impl AcceptPolicy {
    /// The policy of a listener: on loopback, only loopback names are answered.
    pub fn for_listener(listener: SocketAddr, auth: WsAuth) -> Self {
        let allowed_hosts = match listener.ip().to_canonical().is_loopback() {
            true => AllowedHosts::Loopback,
            false => AllowedHosts::Any,
        };
        Self { auth, allowed_hosts, limits: Limits::default(), head_timeout: HEAD_TIMEOUT }
    }
}

/// Reads one HTTP request and answers it. `Ok(None)` means that the answer was not an upgrade; the
/// stream is closed then.
///
/// # Errors
/// When the head does not come in time or the stream fails.
pub async fn accept(
    stream: impl Io,
    peer_addr: SocketAddr,
    policy: &AcceptPolicy,
) -> Result<Option<Connection>, Error> {
    let mut io: Pin<Box<dyn Io>> = Box::pin(stream);
    let mut bytes = Vec::new();
    let judged = read_and_judge(&mut io, &mut bytes, policy);
    let verdict = within("http request head", policy.head_timeout, judged).await?;
    match verdict {
        Verdict::Upgrade { answer, head_len } => {
            write(&mut io, &answer).await?;
            let address = peer_addr.to_string();
            let early = &bytes[head_len..];
            Connection::websocket(io, Role::Server, address, policy.limits, early).map(Some)
        }
        Verdict::Answer(answer) => {
            let status = answer.get(9..12).unwrap_or_default();
            tracing::debug!(peer = %peer_addr, status, "answered http");
            write(&mut io, &answer).await?;
            linger(io).await;
            Ok(None)
        }
        // The peer went away before its head was complete.
        Verdict::ReadMore => Ok(None),
    }
}

/// Runs a step of a handshake under its deadline.
pub(crate) async fn within<T>(
    what: &'static str,
    limit: Duration,
    step: impl Future<Output = Result<T, Error>>,
) -> Result<T, Error> {
    match tokio::time::timeout(limit, step).await {
        Ok(result) => result,
        Err(_) => Err(Error::Timeout { what, limit }),
    }
}

/// Reads the next bytes of a head, whose size is bounded. False at the end of the stream.
pub(crate) async fn read_more(
    io: &mut Pin<Box<dyn Io>>,
    bytes: &mut Vec<u8>,
) -> Result<bool, Error> {
    let room = HEAD_BYTES_MAX.saturating_sub(bytes.len()) as u64;
    let count = io.take(room).read_buf(bytes).await.map_err(Error::io("read http head"))?;
    Ok(count > 0)
}

/// Whether the end of a head may be among the bytes from `start` on. Parsing begins anew each time,
/// so a head that comes byte by byte must not be parsed byte by byte.
pub(crate) fn may_complete(bytes: &[u8], start: usize) -> bool {
    start == 0
        || bytes.len() >= HEAD_BYTES_MAX
        || bytes[start.saturating_sub(3)..]
            .windows(2)
            .any(|pair| pair == b"\n\r" || pair == b"\n\n")
}

async fn read_and_judge(
    io: &mut Pin<Box<dyn Io>>,
    bytes: &mut Vec<u8>,
    policy: &AcceptPolicy,
) -> Result<Verdict, Error> {
    loop {
        let start = bytes.len();
        if !read_more(io, bytes).await? {
            return Ok(Verdict::ReadMore);
        }
        if !may_complete(bytes, start) {
            continue;
        }
        let verdict = http::judge(bytes, policy, now_unix());
        if verdict != Verdict::ReadMore {
            return Ok(verdict);
        }
    }
}

async fn write(io: &mut Pin<Box<dyn Io>>, answer: &str) -> Result<(), Error> {
    within("http answer", HEAD_TIMEOUT, async {
        io.write_all(answer.as_bytes()).await.map_err(Error::io("write http answer"))?;
        io.flush().await.map_err(Error::io("write http answer"))
    })
    .await
}

/// Ends a stream so that the answer arrives: no more output, and input read for a moment.
async fn linger(mut io: Pin<Box<dyn Io>>) {
    let drain = async {
        io.shutdown().await?;
        let mut rest = io.take(LINGER_BYTES_MAX as u64);
        tokio::io::copy(&mut rest, &mut tokio::io::sink()).await
    };
    // Whatever happens, the stream is dropped now.
    tokio::time::timeout(LINGER_TIMEOUT, drain).await.ok();
}

fn now_unix() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(now.as_secs()).unwrap_or(i64::MAX)
}
