//! The time of one operation: the median of batches, each long enough for the clock.

use std::time::{Duration, Instant};

use crate::stats::median;

const WARM_UP: Duration = Duration::from_millis(50);
const BATCH: Duration = Duration::from_millis(4);
const BATCHES: usize = 51;

/// Nanoseconds that `operation` takes.
pub(super) fn nanos(mut operation: impl FnMut()) -> f64 {
    let begin = Instant::now();
    let mut done = 0_u32;
    while begin.elapsed() < WARM_UP {
        operation();
        done += 1;
    }
    let share = BATCH.as_secs_f64() / begin.elapsed().as_secs_f64();
    let size = batch_size(done, share);
    let batches: Vec<f64> = (0..BATCHES)
        .map(|_| {
            let begin = Instant::now();
            (0..size).for_each(|_| operation());
            begin.elapsed().as_secs_f64() * 1e9 / f64::from(size)
        })
        .collect();
    median(&batches).unwrap_or_default()
}

#[expect(clippy::cast_possible_truncation, reason = "a share of a `u32`")]
#[expect(clippy::cast_sign_loss, reason = "neither is negative")]
fn batch_size(done: u32, share: f64) -> u32 {
    ((f64::from(done) * share) as u32).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sleep_takes_as_long_as_it_takes() {
        let time = nanos(|| std::thread::sleep(Duration::from_micros(500)));
        assert!((500_000.0..50_000_000.0).contains(&time), "{time}");
    }
}
