//! The workers that are kept: one for each view of the files, a few at a time, the least used one goes first.

use std::sync::Arc;

use super::start::Inside;
use super::worker::Worker;
use crate::limits::CONFINED_WORKERS_MAX;
use crate::server::Server;

/// Least recently used first.
#[derive(Default)]
pub(super) struct Pool(Vec<(Inside, Worker)>);

impl Pool {
    /// The worker of a view. It may still be starting, or about to end.
    pub(super) fn worker(&mut self, server: &Arc<Server>, inside: &Inside) -> Option<Worker> {
        self.0.retain(|(_, worker)| worker.takes_calls());
        if let Some(index) = self.0.iter().position(|(own, _)| own == inside) {
            self.0[index..].rotate_left(1);
        } else {
            let worker = Worker::start(server, inside.clone(), None);
            if self.0.len() >= CONFINED_WORKERS_MAX {
                // It finishes what it was asked.
                self.0.remove(0);
            }
            self.0.push((inside.clone(), worker));
        }
        self.0.last().map(|(_, worker)| worker.clone())
    }

    pub(super) fn clear(&mut self) {
        self.0.clear();
    }
}
