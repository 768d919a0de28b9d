//! One log, one client that comes and goes, and a checker that knows every byte ever written.
//!
//! Each seed is one life of a process: random limits, random output on both streams, a link that
//! loses what is under way when it breaks, a client that resumes with reads of random sizes, and
//! strangers who read whatever they like. `LOG_SIMULATION_SEED=n` runs a single one.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::time::Duration;

use std::collections::{BTreeMap, VecDeque};
use std::ops::ControlFlow;

use exec_process::log::{Event, Exit, LogLimits, OutputLog, ReadPage};
use exec_process::sys::Usage;
use exec_protocol::process::Stream;

const SEEDS: u64 = 6_000;
const STEPS: usize = 120;
const EXIT: Exit = Exit {
    code: 7,
    sandbox_denied: false,
    usage: Usage { cpu: Duration::ZERO, memory_bytes_max: 0 },
    deadline_passed: false,
};

#[test]
fn delivered_bytes_and_reported_gaps_are_what_was_written() {
    let only = std::env::var("LOG_SIMULATION_SEED").ok().map(|seed| seed.parse().unwrap());
    for seed in only.map_or(0..SEEDS, |seed| seed..seed + 1) {
        let failing = Failing(seed);
        Simulation::new(seed).run();
        drop(failing);
    }
}

/// Names the seed if the test panics while it lives.
struct Failing(u64);

impl Drop for Failing {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("failing seed: LOG_SIMULATION_SEED={}", self.0);
        }
    }
}

/// SplitMix64: small, and every seed is a good one.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.next() % end as u64).unwrap()
    }

    fn one_in(&mut self, odds: usize) -> bool {
        self.below(odds) == 0
    }
}

/// Everything that was written, in order, with the stream of each byte.
#[derive(Default)]
struct Written {
    bytes: Vec<u8>,
    streams: Vec<Stream>,
}

impl Written {
    fn len(&self) -> u64 {
        self.bytes.len() as u64
    }

    /// Fails unless exactly these bytes were written there.
    fn check(&self, at: u64, stream: Stream, data: &[u8]) {
        let start = usize::try_from(at).unwrap();
        assert_eq!(&self.bytes[start..start + data.len()], data, "bytes from {at} on");
        let streams = &self.streams[start..start + data.len()];
        assert!(streams.iter().all(|written| *written == stream), "stream from {at} on");
    }

    fn of(&self, stream: Stream) -> Vec<u8> {
        let pairs = self.bytes.iter().zip(&self.streams);
        pairs.filter(|(_, written)| **written == stream).map(|(byte, _)| *byte).collect()
    }
}

/// An event under way.
#[derive(Debug)]
enum Sent {
    Output { seq: u64, stream: Stream, data: Vec<u8> },
    Exited { seq: u64, exit: Exit },
    Closed { seq: u64 },
}

impl Sent {
    fn seq(&self) -> u64 {
        match self {
            Sent::Output { seq, .. } | Sent::Exited { seq, .. } | Sent::Closed { seq } => *seq,
        }
    }
}

/// What a client knows: everything up to `last_seq`, which makes up the first `position` bytes.
#[derive(Default)]
struct Client {
    last_seq: u64,
    position: u64,
    delivered: u64,
    lost: u64,
    /// Where each chunk that it was given begins, and its length.
    chunks: BTreeMap<u64, (u64, u64)>,
    /// Events that came before those that precede them were read.
    early: BTreeMap<u64, Sent>,
    exit: Option<u64>,
    /// A page told of the exit, whose event may never come.
    told_of_exit: bool,
    closed: Option<u64>,
}

impl Client {
    fn event(&mut self, event: Sent, written: &Written) {
        if event.seq() <= self.last_seq {
            self.check_repetition(&event, written);
            return;
        }
        self.early.insert(event.seq(), event);
        while let Some(event) = self.early.remove(&(self.last_seq + 1)) {
            self.apply(event, written);
        }
    }

    fn apply(&mut self, event: Sent, written: &Written) {
        assert_eq!(self.closed, None, "closed is the last event");
        self.last_seq = event.seq();
        match event {
            Sent::Output { seq, stream, data } => self.chunk(seq, stream, &data, written),
            Sent::Exited { seq, exit } => {
                assert_eq!(exit, EXIT);
                assert_eq!(self.exit.replace(seq), None, "exited once");
            }
            Sent::Closed { seq } => {
                assert!(self.exit.is_some() || self.told_of_exit, "closed after the exit");
                self.closed = Some(seq);
            }
        }
    }

    fn chunk(&mut self, seq: u64, stream: Stream, data: &[u8], written: &Written) {
        written.check(self.position, stream, data);
        let len = data.len() as u64;
        assert_eq!(self.chunks.insert(seq, (self.position, len)), None, "chunk {seq} once");
        self.position += len;
        self.delivered += len;
    }

    /// What has been given once never changes.
    fn check_repetition(&self, event: &Sent, written: &Written) {
        if let Sent::Output { seq, stream, data } = event
            && let Some((start, len)) = self.chunks.get(seq)
        {
            assert_eq!(data.len() as u64, *len, "length of chunk {seq}");
            written.check(*start, *stream, data);
        }
    }

    /// Takes a page that was asked for with `afterSeq = last_seq`.
    fn page(
        &mut self,
        page: ReadPage,
        chunks: Vec<(u64, Stream, Vec<u8>)>,
        exited: bool,
        written: &Written,
    ) {
        assert!(page.output_offset >= self.position, "a page begins where the client is, or later");
        self.lost += page.output_offset - self.position;
        self.position = page.output_offset;
        for (seq, stream, data) in chunks {
            assert!(seq > self.last_seq, "chunks ascend");
            self.last_seq = seq;
            self.chunk(seq, stream, &data, written);
        }
        assert!(page.next_seq > self.last_seq);
        self.last_seq = page.next_seq - 1;
        self.told_of_exit = exited;
        self.early.retain(|seq, _| *seq >= page.next_seq);
        while let Some(event) = self.early.remove(&(self.last_seq + 1)) {
            self.apply(event, written);
        }
    }
}

struct Simulation {
    random: Random,
    limits: LogLimits,
    log: OutputLog,
    written: Written,
    client: Client,
    link: VecDeque<Sent>,
    attached: bool,
    /// Resumed, and has not read what it missed.
    behind: bool,
    /// The number of the next event the follower has to be given.
    next_pushed: u64,
    exited: bool,
}

impl Simulation {
    fn new(seed: u64) -> Self {
        let mut random = Random(seed);
        let chunk_bytes_max = 1 + random.below(12);
        let unsent_bytes_max = 1 + random.below(24);
        let limits = LogLimits {
            // As the server's own limits are: what is unsent and one read can always be retained.
            retained_bytes_max: unsent_bytes_max + chunk_bytes_max + random.below(30),
            retained_chunks_max: 1 + random.below(16),
            unsent_bytes_max,
            chunk_bytes_max,
            snapshot_bytes_max: random.below(40),
        };
        Simulation {
            log: OutputLog::new(limits),
            random,
            limits,
            written: Written::default(),
            client: Client::default(),
            link: VecDeque::new(),
            attached: false,
            behind: false,
            next_pushed: 1,
            exited: false,
        }
    }

    fn run(mut self) {
        if !self.random.one_in(4) {
            self.attach();
        }
        for _ in 0..STEPS {
            self.step();
            self.check_bounds();
        }
        self.end();
    }

    fn step(&mut self) {
        match self.random.below(16) {
            0..=5 => self.write(),
            6 | 7 => self.push(),
            8..=10 => self.deliver(),
            11 => self.read_on(),
            12 => self.stranger_reads(),
            13 => self.check_snapshot(),
            14 if self.random.one_in(3) => self.toggle(),
            15 if !self.exited && self.random.one_in(20) => self.exit(),
            _ => self.write(),
        }
    }

    /// As the actor does it: only while there is room.
    fn write(&mut self) {
        for _ in 0..1 + self.random.below(4) {
            if !self.log.has_room() {
                assert!(self.attached, "only a follower slows the child");
                return;
            }
            let stream = if self.random.one_in(2) { Stream::Stdout } else { Stream::Stderr };
            let len = 1 + self.random.below(self.limits.chunk_bytes_max);
            let data: Vec<u8> = (0..len).map(|_| self.random.next().to_le_bytes()[0]).collect();
            self.log.append(stream, &data);
            self.written.bytes.extend_from_slice(&data);
            self.written.streams.extend(std::iter::repeat_n(stream, len));
        }
    }

    /// The connection takes some events, as far as its buffers go.
    fn push(&mut self) {
        let mut room = self.random.below(4);
        self.push_up_to(&mut room);
    }

    fn push_up_to(&mut self, room: &mut usize) {
        let (link, next_pushed) = (&mut self.link, &mut self.next_pushed);
        let attached = self.attached;
        let more = self.log.follow(|event| {
            let sent = match event {
                Event::Output { seq, stream, data } => {
                    Sent::Output { seq, stream, data: data.to_vec() }
                }
                Event::Exited { seq, exit } => Sent::Exited { seq, exit },
                Event::Closed { seq } => Sent::Closed { seq },
            };
            assert!(attached, "nobody follows");
            assert_eq!(sent.seq(), *next_pushed, "the follower is given every event");
            *next_pushed += 1;
            link.push_back(sent);
            *room = room.saturating_sub(1);
            if *room == 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        if attached {
            assert_eq!(more, *next_pushed < self.log.state().next_seq);
            assert!(more || self.log.has_room(), "there is room once everything is sent");
        }
    }

    fn deliver(&mut self) {
        if let Some(event) = self.link.pop_front() {
            self.client.event(event, &self.written);
        }
    }

    /// A resumed client reads what it missed, page by page, until it has caught up.
    fn read_on(&mut self) {
        if !self.attached || !self.behind {
            return;
        }
        let bytes_max = (!self.random.one_in(3)).then(|| self.random.next() % 40);
        let (page, chunks) = self.read(self.client.last_seq, bytes_max);
        self.client.page(page, chunks, self.exited, &self.written);
        self.behind = page.next_seq < self.log.state().next_seq;
    }

    /// Reads, and checks the page against what was written and the rules for pages.
    fn read(
        &mut self,
        after_seq: u64,
        bytes_max: Option<u64>,
    ) -> (ReadPage, Vec<(u64, Stream, Vec<u8>)>) {
        let readable = self.log.readable(after_seq);
        let state = self.log.state();
        let mut chunks = Vec::new();
        let page = self.log.read(after_seq, bytes_max, |seq, stream, data| {
            chunks.push((seq, stream, data.to_vec()));
        });
        let mut at = page.output_offset;
        let mut previous = after_seq;
        for (seq, stream, data) in &chunks {
            assert!(*seq > previous && *seq < state.next_seq);
            previous = *seq;
            self.written.check(at, *stream, data);
            at += data.len() as u64;
        }
        let total = at - page.output_offset;
        let last = chunks.last().map(|(seq, _, _)| *seq);
        let expected = if bytes_max.is_some() { last.map(|seq| seq + 1) } else { None };
        assert_eq!(page.next_seq, expected.unwrap_or(state.next_seq));
        if chunks.is_empty() {
            assert_eq!(page.output_offset, self.written.len());
        } else {
            assert!(readable);
            assert!(chunks.len() == 1 || bytes_max.is_none_or(|max| total <= max), "{bytes_max:?}");
        }
        if bytes_max.is_none() {
            assert_eq!(at, self.written.len(), "without a limit, to the end");
        }
        (page, chunks)
    }

    fn stranger_reads(&mut self) {
        let next_seq = self.log.state().next_seq;
        let after_seq = self.random.next() % (next_seq + 3);
        let bytes_max = (!self.random.one_in(4)).then(|| self.random.next() % 50);
        self.read(after_seq, bytes_max);
    }

    fn toggle(&mut self) {
        if self.attached {
            self.log.detach();
            self.attached = false;
            // What was under way is lost, and so is what had come out of turn.
            let arrived = self.random.below(self.link.len() + 1);
            for event in self.link.drain(..arrived) {
                self.client.event(event, &self.written);
            }
            self.link.clear();
            self.client.early.clear();
        } else {
            self.attach();
        }
    }

    fn attach(&mut self) {
        self.log.attach();
        self.attached = true;
        self.next_pushed = self.log.state().next_seq;
        self.behind = self.client.last_seq + 1 < self.next_pushed;
    }

    fn exit(&mut self) {
        self.exited = true;
        self.log.exited(EXIT);
    }

    fn check_bounds(&self) {
        assert!(self.log.retained_bytes() <= self.limits.retained_bytes_max);
        assert_eq!(self.log.written(), self.written.len());
        let client = &self.client;
        assert_eq!(client.delivered + client.lost, client.position);
    }

    fn check_snapshot(&self) {
        let half = self.limits.snapshot_bytes_max / 2;
        for stream in [Stream::Stdout, Stream::Stderr, Stream::Pty] {
            let all = self.written.of(stream);
            let head = all.len().min(half);
            let tail = (all.len() - head).min(half);
            let expected = [&all[..head], &all[all.len() - tail..]].concat();
            let omitted = (all.len() - head - tail) as u64;
            assert_eq!(self.log.snapshot(stream), (expected, omitted), "{stream:?}");
        }
    }

    /// The process ends, the client comes back and sees the rest.
    fn end(mut self) {
        if !self.exited {
            self.exit();
            // A grandchild goes on for a while.
            self.write();
        }
        self.log.closed();
        if !self.attached {
            self.attach();
        }
        while self.behind {
            self.read_on();
        }
        while self.next_pushed < self.log.state().next_seq {
            self.push_up_to(&mut { usize::MAX });
        }
        while !self.link.is_empty() {
            self.deliver();
        }
        self.check_bounds();
        self.check_snapshot();
        assert!(self.log.has_room());
        let last = self.log.state().next_seq - 1;
        let client = &self.client;
        assert_eq!(client.last_seq, last, "every number was seen or read past");
        assert!(client.early.is_empty());
        assert!(client.closed.is_none_or(|closed| closed == last));
        assert_eq!(client.position, self.written.len());
        let (_, chunks) = self.read(0, None);
        assert!(chunks.len() <= self.limits.retained_chunks_max);
    }
}

#[test]
fn a_client_that_never_leaves_loses_nothing() {
    for seed in 0..1_000 {
        let failing = Failing(seed);
        let mut simulation = Simulation::new(seed);
        simulation.attach();
        for _ in 0..STEPS {
            match simulation.random.below(4) {
                0 | 1 => simulation.write(),
                2 => simulation.push(),
                _ => simulation.deliver(),
            }
        }
        simulation.exit();
        simulation.log.closed();
        while simulation.next_pushed < simulation.log.state().next_seq {
            simulation.push();
        }
        while !simulation.link.is_empty() {
            simulation.deliver();
        }
        let client = &simulation.client;
        assert_eq!((client.lost, client.position), (0, simulation.written.len()));
        assert_eq!(client.closed, Some(simulation.log.state().next_seq - 1));
        drop(failing);
    }
}
