//! What a search has found, within what it may find.

use std::io;

use exec_protocol::fs::SearchMatch;
use exec_protocol::path_uri::PathUri;
use grep_matcher::Matcher;
use grep_regex::RegexMatcher;
use grep_searcher::{Searcher, Sink, SinkContext, SinkContextKind, SinkFinish, SinkMatch};

use crate::cancel::Cancel;
use crate::limits::{SEARCH_LINE_BYTES_MAX, SEARCH_VALUES_MAX};

/// Charged for each match besides its texts: its members' names and numbers.
const MATCH_BYTES: usize = 96;
/// Values of a match in JSON, without its lines of context.
const MATCH_VALUES: usize = 7;

/// What may still be found.
#[derive(Debug)]
pub(super) struct Budget {
    matches: usize,
    bytes: usize,
    values: usize,
    over: bool,
}

impl Budget {
    pub(super) fn new(matches: usize, bytes: usize) -> Self {
        Self { matches, bytes, values: SEARCH_VALUES_MAX, over: false }
    }

    /// Nothing more can be found.
    pub(super) fn is_spent(&self) -> bool {
        self.matches == 0 || self.over
    }

    /// Something was left out.
    pub(super) fn is_over(&self) -> bool {
        self.over
    }

    /// Pays for something, or finds that there is not enough left.
    fn take(&mut self, matches: usize, bytes: usize, values: usize) -> bool {
        let left = (
            self.matches.checked_sub(matches),
            self.bytes.checked_sub(bytes),
            self.values.checked_sub(values),
        );
        let (Some(matches), Some(bytes), Some(values)) = left else {
            self.over = true;
            return false;
        };
        (self.matches, self.bytes, self.values) = (matches, bytes, values);
        true
    }
}

/// Gathers the matches of one file.
pub(super) struct Collector<'a> {
    path: &'a PathUri,
    matcher: &'a RegexMatcher,
    budget: &'a mut Budget,
    cancel: &'a Cancel,
    matches: Vec<SearchMatch>,
    before: Vec<String>,
    is_binary: bool,
}

impl<'a> Collector<'a> {
    pub(super) fn new(
        path: &'a PathUri,
        matcher: &'a RegexMatcher,
        budget: &'a mut Budget,
        cancel: &'a Cancel,
    ) -> Self {
        let (matches, before) = (Vec::new(), Vec::new());
        Self { path, matcher, budget, cancel, matches, before, is_binary: false }
    }

    /// The matches, and whether the file turned out to be binary.
    pub(super) fn finish(self) -> (Vec<SearchMatch>, bool) {
        (self.matches, self.is_binary)
    }
}

impl Sink for Collector<'_> {
    type Error = io::Error;

    fn matched(&mut self, _: &Searcher, found: &SinkMatch<'_>) -> Result<bool, io::Error> {
        let text = line(found.bytes());
        let bytes = MATCH_BYTES + self.path.as_str().len() + json_len(&text);
        if self.cancel.is_cancelled() || !self.budget.take(1, bytes, MATCH_VALUES) {
            return Ok(false);
        }
        let first = self.matcher.find(found.bytes()).ok().flatten();
        self.matches.push(SearchMatch {
            path: self.path.clone(),
            line: found.line_number().unwrap_or(0),
            column: first.map_or(1, |first| first.start() as u64 + 1),
            text,
            before: std::mem::take(&mut self.before),
            after: Vec::new(),
        });
        Ok(true)
    }

    fn context(&mut self, _: &Searcher, context: &SinkContext<'_>) -> Result<bool, io::Error> {
        let text = line(context.bytes());
        // Two quotes and a comma.
        if self.cancel.is_cancelled() || !self.budget.take(0, json_len(&text) + 3, 1) {
            return Ok(false);
        }
        match (context.kind(), self.matches.last_mut()) {
            (SinkContextKind::After, Some(last)) => last.after.push(text),
            (SinkContextKind::Before | SinkContextKind::After | SinkContextKind::Other, _) => {
                self.before.push(text);
            }
        }
        Ok(true)
    }

    fn binary_data(&mut self, _: &Searcher, _: u64) -> Result<bool, io::Error> {
        self.is_binary = true;
        Ok(false)
    }

    fn finish(&mut self, _: &Searcher, finish: &SinkFinish) -> Result<(), io::Error> {
        self.is_binary |= finish.binary_byte_offset().is_some();
        Ok(())
    }
}

/// A line without its end, as text, cut where it is too long.
fn line(bytes: &[u8]) -> String {
    let bytes = bytes.strip_suffix(b"\n").unwrap_or(bytes);
    let bytes = bytes.strip_suffix(b"\r").unwrap_or(bytes);
    let mut end = bytes.len().min(SEARCH_LINE_BYTES_MAX);
    // Not within a character, the longest of which has three bytes after its first.
    let floor = end.saturating_sub(3);
    while end < bytes.len() && end > floor && bytes[end] & 0xc0 == 0x80 {
        end -= 1;
    }
    String::from_utf8_lossy(&bytes[..end]).into_owned()
}

/// Length of the text in JSON.
fn json_len(text: &str) -> usize {
    text.bytes()
        .map(|byte| match byte {
            b'"' | b'\\' => 2,
            0..0x20 => 6,
            _ => 1,
        })
        .sum()
}
