//! What can go wrong between two ends of a pipe. After any error from a [`crate::Connection`] other
//! than a refused `send`, the connection is to be dropped.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

/// A failure of the transport.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The pipe, or a file that was needed, failed.
    #[error("cannot {action}: {source}")]
    Io {
        /// What was tried, as a verb phrase.
        action: &'static str,
        /// The operating system's answer.
        source: io::Error,
    },
    /// The peer broke RFC 6455.
    #[error("websocket protocol violation: {0}")]
    Protocol(&'static str),
    /// The peer announced a frame above the limit.
    #[error("websocket frame of {len} bytes is over the limit of {max}")]
    FrameTooLarge {
        /// The announced length.
        len: u64,
        /// The limit.
        max: usize,
    },
    /// A message, incoming or outgoing, is above the limit.
    #[error("message of at least {len} bytes is over the limit of {max}")]
    MessageTooLarge {
        /// The length as far as it is known.
        len: usize,
        /// The limit.
        max: usize,
    },
    /// A text message or a line is not UTF-8.
    #[error("message is not valid utf-8")]
    NotUtf8,
    /// A message was to be sent after the close frame.
    #[error("connection is closing")]
    Closed,
    /// `send_with` was given a length that its closure did not keep; nothing was queued.
    #[error("message was announced with {announced} bytes but filled with {filled}")]
    LengthMismatch {
        /// The length passed to `send_with`.
        announced: usize,
        /// The number of bytes appended.
        filled: usize,
    },
    /// A deadline passed.
    #[error("{what} took longer than {limit:?}")]
    Timeout {
        /// What was waited for.
        what: &'static str,
        /// The deadline.
        limit: Duration,
    },
    /// The peer's answer to an upgrade is not acceptable.
    #[error("websocket handshake failed: {0}")]
    Handshake(&'static str),
    /// The server answered the upgrade with another status.
    #[error("server refused the websocket upgrade with status {status}: {body}")]
    Refused {
        /// The HTTP status.
        status: u16,
        /// The start of the body, without control characters.
        body: String,
    },
    /// The URL cannot be connected to.
    #[error("invalid websocket url `{url}`: {reason}")]
    Url {
        /// The URL as given.
        url: String,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// A bearer token would have crossed the network in the clear.
    #[error("bearer token is not sent over ws:// to {host}, which is not loopback; use wss://")]
    TokenInClear {
        /// The host or address.
        host: String,
    },
    /// The bearer token cannot be put in a header.
    #[error("bearer token must be non-empty visible ascii")]
    BearerToken,
    /// A host name has no address.
    #[error("cannot resolve {host}: {source}")]
    Resolve {
        /// The host name.
        host: String,
        /// The resolver's answer.
        source: io::Error,
    },
    /// A PEM file cannot be used.
    #[error("cannot load {what} from {path}: {source}", path = path.display())]
    Pem {
        /// "certificates" or "private key".
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// The parser's answer.
        source: rustls_pki_types::pem::Error,
    },
    /// A PEM file holds no certificate.
    #[error("no certificate in {path}", path = path.display())]
    NoCertificate {
        /// The file.
        path: PathBuf,
    },
    /// Certificates, key and protocol do not make a TLS configuration.
    #[error("cannot configure tls: {0}")]
    Tls(#[from] rustls::Error),
    /// The operating system has no root certificates to offer.
    #[error("no system root certificates found{detail}")]
    NoSystemRoots {
        /// The first failure on the way, if any.
        detail: String,
    },
    /// The operating system gives no random bytes.
    #[error("cannot get random bytes: {0}")]
    Random(#[from] getrandom::Error),
}

impl Error {
    /// For `map_err`: an I/O error with what was tried.
    pub(crate) fn io(action: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io { action, source }
    }
}
