//! What belongs to one connection and ends with it: open files, watches, and the notifications that
//! belong to no process.

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use exec_fs::watch::{Full, WatchLimits};
use exec_fs::{Handles, MissingHub, MissingWatch, Watches, limits::HANDLES_MAX};
use exec_http::ActiveStreams;
use exec_http::limits::STREAMS_MAX;
use exec_protocol::fs::MissingChangedParams;
use exec_protocol::jsonrpc::encode_notification;
use exec_protocol::methods::{FsChanged, FsMissingChanged, Notice};
use tokio::runtime::Handle;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use crate::confined::ConfinedWatches;

/// Notifications on their way to the connection. A full queue makes their maker wait.
const NOTICES_QUEUE: usize = 4;

/// The connection's own things. Dropped with it.
pub(crate) struct Scope {
    notifier: Notifier,
    pub(crate) files: Handles,
    /// HTTP bodies on their way to the client.
    pub(crate) streams: ActiveStreams,
    tasks: Mutex<JoinSet<()>>,
    watches: OnceLock<Watches>,
    /// Watches inside a sandbox.
    pub(crate) confined_watches: ConfinedWatches,
    missing: Mutex<MissingWatch>,
}

impl Scope {
    /// A scope, and the end of its queue that the connection empties.
    pub(crate) fn new(missing: Arc<MissingHub>) -> (Arc<Self>, mpsc::Receiver<Vec<u8>>) {
        let (notices, to_send) = mpsc::channel(NOTICES_QUEUE);
        let notifier = Notifier(notices);
        let (runtime, told) = (Handle::current(), notifier.clone());
        // Called on another thread, which must not wait; the hint itself must not get lost.
        let notify = Arc::new(move |watch_id| {
            let told = told.clone();
            runtime.spawn(async move {
                told.send::<FsMissingChanged>(&MissingChangedParams { watch_id }).await;
            });
        });
        let scope = Self {
            files: Handles::new(HANDLES_MAX),
            streams: ActiveStreams::new(STREAMS_MAX),
            tasks: Mutex::default(),
            watches: OnceLock::new(),
            confined_watches: ConfinedWatches::default(),
            missing: Mutex::new(MissingWatch::new(missing, notify)),
            notifier,
        };
        (Arc::new(scope), to_send)
    }

    /// The way to send notifications from somewhere else.
    pub(crate) fn notifier(&self) -> Notifier {
        self.notifier.clone()
    }

    /// Runs a task that ends, at the latest, with the connection.
    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        let mut tasks = self.tasks.lock().unwrap_or_else(PoisonError::into_inner);
        while tasks.try_join_next().is_some() {}
        tasks.spawn(task);
    }

    /// The watches of this connection; they cost nothing until the first.
    pub(crate) fn watches(&self) -> &Watches {
        self.watches.get_or_init(|| {
            let notifier = self.notifier.clone();
            let deliver = move |changed| notifier.try_send::<FsChanged>(&changed);
            Watches::new(WatchLimits::default(), Box::new(deliver))
        })
    }

    /// The one watch for missing paths.
    pub(crate) fn missing(&self) -> MutexGuard<'_, MissingWatch> {
        self.missing.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Sends notifications to one connection.
#[derive(Clone)]
pub(crate) struct Notifier(mpsc::Sender<Vec<u8>>);

impl Notifier {
    /// Waits while the connection is behind. False when it has ended.
    pub(crate) async fn send<N: Notice>(&self, params: &N::Params) -> bool {
        match encode_notice::<N>(params) {
            Some(message) => self.0.send(message).await.is_ok(),
            None => false,
        }
    }

    /// The same for a notification that is text already.
    pub(crate) async fn send_text(&self, message: Vec<u8>) {
        // A connection that has ended takes everything.
        self.0.send(message).await.ok();
    }

    /// The same without waiting. A connection that has ended takes everything.
    pub(crate) fn try_send<N: Notice>(&self, params: &N::Params) -> Result<(), Full> {
        let Some(message) = encode_notice::<N>(params) else { return Ok(()) };
        match self.0.try_send(message) {
            Err(mpsc::error::TrySendError::Full(_)) => Err(Full),
            Ok(()) | Err(mpsc::error::TrySendError::Closed(_)) => Ok(()),
        }
    }
}

/// A notification as text.
pub(crate) fn encode_notice<N: Notice>(params: &N::Params) -> Option<Vec<u8>> {
    let mut message = Vec::new();
    match encode_notification(&mut message, N::NAME, params) {
        Ok(()) => Some(message),
        Err(error) => {
            tracing::error!(%error, "cannot encode a notification");
            None
        }
    }
}
