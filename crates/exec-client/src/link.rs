//! From an address to a session: connect, `initialize`, `initialized`.

use std::time::Duration;

use exec_protocol::jsonrpc::{self, Message, RequestId};
use exec_protocol::methods::{Initialize, Initialized, Method as _, Notice as _};
use exec_protocol::session::{InitializeParams, InitializeResult, InitializedParams};
use exec_transport::{
    ClientTls, ConnectOptions, Connection, Error as TransportError, Limits, TlsRoots,
    connect_websocket,
};
use tokio::time::timeout;

use crate::limits::{GREETING_BYTES_MAX, GREETING_MESSAGES_MAX};
use crate::router::INITIALIZE_ID;
use crate::{ExecServerClientConnectOptions, ExecServerError};

/// How to connect, once or again.
#[derive(Debug, Clone)]
pub(crate) enum Link {
    /// To a server that keeps the session for a while.
    WebSocket { url: String, connect: ConnectOptions },
    /// A connection that cannot be made again; with it the session ends.
    Once,
}

/// The transport's part of the options.
pub(crate) fn connect_options(options: &ExecServerClientConnectOptions) -> ConnectOptions {
    let roots = options.tls_roots_file.clone().map_or(TlsRoots::System, TlsRoots::File);
    let limits = Limits::default();
    ConnectOptions {
        bearer_token: options.bearer_token.clone(),
        timeout: options.connect_timeout,
        tls: ClientTls { roots },
        // The reference never splits a message.
        limits: Limits { frame_bytes_max: limits.message_bytes_max, ..limits },
    }
}

/// A connection with its session.
#[derive(Debug)]
pub(crate) struct Opened {
    pub(crate) connection: Connection,
    pub(crate) result: InitializeResult,
    /// What arrived before the answer to `initialize`: a resumed session speaks at once. Its
    /// beginning at least; a resume asks for whatever is missing anyway.
    pub(crate) greeting: Vec<Vec<u8>>,
}

/// Connects to a WebSocket server.
pub(crate) async fn connect(
    url: &str,
    options: &ConnectOptions,
) -> Result<Connection, ExecServerError> {
    connect_websocket(url, options).await.map_err(|error| {
        if let TransportError::Refused { status, body } = error {
            return ExecServerError::Refused { status, body };
        }
        if let TransportError::Timeout { what, limit } = error {
            return ExecServerError::Timeout { what, limit };
        }
        ExecServerError::Connect { target: url.to_owned(), reason: error.to_string() }
    })
}

/// Opens or continues a session. Reads from the moment that `initialize` is queued.
pub(crate) async fn initialize(
    connection: Connection,
    params: &InitializeParams,
    limit: Duration,
) -> Result<Opened, ExecServerError> {
    let timed_out = |_| ExecServerError::Timeout { what: "initialize", limit };
    timeout(limit, exchange(connection, params)).await.map_err(timed_out)?
}

async fn exchange(
    mut connection: Connection,
    params: &InitializeParams,
) -> Result<Opened, ExecServerError> {
    let id = RequestId::Number(INITIALIZE_ID);
    let mut text = Vec::new();
    jsonrpc::encode_request(&mut text, &id, Initialize::NAME, params).map_err(protocol)?;
    connection.send(&text).map_err(protocol)?;
    let mut greeting = Vec::new();
    let mut greeting_bytes = 0;
    let result = loop {
        let message = match connection.next_message().await {
            Ok(Some(message)) => message,
            Ok(None) => return Err(lost("server closed the connection before its answer")),
            Err(error) => return Err(lost(&error.to_string())),
        };
        match jsonrpc::decode(&message).map_err(protocol)? {
            Message::Response { id: answered, result } if answered == id => {
                break serde_json::from_str(result).map_err(protocol)?;
            }
            Message::Error { id: answered, error }
                if answered == id || answered == RequestId::UNREADABLE =>
            {
                let (code, message) = (error.code, error.message);
                return Err(ExecServerError::Initialize { code, message });
            }
            Message::Request(_)
            | Message::Notification(_)
            | Message::Response { .. }
            | Message::Error { .. } => {}
        }
        greeting_bytes += message.len();
        if greeting.len() < GREETING_MESSAGES_MAX && greeting_bytes <= GREETING_BYTES_MAX {
            greeting.push(message);
        }
    };
    text.clear();
    let params = InitializedParams::default();
    jsonrpc::encode_notification(&mut text, Initialized::NAME, &params).map_err(protocol)?;
    connection.send(&text).map_err(protocol)?;
    Ok(Opened { connection, result, greeting })
}

fn protocol(error: impl std::fmt::Display) -> ExecServerError {
    ExecServerError::Protocol(error.to_string())
}

fn lost(reason: &str) -> ExecServerError {
    ExecServerError::ConnectionLost(reason.to_owned())
}
