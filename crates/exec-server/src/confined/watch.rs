//! `fs/watch` inside a sandbox: a worker of its own for each watch, which tells what it sees as fast
//! as the connection takes it, and ends with the watch or the connection.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use exec_protocol::fs::{UnwatchParams, WatchParams};
use exec_protocol::methods::{FsWatch, Method};
use exec_protocol::process::Empty;

use super::worker::{Failure, Worker};
use crate::dispatch::Caller;
use crate::error::Error;
use crate::fs;
use crate::limits::CONFINED_WATCHES_MAX;

/// The watches of one connection, by the client's names. `None` is one that is being begun.
#[derive(Default)]
pub(crate) struct ConfinedWatches(Mutex<HashMap<String, Option<Worker>>>);

impl ConfinedWatches {
    fn lock(&self) -> MutexGuard<'_, HashMap<String, Option<Worker>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a name.
    fn reserve(&self, id: &str) -> Result<(), exec_fs::Error> {
        let mut watches = self.lock();
        if watches.contains_key(id) {
            return Err(exec_fs::Error::WatchExists(id.to_owned()));
        }
        if watches.len() >= CONFINED_WATCHES_MAX {
            return Err(exec_fs::Error::TooManyWatches { limit: CONFINED_WATCHES_MAX });
        }
        watches.insert(id.to_owned(), None);
        Ok(())
    }

    /// Puts a worker under the name that was taken, unless it was given back since.
    fn settle(&self, id: &str, begun: Option<Worker>) {
        let mut watches = self.lock();
        match (begun, watches.get_mut(id)) {
            (Some(worker), Some(place)) => *place = Some(worker),
            (None, _) => drop(watches.remove(id)),
            (Some(_), None) => {}
        }
    }
}

pub(crate) async fn watch(caller: Caller, mut params: WatchParams) -> Result<Empty, Error> {
    let watches = &caller.scope.confined_watches;
    let Some(inside) = super::inside(&caller, &mut params).await? else {
        if watches.lock().contains_key(&params.watch_id) {
            return Err(exec_fs::Error::WatchExists(params.watch_id).into());
        }
        return fs::watch(caller.files(), params).await;
    };
    watches.reserve(&params.watch_id)?;
    let worker = Worker::start(&caller.server, inside, Some(caller.scope.notifier()));
    let begun = worker.ask(FsWatch::NAME, &params).await;
    watches.settle(&params.watch_id, begun.is_ok().then_some(worker));
    match begun {
        Ok(_) => Ok(Empty {}),
        Err(Failure::Answered(error)) => Err(Error::Inside(error)),
        Err(Failure::Gone(why)) => Err(Error::Worker(why.to_string())),
        Err(Failure::Unasked) => Err(Error::Worker("it ended".to_owned())),
    }
}

pub(crate) async fn unwatch(caller: Caller, params: UnwatchParams) -> Result<Empty, Error> {
    // Its worker ends with it.
    let watching = caller.scope.confined_watches.lock().remove(&params.watch_id);
    match watching {
        Some(_) => Ok(Empty {}),
        None => fs::unwatch(caller, params).await,
    }
}
