//! A made-up world: one executor, some harnesses, a relay between them that does its worst, and a clock
//! that only this file moves. A seed reproduces all of it.

#![allow(dead_code, unreachable_pub, reason = "each test uses its part")]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on panics")]

pub mod hub;
pub mod link;
pub mod world;

use exec_relay::Limits;
use std::time::Duration;

/// SplitMix64: small, and the same everywhere.
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    pub fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    pub fn index(&mut self, bound: usize) -> usize {
        usize::try_from(self.next() % bound as u64).unwrap()
    }

    /// True so many times out of a thousand.
    pub fn chance(&mut self, per_mille: u64) -> bool {
        self.below(1000) < per_mille
    }

    pub fn bytes<const N: usize>(&mut self) -> [u8; N] {
        std::array::from_fn(|_| self.next().to_le_bytes()[0])
    }

    pub fn millis(&mut self, bound: u64) -> Duration {
        Duration::from_millis(self.below(bound))
    }
}

/// Small, so that they are reached.
pub fn limits() -> Limits {
    Limits {
        message_bytes_max: 256 << 10,
        unread_bytes_max: 64 << 10,
        unread_messages_max: 16,
        unsent_bytes_max: 64 << 10,
        handshake: Duration::from_secs(100),
        linger: Duration::from_secs(1000),
        // Some of the weather cuts every socket after a few dozen frames; that takes patience.
        silence: Duration::from_secs(300),
        ..Limits::default()
    }
}

/// What one end of one stream may hold, by the arithmetic of the limits: unsent and in flight, out of
/// order and unread, and one message in the making at each end of it.
pub fn memory_max() -> usize {
    let limits = limits();
    let window = 1 << 20;
    let sending = limits.unsent_bytes_max + limits.message_bytes_max + window;
    let receiving = window + (limits.unread_bytes_max + limits.message_bytes_max) + window;
    sending + receiving + (256 << 10)
}
