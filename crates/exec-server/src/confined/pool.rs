//! The workers that are kept: one for each plan, a few at a time, the least used one goes first.

use std::sync::Arc;

use exec_sandbox::plan::Plan;

use super::worker::Worker;
use crate::error::Error;
use crate::limits::CONFINED_WORKERS_MAX;
use crate::server::Server;

/// Least recently used first.
#[derive(Default)]
pub(super) struct Pool(Vec<(Plan, Worker)>);

impl Pool {
    /// The worker of a plan. It may still be starting, or about to end.
    pub(super) fn worker(&mut self, server: &Arc<Server>, plan: &Plan) -> Result<Worker, Error> {
        self.0.retain(|(_, worker)| worker.takes_calls());
        if let Some(index) = self.0.iter().position(|(own, _)| own == plan) {
            self.0[index..].rotate_left(1);
        } else {
            let worker = Worker::start(server, plan, None)?;
            if self.0.len() >= CONFINED_WORKERS_MAX {
                // It finishes what it was asked.
                self.0.remove(0);
            }
            self.0.push((plan.clone(), worker));
        }
        self.0.last().map(|(_, worker)| worker.clone()).ok_or(Error::Internal)
    }

    pub(super) fn clear(&mut self) {
        self.0.clear();
    }
}
