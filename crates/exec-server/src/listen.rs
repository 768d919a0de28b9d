//! Where connections come from: a WebSocket listener, or stdin and stdout.

use std::io::{self, Write};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use exec_process::sys::{needs_reaping, reap_strangers};
use exec_transport::{
    AcceptPolicy, WsAuth, accept, accept_tls, process_stdio, server_tls, tune_tcp,
};
pub use exec_transport::{DEFAULT_LISTEN_URL, ListenUrl, ListenUrlParseError};
use tokio::net::{TcpListener, TcpStream};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use crate::config::ExecServerConfig;
use crate::limits::CONNECTIONS_MAX;
use crate::server::Server;

/// How long to wait before accepting again when the machine is out of descriptors or memory.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// How long connections have to send their last words when the server stops.
const GOODBYE: Duration = Duration::from_secs(1);

/// Where and for whom to listen.
#[derive(Debug, Clone)]
pub struct ListenOptions {
    /// Where.
    pub url: ListenUrl,
    /// For whom.
    pub auth: WsAuth,
    /// Certificate chain and private key, for `wss`.
    pub tls: Option<TlsFiles>,
    /// Listen beyond this machine although anybody who reaches the port may run commands.
    pub allow_unauthenticated_network: bool,
}

/// PEM files.
#[derive(Debug, Clone)]
pub struct TlsFiles {
    /// Certificate chain, the server's own first.
    pub certificate: PathBuf,
    /// Its private key.
    pub key: PathBuf,
}

impl Default for ListenOptions {
    fn default() -> Self {
        Self {
            url: DEFAULT_LISTEN_URL.parse().expect("the default is a listen URL"),
            auth: WsAuth::None,
            tls: None,
            allow_unauthenticated_network: false,
        }
    }
}

/// Why a server cannot listen.
#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    /// Authentication is of the WebSocket upgrade.
    #[error("WebSocket auth requires a WebSocket listener, not stdio")]
    AuthOnStdio,
    /// Certificate and listener do not belong together.
    #[error("{0}")]
    TlsMismatch(&'static str),
    /// Anybody on the network could run commands.
    #[error(
        "refusing to listen on {0}: it is reachable from other machines and nobody would be asked \
         for a password, so anybody could run commands as this user; set `--ws-auth`, or listen on \
         127.0.0.1, or pass `--allow-unauthenticated-network` if you really mean it"
    )]
    Unauthenticated(SocketAddr),
    /// The address is not to be had.
    #[error("cannot listen on {address}: {source}")]
    Bind {
        /// Which address.
        address: SocketAddr,
        /// Why.
        source: io::Error,
    },
    /// Certificate, key, or stdin and stdout cannot be used.
    #[error(transparent)]
    Transport(#[from] exec_transport::Error),
    /// The operating system refused something else.
    #[error("cannot {action}: {source}")]
    Io {
        /// What.
        action: &'static str,
        /// Why.
        source: io::Error,
    },
}

/// Runs a server as a program does: prints its URL on stdout, serves until SIGTERM or SIGINT (or,
/// on stdio, until the client is gone), and leaves no process behind.
///
/// Must be called within a tokio runtime with I/O and time enabled.
pub async fn run_main(options: ListenOptions, config: ExecServerConfig) -> Result<(), ListenError> {
    let on =
        |kind| signal(kind).map_err(|source| ListenError::Io { action: "watch signals", source });
    let mut terminate = on(SignalKind::terminate())?;
    let mut interrupt = on(SignalKind::interrupt())?;
    let stop = async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    };
    if needs_reaping() {
        tokio::spawn(reap_orphans(on(SignalKind::child())?));
    }
    let announce = |url: &str| {
        let mut stdout = io::stdout().lock();
        writeln!(stdout, "{url}").and_then(|()| stdout.flush())
    };
    serve(options, config, announce, stop).await
}

/// Orphans end up here when the server is init of its container; nobody else waits for them.
async fn reap_orphans(mut ended: tokio::signal::unix::Signal) {
    while ended.recv().await.is_some() {
        reap_strangers(|_| false);
    }
}

/// Serves until `stop` is done. `announce` is told the URL once connections are accepted; it is
/// not called for stdio.
pub async fn serve(
    options: ListenOptions,
    config: ExecServerConfig,
    announce: impl FnOnce(&str) -> io::Result<()>,
    stop: impl Future<Output = ()>,
) -> Result<(), ListenError> {
    let listener = match options.url {
        ListenUrl::Stdio => None,
        ListenUrl::WebSocket { addr, tls } => Some(Listener::bind(&options, addr, tls).await?),
    };
    let Some(listener) = listener else {
        return serve_stdio(&options, config, stop).await;
    };
    let server = Server::new(config);
    announce(&listener.url())
        .map_err(|source| ListenError::Io { action: "print the URL", source })?;
    server.warn_of_sandbox();
    let mut connections = JoinSet::new();
    tokio::select! {
        () = listener.accept_all(&server, &mut connections) => {}
        () = stop => {}
    }
    drop(listener);
    server.shut_down().await;
    let goodbye = async { while connections.join_next().await.is_some() {} };
    // Whoever has not left by now is cut off when the set is dropped.
    tokio::time::timeout(GOODBYE, goodbye).await.ok();
    Ok(())
}

/// One connection, and with it everything ends: nobody could come back.
async fn serve_stdio(
    options: &ListenOptions,
    mut config: ExecServerConfig,
    stop: impl Future<Output = ()>,
) -> Result<(), ListenError> {
    if !matches!(options.auth, WsAuth::None) {
        return Err(ListenError::AuthOnStdio);
    }
    if options.tls.is_some() {
        return Err(ListenError::TlsMismatch(
            "a certificate requires a wss:// listener, not stdio",
        ));
    }
    let stdio = process_stdio()
        .map_err(|source| ListenError::Io { action: "use stdin and stdout", source })?;
    config.detached_life = Duration::ZERO;
    let server = Server::new(config);
    server.warn_of_sandbox();
    tokio::select! {
        () = server.serve_connection(stdio) => {}
        () = stop => {}
    }
    server.shut_down().await;
    Ok(())
}

struct Listener {
    socket: TcpListener,
    address: SocketAddr,
    policy: Arc<AcceptPolicy>,
    tls: Option<Arc<rustls::ServerConfig>>,
}

impl Listener {
    /// Refuses before it binds, binds before anything else starts.
    async fn bind(
        options: &ListenOptions,
        address: SocketAddr,
        tls: bool,
    ) -> Result<Self, ListenError> {
        let local = address.ip().to_canonical().is_loopback();
        if !local && matches!(options.auth, WsAuth::None) {
            if !options.allow_unauthenticated_network {
                return Err(ListenError::Unauthenticated(address));
            }
            tracing::warn!(%address, "anybody who reaches this address can run commands as this user");
        }
        let tls = match (tls, &options.tls) {
            (true, Some(files)) => Some(server_tls(&files.certificate, &files.key)?),
            (false, None) => None,
            (true, None) => {
                return Err(ListenError::TlsMismatch(
                    "a wss:// listener requires `--tls-cert` and `--tls-key`",
                ));
            }
            (false, Some(_)) => {
                return Err(ListenError::TlsMismatch(
                    "`--tls-cert` and `--tls-key` require a wss:// listener",
                ));
            }
        };
        let bind = |source| ListenError::Bind { address, source };
        let socket = TcpListener::bind(address).await.map_err(bind)?;
        let address = socket.local_addr().map_err(bind)?;
        let policy = Arc::new(AcceptPolicy::for_listener(address, options.auth.clone()));
        Ok(Self { socket, address, policy, tls })
    }

    fn url(&self) -> String {
        let scheme = if self.tls.is_some() { "wss" } else { "ws" };
        format!("{scheme}://{}", self.address)
    }

    /// Accepts for ever. Each connection holds a permit; without one, new clients wait in the
    /// kernel's queue.
    async fn accept_all(&self, server: &Arc<Server>, connections: &mut JoinSet<()>) {
        let permits = Arc::new(Semaphore::new(CONNECTIONS_MAX));
        loop {
            let Ok(permit) = permits.clone().acquire_owned().await else { return };
            match self.socket.accept().await {
                Ok((stream, peer)) => {
                    let (server, policy, tls) =
                        (server.clone(), self.policy.clone(), self.tls.clone());
                    connections.spawn(async move {
                        if let Err(error) = greet(&server, stream, peer, &policy, tls).await {
                            tracing::debug!(%peer, %error, "no connection came about");
                        }
                        drop(permit);
                    });
                }
                Err(error) => {
                    tracing::warn!(%error, "cannot accept");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
            while connections.try_join_next().is_some() {}
        }
    }
}

async fn greet(
    server: &Arc<Server>,
    stream: TcpStream,
    peer: SocketAddr,
    policy: &AcceptPolicy,
    tls: Option<Arc<rustls::ServerConfig>>,
) -> Result<(), exec_transport::Error> {
    if let Err(error) = tune_tcp(&stream) {
        tracing::debug!(%peer, %error, "cannot tune the socket");
    }
    let connection = match tls {
        Some(config) => accept(accept_tls(stream, &config).await?, peer, policy).await?,
        None => accept(stream, peer, policy).await?,
    };
    if let Some(connection) = connection {
        server.serve_connection(connection).await;
    }
    Ok(())
}
