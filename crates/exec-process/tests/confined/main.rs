//! Commands that run confined by plans written by hand, through the same door as all others.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod bench;

mod start;

use bench::{Bench, Ended};
