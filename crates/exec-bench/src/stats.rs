//! Medians and percentiles, and how many samples to take.

use std::time::Duration;

/// The value below which `part` of the samples lie, from 0 to 1; none of no samples.
pub(crate) fn quantile(samples: &[f64], part: f64) -> Option<f64> {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    let last = sorted.len().checked_sub(1)?;
    sorted.get(scaled(last, part).min(last)).copied()
}

/// The middle one; of two, their mean.
pub(crate) fn median(samples: &[f64]) -> Option<f64> {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    let upper = *sorted.get(sorted.len() / 2)?;
    let lower = *sorted.get((sorted.len() - 1) / 2)?;
    Some(f64::midpoint(lower, upper))
}

/// `count` times `factor`, to the nearest.
#[expect(clippy::cast_possible_truncation, reason = "counts of samples are far below 2^52")]
#[expect(clippy::cast_sign_loss, reason = "neither a count nor a factor is negative")]
fn scaled(count: usize, factor: f64) -> usize {
    (count as f64 * factor).round() as usize
}

/// Multiplies the number of samples and bytes of a full run.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Scale(pub(crate) f64);

impl Scale {
    /// A number of samples: at least 5, or a percentile would mean nothing at all.
    pub(crate) fn count(self, full: usize) -> usize {
        scaled(full, self.0).max(5)
    }

    /// An amount of output: at least a mebibyte, in whole ones.
    pub(crate) fn bytes(self, full_mib: usize) -> usize {
        scaled(full_mib, self.0).max(1) << 20
    }

    /// A span, not below a second: shorter ones would hit or miss a timer by chance.
    pub(crate) fn span(self, full: Duration) -> Duration {
        full.mul_f64(self.0).clamp(Duration::from_secs(1), full.max(Duration::from_secs(1)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_samples_and_a_median_may_lie_between_two() {
        let samples = [5.0, 1.0, 3.0, 2.0, 4.0];
        assert_eq!(quantile(&samples, 0.5), Some(3.0));
        assert_eq!(quantile(&samples, 0.99), Some(5.0));
        assert_eq!(quantile(&samples, 0.0), Some(1.0));
        assert_eq!(quantile(&[], 0.5), None);
        assert_eq!(median(&samples), Some(3.0));
        assert_eq!(median(&[1.0, 2.0]), Some(1.5));
        assert_eq!(median(&[]), None);
    }

    #[test]
    fn a_small_scale_still_takes_samples() {
        assert_eq!(Scale(0.5).count(100), 50);
        assert_eq!(Scale(0.001).count(100), 5);
        assert_eq!(Scale(0.001).bytes(100), 1 << 20);
        assert_eq!(Scale(0.1).span(Duration::from_secs(3)), Duration::from_secs(1));
    }
}
