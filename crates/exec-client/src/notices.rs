//! Notifications that are not a process's: changes of watched files, and bodies of HTTP answers.
//! Each goes to the queue of whoever asked for it beforehand.
//!
//! A queue is bounded. Changes that do not fit become one notice that says so. A body that is not
//! taken holds up the connection, as a process's output does, and after the same patience the body
//! is given up, which its reader is told.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use exec_protocol::fs::ChangeEvent;
use exec_protocol::http::BodyDeltaParams;
use exec_protocol::jsonrpc::Notification;
use exec_protocol::methods::{FsChanged, FsMissingChanged, HttpRequestBodyDelta, Notice as _};
use tokio::sync::Notify;

use crate::limits::{QUEUED_BODY_BYTES_MAX, QUEUED_CHANGES_MAX};
use crate::router;

/// What a notification is about: the client's name for it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Topic {
    /// `fs/changed` of that watch.
    Watch(String),
    /// `fs/missingChanged` of that watch.
    Missing(u64),
    /// `http/request/bodyDelta` of that request.
    Body(String),
}

/// What a reader finds in its queue.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Notice {
    /// Files changed. `lost`: so did others, of which nothing is known.
    Changes { events: Vec<ChangeEvent>, lost: bool },
    /// A missing path may have appeared.
    Appeared,
    /// A piece of a body.
    Body(BodyDeltaParams),
    /// The connection was cut, and what the server kept for it is gone.
    Cut(String),
    /// The reader was too slow for too long.
    Overflow,
}

/// What a notification says, and of what. `None` for one that is not for readers.
///
/// # Errors
/// When it cannot be read.
pub(crate) fn decode(notification: &Notification<'_>) -> Result<Option<(Topic, Notice)>, String> {
    Ok(Some(match notification.method.as_str() {
        FsChanged::NAME => {
            let params = router::decode::<FsChanged>(notification)?;
            let notice = Notice::Changes { events: params.events, lost: params.rescan };
            (Topic::Watch(params.watch_id), notice)
        }
        FsMissingChanged::NAME => {
            let params = router::decode::<FsMissingChanged>(notification)?;
            (Topic::Missing(params.watch_id), Notice::Appeared)
        }
        HttpRequestBodyDelta::NAME => {
            let params = router::decode::<HttpRequestBodyDelta>(notification)?;
            (Topic::Body(params.request_id.clone()), Notice::Body(params))
        }
        _ => return Ok(None),
    }))
}

/// What was said and not yet taken.
#[derive(Debug)]
pub(crate) struct NoticeQueue {
    state: Mutex<State>,
    arrived: Notify,
    /// For the connection's task: there is room, or nobody reads any more.
    wake: Arc<Notify>,
}

#[derive(Debug, Default)]
struct State {
    notices: VecDeque<Notice>,
    /// Changes in them, each path once for each notice.
    changes: usize,
    bytes: usize,
    /// The reader is gone.
    left: bool,
}

impl NoticeQueue {
    pub(crate) fn new(wake: Arc<Notify>) -> Self {
        Self { state: Mutex::default(), arrived: Notify::new(), wake }
    }

    fn push(&self, notice: Notice) {
        let mut state = self.lock();
        if state.left {
            return;
        }
        match notice {
            Notice::Changes { events, lost } => state.add_changes(events, lost),
            Notice::Body(delta) => {
                state.bytes += delta.delta_base64.0.len();
                state.notices.push_back(Notice::Body(delta));
            }
            // Whatever was queued before says less than these.
            Notice::Overflow => *state = State::of(Notice::Overflow),
            Notice::Appeared | Notice::Cut(_) => state.notices.push_back(notice),
        }
        self.arrived.notify_one();
    }

    /// Takes the next notice. Cancel-safe; for one reader.
    pub(crate) async fn next(&self) -> Notice {
        loop {
            if let Some(notice) = self.take() {
                return notice;
            }
            self.arrived.notified().await;
        }
    }

    fn take(&self) -> Option<Notice> {
        let mut state = self.lock();
        let was_full = state.is_full();
        let notice = state.notices.pop_front();
        match &notice {
            Some(Notice::Changes { events, .. }) => state.changes -= events.len(),
            Some(Notice::Body(delta)) => state.bytes -= delta.delta_base64.0.len(),
            Some(Notice::Appeared | Notice::Cut(_) | Notice::Overflow) | None => {}
        }
        if was_full && !state.is_full() {
            self.wake.notify_one();
        }
        notice
    }

    /// Nobody reads any more.
    pub(crate) fn leave(&self) {
        *self.lock() = State { left: true, ..State::default() };
        self.wake.notify_one();
    }

    fn has_left(&self) -> bool {
        self.lock().left
    }

    fn is_full(&self) -> bool {
        self.lock().is_full()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing in here panics half-way, so a poisoned state is still a good one.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn of(notice: Notice) -> Self {
        Self { notices: VecDeque::from([notice]), ..Self::default() }
    }

    fn is_full(&self) -> bool {
        self.bytes >= QUEUED_BODY_BYTES_MAX
    }

    fn add_changes(&mut self, events: Vec<ChangeEvent>, lost: bool) {
        if self.changes + events.len() > QUEUED_CHANGES_MAX
            || self.notices.len() >= QUEUED_CHANGES_MAX
        {
            *self = Self::of(Notice::Changes { events: Vec::new(), lost: true });
            return;
        }
        self.changes += events.len();
        self.notices.push_back(Notice::Changes { events, lost });
    }
}

/// Who reads what, for the connection's task.
#[derive(Debug, Default)]
pub(crate) struct Readers {
    queues: HashMap<Topic, Arc<NoticeQueue>>,
}

impl Readers {
    /// From now on that queue gets what is said of the topic.
    pub(crate) fn add(&mut self, topic: Topic, queue: Arc<NoticeQueue>) {
        self.queues.insert(topic, queue);
    }

    /// Hands over; what nobody asked for is dropped.
    pub(crate) fn deliver(&self, topic: &Topic, notice: Notice) {
        if let Some(queue) = self.queues.get(topic) {
            queue.push(notice);
        }
    }

    /// Forgets those whose readers are gone.
    pub(crate) fn sweep(&mut self) {
        self.queues.retain(|_, queue| !queue.has_left());
    }

    /// Somebody has to read before more may come.
    pub(crate) fn is_stalled(&self) -> bool {
        self.queues.values().any(|queue| queue.is_full())
    }

    pub(crate) fn give_up_full(&mut self) {
        self.queues.retain(|_, queue| {
            let full = queue.is_full();
            if full {
                queue.push(Notice::Overflow);
            }
            !full
        });
    }

    /// What the server kept for the connection is gone, and every reader is told.
    pub(crate) fn handle_cut(&mut self, reason: &str) {
        for queue in self.queues.values() {
            queue.push(Notice::Cut(reason.to_owned()));
        }
        // Nothing more will come for these. A watch may be set up again under its name.
        self.queues.retain(|topic, _| matches!(topic, Topic::Watch(_)));
    }
}

#[cfg(test)]
mod tests {
    use exec_protocol::bytes::Base64Bytes;
    use exec_protocol::fs::ChangeKind;
    use exec_protocol::path_uri::PathUri;
    use futures_util::FutureExt as _;

    use super::*;

    fn changes(count: usize) -> Notice {
        let path = PathUri::try_from("file:///x".to_owned()).unwrap();
        let event = ChangeEvent { path, kind: ChangeKind::Modified };
        Notice::Changes { events: vec![event; count], lost: false }
    }

    fn body(seq: u64, len: usize) -> Notice {
        let delta_base64 = Base64Bytes(vec![0; len]);
        let request_id = "r".to_owned();
        Notice::Body(BodyDeltaParams { request_id, seq, delta_base64, done: false, error: None })
    }

    fn readers(topic: &Topic) -> (Readers, Arc<NoticeQueue>, Arc<Notify>) {
        let wake = Arc::new(Notify::new());
        let queue = Arc::new(NoticeQueue::new(Arc::clone(&wake)));
        let mut readers = Readers::default();
        readers.add(topic.clone(), Arc::clone(&queue));
        (readers, queue, wake)
    }

    #[test]
    fn changes_that_do_not_fit_become_one_notice_that_says_so() {
        let topic = Topic::Watch("w".to_owned());
        let (readers, queue, _) = readers(&topic);
        readers.deliver(&topic, changes(QUEUED_CHANGES_MAX));
        assert!(!readers.is_stalled(), "a watch never holds up the connection");
        readers.deliver(&topic, changes(1));
        let lost = Notice::Changes { events: Vec::new(), lost: true };
        assert_eq!(queue.next().now_or_never(), Some(lost));
        assert_eq!(queue.next().now_or_never(), None);
        readers.deliver(&topic, changes(2));
        assert_eq!(queue.next().now_or_never(), Some(changes(2)));
    }

    #[test]
    fn a_body_that_is_not_taken_stalls_and_is_then_given_up() {
        let topic = Topic::Body("r".to_owned());
        let (mut readers, queue, wake) = readers(&topic);
        readers.deliver(&topic, body(1, QUEUED_BODY_BYTES_MAX));
        assert!(readers.is_stalled());
        assert!(matches!(queue.next().now_or_never(), Some(Notice::Body(_))));
        assert!(!readers.is_stalled() && wake.notified().now_or_never().is_some());
        readers.deliver(&topic, body(2, QUEUED_BODY_BYTES_MAX));
        readers.give_up_full();
        assert!(!readers.is_stalled());
        assert_eq!(queue.next().now_or_never(), Some(Notice::Overflow));
        readers.deliver(&topic, body(3, 1));
        assert_eq!(queue.next().now_or_never(), None);
    }

    #[test]
    fn a_cut_is_told_and_only_a_watch_goes_on() {
        let (watch, body_topic) = (Topic::Watch("w".to_owned()), Topic::Body("r".to_owned()));
        let (mut readers, watched, wake) = readers(&watch);
        let streamed = Arc::new(NoticeQueue::new(wake));
        readers.add(body_topic.clone(), Arc::clone(&streamed));
        readers.handle_cut("gone");
        readers.deliver(&watch, changes(1));
        readers.deliver(&body_topic, body(1, 1));
        assert_eq!(watched.next().now_or_never(), Some(Notice::Cut("gone".to_owned())));
        assert_eq!(watched.next().now_or_never(), Some(changes(1)));
        assert_eq!(streamed.next().now_or_never(), Some(Notice::Cut("gone".to_owned())));
        assert_eq!(streamed.next().now_or_never(), None);
        watched.leave();
        readers.sweep();
        assert!(readers.queues.is_empty());
    }
}
