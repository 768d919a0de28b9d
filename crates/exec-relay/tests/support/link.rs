//! One direction between an end and the relay's other side.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use exec_relay::{Body, Frame};

use super::Random;

/// What the relay does to frames, in times out of a thousand.
#[derive(Debug, Clone, Copy, Default)]
pub struct Weather {
    pub drop: u64,
    pub duplicate: u64,
    /// Every frame takes at least a millisecond and at most this much more.
    pub delay_ms: u64,
    /// Frames may overtake each other.
    pub reorder: bool,
    /// How often a socket is cut, for each frame that is sent.
    pub cut: u64,
    /// How often a frame is tampered with.
    pub tamper: u64,
}

impl Weather {
    pub fn draw(random: &mut Random) -> Self {
        Self {
            drop: random.below(4) * random.below(80),
            duplicate: random.below(3) * random.below(100),
            delay_ms: 1 + random.below(3) * random.below(150),
            reorder: random.chance(600),
            cut: random.below(2) * random.below(40),
            tamper: 0,
        }
    }
}

#[derive(Default)]
pub struct Link {
    flying: BTreeMap<(Instant, u64), Vec<u8>>,
    count: u64,
    latest: Option<Instant>,
    /// Numbers of data frames that never arrived, and of those that did.
    pub lost: BTreeSet<u32>,
    pub arrived: BTreeSet<u32>,
    /// Everything that was ever carried, for replays; only while tampering.
    pub history: Vec<Vec<u8>>,
}

pub fn data_seq(bytes: &[u8]) -> Option<u32> {
    let Body::Data(data) = Frame::decode(bytes).ok()?.body else { return None };
    Some(data.seq)
}

impl Link {
    pub fn send(&mut self, bytes: Vec<u8>, weather: Weather, random: &mut Random, now: Instant) {
        let copies = 1 + usize::from(random.chance(weather.duplicate));
        for _ in 0..copies {
            if random.chance(weather.drop) {
                self.lost.extend(data_seq(&bytes));
                continue;
            }
            let mut due = now + Duration::from_millis(1) + random.millis(weather.delay_ms);
            if !weather.reorder {
                due = self.latest.map_or(due, |latest| latest.max(due));
                self.latest = Some(due);
            }
            self.flying.insert((due, self.count), bytes.clone());
            self.count += 1;
        }
    }

    /// What is in flight is lost with its socket.
    pub fn cut(&mut self) {
        for bytes in std::mem::take(&mut self.flying).values() {
            self.lost.extend(data_seq(bytes));
        }
    }

    pub fn due(&self) -> Option<Instant> {
        self.flying.keys().next().map(|(due, _)| *due)
    }

    pub fn receive(&mut self, now: Instant) -> Option<Vec<u8>> {
        let entry = self.flying.first_entry().filter(|entry| entry.key().0 <= now)?;
        let bytes = entry.remove();
        self.arrived.extend(data_seq(&bytes));
        Some(bytes)
    }

    /// Whether a frame was lost that a later one has shown to be missing.
    pub fn has_visible_loss(&self) -> bool {
        let last = self.arrived.last().copied().unwrap_or(0);
        self.lost.iter().any(|seq| !self.arrived.contains(seq) && *seq < last)
    }
}
