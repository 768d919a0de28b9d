//! Frames that were sent and may have to be sent again.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use crate::frame::{Data, Receipt, Segment};
use crate::limits::WINDOW_FRAMES;

/// Before anything was measured.
const RETRY_FIRST: Duration = Duration::from_secs(1);
const RETRY_MIN: Duration = Duration::from_millis(200);
const RETRY_MAX: Duration = Duration::from_secs(10);
/// So many later frames have arrived: this one will not.
const OVERTAKEN: usize = 3;

/// The peer's receipt is about frames that were never sent.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("frame {ack} is acknowledged, but {next} was never sent")]
pub struct AckError {
    ack: u32,
    next: u64,
}

#[derive(Debug)]
struct Sent {
    data: Data,
    /// When it goes out (again).
    due: Instant,
    last: Option<Instant>,
    attempts: u32,
    /// The peer has it, but not all before it.
    arrived: bool,
    /// It was already sent early because others overtook it.
    hurried: bool,
}

/// The frames of one direction from the first that is not acknowledged.
#[derive(Debug)]
pub(crate) struct SendWindow {
    frames: VecDeque<Sent>,
    /// The number of the next new frame.
    next: u64,
    /// The first number the peer does not take yet.
    limit: u64,
    smoothed: Option<Duration>,
    varies: Duration,
}

impl SendWindow {
    pub(crate) fn new(limit: u32) -> Self {
        Self {
            frames: VecDeque::new(),
            next: 0,
            limit: u64::from(limit),
            smoothed: None,
            varies: Duration::ZERO,
        }
    }

    /// Whether another frame fits, on either side.
    pub(crate) fn has_room(&self) -> bool {
        let first = self.frames.front().map_or(self.next, |first| u64::from(first.data.seq));
        self.next < self.limit && self.next < first + WINDOW_FRAMES
    }

    /// Numbers a frame. The caller has asked `has_room`; none when the numbers are used up.
    pub(crate) fn push(&mut self, segment: Segment, payload: Vec<u8>, now: Instant) -> Option<()> {
        let seq = u32::try_from(self.next).ok()?;
        let data = Data { seq, segment, payload };
        let new = Sent { data, due: now, last: None, attempts: 0, arrived: false, hurried: false };
        self.frames.push_back(new);
        self.next += 1;
        Some(())
    }

    /// The next frame to put on the wire. It is always the same bytes.
    pub(crate) fn poll(&mut self, now: Instant) -> Option<Data> {
        let retry = self.retry();
        let frame = self.frames.iter_mut().find(|frame| !frame.arrived && frame.due <= now)?;
        let delay = retry.saturating_mul(1 << frame.attempts.min(8)).min(RETRY_MAX);
        frame.due = now + delay;
        frame.last = Some(now);
        frame.attempts += 1;
        Some(frame.data.clone())
    }

    /// When `poll` will have something.
    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        self.frames.iter().filter(|frame| !frame.arrived).map(|frame| frame.due).min()
    }

    /// Forgets what has arrived. Receipts may be old, doubled or out of order.
    pub(crate) fn handle_receipt(
        &mut self,
        receipt: Receipt,
        now: Instant,
    ) -> Result<(), AckError> {
        let ack = u64::from(receipt.ack);
        if ack > self.next {
            return Err(AckError { ack: receipt.ack, next: self.next });
        }
        self.limit = self.limit.max(u64::from(receipt.limit));
        while let Some(first) = self.frames.front() {
            if u64::from(first.data.seq) >= ack {
                break;
            }
            // A frame that was sent twice says nothing about the time of either.
            if let (1, false, Some(last)) = (first.attempts, first.arrived, first.last) {
                self.measure(now.saturating_duration_since(last));
            }
            self.frames.pop_front();
        }
        self.mark(ack, receipt.ack_bits, now);
        Ok(())
    }

    fn mark(&mut self, ack: u64, bits: u32, now: Instant) {
        for frame in &mut self.frames {
            let Some(bit) = u64::from(frame.data.seq).checked_sub(ack + 1) else { continue };
            frame.arrived |= bit < 32 && bits & (1 << bit) != 0;
        }
        let mut later = 0;
        for frame in self.frames.iter_mut().rev() {
            if frame.arrived {
                later += 1;
            } else if later >= OVERTAKEN && !frame.hurried && frame.attempts > 0 {
                frame.hurried = true;
                frame.due = frame.due.min(now);
            }
        }
    }

    /// Everything may have been lost with its socket: all that has not arrived goes out again.
    pub(crate) fn resend(&mut self, now: Instant) {
        for frame in &mut self.frames {
            frame.due = now;
            frame.attempts = frame.attempts.min(1);
            frame.hurried = false;
        }
    }

    fn measure(&mut self, sample: Duration) {
        match self.smoothed {
            None => {
                self.smoothed = Some(sample);
                self.varies = sample / 2;
            }
            Some(smoothed) => {
                self.varies = (self.varies * 3 + smoothed.abs_diff(sample)) / 4;
                self.smoothed = Some((smoothed * 7 + sample) / 8);
            }
        }
    }

    fn retry(&self) -> Duration {
        let Some(smoothed) = self.smoothed else { return RETRY_FIRST };
        // The peer may hold its receipt back for a moment; the minimum is well above that.
        (smoothed + self.varies * 4).clamp(RETRY_MIN, RETRY_MAX)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.frames.is_empty()
    }

    pub(crate) fn bytes(&self) -> usize {
        self.frames.iter().map(|frame| frame.data.payload.len()).sum()
    }
}
