//! Was it the sandbox that said no? A guess from what a command printed and how it ended.
//!
//! Output is looked at as it comes: each stream by itself and both as they interleave, so that a word
//! may be split over chunks and over streams. What is kept is one line's end for each of the three.
//!
//! Words of the system's own messages count wherever they stand. A word like `sandbox`, which is also a
//! fine name for a directory, does not count inside a word with a slash.

use std::collections::VecDeque;
use std::sync::LazyLock;

/// What system calls say when they are refused.
const MESSAGES: [&[u8]; 4] = [
    b"operation not permitted",
    b"permission denied",
    b"read-only file system",
    b"failed to write file",
];
/// What mechanisms are called.
const MECHANISMS: [&[u8]; 3] = [b"seccomp", b"sandbox", b"landlock"];

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
#[derive(Debug, Clone, Default)]
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
        let (text, other) = match stream {
            Stream::Stdout => (&mut self.stdout, self.stderr),
            Stream::Stderr => (&mut self.stderr, self.stdout),
        };
        text.feed(bytes);
        match other.begun {
            true => self.both.feed(bytes),
            // As long as the other is silent, this is all there is.
            false => self.both = *text,
        }
    }

    /// Whether a command that ended like this was refused something.
    pub fn verdict(&self, exit_code: i32) -> bool {
        // A name can be the last thing that was said.
        let pending = self.stdout.pending || self.stderr.pending || self.both.pending;
        let denied = self.found() || pending || exit_code == KILLED_BY_FILTER;
        exit_code != 0 && denied
    }

    fn found(&self) -> bool {
        self.stdout.found || self.stderr.found || self.both.found
    }
}

/// How far one text has come.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Text {
    /// Whether there is any.
    begun: bool,
    /// How much of which keyword it ends with.
    state: u8,
    /// Whether the word so far has a slash in it.
    path: bool,
    /// Whether the word so far has a mechanism's name in it; a slash may still come.
    pending: bool,
    found: bool,
}

impl Text {
    fn feed(&mut self, bytes: &[u8]) {
        let automaton = &*AUTOMATON;
        self.begun |= !bytes.is_empty();
        for &byte in bytes {
            if byte == b'/' {
                (self.path, self.pending) = (true, false);
            } else if automaton.ends_word[usize::from(byte)] {
                self.found |= self.pending;
                self.path = false;
            }
            self.state = automaton.next[usize::from(self.state)][usize::from(byte)];
            match automaton.ends[usize::from(self.state)] {
                End::Nowhere => {}
                End::Message => self.found = true,
                End::Mechanism => self.pending |= !self.path,
            }
            if self.found {
                return;
            }
        }
    }
}

/// What a state has reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Nowhere,
    Message,
    Mechanism,
}

/// All keywords at once, in either case: a state is the longest beginning of one that the text ends
/// with, and state 0 is none.
struct Automaton {
    next: Vec<[u8; 256]>,
    ends: Vec<End>,
    /// Whether a path could not go on with this byte, as far as messages are written.
    ends_word: [bool; 256],
}

static AUTOMATON: LazyLock<Automaton> = LazyLock::new(Automaton::new);

// A state is a byte of a keyword, or none.
const _: () = {
    let (mut bytes, mut at) = (1, 0);
    while at < MESSAGES.len() {
        bytes += MESSAGES[at].len();
        at += 1;
    }
    at = 0;
    while at < MECHANISMS.len() {
        bytes += MECHANISMS[at].len();
        at += 1;
    }
    assert!(bytes <= 256);
};

impl Automaton {
    fn new() -> Self {
        let mut beginnings = vec![&b""[..]];
        for keyword in MESSAGES.iter().chain(&MECHANISMS) {
            for length in 1..=keyword.len() {
                if !beginnings.contains(&&keyword[..length]) {
                    beginnings.push(&keyword[..length]);
                }
            }
        }
        let step = |from: &[u8], byte: u8| {
            let mut text: VecDeque<u8> = from.iter().copied().chain([byte]).collect();
            loop {
                let known = beginnings.iter().position(|it| *it == text.make_contiguous());
                if let Some(state) = known {
                    return u8::try_from(state).expect("counted above");
                }
                text.pop_front();
            }
        };
        let next = beginnings
            .iter()
            .map(|from| std::array::from_fn(|byte| step(from, lower(byte))))
            .collect();
        let end = |text: &&[u8]| match (MESSAGES.contains(text), MECHANISMS.contains(text)) {
            (true, _) => End::Message,
            (_, true) => End::Mechanism,
            _ => End::Nowhere,
        };
        let ends_word = std::array::from_fn(|byte| {
            let byte = lower(byte);
            byte <= b' ' || b"\"'`:;,()[]<>=|".contains(&byte)
        });
        Self { next, ends: beginnings.iter().map(end).collect(), ends_word }
    }
}

fn lower(byte: usize) -> u8 {
    u8::try_from(byte).unwrap_or_default().to_ascii_lowercase()
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
        check(&[(Stderr, "cc: /users/u/sandbox/x.c: syntax error")], 1, false);
        check(&[(Stderr, "sandbox/x.c:3: syntax error")], 1, false);
        check(&[(Stderr, "in '/srv/my sandbox/x'")], 1, false);
        check(&[(Stderr, "sandbox-exec: no")], 1, true);
        check(&[(Stderr, "/users/u/sandbox/x: Permission denied")], 1, true);
    }

    #[test]
    fn a_false_start_loses_nothing() {
        let mut scanner = Scanner::new();
        scanner.feed(Stream::Stdout, &vec![b'x'; 1 << 20]);
        scanner.feed(Stream::Stdout, b"permissionpermission seccoseccom sasandboxes");
        assert!(!scanner.found());
        scanner.feed(Stream::Stdout, b" ");
        assert!(scanner.verdict(1));
    }

    proptest::proptest! {
        #[test]
        fn messages_are_found_wherever_chunks_end(
            before in "[a-z /]{0,30}", after in "[a-z /]{0,30}", cuts in proptest::collection::vec(0..80_usize, 0..6),
            keyword in proptest::sample::select(MESSAGES.to_vec()),
        ) {
            let text = [before.as_bytes(), keyword, after.as_bytes()].concat();
            let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(text.len())).collect();
            cuts.extend([0, text.len()]);
            cuts.sort_unstable();
            let mut scanner = Scanner::new();
            for (index, pair) in cuts.windows(2).enumerate() {
                let stream = if index % 2 == 0 { Stream::Stdout } else { Stream::Stderr };
                scanner.feed(stream, &text[pair[0]..pair[1]]);
            }
            proptest::prop_assert!(scanner.verdict(1));
        }
    }
}
