//! `fs/watchMissing`, `fs/missingChanged`: a hint, given once, that a path which was missing may
//! exist by now.
//!
//! One [`MissingHub`] serves every connection, because a user has few inotify instances. For each
//! missing path all its existing ancestors are watched, each for the one name that leads on: so the
//! hint also comes when an ancestor is exchanged. Paths through links are not watched at all. Events
//! come first and the look at what exists second, so that nothing can appear in between unseen.

pub mod interest;

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use exec_protocol::fs::WatchMissingParams;
use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};
use rustix::fs::inotify::{self, CreateFlags, ReadFlags, WatchFlags};
use rustix::io::Errno;

use crate::error::Error;
use crate::limits::MISSING_PATHS_MAX;
use crate::resolve::{Links, retry};
use crate::stat::get_metadata;
use interest::{Interest, Interests};

/// Called once when a watch ends because something may have changed. It must not wait.
pub type Notify = Arc<dyn Fn(u64) + Send + Sync>;

/// Changes of a directory that may make a name in it appear or lead elsewhere.
const ENTRY: WatchFlags = WatchFlags::CREATE
    .union(WatchFlags::DELETE)
    .union(WatchFlags::MOVED_FROM)
    .union(WatchFlags::MOVED_TO)
    .union(WatchFlags::DELETE_SELF)
    .union(WatchFlags::MOVE_SELF)
    .union(WatchFlags::ONLYDIR);

/// Changes of a file itself.
const ITSELF: WatchFlags = WatchFlags::MODIFY
    .union(WatchFlags::ATTRIB)
    .union(WatchFlags::CLOSE_WRITE)
    .union(WatchFlags::DELETE_SELF)
    .union(WatchFlags::MOVE_SELF);

/// Watches missing paths for every connection of a server, on one thread that the first watch
/// starts.
#[derive(Debug, Default)]
pub struct MissingHub {
    running: Mutex<Option<Running>>,
}

#[derive(Debug)]
struct Running {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    inotify: OwnedFd,
    /// Readable when the thread is to end.
    stop: OwnedFd,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    interests: Interests,
    /// By the interests' keys: whom to tell, and by which number.
    watches: HashMap<u64, (Notify, u64)>,
    keys: u64,
}

impl std::fmt::Debug for State {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("State").field("watches", &self.watches.len()).finish()
    }
}

impl MissingHub {
    /// Idle until something is watched.
    pub fn new() -> Arc<Self> {
        Arc::new(Self::default())
    }

    fn shared(&self) -> Result<Arc<Shared>, Error> {
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(running) = &*running {
            return Ok(Arc::clone(&running.shared));
        }
        let shared = Arc::new(Shared {
            inotify: inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?,
            stop: eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?,
            state: Mutex::default(),
        });
        let thread = std::thread::Builder::new().name("fs-missing".to_owned()).spawn({
            let shared = Arc::clone(&shared);
            move || shared.run()
        })?;
        *running = Some(Running { shared: Arc::clone(&shared), thread: Some(thread) });
        Ok(shared)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        rustix::io::write(&self.shared.stop, &1u64.to_ne_bytes()).ok(); // A full counter is readable too.
        if let Some(thread) = self.thread.take() {
            // It panicked only if a callback did.
            thread.join().ok();
        }
    }
}

/// The one watch of a connection.
pub struct MissingWatch {
    hub: Arc<MissingHub>,
    notify: Notify,
    /// The greatest number so far.
    last: Option<u64>,
    current: Option<(Arc<Shared>, u64)>,
}

impl std::fmt::Debug for MissingWatch {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("MissingWatch").field("last", &self.last).finish_non_exhaustive()
    }
}

impl MissingWatch {
    /// Watches nothing yet.
    pub fn new(hub: Arc<MissingHub>, notify: Notify) -> Self {
        Self { hub, notify, last: None, current: None }
    }

    /// Replaces the watch, if its number is greater than any before. Whether the caller will be
    /// told of changes; there are no errors, only the answer that it will not.
    pub fn watch(&mut self, params: &WatchMissingParams) -> bool {
        if self.last.is_some_and(|last| params.watch_id <= last) {
            return false;
        }
        self.last = Some(params.watch_id);
        self.end();
        let native = |uri: &exec_protocol::path_uri::PathUri| uri.to_native().ok();
        let Some(missing) = params.missing.iter().map(native).collect::<Option<Vec<_>>>() else {
            return false;
        };
        let present = match params.present.as_ref().map(native) {
            Some(None) => return false,
            Some(Some(path)) => Some(path),
            None => None,
        };
        if missing.is_empty() || missing.len() > MISSING_PATHS_MAX {
            return false;
        }
        let Ok(shared) = self.hub.shared() else { return false };
        match shared.watch(&missing, present.as_deref(), &self.notify, params.watch_id) {
            Ok(key) => {
                self.current = Some((shared, key));
                true
            }
            Err(_) => false,
        }
    }

    fn end(&mut self) {
        if let Some((shared, key)) = self.current.take() {
            shared.lock().end(key, &shared.inotify);
        }
    }
}

impl Drop for MissingWatch {
    fn drop(&mut self) {
        self.end();
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn watch(
        &self,
        missing: &[PathBuf],
        present: Option<&Path>,
        notify: &Notify,
        watch_id: u64,
    ) -> Result<u64, Error> {
        // Held throughout: an event that comes now has to find the whole watch.
        let mut state = self.lock();
        state.keys += 1;
        let key = state.keys;
        state.watches.insert(key, (Arc::clone(notify), watch_id));
        let armed = state.arm(key, missing, present, &self.inotify);
        let checked = armed.and_then(|()| check(missing, present));
        if let Err(error) = checked {
            state.end(key, &self.inotify);
            return Err(error);
        }
        Ok(key)
    }

    /// On the hub's thread.
    fn run(&self) {
        let mut buffer = [MaybeUninit::uninit(); 16 << 10];
        loop {
            let mut fds =
                [PollFd::new(&self.inotify, PollFlags::IN), PollFd::new(&self.stop, PollFlags::IN)];
            match retry(|| poll(&mut fds, None)) {
                Ok(_) if fds[1].revents().is_empty() => self.read(&mut buffer),
                Ok(_) | Err(_) => return,
            }
        }
    }

    fn read(&self, buffer: &mut [MaybeUninit<u8>]) {
        let mut events = inotify::Reader::new(self.inotify.as_fd(), buffer);
        // `WOULDBLOCK` is the usual end.
        while let Ok(event) = events.next() {
            let name = event.file_name().map(|name| OsStr::from_bytes(name.to_bytes()));
            let told = {
                let mut state = self.lock();
                let keys = state.interests.handle(event.wd(), event.events(), name);
                let told: Vec<_> =
                    keys.iter().filter_map(|key| state.watches.remove(key)).collect();
                for key in keys {
                    state.end(key, &self.inotify);
                }
                told
            };
            for (notify, watch_id) in told {
                notify(watch_id);
            }
        }
    }
}

impl State {
    fn arm(
        &mut self,
        key: u64,
        missing: &[PathBuf],
        present: Option<&Path>,
        inotify: &OwnedFd,
    ) -> Result<(), Error> {
        for path in missing {
            self.arm_ancestors(key, path, inotify)?;
        }
        if let Some(path) = present {
            self.arm_ancestors(key, path, inotify)?;
            self.add(key, path, None, ITSELF, inotify)?;
        }
        Ok(())
    }

    /// Watches every existing ancestor for the name that leads on.
    fn arm_ancestors(&mut self, key: u64, path: &Path, inotify: &OwnedFd) -> Result<(), Error> {
        let mut directory = PathBuf::from("/");
        for name in path.as_os_str().as_bytes().split(|&byte| byte == b'/') {
            if name.is_empty() {
                continue;
            }
            let name = OsStr::from_bytes(name);
            match self.add(key, &directory, Some(name.to_owned()), ENTRY, inotify) {
                Err(error) if error.errno() == Some(Errno::NOENT) => return Ok(()),
                other => other?,
            }
            directory.push(name);
        }
        Ok(())
    }

    fn add(
        &mut self,
        key: u64,
        path: &Path,
        name: Option<OsString>,
        flags: WatchFlags,
        inotify: &OwnedFd,
    ) -> Result<(), Error> {
        // Several watches share what the kernel knows of one file, so nothing may be taken away.
        let all = flags | WatchFlags::DONT_FOLLOW | WatchFlags::MASK_ADD;
        let wd = retry(|| inotify::add_watch(inotify, path, all))?;
        let events = ReadFlags::from_bits_truncate(flags.bits());
        self.interests.add(wd, Interest { key, name, events });
        Ok(())
    }

    fn end(&mut self, key: u64, inotify: &OwnedFd) {
        self.watches.remove(&key);
        for wd in self.interests.remove(key) {
            // Gone with its file, if it is not there any more.
            inotify::remove_watch(inotify, wd).ok();
        }
    }
}

/// Whether everything is as the caller believes, and no link leads there.
fn check(missing: &[PathBuf], present: Option<&Path>) -> Result<(), Error> {
    for path in missing {
        match get_metadata(path, Links::Refuse) {
            Err(error) if error.errno() == Some(Errno::NOENT) => {}
            Err(error) => return Err(error),
            Ok(_) => return Err(Errno::EXIST.into()),
        }
    }
    present.map_or(Ok(()), |path| get_metadata(path, Links::Refuse).map(drop))
}
