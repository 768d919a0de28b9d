//! Copying many files at once: what is asked for, what is reported, and the loop that does both
//! directions. `download.rs` and `upload.rs` say what one step is.

use std::sync::{Mutex, MutexGuard, PoisonError};

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;

use super::Resume;
use crate::ExecServerError;
use crate::limits::{REPORTED_FAILURES_MAX, TREE_ENTRIES_MAX, TREE_JOBS};

/// What to do with symbolic links inside a tree. The protocol has no call that reads or makes one.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Links {
    /// Down: a link to something in the tree becomes a relative link to it, any other is reported.
    /// Up: every link is reported. Links whose target is missing are invisible over the protocol.
    #[default]
    Keep,
    /// What they point to is copied in their place.
    Follow,
}

/// How to copy.
#[derive(Debug, Clone, Copy, Default)]
pub struct TreeOptions {
    /// Go on after what an earlier copy has left.
    pub resume: Resume,
    /// Links inside the tree. What is copied may itself be a link to a file or directory.
    pub links: Links,
}

/// How far a copy is.
#[derive(Debug, Clone, Copy)]
pub struct Progress<'a> {
    /// Files that are complete, or have failed.
    pub files_done: u64,
    /// Bytes that were moved, or were there already.
    pub bytes_done: u64,
    /// Files seen so far.
    pub files_known: u64,
    /// Their bytes, as far as their size was asked for.
    pub bytes_known: u64,
    /// What was worked on last.
    pub current: &'a str,
}

/// Something that was not copied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// Which path.
    pub path: String,
    /// Why.
    pub error: ExecServerError,
}

/// What came of a copy. It is complete if `failures_total` is 0.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Report {
    /// Files copied.
    pub files: u64,
    /// Their bytes, those of an earlier copy included.
    pub bytes: u64,
    /// Bytes that an earlier copy had left.
    pub bytes_resumed: u64,
    /// Directories made or found.
    pub directories: u64,
    /// Links made.
    pub links: u64,
    /// What was not copied; the first 10 000.
    pub failures: Vec<Failure>,
    /// What was not copied, in number.
    pub failures_total: u64,
}

/// The counters of one copy, shared by its steps.
pub(crate) struct Meter<'a> {
    state: Mutex<State>,
    tell: &'a (dyn Fn(&Progress<'_>) + Send + Sync),
}

#[derive(Default)]
struct State {
    report: Report,
    files_done: u64,
    bytes_done: u64,
    files_known: u64,
    bytes_known: u64,
    entries: usize,
}

impl<'a> Meter<'a> {
    pub(crate) fn new(tell: &'a (dyn Fn(&Progress<'_>) + Send + Sync)) -> Self {
        Self { state: Mutex::default(), tell }
    }

    /// Room for that many entries more, or how many fit.
    pub(crate) fn admit(&self, entries: usize) -> usize {
        let mut state = self.lock();
        let admitted = entries.min(TREE_ENTRIES_MAX - state.entries);
        state.entries += admitted;
        admitted
    }

    pub(crate) fn found_files(&self, files: u64) {
        self.lock().files_known += files;
    }

    pub(crate) fn found_bytes(&self, bytes: u64) {
        self.lock().bytes_known += bytes;
    }

    pub(crate) fn moved(&self, path: &str, bytes: u64) {
        self.update(path, |state| state.bytes_done += bytes);
    }

    /// They have to be moved again.
    pub(crate) fn undone(&self, path: &str, bytes: u64) {
        self.update(path, |state| state.bytes_done = state.bytes_done.saturating_sub(bytes));
    }

    pub(crate) fn file_done(&self, path: &str, copied: super::Copied) {
        self.update(path, |state| {
            state.files_done += 1;
            state.report.files += 1;
            state.report.bytes += copied.bytes;
            state.report.bytes_resumed += copied.resumed;
        });
    }

    pub(crate) fn file_failed(&self, path: &str, error: ExecServerError) {
        self.update(path, |state| state.files_done += 1);
        self.failed(path, error);
    }

    pub(crate) fn directory_done(&self) {
        self.lock().report.directories += 1;
    }

    pub(crate) fn link_done(&self) {
        self.lock().report.links += 1;
    }

    pub(crate) fn failed(&self, path: &str, error: ExecServerError) {
        let mut state = self.lock();
        state.report.failures_total += 1;
        if state.report.failures.len() < REPORTED_FAILURES_MAX {
            state.report.failures.push(Failure { path: path.to_owned(), error });
        }
    }

    pub(crate) fn refused(&self, path: &str, reason: &str) {
        let (path_text, reason) = (path.to_owned(), reason.to_owned());
        self.failed(path, ExecServerError::Local { path: path_text, reason });
    }

    pub(crate) fn into_report(self) -> Report {
        self.state.into_inner().unwrap_or_else(PoisonError::into_inner).report
    }

    fn update(&self, current: &str, change: impl FnOnce(&mut State)) {
        let mut state = self.lock();
        change(&mut state);
        let State { files_done, bytes_done, files_known, bytes_known, .. } = *state;
        drop(state);
        (self.tell)(&Progress { files_done, bytes_done, files_known, bytes_known, current });
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Counters are never half changed.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Does a job and the jobs that follow from it, a bounded number at once. The youngest come first,
/// so that few wait.
pub(crate) async fn run_jobs<J, F>(first: J, step: impl Fn(J) -> F)
where
    F: Future<Output = Vec<J>>,
{
    let mut waiting = vec![first];
    let mut running = FuturesUnordered::new();
    loop {
        while running.len() < TREE_JOBS
            && let Some(job) = waiting.pop()
        {
            running.push(step(job));
        }
        match running.next().await {
            Some(more) => waiting.extend(more),
            None => return,
        }
    }
}
