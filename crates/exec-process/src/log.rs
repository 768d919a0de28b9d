//! The numbered log of one process: every piece of output, the exit and the close, counted by one
//! counter without gaps.
//!
//! Pure. The live stream, `process/read`, long polls and a resumed session are all cursors on it.
//! There is at most one *follower*, the connection that is pushed every event. While it is
//! attached, the log asks for a pause when too much is unsent, so nothing is ever dropped unseen;
//! while nobody is attached, the oldest output goes, and offsets tell how much.

use std::collections::VecDeque;
use std::ops::ControlFlow;

use exec_protocol::process::Stream;

use crate::head_tail::HeadTail;
use crate::sys::Usage;

/// The bounds of one log.
#[derive(Debug, Clone, Copy)]
pub struct LogLimits {
    /// Newest output kept, over all streams.
    pub retained_bytes_max: usize,
    /// Chunks kept.
    pub retained_chunks_max: usize,
    /// Output the follower has not been sent yet, above which the child is to be slowed.
    pub unsent_bytes_max: usize,
    /// Chunks not handed out yet are joined up to this size.
    pub chunk_bytes_max: usize,
    /// Beginning and end kept of each stream for snapshots.
    pub snapshot_bytes_max: usize,
}

/// One entry, as a follower sees it.
#[derive(Debug, PartialEq, Eq)]
pub enum Event<'a> {
    /// A piece of output.
    Output {
        /// Its number.
        seq: u64,
        /// Where it was written.
        stream: Stream,
        /// The bytes.
        data: &'a [u8],
    },
    /// The exit.
    Exited {
        /// Its number.
        seq: u64,
        /// What it was.
        exit: Exit,
    },
    /// The last entry.
    Closed {
        /// Its number.
        seq: u64,
    },
}

/// How a process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Exit {
    /// As exited, or 128 and the signal.
    pub code: i32,
    /// The sandbox was probably the reason.
    pub sandbox_denied: bool,
    /// What it used.
    pub usage: Usage,
    /// It was killed because its time was up.
    pub deadline_passed: bool,
}

/// Where the life of a process stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogState {
    /// The number the next event will get.
    pub next_seq: u64,
    /// The exit, once known.
    pub exit: Option<Exit>,
    /// Nothing more can come.
    pub closed: bool,
}

/// A retained chunk.
#[derive(Debug)]
struct Chunk {
    seq: u64,
    /// Bytes written before it, over all streams.
    offset: u64,
    stream: Stream,
    data: Vec<u8>,
}

/// What a read gives, apart from the chunks themselves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReadPage {
    /// Where to go on.
    pub next_seq: u64,
    /// Bytes written before the first chunk of the page.
    pub output_offset: u64,
}

/// The log.
#[derive(Debug)]
pub struct OutputLog {
    limits: LogLimits,
    chunks: VecDeque<Chunk>,
    retained_bytes: usize,
    written: u64,
    next_seq: u64,
    /// The highest number that anybody has been given: what lies below it never changes.
    exposed_seq: u64,
    exit: Option<(u64, Exit)>,
    closed: Option<u64>,
    follower: Option<Follower>,
    head_tail: HeadTail,
}

/// The cursor of the attached connection.
#[derive(Debug, Clone, Copy)]
struct Follower {
    next_seq: u64,
    /// Bytes it has been given or had been written before it came.
    offset: u64,
}

impl OutputLog {
    /// An empty log that nobody follows.
    pub fn new(limits: LogLimits) -> Self {
        Self {
            limits,
            chunks: VecDeque::new(),
            retained_bytes: 0,
            written: 0,
            next_seq: 1,
            exposed_seq: 0,
            exit: None,
            closed: None,
            follower: None,
            head_tail: HeadTail::new(limits.snapshot_bytes_max),
        }
    }

    /// Adds output. Small pieces that nobody has been given yet are joined.
    pub fn append(&mut self, stream: Stream, data: &[u8]) {
        debug_assert!(self.closed.is_none(), "closed is the last entry");
        if data.is_empty() {
            return;
        }
        self.head_tail.head(stream, data);
        match self.chunks.back_mut() {
            Some(last)
                if last.seq > self.exposed_seq
                    && last.seq + 1 == self.next_seq
                    && last.stream == stream
                    && last.data.len() + data.len() <= self.limits.chunk_bytes_max =>
            {
                last.data.extend_from_slice(data);
            }
            _ => {
                let chunk =
                    Chunk { seq: self.next_seq, offset: self.written, stream, data: data.to_vec() };
                self.chunks.push_back(chunk);
                self.next_seq += 1;
            }
        }
        self.written += data.len() as u64;
        self.retained_bytes += data.len();
        self.head_tail.retained(stream, data.len());
        self.trim();
    }

    /// Notes the exit.
    pub fn exited(&mut self, exit: Exit) {
        debug_assert!(self.exit.is_none() && self.closed.is_none(), "one exit, before the close");
        self.exit = Some((self.next_seq, exit));
        self.next_seq += 1;
    }

    /// Notes the end: the exit is known and no stream can bring more.
    pub fn closed(&mut self) {
        debug_assert!(self.exit.is_some() && self.closed.is_none(), "closed once, after the exit");
        self.closed = Some(self.next_seq);
        self.next_seq += 1;
    }

    /// Drops whole chunks from the old end, down to the limits.
    fn trim(&mut self) {
        while self.chunks.len() > 1
            && (self.retained_bytes > self.limits.retained_bytes_max
                || self.chunks.len() > self.limits.retained_chunks_max)
        {
            let Some(oldest) = self.chunks.pop_front() else { return };
            self.retained_bytes -= oldest.data.len();
            self.head_tail.evicted(oldest.stream, oldest.data);
        }
    }

    /// Whether more output may be read from the child now.
    pub fn has_room(&self) -> bool {
        // Chunks count too: output of single bytes reaches that limit long before the other.
        self.follower.is_none_or(|follower| {
            self.written - follower.offset < self.limits.unsent_bytes_max as u64
                && self.next_seq - follower.next_seq < self.limits.retained_chunks_max as u64
        })
    }

    /// Begins to push events: those from now on. What came before is there to be read.
    pub fn attach(&mut self) {
        self.exposed_seq = self.next_seq - 1;
        self.follower = Some(Follower { next_seq: self.next_seq, offset: self.written });
    }

    /// Nobody follows any more.
    pub fn detach(&mut self) {
        self.follower = None;
    }

    /// Hands the follower its next events, until `take` breaks or there are no more. Returns
    /// whether some are left.
    pub fn follow(&mut self, mut take: impl FnMut(Event<'_>) -> ControlFlow<()>) -> bool {
        let Some(mut follower) = self.follower else { return false };
        let mut at = self.chunks.partition_point(|chunk| chunk.seq < follower.next_seq);
        let mut flow = ControlFlow::Continue(());
        while follower.next_seq < self.next_seq && flow.is_continue() {
            let seq = follower.next_seq;
            flow = match (self.exit, self.closed) {
                (Some((exit_seq, exit)), _) if exit_seq == seq => take(Event::Exited { seq, exit }),
                (_, Some(closed_seq)) if closed_seq == seq => take(Event::Closed { seq }),
                _ => {
                    let chunk = &self.chunks[at];
                    debug_assert_eq!(chunk.seq, seq, "unsent output is never dropped");
                    at += 1;
                    follower.offset += chunk.data.len() as u64;
                    take(Event::Output { seq, stream: chunk.stream, data: &chunk.data })
                }
            };
            follower.next_seq += 1;
        }
        self.follower = Some(follower);
        self.exposed_seq = self.exposed_seq.max(follower.next_seq - 1);
        follower.next_seq < self.next_seq
    }

    /// Whether a read after `after_seq` has something to say without waiting.
    pub fn readable(&self, after_seq: u64) -> bool {
        self.closed.is_some()
            || self.chunks.back().is_some_and(|chunk| chunk.seq > after_seq)
            || (self.exit.is_some() && after_seq < self.next_seq - 1)
    }

    /// Gives the retained chunks after `after_seq`: the first in any case, later ones while the
    /// total stays within `bytes_max`.
    pub fn read(
        &mut self,
        after_seq: u64,
        bytes_max: Option<u64>,
        mut take: impl FnMut(u64, Stream, &[u8]),
    ) -> ReadPage {
        let mut total = 0u64;
        let mut last = None;
        let first = self.chunks.partition_point(|chunk| chunk.seq <= after_seq);
        for chunk in self.chunks.range(first..) {
            let len = chunk.data.len() as u64;
            let limit = bytes_max.unwrap_or(u64::MAX);
            if last.is_some() && (total >= limit || total + len > limit) {
                break;
            }
            take(chunk.seq, chunk.stream, &chunk.data);
            total += len;
            last = Some(chunk.seq);
        }
        let next_seq = match (bytes_max, last) {
            (Some(_), Some(last)) => last + 1,
            _ => self.next_seq,
        };
        self.exposed_seq = self.exposed_seq.max(next_seq - 1);
        let output_offset = self.chunks.get(first).map_or(self.written, |chunk| chunk.offset);
        ReadPage { next_seq, output_offset }
    }

    /// Where the process stands.
    pub fn state(&self) -> LogState {
        LogState {
            next_seq: self.next_seq,
            exit: self.exit.map(|(_, exit)| exit),
            closed: self.closed.is_some(),
        }
    }

    /// Beginning and end of one stream, and how many bytes are missing between them.
    pub fn snapshot(&self, stream: Stream) -> (Vec<u8>, u64) {
        let retained = self.chunks.iter().filter(|chunk| chunk.stream == stream);
        self.head_tail.snapshot(stream, retained.map(|chunk| chunk.data.as_slice()))
    }

    /// Bytes ever written.
    pub fn written(&self) -> u64 {
        self.written
    }

    /// Bytes kept now.
    pub fn retained_bytes(&self) -> usize {
        self.retained_bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALL: LogLimits = LogLimits {
        retained_bytes_max: 10,
        retained_chunks_max: 4,
        unsent_bytes_max: 6,
        chunk_bytes_max: 4,
        snapshot_bytes_max: 8,
    };

    const EXIT: Exit = Exit {
        code: 3,
        sandbox_denied: false,
        usage: Usage { cpu: std::time::Duration::ZERO, memory_bytes_max: 0 },
        deadline_passed: false,
    };

    fn followed(log: &mut OutputLog) -> String {
        let mut text = String::new();
        log.follow(|event| {
            match event {
                Event::Output { seq, data, .. } => {
                    text += &format!("{seq}:{} ", String::from_utf8_lossy(data));
                }
                Event::Exited { seq, exit } => text += &format!("{seq}:exit{} ", exit.code),
                Event::Closed { seq } => text += &format!("{seq}:closed "),
            }
            ControlFlow::Continue(())
        });
        text
    }

    fn read(log: &mut OutputLog, after: u64, max: Option<u64>) -> (Vec<u64>, u64, u64) {
        let mut seqs = Vec::new();
        let page = log.read(after, max, |seq, _, _| seqs.push(seq));
        (seqs, page.next_seq, page.output_offset)
    }

    #[test]
    fn one_counter_numbers_output_exit_and_close() {
        let mut log = OutputLog::new(SMALL);
        log.attach();
        log.append(Stream::Stdout, b"a");
        assert_eq!(followed(&mut log), "1:a ");
        log.append(Stream::Stdout, b"b");
        log.append(Stream::Stderr, b"c");
        log.exited(EXIT);
        log.append(Stream::Stdout, b"late");
        log.closed();
        assert_eq!(followed(&mut log), "2:b 3:c 4:exit3 5:late 6:closed ");
    }

    #[test]
    fn only_what_nobody_has_seen_is_joined() {
        let mut log = OutputLog::new(SMALL);
        log.append(Stream::Stdout, b"a");
        log.append(Stream::Stdout, b"b");
        assert_eq!(read(&mut log, 0, None), (vec![1], 2, 0));
        log.append(Stream::Stdout, b"c");
        log.append(Stream::Stdout, b"defg");
        log.append(Stream::Stderr, b"h");
        assert_eq!(read(&mut log, 0, None), (vec![1, 2, 3, 4], 5, 0));
        log.exited(EXIT);
        log.append(Stream::Stderr, b"i");
        assert_eq!(read(&mut log, 4, None), (vec![6], 7, 8), "never across the exit");
    }

    #[test]
    fn pages_follow_the_selection_rules() {
        let mut log = OutputLog::new(SMALL);
        for piece in [b"aaa", b"bbb", b"ccc"] {
            log.append(Stream::Stdout, piece);
        }
        assert_eq!(read(&mut log, 0, Some(0)), (vec![1], 2, 0));
        assert_eq!(read(&mut log, 0, Some(5)), (vec![1], 2, 0));
        assert_eq!(read(&mut log, 0, Some(6)), (vec![1, 2], 3, 0));
        assert_eq!(read(&mut log, 0, Some(99)), (vec![1, 2, 3], 4, 0));
        assert_eq!(read(&mut log, 2, None), (vec![3], 4, 6));
        assert_eq!(read(&mut log, 3, Some(1)), (vec![], 4, 9));
        log.exited(EXIT);
        assert!(log.readable(3) && !log.readable(4));
        log.closed();
        assert!(log.readable(99));
    }

    #[test]
    fn the_follower_slows_the_child_and_loses_nothing() {
        let mut log = OutputLog::new(SMALL);
        log.attach();
        let mut pieces = 0;
        while log.has_room() {
            log.append(Stream::Stdout, b"xyz");
            pieces += 1;
        }
        assert_eq!(pieces, 2);
        assert_eq!(followed(&mut log), "1:xyz 2:xyz ");
        assert!(log.has_room());
    }

    #[test]
    fn without_a_follower_the_oldest_go_and_the_offset_tells() {
        let mut log = OutputLog::new(SMALL);
        for _ in 0..5 {
            log.append(Stream::Stdout, b"four");
        }
        assert!(log.has_room());
        assert_eq!(log.retained_bytes(), 8);
        assert_eq!(read(&mut log, 1, None), (vec![4, 5], 6, 12), "bytes 4 to 12 are gone");
    }

    #[test]
    fn a_chunk_larger_than_the_window_is_kept_alone() {
        let mut log = OutputLog::new(SMALL);
        log.append(Stream::Stdout, b"0123456789abcdef");
        assert_eq!(read(&mut log, 0, None), (vec![1], 2, 0));
    }

    #[test]
    fn a_snapshot_keeps_each_streams_ends_whatever_the_other_does() {
        let mut log = OutputLog::new(SMALL);
        for piece in ["abcd", "efgh", "ijkl"] {
            log.append(Stream::Stdout, piece.as_bytes());
        }
        for _ in 0..10 {
            log.append(Stream::Stderr, b"....");
        }
        assert_eq!(log.snapshot(Stream::Stdout), (b"abcdijkl".to_vec(), 4));
        assert_eq!(log.snapshot(Stream::Stderr), (b"........".to_vec(), 32));
        assert_eq!(log.snapshot(Stream::Pty), (vec![], 0));
    }
}
