//! A session: what outlives a connection. It owns the processes, knows which connection follows
//! them, and ends them when nobody has come back in time.
//!
//! ```text
//!   attached ──connection lost──► detached ──time is up──► expired (everything killed)
//!      ▲                             │
//!      └────────── resume ───────────┘
//! ```

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use exec_process::{Process, Watcher};
use exec_protocol::id::ProcessId;
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

use crate::error::Error;
use crate::limits::{EVICT_AFTER, TAKE_OVER_PROBE};
use crate::outbox::Outbox;
use crate::server::Server;
use crate::table::Table;

/// A session and its processes.
pub(crate) struct Session {
    id: String,
    server: Weak<Server>,
    table: Mutex<Table>,
    attachment: Mutex<Attachment>,
    pub(crate) outbox: Outbox,
}

/// Who follows a session. `epoch` counts attachments, so that a late timer or connection does not
/// speak for a later one.
struct Attachment {
    epoch: u64,
    owner: Option<mpsc::Sender<ToConnection>>,
    expired: bool,
}

/// What a session tells the connection that owns it.
pub(crate) enum ToConnection {
    /// Somebody else wants the session: show whether you live.
    Probe(oneshot::Sender<()>),
    /// Somebody else has the session now.
    TakenOver,
}

/// A connection's hold on its session. Dropped means detached.
pub(crate) struct Hold {
    session: Arc<Session>,
    epoch: u64,
}

impl Session {
    pub(crate) fn new(id: String, server: &Arc<Server>) -> Arc<Self> {
        Arc::new(Self {
            id,
            server: Arc::downgrade(server),
            table: Mutex::new(Table::default()),
            attachment: Mutex::new(Attachment { epoch: 0, owner: None, expired: false }),
            outbox: Outbox::default(),
        })
    }

    pub(crate) fn id(&self) -> &str {
        &self.id
    }

    pub(crate) fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn attachment(&self) -> MutexGuard<'_, Attachment> {
        self.attachment.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The process of that name.
    pub(crate) fn process(&self, id: &ProcessId) -> Option<Arc<Process>> {
        self.table().get(id)
    }

    /// Takes a process that was just started, and that is being followed from its first event.
    pub(crate) fn adopt(&self, process: &Arc<Process>) -> Result<(), Error> {
        let attachment = self.attachment();
        if !self.table().started(process.clone()) {
            process.kill_remains();
            return Err(Error::UnknownSession(self.id.clone()));
        }
        if attachment.owner.is_none() {
            process.set_following(false);
        }
        Ok(())
    }

    /// Makes a connection the owner, if there is none that lives. An owner that stays silent for a
    /// moment is dead, and loses the session.
    pub(crate) async fn attach(
        self: &Arc<Self>,
        connection: mpsc::Sender<ToConnection>,
    ) -> Result<Hold, Error> {
        let (owner, asked) = {
            let attachment = self.attachment();
            (attachment.owner.clone(), attachment.epoch)
        };
        if let Some(owner) = owner {
            self.probe(owner).await?;
        }
        let mut attachment = self.attachment();
        if attachment.expired {
            return Err(Error::UnknownSession(self.id.clone()));
        }
        if attachment.epoch != asked {
            // Somebody else was quicker, and is not the one who was found silent.
            return Err(Error::SessionAttached(self.id.clone()));
        }
        if let Some(silent) = attachment.owner.replace(connection) {
            // Its queue is full or gone only if it is not being served any more.
            silent.try_send(ToConnection::TakenOver).ok();
        }
        attachment.epoch += 1;
        let epoch = attachment.epoch;
        self.outbox.clear_notices();
        for process in self.table().all() {
            process.set_following(true);
        }
        Ok(Hold { session: self.clone(), epoch })
    }

    /// Ok when the owner is gone or silent.
    async fn probe(&self, owner: mpsc::Sender<ToConnection>) -> Result<(), Error> {
        let (alive, answer) = oneshot::channel();
        if owner.try_send(ToConnection::Probe(alive)).is_err() {
            return Ok(());
        }
        match tokio::time::timeout(TAKE_OVER_PROBE, answer).await {
            Ok(Ok(())) => Err(Error::SessionAttached(self.id.clone())),
            // It ended while being asked, or never answered.
            Ok(Err(_)) | Err(_) => Ok(()),
        }
    }

    /// The owner of that epoch is gone: keep everything for a while, then end it.
    fn detach(self: &Arc<Self>, epoch: u64) {
        let mut attachment = self.attachment();
        if attachment.epoch != epoch {
            return;
        }
        attachment.owner = None;
        for process in self.table().all() {
            process.set_following(false);
        }
        drop(attachment);
        let Some(server) = self.server.upgrade() else { return };
        let life = server.config.detached_life;
        if life.is_zero() {
            self.expire();
            return;
        }
        let session = Arc::downgrade(self);
        tokio::spawn(async move {
            tokio::time::sleep(life).await;
            if let Some(session) = session.upgrade() {
                session.expire_if(epoch);
            }
        });
    }

    fn expire_if(&self, epoch: u64) {
        let mut attachment = self.attachment();
        if attachment.epoch != epoch || attachment.owner.is_some() {
            return;
        }
        // Noted before the lock is let go, or somebody could attach to what is about to end.
        attachment.expired = true;
        drop(attachment);
        self.expire();
    }

    /// Ends the session and every process it ever started; returns those that were known.
    pub(crate) fn expire(&self) -> Vec<Arc<Process>> {
        self.attachment().expired = true;
        let processes = self.table().take_all();
        let server = self.server.upgrade();
        if let Some(server) = &server {
            server.sessions().remove(&self.id);
        }
        let grace = server.map_or(Duration::ZERO, |server| server.config.shutdown_grace);
        end_all(&processes, grace);
        processes
    }

    fn evict_later(self: &Arc<Self>, process: &Arc<Process>) {
        let due = Instant::now() + EVICT_AFTER;
        if !self.table().evict_at(due, process.id().clone()) {
            return;
        }
        let session = Arc::downgrade(self);
        tokio::spawn(async move {
            let mut next = Some(due);
            while let Some(due) = next {
                // Whole seconds, so that a thousand short commands cost one wake-up.
                tokio::time::sleep_until(due + Duration::from_secs(1)).await;
                let Some(session) = session.upgrade() else { return };
                let (due, forgotten) = session.table().evict(Instant::now());
                session.keep_remains(forgotten).await;
                next = due;
            }
        });
    }

    /// Lets go of forgotten processes, except those whose descendants live.
    async fn keep_remains(&self, mut forgotten: Vec<Arc<Process>>) {
        if forgotten.iter().all(|process| process.releases_at_once()) {
            forgotten.retain(|process| !process.release_group());
        } else {
            let looking = tokio::task::spawn_blocking(move || {
                forgotten.retain(|process| !process.release_group());
                forgotten
            });
            forgotten = looking.await.unwrap_or_default();
        }
        let orphans = self.table().keep(forgotten);
        end_all(&orphans, Duration::ZERO);
    }
}

/// Ends processes: at once, or with a chance to end by themselves.
fn end_all(processes: &[Arc<Process>], grace: Duration) {
    for process in processes {
        if grace.is_zero() || !process.terminate_gracefully(grace) {
            process.kill_remains();
        }
    }
}

impl Watcher for SessionWatch {
    fn changed(&self, process: &Arc<Process>) {
        if let Some(session) = self.0.upgrade() {
            session.outbox.announce(process);
        }
    }

    fn closed(&self, process: &Arc<Process>) {
        if let Some(session) = self.0.upgrade() {
            session.evict_later(process);
        }
    }
}

/// What a process holds of its session; not the session itself, which holds the process.
pub(crate) struct SessionWatch(pub(crate) Weak<Session>);

impl Hold {
    pub(crate) fn session(&self) -> &Arc<Session> {
        &self.session
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        self.session.detach(self.epoch);
    }
}

/// All sessions of a server, by id.
#[derive(Default)]
pub(crate) struct Sessions(HashMap<String, Arc<Session>>);

impl Sessions {
    pub(crate) fn get(&self, id: &str) -> Option<Arc<Session>> {
        self.0.get(id).cloned()
    }

    pub(crate) fn insert(
        &mut self,
        session: Arc<Session>,
        sessions_max: usize,
    ) -> Result<(), Error> {
        if self.0.len() >= sessions_max {
            return Err(Error::TooManySessions);
        }
        self.0.insert(session.id.clone(), session);
        Ok(())
    }

    pub(crate) fn remove(&mut self, id: &str) {
        self.0.remove(id);
    }

    pub(crate) fn all(&self) -> Vec<Arc<Session>> {
        self.0.values().cloned().collect()
    }
}
