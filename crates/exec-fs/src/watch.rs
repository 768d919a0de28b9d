//! `fs/watch`, `fs/unwatch`, `fs/changed`: the watches of one connection.
//!
//! ```text
//! inotify -> notify's thread -> Gathering (merged by path, for a moment) -> our thread -> callback
//! ```
//! [`table`] knows who watches what, [`gather`] what is still to be told; both are values without
//! threads or clocks. Changes that do not fit, or that the kernel dropped, become `rescan`: the
//! client then looks for itself. The first watch starts the threads, and dropping this ends them.

pub mod gather;
pub mod table;

use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use exec_protocol::fs::{ChangeKind, ChangedParams};
use notify::event::{EventKind, ModifyKind};
use notify::{Config, ErrorKind, INotifyWatcher, Watcher};
use rustix::io::Errno;

use crate::error::Error;
use crate::limits::{WATCH_ID_BYTES_MAX, WATCH_PATHS_MAX, WATCH_WINDOW, WATCHES_MAX};
use gather::Gathering;
pub use table::Depth;
use table::{Change, WatchTable};

/// Takes a batch of changes without waiting, or says that it has no room: then the client is told
/// to look at everything again, as soon as there is.
pub type Deliver = Box<dyn Fn(ChangedParams) -> Result<(), Full> + Send>;

/// There is no room for a batch now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Full;

/// The bounds of one connection's watches.
#[derive(Debug, Clone, Copy)]
pub struct WatchLimits {
    /// Watches at once.
    pub watches_max: usize,
    /// Paths in one batch, above which it becomes a rescan.
    pub paths_max: usize,
    /// How long changes are gathered.
    pub window: Duration,
}

impl Default for WatchLimits {
    fn default() -> Self {
        Self { watches_max: WATCHES_MAX, paths_max: WATCH_PATHS_MAX, window: WATCH_WINDOW }
    }
}

/// The watches of one connection.
#[derive(Debug)]
pub struct Watches {
    limits: WatchLimits,
    shared: Arc<Shared>,
    running: Mutex<Running>,
}

/// What the threads share.
#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    /// Something is to be told, or everything ends.
    woken: Condvar,
}

#[derive(Debug)]
struct State {
    table: WatchTable,
    gathering: Gathering,
    ended: bool,
}

/// Nothing, until somebody watches.
#[derive(Default)]
struct Running {
    watcher: Option<INotifyWatcher>,
    teller: Option<JoinHandle<()>>,
    deliver: Option<Deliver>,
}

impl std::fmt::Debug for Running {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Running").field("started", &self.teller.is_some()).finish()
    }
}

impl Watches {
    /// None yet.
    pub fn new(limits: WatchLimits, deliver: Deliver) -> Self {
        let state = State {
            table: WatchTable::default(),
            gathering: Gathering::new(limits.window, limits.paths_max),
            ended: false,
        };
        let shared = Arc::new(Shared { state: Mutex::new(state), woken: Condvar::new() });
        let running = Mutex::new(Running { deliver: Some(deliver), ..Running::default() });
        Self { limits, shared, running }
    }

    /// Watches a file or directory that exists. Blocks while a tree is gone through.
    pub fn watch(&self, id: &str, path: &Path, depth: Depth) -> Result<(), Error> {
        if id.len() > WATCH_ID_BYTES_MAX {
            return Err(Error::WatchIdTooLong { limit: WATCH_ID_BYTES_MAX });
        }
        let root = std::fs::canonicalize(path)?;
        // Held throughout: what is watched has to follow the table.
        let mut running = lock(&self.running);
        self.start(&mut running)?;
        let change = {
            let mut state = self.shared.lock();
            if state.table.contains(id) {
                return Err(Error::WatchExists(id.to_owned()));
            }
            if state.table.len() >= self.limits.watches_max {
                return Err(Error::TooManyWatches { limit: self.limits.watches_max });
            }
            state.table.insert(id, path, &root, depth)
        };
        let applied = apply(&mut running, &change);
        if applied.is_err() {
            let back = self.shared.lock().table.remove(id);
            if let Some(back) = back {
                apply(&mut running, &back).ok(); // What was watched before failed to be again: told below.
            }
        }
        self.rescan(&change);
        applied
    }

    /// Ends a watch. Nothing is told of it after this returns.
    pub fn unwatch(&self, id: &str) -> Result<(), Error> {
        let mut running = lock(&self.running);
        let change = {
            let mut state = self.shared.lock();
            let change = state.table.remove(id);
            state.gathering.forget(id);
            change.ok_or_else(|| Error::UnknownWatch(id.to_owned()))?
        };
        let applied = apply(&mut running, &change);
        self.rescan(&change);
        // What was watched is perhaps gone already; the name is free in any case.
        if change.watch.is_empty() { Ok(()) } else { applied }
    }

    /// While one way of watching took the place of another, nobody looked.
    fn rescan(&self, change: &Change) {
        let now = Instant::now();
        let mut state = self.shared.lock();
        for id in &change.disturbed {
            state.gathering.rescan(id, now);
        }
        self.shared.woken.notify_one();
    }

    fn start(&self, running: &mut Running) -> Result<(), Error> {
        if running.watcher.is_none() {
            let shared = Arc::clone(&self.shared);
            let config = Config::default().with_follow_symlinks(false);
            let watcher = INotifyWatcher::new(move |event| shared.handle(event), config);
            running.watcher = Some(watcher.map_err(watch_error)?);
        }
        if let Some(deliver) = running.deliver.take() {
            let shared = Arc::clone(&self.shared);
            let teller = std::thread::Builder::new()
                .name("fs-watch".to_owned())
                .spawn(move || shared.tell(&deliver));
            running.teller = Some(teller?);
        }
        Ok(())
    }
}

impl Drop for Watches {
    fn drop(&mut self) {
        let mut running = lock(&self.running);
        running.watcher = None;
        self.shared.lock().ended = true;
        self.shared.woken.notify_one();
        if let Some(teller) = running.teller.take() {
            // It panicked only if the callback did.
            teller.join().ok();
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    /// On notify's thread.
    fn handle(&self, event: notify::Result<notify::Event>) {
        let now = Instant::now();
        let mut guard = self.lock();
        let state = &mut *guard;
        match event {
            Ok(event) if !event.need_rescan() => {
                let Some(kind) = change_kind(&event.kind) else { return };
                for path in &event.paths {
                    for (id, told) in state.table.route(path) {
                        state.gathering.add(id, told, kind, now);
                    }
                }
            }
            // The kernel dropped events, or notify could not follow.
            Ok(_) | Err(_) => {
                for id in state.table.ids() {
                    state.gathering.rescan(id, now);
                }
            }
        }
        self.woken.notify_one();
    }

    /// On our thread: tells what has been gathered for long enough.
    fn tell(&self, deliver: &Deliver) {
        let mut state = self.lock();
        while !state.ended {
            let now = Instant::now();
            match state.gathering.deadline() {
                None => state = self.woken.wait(state).unwrap_or_else(PoisonError::into_inner),
                Some(deadline) if deadline > now => {
                    let waited = self.woken.wait_timeout(state, deadline - now);
                    state = waited.unwrap_or_else(PoisonError::into_inner).0;
                }
                Some(_) => {
                    let batch = state.gathering.take(now);
                    for changed in batch {
                        let id = changed.watch_id.clone();
                        // Delivered under the lock, so that an ended watch is silent. It does not
                        // wait, by contract.
                        if deliver(changed) == Err(Full) {
                            state.gathering.rescan(&id, now);
                        }
                    }
                }
            }
        }
    }
}

/// Makes notify watch what the table says.
fn apply(running: &mut Running, change: &Change) -> Result<(), Error> {
    let Some(watcher) = running.watcher.as_mut() else { return Ok(()) };
    for path in &change.unwatch {
        // It is gone when the directory is.
        watcher.unwatch(path).ok();
    }
    let mut first = Ok(());
    for (path, depth) in &change.watch {
        let watched = watcher.watch(path, depth.mode()).map_err(watch_error);
        first = first.and(watched);
    }
    first
}

fn watch_error(error: notify::Error) -> Error {
    match error.kind {
        ErrorKind::PathNotFound => Errno::NOENT.into(),
        ErrorKind::Io(error) => Error::Os(error),
        ErrorKind::MaxFilesWatch => Error::Watch("no more watches on this system".to_owned()),
        ErrorKind::Generic(_) | ErrorKind::WatchNotFound | ErrorKind::InvalidConfig(_) => {
            Error::Watch(error.to_string())
        }
    }
}

/// Reading is no change.
fn change_kind(kind: &EventKind) -> Option<ChangeKind> {
    match kind {
        EventKind::Access(_) => None,
        EventKind::Create(_) => Some(ChangeKind::Created),
        EventKind::Modify(ModifyKind::Name(_)) => Some(ChangeKind::Renamed),
        EventKind::Modify(
            ModifyKind::Any | ModifyKind::Data(_) | ModifyKind::Metadata(_) | ModifyKind::Other,
        ) => Some(ChangeKind::Modified),
        EventKind::Remove(_) => Some(ChangeKind::Removed),
        EventKind::Any | EventKind::Other => Some(ChangeKind::Other),
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A panic in between leaves at worst a change untold.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
