//! What all connections share: configuration, containment, sessions.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use exec_fs::MissingHub;
use exec_http::HttpClient;
use exec_process::sys::Containment;
use exec_protocol::environment::EnvironmentInfo;
use exec_protocol::jsonrpc::RpcError;
use exec_protocol::process::StartParams;
use exec_sandbox::linux::probe::Engine;
use exec_transport::Connection;
use tokio::sync::{Semaphore, watch};
use tokio::time::Instant;

use crate::blocking::Place;
use crate::config::ExecServerConfig;
use crate::confined::Confined;
use crate::connection;
use crate::environment;
use crate::error::Error;
use crate::limits::{FILE_CALLS_MAX, SESSIONS_MAX};
use crate::process;
use crate::sandbox::{Confinement, Sandbox};
use crate::session::{Session, Sessions};

/// An executor. Connections are handed to it with [`Server::serve_connection`]; when it is dropped
/// or shut down, everything it started is killed.
pub struct Server {
    pub(crate) config: ExecServerConfig,
    pub(crate) environment: EnvironmentInfo,
    pub(crate) containment: Containment,
    /// How commands are confined.
    pub(crate) sandbox: Arc<Sandbox>,
    /// Who looks out for missing paths, for all connections.
    pub(crate) missing: Arc<MissingHub>,
    /// Makes HTTP requests; costs nothing until the first.
    pub(crate) http: HttpClient,
    /// File calls at once, for all connections.
    pub(crate) file_calls: Place,
    /// File calls that are made inside a sandbox.
    pub(crate) confined: Confined,
    sessions: Mutex<Sessions>,
    stop: watch::Sender<bool>,
}

impl std::fmt::Debug for Server {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Server").field("config", &self.config).finish_non_exhaustive()
    }
}

impl Server {
    /// An executor on this machine.
    pub fn new(config: ExecServerConfig) -> Arc<Self> {
        Self::with_containment(config, Containment::detect())
    }

    /// An executor that ends descendants in a given way.
    pub fn with_containment(config: ExecServerConfig, containment: Containment) -> Arc<Self> {
        let environment = environment::describe(containment.mechanism());
        let home = environment.user_home_dir.as_ref().and_then(|home| home.to_native().ok());
        Arc::new(Self {
            sandbox: Sandbox::new(config.sandbox.clone(), home, containment.controllers()),
            config,
            environment,
            containment,
            missing: MissingHub::new(),
            http: HttpClient::default(),
            file_calls: Place::Threads(Arc::new(Semaphore::new(FILE_CALLS_MAX))),
            confined: Confined::default(),
            sessions: Mutex::new(Sessions::default()),
            stop: watch::Sender::new(false),
        })
    }

    /// Speaks with one client until its connection ends. The session lives on for a while.
    pub async fn serve_connection(self: &Arc<Self>, connection: Connection) {
        connection::serve(self.clone(), connection).await;
    }

    /// Ends all connections and all sessions, kills every process, and returns when nothing that
    /// this server started is left.
    pub async fn shut_down(&self) {
        self.stop.send_replace(true);
        let sessions = self.sessions().all();
        let processes: Vec<_> = sessions.iter().flat_map(|session| session.expire()).collect();
        if !self.config.shutdown_grace.is_zero() {
            let until = Instant::now() + self.config.shutdown_grace;
            for process in &processes {
                let left = until.saturating_duration_since(Instant::now());
                process.wait_closed(Some(left)).await;
            }
        }
        self.confined.end();
        self.containment.kill_all();
    }

    /// What kind of machine this is, and what can be confined on it.
    pub(crate) async fn environment(&self) -> EnvironmentInfo {
        let sandbox = self.sandbox.clone();
        let described = tokio::task::spawn_blocking(move || sandbox.describe()).await;
        let mut info = EnvironmentInfo { sandbox: described.ok(), ..self.environment.clone() };
        let engine = info.sandbox.as_ref().and_then(|sandbox| sandbox.engine.as_ref());
        let confines_files = engine.is_some() && self.config.file_worker.is_some();
        info.capabilities.sandboxed_file_streaming = confines_files;
        info.capabilities.capability_discovery_sandbox = confines_files;
        info
    }

    /// What would be enforced for such a start, if anything. Looks at the disk, starts nothing.
    pub fn confinement(&self, params: StartParams) -> Result<Option<Confinement>, RpcError> {
        process::confinement(self, params).map_err(|error| RpcError::from(&error))
    }

    /// The engine that confines commands here, or why there is none. The first call tries what works,
    /// which takes a moment.
    pub fn sandbox_engine(&self) -> Result<Engine, String> {
        self.sandbox.engine()
    }

    /// Tells the operator what is wrong with the sandbox, in the log. Delays nobody.
    pub(crate) fn warn_of_sandbox(&self) {
        let sandbox = self.sandbox.clone();
        tokio::task::spawn_blocking(move || {
            for warning in sandbox.warnings() {
                tracing::warn!("{warning}");
            }
            if let Ok(engine) = sandbox.engine() {
                tracing::debug!(engine = engine.as_str(), "commands are confined");
            }
        });
    }

    pub(crate) fn stopped(&self) -> watch::Receiver<bool> {
        self.stop.subscribe()
    }

    pub(crate) fn sessions(&self) -> MutexGuard<'_, Sessions> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn new_session(self: &Arc<Self>) -> Result<Arc<Session>, Error> {
        let session = Session::new(uuid::Uuid::new_v4().to_string(), self);
        self.sessions().insert(session.clone(), SESSIONS_MAX)?;
        Ok(session)
    }

    pub(crate) fn session(&self, id: &str) -> Result<Arc<Session>, Error> {
        self.sessions().get(id).ok_or_else(|| Error::UnknownSession(id.to_owned()))
    }

    /// Sessions alive now, detached ones included.
    pub fn session_count(&self) -> usize {
        self.sessions().all().len()
    }
}
