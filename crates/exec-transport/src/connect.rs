//! The client's side of a WebSocket's beginning: URL -> TCP -> TLS, perhaps -> upgrade.

use std::net::SocketAddr;
use std::pin::Pin;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::accept::{may_complete, read_more, within};
use crate::connection::{Connection, Io};
use crate::error::Error;
use crate::http::{has_token, header};
use crate::limits::{
    ADDRESSES_MAX, HEAD_BYTES_MAX, HEADERS_MAX, Limits, REFUSAL_BODY_BYTES_MAX,
    REFUSAL_BODY_TIMEOUT,
};
use crate::tcp::tune_tcp;
use crate::tls::{ClientTls, connect_tls};
use crate::url::{Scheme, WsUrl, is_loopback_host};
use crate::ws::{Role, accept_key, new_key};

const DEFAULT_TIMEOUT: Duration = Duration::from_secs(10);

/// How to connect.
#[derive(Clone)]
pub struct ConnectOptions {
    /// Sent as `authorization: Bearer …`; over `ws://` to loopback hosts only.
    pub bearer_token: Option<String>,
    /// For everything together: name, TCP, TLS and upgrade.
    pub timeout: Duration,
    /// For `wss://`.
    pub tls: ClientTls,
    /// The limits of the connection.
    pub limits: Limits,
}

impl Default for ConnectOptions {
    fn default() -> Self {
        Self {
            bearer_token: None,
            timeout: DEFAULT_TIMEOUT,
            tls: ClientTls::default(),
            limits: Limits::default(),
        }
    }
}

/// Shows that there is a token and never which.
impl std::fmt::Debug for ConnectOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ConnectOptions")
            .field("bearer_token", &self.bearer_token.as_ref().map(|_| ".."))
            .field("timeout", &self.timeout)
            .field("tls", &self.tls)
            .field("limits", &self.limits)
            .finish()
    }
}

/// Opens a WebSocket.
///
/// # Errors
/// Before anything is sent when the URL or the token is unsuitable; [`Error::Refused`] when the
/// server answers with another status than 101.
pub async fn connect_websocket(url: &str, options: &ConnectOptions) -> Result<Connection, Error> {
    let url = WsUrl::parse(url)?;
    check_token(&url, options)?;
    within("websocket connect", options.timeout, connect(&url, options)).await
}

async fn connect(url: &WsUrl, options: &ConnectOptions) -> Result<Connection, Error> {
    let tcp = connect_tcp(url, options).await?;
    tune_tcp(&tcp).map_err(Error::io("set socket options"))?;
    let mut io: Pin<Box<dyn Io>> = match url.scheme {
        Scheme::Ws => Box::pin(tcp),
        Scheme::Wss => Box::pin(connect_tls(tcp, &url.host, &options.tls).await?),
    };
    let key = new_key()?;
    let request = request(url, &key, options.bearer_token.as_deref());
    io.write_all(request.as_bytes()).await.map_err(Error::io("write http request"))?;
    io.flush().await.map_err(Error::io("write http request"))?;
    let mut bytes = Vec::new();
    match read_answer(&mut io, &mut bytes, &key).await? {
        Answer::Upgraded { head_len } => {
            let early = &bytes[head_len..];
            Connection::websocket(io, Role::Client, url.address(), options.limits, early)
        }
        Answer::Other { status, head_len, body_len } => {
            bytes.drain(..head_len);
            let body = read_refusal_body(io, bytes, body_len).await;
            Err(Error::Refused { status, body })
        }
    }
}

fn check_token(url: &WsUrl, options: &ConnectOptions) -> Result<(), Error> {
    let Some(token) = &options.bearer_token else { return Ok(()) };
    if token.is_empty() || !token.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(Error::BearerToken);
    }
    let host = if url.host.contains(':') { format!("[{}]", url.host) } else { url.host.clone() };
    match url.scheme {
        Scheme::Ws if !is_loopback_host(&host) => Err(Error::TokenInClear { host }),
        Scheme::Ws | Scheme::Wss => Ok(()),
    }
}

/// Tries the addresses of the host in turn. A token in the clear goes to loopback addresses only,
/// whatever `localhost` resolves to here.
async fn connect_tcp(url: &WsUrl, options: &ConnectOptions) -> Result<TcpStream, Error> {
    let resolve = |source| Error::Resolve { host: url.host.clone(), source };
    let addresses: Vec<SocketAddr> = tokio::net::lookup_host((url.host.as_str(), url.port))
        .await
        .map_err(resolve)?
        .take(ADDRESSES_MAX)
        .collect();
    let in_clear = options.bearer_token.is_some() && url.scheme == Scheme::Ws;
    let mut failure = resolve(std::io::ErrorKind::NotFound.into());
    for address in addresses {
        if in_clear && !address.ip().to_canonical().is_loopback() {
            failure = Error::TokenInClear { host: address.ip().to_string() };
            continue;
        }
        match TcpStream::connect(address).await {
            Ok(stream) => return Ok(stream),
            Err(source) => failure = Error::Io { action: "connect", source },
        }
    }
    Err(failure)
}

/// Only the headers that the upgrade needs; above all no `Origin`, which servers refuse.
fn request(url: &WsUrl, key: &str, bearer_token: Option<&str>) -> String {
    let mut request = format!(
        "GET {} HTTP/1.1\r\nHost: {}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
         Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {key}\r\n",
        url.target,
        url.host_header(),
    );
    if let Some(token) = bearer_token {
        request.push_str("authorization: Bearer ");
        request.push_str(token);
        request.push_str("\r\n");
    }
    request + "\r\n"
}

/// A server's answer; `head_len` bytes of it are the head.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    Upgraded { head_len: usize },
    Other { status: u16, head_len: usize, body_len: Option<usize> },
}

async fn read_answer(
    io: &mut Pin<Box<dyn Io>>,
    bytes: &mut Vec<u8>,
    key: &str,
) -> Result<Answer, Error> {
    loop {
        let start = bytes.len();
        if !read_more(io, bytes).await? {
            return Err(Error::Handshake("server closed the connection"));
        }
        if may_complete(bytes, start)
            && let Some(answer) = parse_answer(bytes, key)?
        {
            return Ok(answer);
        }
        if bytes.len() >= HEAD_BYTES_MAX {
            return Err(Error::Handshake("answer head is too large"));
        }
    }
}

pub(crate) fn parse_answer(bytes: &[u8], key: &str) -> Result<Option<Answer>, Error> {
    let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
    let mut response = httparse::Response::new(&mut headers);
    let head_len = match response.parse(bytes) {
        Ok(httparse::Status::Complete(len)) => len,
        Ok(httparse::Status::Partial) => return Ok(None),
        Err(_) => return Err(Error::Handshake("answer is not http")),
    };
    let headers: &[httparse::Header<'_>] = response.headers;
    let status = response.code.unwrap_or_default();
    if status != 101 {
        let length =
            header(headers, "content-length").and_then(|len| std::str::from_utf8(len).ok());
        let body_len = length.and_then(|len| len.parse().ok());
        return Ok(Some(Answer::Other { status, head_len, body_len }));
    }
    if !has_token(headers, "connection", "upgrade") || !has_token(headers, "upgrade", "websocket") {
        return Err(Error::Handshake("server switched to something else than websocket"));
    }
    if header(headers, "sec-websocket-accept") != Some(accept_key(key.as_bytes()).as_bytes()) {
        return Err(Error::Handshake("server did not prove that it speaks websocket"));
    }
    // RFC 6455, 4.1: what was not offered must not be selected.
    if header(headers, "sec-websocket-extensions").is_some()
        || header(headers, "sec-websocket-protocol").is_some()
    {
        return Err(Error::Handshake("server selected what was not offered"));
    }
    Ok(Some(Answer::Upgraded { head_len }))
}

/// The start of the body, as far as it comes soon, on one line and without control characters.
async fn read_refusal_body(
    mut io: Pin<Box<dyn Io>>,
    mut body: Vec<u8>,
    body_len: Option<usize>,
) -> String {
    let want = body_len.unwrap_or(usize::MAX).min(REFUSAL_BODY_BYTES_MAX);
    let read = async {
        while body.len() < want {
            let room = (want - body.len()) as u64;
            match (&mut io).take(room).read_buf(&mut body).await {
                Ok(0) | Err(_) => break,
                Ok(_) => {}
            }
        }
    };
    // What came in time is shown.
    tokio::time::timeout(REFUSAL_BODY_TIMEOUT, read).await.ok();
    body.truncate(want);
    let text = String::from_utf8_lossy(&body);
    text.trim().chars().map(|char| if char.is_control() { ' ' } else { char }).collect()
}
