//! Any byte pipe as a [`Connection`] that carries whole messages.
//!
//! This crate owns framing (WebSocket, lines), the HTTP upgrade on both sides, bearer
//! authentication, TLS and the pipes themselves. It knows nothing of JSON-RPC: a message is bytes.
//!
//! ```text
//! TCP -- tune_tcp -- [accept_tls] -- accept ---------.
//! url -- connect_websocket --------------------------+--> Connection: poll_message, send, poll_flush
//! stdin/stdout -- process_stdio, stdio --------------|
//! memory_pair ---------------------------------------'
//! ```
//!
//! One task owns a connection, unsplit, and drives it by polling. So reads, pongs and writes happen
//! in one place without locks. Every limit is in [`Limits`] and [`AcceptPolicy`].

mod error;
mod limits;

mod connection;
mod lines;
mod output;
mod scratch;
mod ws;

mod accept;
mod auth;
mod http;
mod listen_url;
mod tcp;
mod tls;

mod connect;
mod fuzz_http;
mod url;

mod memory;
mod stdio;

pub use accept::{AcceptPolicy, AllowedHosts, accept};
pub use auth::{AuthConfigError, AuthError, WsAuth, WsAuthFlags, WsAuthMode};
pub use connect::{ConnectOptions, connect_websocket};
pub use connection::{Connection, Io, Peer};
pub use error::Error;
#[doc(hidden)]
pub use fuzz_http::fuzz_http_head;
pub use limits::Limits;
pub use listen_url::{DEFAULT_LISTEN_URL, ListenUrl, ListenUrlParseError};
pub use memory::memory_pair;
pub use stdio::{process_stdio, stdio};
pub use tcp::tune_tcp;
pub use tls::{ClientTls, TlsRoots, accept_tls, server_tls};
pub use ws::fuzz_decode;
