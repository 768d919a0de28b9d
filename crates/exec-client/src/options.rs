//! How a client connects and what it bounds.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use exec_protocol::session::Attach;

use crate::limits;

/// How to connect, for how long to try again, and how much to hold.
///
/// ```
/// use exec_client::ExecServerClientConnectOptions;
///
/// let options = ExecServerClientConnectOptions {
///     client_name: "my-agent".into(),
///     bearer_token: Some("secret".into()),
///     ..Default::default()
/// };
/// assert!(!format!("{options:?}").contains("secret"));
/// ```
#[derive(Clone)]
pub struct ExecServerClientConnectOptions {
    /// What the client calls itself; not interpreted.
    pub client_name: String,
    /// For name resolution, TCP, TLS and the WebSocket upgrade together.
    pub connect_timeout: Duration,
    /// For the answer to `initialize`.
    pub initialize_timeout: Duration,
    /// How long a lost WebSocket is tried again before everything on it counts as lost.
    pub recovery_window: Duration,
    /// Between two tries.
    pub recovery_step: Duration,
    /// Sent with the WebSocket upgrade; over `ws://` to loopback hosts only.
    pub bearer_token: Option<String>,
    /// Certificates (PEM) to trust for `wss://`, instead of those of the operating system.
    pub tls_roots_file: Option<PathBuf>,
    /// A session of an earlier client, to be continued.
    pub resume_session_id: Option<String>,
    /// Owner of the session, or an observer, which receives no notifications: it calls, but its
    /// process handles stay silent.
    pub attach: Attach,
    /// What the client understands beyond the base protocol.
    pub extensions: Vec<String>,
    /// A WebSocket that was silent for so long counts as lost; `None` waits for ever.
    pub silence_limit: Option<Duration>,
    /// How long a process whose events nobody takes may keep others from being read. Then its
    /// output is left to the server, and what it no longer retains becomes a gap.
    pub stall_limit: Duration,
    /// Output of one process that its handle has not taken yet. When it is full, the connection is
    /// not read until there is room.
    pub queued_bytes_max: usize,
    /// Output that `communicate` collects at most.
    pub collect_bytes_max: usize,
}

impl Default for ExecServerClientConnectOptions {
    fn default() -> Self {
        Self {
            client_name: concat!("exec-client/", env!("CARGO_PKG_VERSION")).to_owned(),
            connect_timeout: limits::CONNECT_TIMEOUT,
            initialize_timeout: limits::CONNECT_TIMEOUT,
            recovery_window: limits::RECOVERY_WINDOW,
            recovery_step: limits::RECOVERY_STEP,
            bearer_token: None,
            tls_roots_file: None,
            resume_session_id: None,
            attach: Attach::Owner,
            extensions: Vec::new(),
            silence_limit: Some(limits::SILENCE_LIMIT),
            stall_limit: limits::STALL_LIMIT,
            queued_bytes_max: limits::QUEUED_BYTES_MAX,
            collect_bytes_max: limits::COLLECT_BYTES_MAX,
        }
    }
}

impl ExecServerClientConnectOptions {
    /// The same with every time short enough to be added to a clock.
    pub(crate) fn bounded(mut self) -> Self {
        for time in [
            &mut self.connect_timeout,
            &mut self.initialize_timeout,
            &mut self.recovery_window,
            &mut self.recovery_step,
            &mut self.stall_limit,
        ] {
            *time = (*time).min(limits::TIME_MAX);
        }
        self.silence_limit = self.silence_limit.map(|limit| limit.min(limits::TIME_MAX));
        self
    }
}

/// Shows that there is a token and never which.
impl fmt::Debug for ExecServerClientConnectOptions {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("ExecServerClientConnectOptions")
            .field("client_name", &self.client_name)
            .field("bearer_token", &self.bearer_token.as_ref().map(|_| ".."))
            .field("tls_roots_file", &self.tls_roots_file)
            .field("resume_session_id", &self.resume_session_id)
            .field("attach", &self.attach)
            .field("recovery_window", &self.recovery_window)
            .finish_non_exhaustive()
    }
}
