//! Names that exist on the host only while a command runs, so that something can be mounted on them.
//!
//! The server owns them: it makes them, counts the commands that need them, and takes them away
//! after the last. Three things can come between, and each has its answer:
//!
//! - *The server is killed.* What it made is in a journal, and the next server clears it away.
//! - *Another server uses the same workspace.* Removing a directory also unmounts what is mounted on
//!   it elsewhere, so a placeholder must not go while anyone needs it: each user holds a shared lock
//!   on it, and only who gets the exclusive lock removes it.
//! - *Somebody makes it real*, for instance with `git init`. Then it is theirs: it is not empty any
//!   more, or not the same object, and stays.

mod journal;
mod object;

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use rustix::fd::OwnedFd;

use crate::plan::{Mount, Placeholder, PlaceholderKind, View};
use journal::{Journal, Record};
use object::{Found, Identity, Made, Parent, Removal};

/// Held at one time, by all commands. Sixteen commands with four names each need 64 at most.
const HELD_MAX: usize = 4096;

/// How often a name may vanish between seeing and holding it before we give up: another server is
/// just removing it. Between the tries it gets a moment to finish.
const TRIES_MAX: usize = 100;
const TRY_AGAIN_AFTER: Duration = Duration::from_millis(1);

/// Why placeholders cannot be had. Nothing runs then.
#[derive(Debug, thiserror::Error)]
pub enum HoldError {
    /// It was not there when the plan was made, and now it is, and not ours. Make the plan again.
    #[error("{0:?} has appeared while the command was being prepared")]
    Appeared(PathBuf),
    /// We may not make it now, but the command could give itself the right to.
    #[error("{0:?} cannot be protected: its directory is not writable, but belongs to the user")]
    Unprotectable(PathBuf),
    /// More than [`HELD_MAX`].
    #[error("too many protected names are in use")]
    TooMany,
    /// Anything else.
    #[error("cannot make {path:?}: {error}")]
    System {
        /// Which.
        path: PathBuf,
        /// What the system said.
        error: io::Error,
    },
}

/// The server's placeholders.
#[derive(Debug, Clone)]
pub struct Registry(Arc<Mutex<Table>>);

#[derive(Debug)]
struct Table {
    journal: Journal,
    held: HashMap<PathBuf, Entry>,
}

#[derive(Debug)]
struct Entry {
    identity: Identity,
    kind: PlaceholderKind,
    users: usize,
    /// With a shared lock on it; tells other servers that it is in use.
    object: OwnedFd,
}

impl Registry {
    /// Opens the journals in the server's own directory, and clears away what servers left behind
    /// that are no more.
    pub fn open(directory: &Path) -> io::Result<Registry> {
        let (journal, left) = Journal::open(directory)?;
        let mut table = Table { journal, held: HashMap::new() };
        for record in &left {
            table.clear_away(record);
        }
        table.tidy_journal();
        Ok(Registry(Arc::new(Mutex::new(table))))
    }

    /// Makes what is not there and counts one more user for each, until the result is dropped: when
    /// the command and all its descendants are gone.
    pub fn hold(&self, placeholders: &[Placeholder]) -> Result<Held, HoldError> {
        let mut held = Held { registry: self.clone(), uses: Vec::new(), skipped: Vec::new() };
        let mut table = self.lock();
        for placeholder in placeholders {
            // Half-held placeholders are given back by dropping `held`, after the lock is.
            match table.hold(placeholder) {
                Ok(Outcome::Held(identity)) => held.uses.push((placeholder.path.clone(), identity)),
                Ok(Outcome::Skipped) => held.skipped.push(placeholder.path.clone()),
                Err(error) => {
                    drop(table);
                    return Err(error);
                }
            }
        }
        Ok(held)
    }

    /// Whether what is at `path` is a placeholder, ours or another server's. Then the name counts
    /// as missing.
    pub fn is_placeholder(&self, path: &Path) -> bool {
        let table = self.lock();
        let Ok(Found::There { identity }) = object::look(path) else { return false };
        match table.held.get(path) {
            Some(entry) => entry.identity == identity,
            None => table.journal.others_have(path, identity),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Placeholders in use by one command.
#[derive(Debug)]
pub struct Held {
    registry: Registry,
    /// Which names, and what they stood for: somebody may have replaced it meanwhile.
    uses: Vec<(PathBuf, Identity)>,
    skipped: Vec<PathBuf>,
}

impl Held {
    /// The names that could not be made because we may not write there. The command may not either.
    pub fn skipped(&self) -> &[PathBuf] {
        &self.skipped
    }

    /// The view without masks for what was skipped: there is nothing to mount them on.
    pub fn fit(&self, mut view: View) -> View {
        let skipped = |path: &PathBuf| self.skipped.contains(path);
        view.mounts.retain(|mount| match mount {
            Mount::MaskDirectory { path, .. } | Mount::MaskFile(path) => !skipped(path),
            Mount::Root(_)
            | Mount::Devices
            | Mount::SharedMemory
            | Mount::Bind { .. }
            | Mount::Pin(_)
            | Mount::PinLink(_)
            | Mount::Link { .. }
            | Mount::Processes
            | Mount::SealRoot => true,
        });
        view
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let mut table = self.registry.lock();
        for (path, identity) in &self.uses {
            table.release(path, *identity);
        }
        table.tidy_journal();
    }
}

enum Outcome {
    Held(Identity),
    Skipped,
}

impl Table {
    fn hold(&mut self, placeholder: &Placeholder) -> Result<Outcome, HoldError> {
        let Placeholder { path, kind } = placeholder;
        let system = |error| HoldError::System { path: path.clone(), error };
        for attempt in 0..TRIES_MAX {
            if attempt > 0 {
                thread::sleep(TRY_AGAIN_AFTER);
            }
            if let Some(entry) = self.held.get_mut(path) {
                if let Ok(Found::There { identity }) = object::look(path)
                    && identity == entry.identity
                {
                    entry.users += 1;
                    return Ok(Outcome::Held(identity));
                }
                // Somebody removed or replaced it under running commands. They keep what they have
                // mounted; for this one it is made anew, or is no longer missing.
                self.held.remove(path);
            }
            if self.held.len() >= HELD_MAX {
                return Err(HoldError::TooMany);
            }
            let parent = Parent::of(path).map_err(system)?;
            match object::look(path).map_err(system)? {
                Found::Nothing => {
                    self.journal.write(&Record::intent(path, *kind)).map_err(system)?;
                    let made = parent.make(*kind);
                    if !matches!(made, Ok(Made::New)) {
                        self.journal.write(&Record::forgotten(path)).map_err(system)?;
                    }
                    match made {
                        Ok(Made::New) => {}
                        Ok(Made::TakenMeanwhile) => continue,
                        Err(error) => return cannot_make(path, &parent, error),
                    }
                }
                Found::There { identity } if self.journal.others_have(path, identity) => {
                    // Written before it is locked: its maker may forget it the moment it is.
                    let record = Record::made(path, *kind, identity);
                    self.journal.write(&record).map_err(system)?;
                }
                Found::There { identity } => match object::look(path).map_err(system)? {
                    Found::There { identity: now } if now == identity => {
                        return Err(HoldError::Appeared(path.clone()));
                    }
                    // Another server removed it and forgot it before we read its journal.
                    Found::Nothing | Found::There { .. } => continue,
                },
            }
            // Locked, and still what the name stands for: from here on nobody removes it but us.
            let Some((object, identity)) = parent.lock_shared(*kind).map_err(system)? else {
                self.journal.write(&Record::forgotten(path)).map_err(system)?;
                continue;
            };
            let entry = Entry { identity, kind: *kind, users: 1, object };
            self.held.insert(path.clone(), entry);
            let written = self.journal.write(&Record::made(path, *kind, identity));
            return match written {
                Ok(()) => Ok(Outcome::Held(identity)),
                Err(error) => {
                    self.release(path, identity);
                    Err(system(error))
                }
            };
        }
        Err(system(io::Error::other("it keeps vanishing")))
    }

    fn release(&mut self, path: &Path, identity: Identity) {
        let Some(entry) = self.held.get_mut(path) else { return };
        if entry.identity != identity {
            return;
        }
        entry.users -= 1;
        if entry.users > 0 {
            return;
        }
        let Some(Entry { kind, object, .. }) = self.held.remove(path) else { return };
        // Our own shared lock would be in the way of the exclusive one.
        object::unlock(object);
        self.removed(path, object::remove(path, kind, identity));
    }

    /// Removes what a dead server left, if it is still what that server made.
    fn clear_away(&mut self, record: &Record) {
        let (path, removed) = match record {
            Record::Made { path, kind, identity } => (path, object::remove(path, *kind, *identity)),
            Record::Intent { path, kind, when } => {
                (path, object::remove_if_born_at(path, *kind, *when))
            }
            Record::Forgotten { .. } => return,
        };
        self.removed(path, removed);
    }

    /// What cannot be removed stays in the journal; the next server tries again.
    fn removed(&mut self, path: &Path, removed: io::Result<Removal>) {
        let written = match removed {
            Ok(Removal::Gone | Removal::Theirs | Removal::InUse) => {
                self.journal.write(&Record::forgotten(path))
            }
            Err(error) => {
                tracing::warn!(?path, %error, "a placeholder stays behind");
                Ok(())
            }
        };
        if let Err(error) = written {
            tracing::warn!(%error, "cannot write the journal of placeholders");
        }
    }

    /// Nothing in use: nothing to remember, unless something could not be removed.
    fn tidy_journal(&mut self) {
        let held = self.held.iter();
        let records = held.map(|(path, entry)| Record::made(path, entry.kind, entry.identity));
        if let Err(error) = self.journal.shorten(records) {
            tracing::warn!(%error, "cannot shorten the journal of placeholders");
        }
    }
}

/// Leaves the name alone where the command cannot make it either.
fn cannot_make(path: &Path, parent: &Parent<'_>, error: io::Error) -> Result<Outcome, HoldError> {
    let path = path.to_owned();
    match error.raw_os_error() {
        Some(libc::EROFS) => Ok(Outcome::Skipped),
        Some(libc::EACCES | libc::EPERM) if !parent.belongs_to_us() => Ok(Outcome::Skipped),
        // Its owner can first give itself the right to write there.
        Some(libc::EACCES | libc::EPERM) => Err(HoldError::Unprotectable(path)),
        _ => Err(HoldError::System { path, error }),
    }
}
