//! What a session has for its connection: processes whose logs have grown, and notices. Processes
//! take turns, so one that floods does not silence the others.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Context;

use exec_process::Process;
use futures_util::task::AtomicWaker;

use crate::limits::NOTICES_MAX;

#[derive(Default)]
pub(crate) struct Outbox {
    queue: Mutex<Queue>,
    connection: AtomicWaker,
}

/// A process is in `grown` at most once (it announces itself again only after it was looked at),
/// so the table bounds the queue.
#[derive(Default)]
struct Queue {
    grown: VecDeque<Arc<Process>>,
    notices: VecDeque<Vec<u8>>,
}

/// The next thing to send.
pub(crate) enum Outgoing {
    Grown(Arc<Process>),
    Notice(Vec<u8>),
}

impl Outbox {
    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The process has something new.
    pub(crate) fn announce(&self, process: &Arc<Process>) {
        self.queue().grown.push_back(process.clone());
        self.connection.wake();
    }

    /// An encoded notification that belongs to no log.
    pub(crate) fn notice(&self, message: Vec<u8>) {
        let mut queue = self.queue();
        if queue.notices.len() < NOTICES_MAX {
            queue.notices.push_back(message);
        }
        drop(queue);
        self.connection.wake();
    }

    /// The next thing to send; when there is none, the task is woken by the next.
    pub(crate) fn poll_next(&self, cx: &mut Context<'_>) -> Option<Outgoing> {
        self.next().or_else(|| {
            self.connection.register(cx.waker());
            self.next()
        })
    }

    fn next(&self) -> Option<Outgoing> {
        let mut queue = self.queue();
        if let Some(message) = queue.notices.pop_front() {
            return Some(Outgoing::Notice(message));
        }
        queue.grown.pop_front().map(Outgoing::Grown)
    }

    /// A new connection starts without the notices of the old one. Processes stay: they announce
    /// themselves once, and what they have for the new connection is decided by its own cursor.
    pub(crate) fn clear_notices(&self) {
        self.queue().notices.clear();
    }
}
