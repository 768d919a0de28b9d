//! A session's processes, by name. A name is claimed before the child is started and is free again
//! some time after it has closed. Descendants that outlived their process are remembered.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use exec_process::Process;
use exec_protocol::id::ProcessId;
use tokio::time::Instant;

use crate::error::Error;

/// The processes of one session.
#[derive(Default)]
pub(crate) struct Table {
    processes: HashMap<ProcessId, Slot>,
    /// Closed processes, in the order of their closing, with the time they are forgotten.
    evictions: VecDeque<(Instant, ProcessId)>,
    /// Forgotten processes with living descendants.
    remains: Vec<Arc<Process>>,
    ended: bool,
}

enum Slot {
    Starting,
    Started(Arc<Process>),
}

impl Table {
    /// Takes a name for a process that is about to be started.
    pub(crate) fn claim(&mut self, id: &ProcessId, processes_max: usize) -> Result<(), Error> {
        if self.processes.contains_key(id) {
            return Err(Error::ProcessExists(id.clone()));
        }
        if self.processes.len() >= processes_max || self.ended {
            return Err(Error::TooManyProcesses);
        }
        self.processes.insert(id.clone(), Slot::Starting);
        Ok(())
    }

    /// The claimed process could not be started.
    pub(crate) fn release(&mut self, id: &ProcessId) {
        self.processes.remove(id);
    }

    /// The claimed process runs. False when the session has ended meanwhile.
    pub(crate) fn started(&mut self, process: Arc<Process>) -> bool {
        if self.ended {
            return false;
        }
        self.processes.insert(process.id().clone(), Slot::Started(process));
        true
    }

    pub(crate) fn get(&self, id: &ProcessId) -> Option<Arc<Process>> {
        match self.processes.get(id) {
            Some(Slot::Started(process)) => Some(process.clone()),
            Some(Slot::Starting) | None => None,
        }
    }

    pub(crate) fn all(&self) -> Vec<Arc<Process>> {
        self.processes
            .values()
            .filter_map(|slot| match slot {
                Slot::Started(process) => Some(process.clone()),
                Slot::Starting => None,
            })
            .collect()
    }

    /// Plans to forget a closed process. True when nothing was planned before.
    pub(crate) fn evict_at(&mut self, due: Instant, id: ProcessId) -> bool {
        self.evictions.push_back((due, id));
        self.evictions.len() == 1
    }

    /// Forgets what is due; returns when the next one is, and those that may have living
    /// descendants, which are to be looked for and kept with [`Table::keep`].
    pub(crate) fn evict(&mut self, now: Instant) -> (Option<Instant>, Vec<Arc<Process>>) {
        let mut forgotten = std::mem::take(&mut self.remains);
        while let Some((due, _)) = self.evictions.front()
            && *due <= now
        {
            if let Some((_, id)) = self.evictions.pop_front()
                && let Some(Slot::Started(process)) = self.processes.remove(&id)
            {
                forgotten.push(process);
            }
        }
        (self.evictions.front().map(|(due, _)| *due), forgotten)
    }

    /// Remembers processes with living descendants. Gives them back when the session has ended.
    pub(crate) fn keep(&mut self, remains: Vec<Arc<Process>>) -> Vec<Arc<Process>> {
        if self.ended {
            return remains;
        }
        self.remains.extend(remains);
        Vec::new()
    }

    /// Empties the table for good; nothing can be started after it.
    pub(crate) fn take_all(&mut self) -> Vec<Arc<Process>> {
        self.ended = true;
        self.evictions.clear();
        let mut all = self.all();
        all.append(&mut self.remains);
        self.processes.clear();
        all
    }
}
