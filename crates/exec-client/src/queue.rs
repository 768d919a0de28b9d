//! The events of one process between the connection's task and the handle.
//!
//! The task always gets rid of what it has; [`EventQueue::is_full`] tells it to stop reading
//! the connection, and `wake` when to look again: there is room, or the handle is gone.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use crate::event::ProcessEvent;

/// How much a handle leaves untaken before the connection is no longer read.
#[derive(Debug, Clone, Copy)]
pub(crate) struct QueueBounds {
    pub(crate) events: usize,
    pub(crate) bytes: usize,
}

/// What became of the handle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Taker {
    /// It takes events.
    Present,
    /// It is gone and the process may go on.
    Detached,
    /// It is gone and the process is to be terminated.
    Dropped,
}

#[derive(Debug)]
pub(crate) struct EventQueue {
    bounds: QueueBounds,
    state: Mutex<State>,
    /// For the handle: there is an event.
    arrived: Notify,
    /// For the connection's task, which has one for all its processes.
    wake: Arc<Notify>,
}

#[derive(Debug)]
struct State {
    events: VecDeque<ProcessEvent>,
    bytes: usize,
    /// The final event is in, or was taken.
    ended: bool,
    taker: Taker,
}

impl EventQueue {
    pub(crate) fn new(bounds: QueueBounds, wake: Arc<Notify>) -> Self {
        let state =
            State { events: VecDeque::new(), bytes: 0, ended: false, taker: Taker::Present };
        Self { bounds, state: Mutex::new(state), arrived: Notify::new(), wake }
    }

    /// Appends events. Without a taker they are gone.
    pub(crate) fn push(&self, events: Vec<ProcessEvent>) {
        let mut state = self.lock();
        if events.is_empty() || state.taker != Taker::Present {
            return;
        }
        for event in events {
            state.bytes += event.payload_bytes();
            state.ended |= event.is_final();
            state.events.push_back(event);
        }
        self.arrived.notify_one();
    }

    /// Takes the next event. `None` after the final one. Cancel-safe.
    pub(crate) async fn next(&self) -> Option<ProcessEvent> {
        loop {
            let (event, ended) = self.take();
            if event.is_some() || ended {
                return event;
            }
            self.arrived.notified().await;
        }
    }

    fn take(&self) -> (Option<ProcessEvent>, bool) {
        let mut state = self.lock();
        let was_full = state.is_half_full(self.bounds);
        let event = state.events.pop_front();
        if let Some(event) = &event {
            state.bytes -= event.payload_bytes();
        }
        if was_full && !state.is_half_full(self.bounds) {
            self.wake.notify_one();
        }
        // Another taker may be waiting for what is left, or for the end.
        if !state.events.is_empty() || state.ended {
            self.arrived.notify_one();
        }
        (event, state.ended && state.events.is_empty())
    }

    /// Puts the rest of an event back, to be the next one.
    pub(crate) fn put_back(&self, event: ProcessEvent) {
        let mut state = self.lock();
        state.bytes += event.payload_bytes();
        state.events.push_front(event);
        self.arrived.notify_one();
    }

    /// No more should be added for now.
    pub(crate) fn is_full(&self) -> bool {
        let state = self.lock();
        state.bytes >= self.bounds.bytes || state.events.len() >= self.bounds.events
    }

    /// There is room worth waking up for.
    pub(crate) fn has_room(&self) -> bool {
        !self.lock().is_half_full(self.bounds)
    }

    pub(crate) fn taker(&self) -> Taker {
        self.lock().taker
    }

    /// The handle goes. What is queued is discarded.
    pub(crate) fn leave(&self, taker: Taker) {
        let mut state = self.lock();
        state.taker = taker;
        state.events = VecDeque::new();
        state.bytes = 0;
        self.wake.notify_one();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing in here panics half-way, so a poisoned state is still a good one.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn is_half_full(&self, bounds: QueueBounds) -> bool {
        self.bytes > bounds.bytes / 2 || self.events.len() > bounds.events / 2
    }
}

#[cfg(test)]
mod tests {
    use exec_protocol::process::Stream;
    use futures_util::FutureExt as _;

    use super::*;

    fn output(len: usize) -> ProcessEvent {
        ProcessEvent::Output { seq: 1, stream: Stream::Stdout, bytes: vec![0; len] }
    }

    #[test]
    fn room_is_told_when_half_is_taken() {
        let wake = Arc::new(Notify::new());
        let queue = EventQueue::new(QueueBounds { events: 8, bytes: 10 }, Arc::clone(&wake));
        assert!(queue.next().now_or_never().is_none(), "nothing there");
        queue.push(vec![output(4), output(4), output(4)]);
        assert!(queue.is_full() && !queue.has_room());
        assert_eq!(queue.next().now_or_never(), Some(Some(output(4))));
        assert!(!queue.is_full() && !queue.has_room());
        assert!(wake.notified().now_or_never().is_none());
        queue.next().now_or_never();
        assert!(queue.has_room());
        assert!(wake.notified().now_or_never().is_some());
    }

    #[test]
    fn the_final_event_is_the_last() {
        let queue = EventQueue::new(QueueBounds { events: 8, bytes: 10 }, Arc::new(Notify::new()));
        queue.push(vec![output(1), ProcessEvent::Closed]);
        assert_eq!(queue.next().now_or_never(), Some(Some(output(1))));
        queue.put_back(output(2));
        assert_eq!(queue.next().now_or_never(), Some(Some(output(2))));
        assert_eq!(queue.next().now_or_never(), Some(Some(ProcessEvent::Closed)));
        assert_eq!(queue.next().now_or_never(), Some(None));
        assert_eq!(queue.next().now_or_never(), Some(None));
    }

    #[test]
    fn without_a_handle_nothing_is_kept() {
        let wake = Arc::new(Notify::new());
        let queue = EventQueue::new(QueueBounds { events: 8, bytes: 10 }, Arc::clone(&wake));
        queue.push(vec![output(20)]);
        queue.leave(Taker::Dropped);
        assert!(wake.notified().now_or_never().is_some());
        queue.push(vec![output(20)]);
        assert!(!queue.is_full() && queue.has_room());
        assert_eq!(queue.taker(), Taker::Dropped);
    }
}
