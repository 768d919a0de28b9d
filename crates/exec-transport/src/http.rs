//! What a listener answers to an HTTP request: the whole table, as one pure function.
//!
//! The order of the checks is observable and copied from the reference: origin, then path, then
//! method, then the upgrade headers, and authentication last. The check of `Host` is ours.

use std::fmt::Write as _;

use crate::accept::{AcceptPolicy, AllowedHosts};
use crate::limits::{HEAD_BYTES_MAX, HEADERS_MAX};
use crate::url::is_loopback_host;
use crate::ws;

/// What to do with the bytes of a request so far.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The head is not complete.
    ReadMore,
    /// Send these bytes; what follows the first `head_len` bytes is WebSocket.
    Upgrade { answer: String, head_len: usize },
    /// Send these bytes and close.
    Answer(String),
}

/// Judges the bytes of a request.
pub(crate) fn judge(bytes: &[u8], policy: &AcceptPolicy, now_unix: i64) -> Verdict {
    let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
    let mut request = httparse::Request::new(&mut headers);
    let head_len = match request.parse(bytes) {
        Ok(httparse::Status::Complete(len)) if len <= HEAD_BYTES_MAX => len,
        Ok(httparse::Status::Partial) if bytes.len() < HEAD_BYTES_MAX => return Verdict::ReadMore,
        Ok(_) | Err(httparse::Error::TooManyHeaders) => {
            return Verdict::Answer(Answer::empty(431).encode());
        }
        Err(_) => return Verdict::Answer(Answer::empty(400).encode()),
    };
    let request = Request {
        method: request.method.unwrap_or_default(),
        target: request.path.unwrap_or_default(),
        minor_version: request.version.unwrap_or_default(),
        headers: request.headers,
    };
    match route(&request, policy, now_unix) {
        Ok(key) => Verdict::Upgrade { answer: switching_protocols(key), head_len },
        Err(mut answer) => {
            answer.body_sent = request.method != "HEAD";
            Verdict::Answer(answer.encode())
        }
    }
}

/// A parsed request, or the headers of an answer.
struct Request<'a> {
    method: &'a str,
    target: &'a str,
    minor_version: u8,
    headers: &'a [httparse::Header<'a>],
}

/// The key to upgrade with, or another answer.
fn route<'a>(
    request: &Request<'a>,
    policy: &AcceptPolicy,
    now_unix: i64,
) -> Result<&'a [u8], Answer> {
    if header(request.headers, "origin").is_some() {
        return Err(Answer::empty(403));
    }
    let (authority, path) = split_target(request.target);
    check_hosts(authority, request.headers, policy.allowed_hosts)?;
    match (path, request.method) {
        ("/readyz", "GET" | "HEAD") => Err(Answer::empty(200)),
        ("/readyz", _) => Err(Answer { allow: Some("GET,HEAD"), ..Answer::empty(405) }),
        ("/", "GET") => upgrade(request, policy, now_unix),
        ("/", _) => Err(Answer::text(405, "Request method must be `GET`")),
        _ => Err(Answer::empty(404)),
    }
}

fn upgrade<'a>(
    request: &Request<'a>,
    policy: &AcceptPolicy,
    now_unix: i64,
) -> Result<&'a [u8], Answer> {
    let headers = request.headers;
    if !has_token(headers, "connection", "upgrade") {
        return Err(Answer::text(400, "Connection header did not include 'upgrade'"));
    }
    if !has_token(headers, "upgrade", "websocket") {
        return Err(Answer::text(400, "`Upgrade` header did not include 'websocket'"));
    }
    if header(headers, "sec-websocket-version") != Some(b"13") {
        return Err(Answer::text(400, "`Sec-WebSocket-Version` header did not include '13'"));
    }
    let Some(key) = header(headers, "sec-websocket-key") else {
        return Err(Answer::text(400, "`Sec-WebSocket-Key` header missing"));
    };
    if request.minor_version == 0 {
        return Err(Answer::text(426, "WebSocket upgrade needs HTTP/1.1"));
    }
    match policy.auth.check(header(headers, "authorization"), now_unix) {
        Ok(()) => Ok(key),
        Err(error) => Err(Answer::text(401, &error.to_string())),
    }
}

/// Refuses names that are not ours: behind one, a page in a browser on this machine could reach a
/// loopback listener (DNS rebinding). Browsers always send the name.
fn check_hosts(
    authority: Option<&str>,
    headers: &[httparse::Header<'_>],
    allowed: AllowedHosts,
) -> Result<(), Answer> {
    let named = headers.iter().filter(|header| header.name.eq_ignore_ascii_case("host"));
    let mut hosts = named.map(|header| header.value).chain(authority.map(str::as_bytes));
    match allowed {
        AllowedHosts::Any => Ok(()),
        AllowedHosts::Loopback if hosts.all(is_loopback_authority) => Ok(()),
        AllowedHosts::Loopback => Err(Answer::text(
            403,
            "Host header must name a loopback address or `localhost`, since the server listens on loopback",
        )),
    }
}

fn is_loopback_authority(authority: &[u8]) -> bool {
    let Ok(authority) = std::str::from_utf8(authority) else { return false };
    let host = match authority.rsplit_once(':') {
        Some((host, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => host,
        Some(_) | None => authority,
    };
    is_loopback_host(host)
}

/// The authority, which only the absolute form has, and the path without its query.
fn split_target(target: &str) -> (Option<&str>, &str) {
    let (authority, path) = match target.split_once("://") {
        Some((_, rest)) if !target.starts_with('/') => {
            let (authority, path) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
            (Some(authority), path)
        }
        Some(_) | None => (None, target),
    };
    match path.split_once('?').map_or(path, |(path, _)| path) {
        "" => (authority, "/"),
        path => (authority, path),
    }
}

/// The value of the first header of that name.
pub(crate) fn header<'a>(headers: &[httparse::Header<'a>], name: &str) -> Option<&'a [u8]> {
    headers.iter().find(|header| header.name.eq_ignore_ascii_case(name)).map(|header| header.value)
}

/// Whether any header of that name lists the token.
pub(crate) fn has_token(headers: &[httparse::Header<'_>], name: &str, token: &str) -> bool {
    headers
        .iter()
        .filter(|header| header.name.eq_ignore_ascii_case(name))
        .flat_map(|header| header.value.split(|byte| *byte == b','))
        .any(|listed| listed.trim_ascii().eq_ignore_ascii_case(token.as_bytes()))
}

/// No subprotocol and no extension: neither is ever selected.
fn switching_protocols(key: &[u8]) -> String {
    format!(
        "HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: websocket\r\n\
         sec-websocket-accept: {}\r\n\r\n",
        ws::accept_key(key)
    )
}

/// An answer other than the upgrade. The connection ends with it.
struct Answer {
    status: u16,
    text: Option<String>,
    allow: Option<&'static str>,
    body_sent: bool,
}

impl Answer {
    fn empty(status: u16) -> Self {
        Self { status, text: None, allow: None, body_sent: true }
    }

    fn text(status: u16, text: &str) -> Self {
        Self { text: Some(text.to_owned()), ..Self::empty(status) }
    }

    fn encode(&self) -> String {
        let reason = match self.status {
            200 => "OK",
            400 => "Bad Request",
            401 => "Unauthorized",
            403 => "Forbidden",
            404 => "Not Found",
            405 => "Method Not Allowed",
            426 => "Upgrade Required",
            431 => "Request Header Fields Too Large",
            _ => "Error",
        };
        let body = self.text.as_deref().unwrap_or_default();
        let mut out = format!("HTTP/1.1 {} {reason}\r\nconnection: close\r\n", self.status);
        if let Some(allow) = self.allow {
            out.push_str("allow: ");
            out.push_str(allow);
            out.push_str("\r\n");
        }
        if self.text.is_some() {
            out.push_str("content-type: text/plain; charset=utf-8\r\n");
        }
        write!(out, "content-length: {}\r\n\r\n", body.len()).expect("a string takes all");
        if self.body_sent {
            out.push_str(body);
        }
        out
    }
}

#[cfg(test)]
#[path = "http_tests.rs"]
mod tests;
