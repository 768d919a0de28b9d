//! Tests of order and gaps: tables, and a seeded simulation.

use std::collections::VecDeque;

use exec_protocol::bytes::Base64Bytes;
use exec_protocol::process::Chunk;

use super::*;

const BOUNDS: EarlyBounds = EarlyBounds { events: 8, bytes: 64 };

fn output(text: &str) -> Event {
    Event::Output { stream: Stream::Stdout, bytes: text.into() }
}

fn exited(code: i32) -> Event {
    Event::Exited { code, sandbox_denied: None }
}

fn page(chunks: &[(u64, &str)], next_seq: u64) -> ReadResult {
    let chunk = |&(seq, text): &(u64, &str)| Chunk {
        seq,
        stream: Stream::Stdout,
        chunk: Base64Bytes(text.into()),
    };
    ReadResult {
        chunks: chunks.iter().map(chunk).collect(),
        next_seq,
        exited: false,
        exit_code: None,
        closed: false,
        failure: None,
        sandbox_denied: false,
        output_offset: None,
        denials: Vec::new(),
        usage: None,
        limit_reached: None,
    }
}

fn show(events: &[ProcessEvent]) -> String {
    let one = |event: &ProcessEvent| match event {
        ProcessEvent::Output { seq, bytes, .. } => {
            format!("{seq}:{}", String::from_utf8_lossy(bytes))
        }
        ProcessEvent::Exited { code, .. } => format!("exit {code}"),
        ProcessEvent::Closed => "closed".to_owned(),
        ProcessEvent::Gap { bytes: Some(bytes) } => format!("gap {bytes}"),
        ProcessEvent::Gap { bytes: None } => "gap ?".to_owned(),
        ProcessEvent::Lost(reason) => format!("lost {reason}"),
    };
    events.iter().map(one).collect::<Vec<_>>().join(", ")
}

/// After three outputs `a`, `b`, `c` were seen, the connection is cut; `early` arrive before the
/// page does.
fn check(early: &[(u64, Event)], answer: ReadResult, expected: &str) {
    let mut sequence = Sequence::new(BOUNDS);
    for (seq, text) in [(1, "a"), (2, "b"), (3, "c")] {
        assert_eq!(show(&sequence.handle_event(seq, output(text))), format!("{seq}:{text}"));
    }
    assert_eq!(sequence.poll_fetch(), None, "nothing is missing");
    sequence.handle_cut();
    assert_eq!(sequence.poll_fetch(), Some(3));
    assert_eq!(sequence.poll_fetch(), None, "one read at a time");
    let mut out = Vec::new();
    for (seq, event) in early.iter().cloned() {
        out.extend(sequence.handle_event(seq, event));
    }
    out.extend(sequence.handle_page(answer));
    assert_eq!(show(&out), expected);
}

#[test]
fn a_page_fills_what_the_cut_took() {
    check(&[], page(&[], 4), "");
    check(&[], page(&[(4, "d"), (5, "e")], 6), "4:d, 5:e");
    check(&[(6, output("f"))], page(&[(4, "d"), (5, "e"), (6, "f")], 7), "4:d, 5:e, 6:f");
    check(&[(4, output("d"))], page(&[(4, "d"), (5, "e")], 6), "4:d, 5:e");
    check(&[(3, output("c"))], page(&[(4, "d")], 5), "4:d");
    // What arrived above the page waits for its turn.
    check(&[(6, output("f"))], page(&[(4, "d")], 5), "4:d");
}

#[test]
fn exit_and_closed_get_their_numbers_from_what_is_missing() {
    let exit = |chunks, next_seq| ReadResult {
        exited: true,
        exit_code: Some(7),
        ..page(chunks, next_seq)
    };
    let closed = |chunks, next_seq| ReadResult { closed: true, ..exit(chunks, next_seq) };
    check(&[], exit(&[], 5), "exit 7");
    check(&[], exit(&[(4, "d")], 6), "4:d, exit 7");
    check(&[], exit(&[(5, "e")], 6), "exit 7, 5:e");
    check(&[], closed(&[], 6), "exit 7, closed");
    check(&[], closed(&[(4, "d"), (6, "f")], 8), "4:d, exit 7, 6:f, closed");
    check(&[(4, exited(7))], closed(&[(5, "e")], 7), "exit 7, 5:e, closed");
    check(&[(5, exited(7)), (6, Event::Closed)], closed(&[(4, "d")], 7), "4:d, exit 7, closed");
    // A server that does not number the exit still tells it.
    check(&[], closed(&[(4, "d")], 6), "exit 7, 4:d, closed");
    check(&[], ReadResult { exit_code: None, ..closed(&[], 6) }, "exit -1, closed");
}

#[test]
fn what_is_no_longer_retained_is_a_gap() {
    let at = |offset, answer| ReadResult { output_offset: Some(offset), ..answer };
    check(&[], page(&[(6, "f")], 7), "gap ?, 6:f");
    check(&[], at(12, page(&[(6, "f")], 7)), "gap 9, 6:f");
    check(&[], at(3, page(&[(4, "d")], 5)), "4:d");
    // Output that arrived meanwhile and left the window again is not missing here.
    check(&[(5, output("ee"))], at(12, page(&[(6, "f")], 7)), "gap 7, 5:ee, 6:f");
    check(&[], at(9, page(&[], 7)), "gap 6");
    let exit = ReadResult { exited: true, exit_code: Some(0), ..page(&[(7, "g")], 8) };
    check(&[], at(9, exit), "gap 6, exit 0, 7:g");
}

#[test]
fn a_process_that_cannot_be_followed_is_lost() {
    let failed = ReadResult { failure: Some("log is gone".into()), ..page(&[(4, "d")], 5) };
    check(&[], failed, "4:d, lost log is gone");
    let mut sequence = Sequence::attached(BOUNDS);
    assert_eq!(sequence.poll_fetch(), Some(0));
    let lost = sequence.handle_read_error("unknown process id p".into());
    assert_eq!(show(&lost), "lost unknown process id p");
    assert!(sequence.handle_event(1, output("a")).is_empty());
    assert!(sequence.handle_loss(LostReason::Connection("x".into())).is_empty());
}

#[test]
fn an_end_that_is_known_survives_a_server_that_forgot() {
    let mut sequence = Sequence::new(BOUNDS);
    sequence.skip();
    assert!(sequence.handle_event(1, output("a")).is_empty());
    assert!(sequence.handle_event(2, exited(3)).is_empty());
    assert!(sequence.handle_event(3, Event::Closed).is_empty());
    assert_eq!(sequence.poll_fetch(), None, "nobody takes it yet");
    sequence.stop_skipping();
    assert_eq!(sequence.poll_fetch(), Some(0));
    let out = sequence.handle_read_error("unknown process id p".into());
    assert_eq!(show(&out), "gap ?, exit 3, closed");
}

#[test]
fn what_overflows_is_fetched_again() {
    let mut sequence = Sequence::new(BOUNDS);
    for seq in 2..=20 {
        assert!(sequence.handle_event(seq, output("x")).is_empty());
    }
    assert_eq!(sequence.early.len(), BOUNDS.events);
    assert_eq!(sequence.poll_fetch(), Some(0));
    assert!(sequence.handle_event(21, output("x")).is_empty());
    let out = sequence.handle_page(page(&[(1, "x")], 2));
    assert_eq!(out.len(), 9, "the first and the eight held: {}", show(&out));
    assert_eq!(sequence.poll_fetch(), Some(9));
}

#[test]
fn a_number_from_nowhere_does_not_make_it_ask_for_ever() {
    let mut sequence = Sequence::new(BOUNDS);
    assert!(sequence.handle_event(u64::MAX, output("x")).is_empty());
    assert_eq!(sequence.poll_fetch(), Some(0));
    assert!(sequence.handle_page(page(&[], 1)).is_empty());
    assert_eq!(sequence.poll_fetch(), None);
    assert_eq!(show(&sequence.handle_page(page(&[], 1 << 60))), "gap ?");
}

fn index(number: u64) -> usize {
    usize::try_from(number).unwrap()
}

/// A process on a server, the messages on their way, and one client.
struct World {
    random: u64,
    log: Vec<Event>,
    written: u64,
    retained_max: u64,
    tells_offset: bool,
    wire: VecDeque<Wire>,
    connected: bool,
    sequence: Sequence,
    delivered: Vec<ProcessEvent>,
}

enum Wire {
    Notice(u64, Event),
    Read { after: u64 },
    Page(ReadResult),
}

impl World {
    fn new(seed: u64) -> Self {
        let mut world = Self {
            random: seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1,
            log: Vec::new(),
            written: 0,
            retained_max: 0,
            tells_offset: false,
            wire: VecDeque::new(),
            connected: true,
            sequence: Sequence::new(BOUNDS),
            delivered: Vec::new(),
        };
        world.retained_max = [16, 100, u64::MAX][index(world.below(3))];
        world.tells_offset = world.below(3) > 0;
        world
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        (self.random >> 11) % bound
    }

    fn happen(&mut self, event: Event) {
        self.written += event.len() as u64;
        self.log.push(event.clone());
        if self.connected {
            self.wire.push_back(Wire::Notice(self.log.len() as u64, event));
        }
    }

    fn write(&mut self) {
        let len = self.below(12);
        let bytes = (self.written..self.written + len).map(|at| (at % 251) as u8).collect();
        let stream = if self.below(2) == 0 { Stream::Stdout } else { Stream::Stderr };
        self.happen(Event::Output { stream, bytes });
    }

    /// What the server answers now: the newest chunks within its window.
    fn read(&self, after: u64) -> ReadResult {
        let mut kept = 0;
        let mut oldest = self.log.len() as u64 + 1;
        for (index, event) in self.log.iter().enumerate().rev() {
            let is_newest = kept == 0;
            kept += event.len() as u64;
            if kept > self.retained_max && !is_newest {
                break;
            }
            oldest = index as u64 + 1;
        }
        let mut answer = page(&[], self.log.len() as u64 + 1);
        let mut offset = 0;
        for (seq, event) in (1_u64..).zip(&self.log) {
            match event {
                Event::Output { stream, bytes } if seq >= oldest && seq > after => {
                    let chunk = Base64Bytes(bytes.clone());
                    answer.chunks.push(Chunk { seq, stream: *stream, chunk });
                }
                Event::Output { .. } => {}
                Event::Exited { code, .. } => {
                    answer.exited = true;
                    answer.exit_code = Some(*code);
                }
                Event::Closed => answer.closed = true,
            }
            offset += if answer.chunks.is_empty() { event.len() as u64 } else { 0 };
        }
        answer.output_offset = self.tells_offset.then_some(offset);
        answer
    }

    fn arrive(&mut self) {
        // Mostly in order, as TCP has it; sometimes not, and sometimes twice.
        let place = if self.below(8) == 0 { index(self.below(3)) } else { 0 };
        let Some(message) = self.wire.remove(place.min(self.wire.len().saturating_sub(1))) else {
            return;
        };
        let out = match message {
            Wire::Notice(seq, event) => {
                if self.below(10) == 0 {
                    self.wire.push_back(Wire::Notice(seq, event.clone()));
                }
                self.sequence.handle_event(seq, event)
            }
            Wire::Read { after } => {
                let answer = self.read(after);
                self.wire.push_back(Wire::Page(answer));
                return;
            }
            Wire::Page(answer) => self.sequence.handle_page(answer),
        };
        self.delivered.extend(out);
        self.fetch();
    }

    fn fetch(&mut self) {
        if !self.connected {
            return;
        }
        if let Some(after) = self.sequence.poll_fetch() {
            self.wire.push_back(Wire::Read { after });
        }
    }

    fn cut(&mut self) {
        self.wire.clear();
        self.connected = false;
        self.sequence.handle_cut();
    }

    fn resume(&mut self) {
        self.connected = true;
        self.fetch();
    }

    fn step(&mut self) {
        match self.below(20) {
            0..8 => self.write(),
            8..16 => self.arrive(),
            16 if self.connected => self.cut(),
            17 if self.sequence.is_skipping() => {
                self.sequence.stop_skipping();
                self.fetch();
            }
            17 if self.below(4) == 0 => self.sequence.skip(),
            _ => self.resume(),
        }
    }

    /// Everything that was delivered is right, in order, and nothing is unaccounted for.
    fn check(&self, seed: u64) {
        let mut position = 0;
        let mut last_seq = 0;
        let mut exact = true;
        let mut exits = 0;
        for event in &self.delivered {
            match event {
                ProcessEvent::Output { seq, stream, bytes } => {
                    assert!(*seq > last_seq, "seed {seed}: order");
                    last_seq = *seq;
                    let event = Event::Output { stream: *stream, bytes: bytes.clone() };
                    assert_eq!(event, self.log[index(*seq) - 1], "seed {seed}: content");
                    position += bytes.len() as u64;
                }
                ProcessEvent::Gap { bytes: Some(bytes) } => position += bytes,
                ProcessEvent::Gap { bytes: None } => exact = false,
                ProcessEvent::Exited { code: 5, .. } => exits += 1,
                ProcessEvent::Closed => {}
                ProcessEvent::Exited { .. } | ProcessEvent::Lost(_) => {
                    panic!("seed {seed}: {event:?}");
                }
            }
        }
        assert_eq!(exits, 1, "seed {seed}: one exit");
        assert_eq!(self.delivered.last(), Some(&ProcessEvent::Closed), "seed {seed}: an end");
        assert!(
            exact || !self.tells_offset,
            "seed {seed}: gaps are counted where the server tells"
        );
        if exact {
            assert_eq!(position, self.written, "seed {seed}: delivered + gaps == written");
        }
        if self.retained_max == u64::MAX {
            let gap = |event: &ProcessEvent| matches!(event, ProcessEvent::Gap { .. });
            assert!(!self.delivered.iter().any(gap), "seed {seed}: nothing was lost");
        }
    }
}

#[test]
fn delivered_and_gaps_are_what_was_written_whatever_happens_on_the_way() {
    for seed in 0..5000 {
        let mut world = World::new(seed);
        for _ in 0..world.below(80) {
            world.step();
        }
        world.happen(Event::Exited { code: 5, sandbox_denied: Some(false) });
        for _ in 0..world.below(40) {
            world.step();
        }
        world.happen(Event::Closed);
        for _ in 0..world.below(10) {
            match world.below(3) {
                0 => world.cut(),
                1 => world.arrive(),
                _ => world.resume(),
            }
        }
        world.resume();
        world.sequence.stop_skipping();
        world.fetch();
        while !world.wire.is_empty() {
            world.arrive();
        }
        world.check(seed);
    }
}
