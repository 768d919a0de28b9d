//! One process's events, put in order: notifications and `process/read` pages in, an unbroken
//! sequence out. Pure: no clock, no connection.
//!
//! Numbers have no gaps, so a hole means that something is still to come, was lost with a cut
//! connection, or was not kept here. In all three cases the server is asked: `poll_fetch` gives
//! the read to send, and its page settles every number below its `nextSeq`.
//!
//! ```text
//!            hole, cut, room again                poll_fetch
//!   Idle ------------------------------> Wanted --------------> InFlight
//!    ^                                     ^                       |
//!    |                                     '--- cut ---------------|
//!    '---------------------------------------- page, read error ---'
//! ```

use std::collections::BTreeMap;

use exec_protocol::process::{ReadResult, Stream};

use crate::event::{LostReason, ProcessEvent};

/// What is held back at most while a hole is open.
#[derive(Debug, Clone, Copy)]
pub(crate) struct EarlyBounds {
    pub(crate) events: usize,
    pub(crate) bytes: usize,
}

/// A numbered event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Event {
    Output { stream: Stream, bytes: Vec<u8> },
    Exited { code: i32, sandbox_denied: Option<bool> },
    Closed,
}

impl Event {
    fn len(&self) -> usize {
        match self {
            Event::Output { bytes, .. } => bytes.len(),
            Event::Exited { .. } | Event::Closed => 0,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fetch {
    Idle,
    Wanted,
    InFlight,
}

/// Where one process's events stand.
#[derive(Debug)]
pub(crate) struct Sequence {
    bounds: EarlyBounds,
    /// The number of the next event to deliver.
    next: u64,
    /// One above the highest number heard of.
    known: u64,
    /// Bytes written before `next`, delivered or lost.
    position: u64,
    /// Events above a hole.
    early: BTreeMap<u64, Event>,
    early_bytes: usize,
    /// Output was not kept since the last read was sent.
    dropped: bool,
    /// New output is not kept, because nobody takes it.
    skipping: bool,
    exited: bool,
    ended: bool,
    fetch: Fetch,
}

impl Sequence {
    /// A process that is about to be started.
    pub(crate) fn new(bounds: EarlyBounds) -> Self {
        Self {
            bounds,
            next: 1,
            known: 1,
            position: 0,
            early: BTreeMap::new(),
            early_bytes: 0,
            dropped: false,
            skipping: false,
            exited: false,
            ended: false,
            fetch: Fetch::Idle,
        }
    }

    /// A process that was started before: everything that is retained has to be read.
    pub(crate) fn attached(bounds: EarlyBounds) -> Self {
        Self { fetch: Fetch::Wanted, ..Self::new(bounds) }
    }

    /// Takes a notification. What has been seen before is dropped.
    pub(crate) fn handle_event(&mut self, seq: u64, event: Event) -> Vec<ProcessEvent> {
        let mut out = Vec::new();
        if self.ended || seq < self.next || self.early.contains_key(&seq) {
            return out;
        }
        self.known = self.known.max(seq.saturating_add(1));
        if self.skipping && matches!(event, Event::Output { .. }) {
            self.dropped = true;
        } else {
            self.hold(seq, event);
            self.deliver_ready(&mut out);
            self.keep_bounds();
        }
        if self.has_hole() && self.fetch == Fetch::Idle {
            self.fetch = Fetch::Wanted;
        }
        out
    }

    /// Takes the answer to the read that [`Sequence::poll_fetch`] gave. Every number below its
    /// `nextSeq` is settled by it: delivered, or lost and told as a gap.
    pub(crate) fn handle_page(&mut self, page: ReadResult) -> Vec<ProcessEvent> {
        let mut out = Vec::new();
        self.fetch = Fetch::Idle;
        if self.ended {
            return out;
        }
        let first_chunk = page.chunks.first().map(|chunk| chunk.seq);
        let last_chunk = page.chunks.last().map_or(0, |chunk| chunk.seq.saturating_add(1));
        let end = page.next_seq.max(last_chunk).max(self.next);
        self.known = self.known.max(end);
        let next = self.next;
        for chunk in page.chunks.into_iter().filter(|chunk| chunk.seq >= next) {
            self.hold(chunk.seq, Event::Output { stream: chunk.stream, bytes: chunk.chunk.0 });
        }
        // Closed has the highest number of all.
        if page.closed && end > self.next {
            self.hold(end - 1, Event::Closed);
        }
        let exit = Event::Exited {
            code: page.exit_code.unwrap_or(-1),
            sandbox_denied: Some(page.sandbox_denied),
        };
        if page.exited {
            self.place_exit(end, exit, page.closed, &mut out);
        }
        // What was written before the first chunk and neither delivered nor held is lost.
        let until = first_chunk.unwrap_or(end).max(self.next);
        let held: usize = self.early.range(self.next..until).map(|(_, event)| event.len()).sum();
        let seen = self.position + held as u64;
        let lost = page.output_offset.map(|offset| offset.saturating_sub(seen));
        self.deliver_until(end, lost, &mut out);
        self.deliver_ready(&mut out);
        self.keep_bounds();
        if let (Some(failure), false) = (page.failure, self.ended) {
            self.lose(LostReason::Process(failure), &mut out);
        }
        // A hole that is only a matter of order fills by itself; what was dropped does not.
        if self.dropped && self.has_hole() {
            self.fetch = Fetch::Wanted;
        }
        out
    }

    /// The read was refused: the server has forgotten the process. If its end is known here, only
    /// output is missing, otherwise everything is.
    pub(crate) fn handle_read_error(&mut self, message: String) -> Vec<ProcessEvent> {
        let mut out = Vec::new();
        self.fetch = Fetch::Idle;
        if self.ended {
            return out;
        }
        let held = |wanted: fn(&Event) -> bool| self.early.values().any(wanted);
        let exit_known = self.exited || held(|event| matches!(event, Event::Exited { .. }));
        if exit_known && held(|event| matches!(event, Event::Closed)) {
            self.deliver_until(self.known, None, &mut out);
        } else {
            self.lose(LostReason::Process(message), &mut out);
        }
        out
    }

    /// The connection is gone, and with it what was on its way.
    pub(crate) fn handle_cut(&mut self) {
        self.fetch = Fetch::Wanted;
    }

    /// Nothing more will ever come.
    pub(crate) fn handle_loss(&mut self, reason: LostReason) -> Vec<ProcessEvent> {
        let mut out = Vec::new();
        if !self.ended {
            self.lose(reason, &mut out);
        }
        out
    }

    /// Nobody takes the events: new output is left to the server until there is room again.
    pub(crate) fn skip(&mut self) {
        self.skipping = true;
    }

    /// There is room again: what was skipped is fetched, as far as it is retained.
    pub(crate) fn stop_skipping(&mut self) {
        self.skipping = false;
        if self.has_hole() && self.fetch == Fetch::Idle {
            self.fetch = Fetch::Wanted;
        }
    }

    pub(crate) fn is_skipping(&self) -> bool {
        self.skipping
    }

    /// The `afterSeq` of a read that has to be sent now, and only once.
    pub(crate) fn poll_fetch(&mut self) -> Option<u64> {
        if self.fetch != Fetch::Wanted || self.skipping || self.ended {
            return None;
        }
        self.fetch = Fetch::InFlight;
        self.dropped = false;
        Some(self.next - 1)
    }

    fn has_hole(&self) -> bool {
        !self.ended && self.known > self.next
    }

    fn hold(&mut self, seq: u64, event: Event) {
        let len = event.len();
        // Both copies of an event are the same, so the first stays.
        if let std::collections::btree_map::Entry::Vacant(entry) = self.early.entry(seq) {
            entry.insert(event);
            self.early_bytes += len;
        }
    }

    /// Finds the number of an exit that a page only tells as a flag.
    ///
    /// Retention drops the oldest output first, so above the page's first chunk nothing is missing
    /// but the exit; below it, the exit's place among lost output cannot be told and does not
    /// matter. Either way it may take the highest number that is missing.
    fn place_exit(&mut self, end: u64, exit: Event, closed: bool, out: &mut Vec<ProcessEvent>) {
        let held = self.early.range(self.next..end);
        let is_exit = |event: &Event| matches!(event, Event::Exited { .. });
        if self.exited || held.clone().any(|(_, event)| is_exit(event)) {
            return;
        }
        if (held.count() as u64) < end - self.next {
            let mut seq = end - 1;
            while self.early.contains_key(&seq) {
                seq -= 1;
            }
            self.hold(seq, exit);
        } else if closed {
            // A server that does not number the exit still has to tell it before the end.
            self.deliver(0, exit, out);
        }
    }

    /// Delivers every held event below `end`. The first hole is told as a gap of `lost` bytes, if
    /// there is one and it is not known to be empty.
    fn deliver_until(&mut self, end: u64, lost: Option<u64>, out: &mut Vec<ProcessEvent>) {
        let mut gap = Some(lost).filter(|bytes| *bytes != Some(0));
        while self.next < end && !self.ended {
            let held = self.early.first_key_value().map(|(seq, _)| *seq).filter(|seq| *seq < end);
            if held != Some(self.next) {
                if let Some(bytes) = gap.take() {
                    self.position += bytes.unwrap_or(0);
                    out.push(ProcessEvent::Gap { bytes });
                }
                self.next = held.unwrap_or(end);
                continue;
            }
            self.deliver_next(out);
        }
    }

    fn deliver_ready(&mut self, out: &mut Vec<ProcessEvent>) {
        while !self.ended && self.early.contains_key(&self.next) {
            self.deliver_next(out);
        }
    }

    fn deliver_next(&mut self, out: &mut Vec<ProcessEvent>) {
        if let Some((seq, event)) = self.early.pop_first() {
            self.early_bytes -= event.len();
            self.next = seq.saturating_add(1);
            self.deliver(seq, event, out);
        }
    }

    fn deliver(&mut self, seq: u64, event: Event, out: &mut Vec<ProcessEvent>) {
        match event {
            Event::Output { stream, bytes } => {
                self.position += bytes.len() as u64;
                out.push(ProcessEvent::Output { seq, stream, bytes });
            }
            Event::Exited { code, sandbox_denied } => {
                if !std::mem::replace(&mut self.exited, true) {
                    out.push(ProcessEvent::Exited { code, sandbox_denied });
                }
            }
            Event::Closed => {
                out.push(ProcessEvent::Closed);
                self.end();
            }
        }
    }

    fn lose(&mut self, reason: LostReason, out: &mut Vec<ProcessEvent>) {
        out.push(ProcessEvent::Lost(reason));
        self.end();
    }

    fn end(&mut self) {
        self.ended = true;
        self.early.clear();
        self.early_bytes = 0;
    }

    /// Lets go of the newest output until the bounds hold. Exit and closed stay: they are two at
    /// most, and the server forgets them some time after the end.
    fn keep_bounds(&mut self) {
        while self.early.len() > self.bounds.events || self.early_bytes > self.bounds.bytes {
            let is_output = |event: &Event| matches!(event, Event::Output { .. });
            let newest = self.early.iter().rev().find(|(_, event)| is_output(event));
            let Some(seq) = newest.map(|(seq, _)| *seq) else { break };
            if let Some(event) = self.early.remove(&seq) {
                self.early_bytes -= event.len();
                self.dropped = true;
            }
        }
    }
}

#[cfg(test)]
#[path = "sequence_tests.rs"]
mod tests;
