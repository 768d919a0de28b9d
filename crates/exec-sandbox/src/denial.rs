//! Was it the sandbox that said no? A guess from what a command printed and how it ended.
//!
//! Output is looked at as it comes: each stream by itself and both as they interleave, so that a word
//! may be split over chunks and over streams. What is kept is one line's end for each of the three.
//!
//! Words of the system's own messages count wherever they stand. A word like `sandbox`, which is also a
//! fine name for a directory, does not count inside a word with a slash.

use std::collections::VecDeque;

/// What system calls say when they are refused.
const MESSAGES: [&[u8]; 4] = [
    b"operation not permitted",
    b"permission denied",
    b"read-only file system",
    b"failed to write file",
];
/// What mechanisms are called.
const MECHANISMS: [&[u8]; 3] = [b"seccomp", b"sandbox", b"landlock"];
/// No keyword is longer.
const KEYWORD_BYTES_MAX: usize = 23;
const _: () = assert!(MESSAGES[0].len() == KEYWORD_BYTES_MAX);

/// Ended by the filter: a call of a foreign architecture.
const KILLED_BY_FILTER: i32 = 128 + 31;

/// Where output came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stream {
    /// Standard output, or a terminal.
    Stdout,
    /// Standard error.
    Stderr,
}

/// Looks at a command's output as it comes.
#[derive(Debug, Default)]
pub struct Scanner {
    stdout: Text,
    stderr: Text,
    both: Text,
}

impl Scanner {
    /// Nothing seen yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// The next piece of output.
    pub fn feed(&mut self, stream: Stream, bytes: &[u8]) {
        if self.found() {
            return;
        }
        match stream {
            Stream::Stdout => self.stdout.feed(bytes),
            Stream::Stderr => self.stderr.feed(bytes),
        }
        self.both.feed(bytes);
    }

    /// Whether a command that ended like this was refused something.
    pub fn verdict(&self, exit_code: i32) -> bool {
        // A name can be the last thing that was said.
        let pending = self.stdout.pending || self.stderr.pending || self.both.pending;
        let found = self.found() || pending;
        exit_code != 0 && (found || exit_code == KILLED_BY_FILTER)
    }

    fn found(&self) -> bool {
        self.stdout.found || self.stderr.found || self.both.found
    }
}

/// One text, of which only the end is kept.
#[derive(Debug, Default)]
struct Text {
    /// In lower case: the bytes that a keyword may end with.
    tail: VecDeque<u8>,
    /// Whether the word so far has a slash in it.
    path: bool,
    /// Whether the word so far has a mechanism's name in it; a slash may still come.
    pending: bool,
    found: bool,
}

impl Text {
    fn feed(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            if self.found {
                return;
            }
            self.push(byte.to_ascii_lowercase());
        }
    }

    fn push(&mut self, byte: u8) {
        if byte == b'/' {
            (self.path, self.pending) = (true, false);
        } else if ends_word(byte) {
            self.found = self.pending;
            self.path = false;
        }
        if self.tail.len() >= KEYWORD_BYTES_MAX {
            self.tail.pop_front();
        }
        self.tail.push_back(byte);
        // Most bytes end no keyword.
        if !matches!(byte, b'd' | b'm' | b'e' | b'p' | b'x' | b'k') {
            return;
        }
        self.found |= MESSAGES.iter().any(|keyword| self.ends_with(keyword));
        self.pending |= !self.path && MECHANISMS.iter().any(|keyword| self.ends_with(keyword));
    }

    fn ends_with(&self, keyword: &[u8]) -> bool {
        self.tail.len() >= keyword.len()
            && self.tail.iter().rev().zip(keyword.iter().rev()).all(|(have, want)| have == want)
    }
}

/// Whether a path could not go on with this byte, as far as messages are written.
fn ends_word(byte: u8) -> bool {
    byte <= b' ' || b"\"'`:;,()[]<>=|".contains(&byte)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(chunks: &[(Stream, &str)], exit_code: i32, expected: bool) {
        let mut scanner = Scanner::new();
        for (stream, text) in chunks {
            scanner.feed(*stream, text.as_bytes());
        }
        assert_eq!(scanner.verdict(exit_code), expected, "{chunks:?} and {exit_code}");
    }

    #[test]
    fn a_keyword_and_a_failure_are_a_denial() {
        use Stream::{Stderr, Stdout};
        check(&[(Stderr, "sh: x: Permission denied\n")], 1, true);
        check(&[(Stderr, "sh: x: Permission denied\n")], 0, false);
        check(&[(Stdout, "x: Operation not permitted")], 126, true);
        check(&[(Stdout, "touch: Read-only file system")], 2, true);
        check(&[(Stdout, "failed to write file /x")], 127, true);
        check(&[(Stderr, "bad system call (seccomp)")], 3, true);
        check(&[(Stderr, "refused by Landlock")], 1, true);
        check(&[(Stderr, "sandbox: no")], 1, true);
        check(&[(Stderr, "denied by the sandbox")], 1, true);
        check(&[(Stderr, "no such file")], 1, false);
        check(&[], 159, true);
        check(&[], 137, false);
        check(&[], 2, false);
    }

    #[test]
    fn a_keyword_may_be_split_over_chunks_and_streams() {
        use Stream::{Stderr, Stdout};
        check(&[(Stdout, "Permission"), (Stdout, " den"), (Stdout, "ied")], 1, true);
        check(&[(Stdout, "Permission"), (Stderr, "noise"), (Stdout, " denied")], 1, true);
        check(&[(Stdout, "Permission"), (Stderr, " denied")], 1, true);
        check(&[(Stdout, "san"), (Stderr, "dbox")], 1, true);
    }

    #[test]
    fn a_denial_long_ago_still_counts() {
        let mut scanner = Scanner::new();
        scanner.feed(Stream::Stderr, b"x: Permission denied\n");
        for _ in 0..1000 {
            scanner.feed(Stream::Stdout, &[b'.'; 4096]);
        }
        assert!(scanner.verdict(1));
    }

    #[test]
    fn a_name_that_holds_a_keyword_is_no_denial() {
        use Stream::Stderr;
        check(&[(Stderr, "cc: /home/u/sandbox/x.c: syntax error")], 1, false);
        check(&[(Stderr, "sandbox/x.c:3: syntax error")], 1, false);
        check(&[(Stderr, "in '/srv/my sandbox/x'")], 1, false);
        check(&[(Stderr, "sandbox-exec: no")], 1, true);
        check(&[(Stderr, "/home/u/sandbox/x: Permission denied")], 1, true);
    }

    #[test]
    fn what_is_kept_is_bounded() {
        let mut scanner = Scanner::new();
        scanner.feed(Stream::Stdout, &vec![b'x'; 1 << 20]);
        assert!(scanner.both.tail.len() <= KEYWORD_BYTES_MAX);
    }
}
