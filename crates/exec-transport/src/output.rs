//! Bytes queued for the pipe: appended at the end, written from the start.
//!
//! Frames are encoded in place, so many small messages leave in one write. The buffer has no bound
//! of its own: its owner looks at `pending` before it queues more.

use crate::limits::{KEEP_IDLE_BYTES, OUTPUT_KEEP_BUSY_BYTES, SCRATCH_BYTES};

#[derive(Debug, Default)]
pub(crate) struct Output {
    buffer: Vec<u8>,
    start: usize,
    /// All bytes ever written to the pipe, as a position for [`Output::queued_until`].
    written: u64,
}

impl Output {
    /// The buffer to append to. What is already in it must not be changed.
    pub(crate) fn buffer_mut(&mut self) -> &mut Vec<u8> {
        &mut self.buffer
    }

    pub(crate) fn pending(&self) -> &[u8] {
        &self.buffer[self.start..]
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.start == self.buffer.len()
    }

    /// The position after the last queued byte; compare with [`Output::written_until`].
    pub(crate) fn queued_until(&self) -> u64 {
        self.written + self.pending().len() as u64
    }

    pub(crate) fn written_until(&self) -> u64 {
        self.written
    }

    /// Forgets `count` pending bytes, which were written.
    pub(crate) fn advance(&mut self, count: usize) {
        self.start += count;
        self.written += count as u64;
        if self.is_empty() {
            self.start = 0;
            self.buffer.clear();
            if self.buffer.capacity() > OUTPUT_KEEP_BUSY_BYTES {
                self.buffer = Vec::new();
            }
        } else if self.start >= SCRATCH_BYTES && self.start >= self.pending().len() {
            // Moves no more bytes than were written since the last time, so the cost is constant
            // for each byte.
            self.buffer.drain(..self.start);
            self.start = 0;
        }
    }

    /// Gives memory back while nothing happens.
    pub(crate) fn rest(&mut self) {
        if self.is_empty() && self.buffer.capacity() > KEEP_IDLE_BYTES {
            self.buffer = Vec::new();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_leave_in_order_across_compaction() {
        let mut output = Output::default();
        let bytes: Vec<u8> = (0..400_000_u32).map(|n| (n % 251) as u8).collect();
        let mut seen = Vec::new();
        for chunk in bytes.chunks(40_000) {
            output.buffer_mut().extend_from_slice(chunk);
            let take = output.pending().len().min(35_000);
            seen.extend_from_slice(&output.pending()[..take]);
            output.advance(take);
            assert!(output.buffer.len() < 200_000, "consumed bytes are dropped");
        }
        seen.extend_from_slice(output.pending());
        output.advance(output.pending().len());
        assert_eq!(seen, bytes);
        assert_eq!(output.queued_until(), 400_000);
        assert_eq!(output.written_until(), 400_000);
    }

    #[test]
    fn a_large_buffer_is_given_back_when_empty_and_a_small_one_at_rest() {
        let mut output = Output::default();
        output.buffer_mut().resize(OUTPUT_KEEP_BUSY_BYTES + 1, 0);
        output.advance(OUTPUT_KEEP_BUSY_BYTES + 1);
        assert_eq!(output.buffer.capacity(), 0);

        output.buffer_mut().resize(20_000, 0);
        output.advance(20_000);
        assert!(output.buffer.capacity() >= 20_000);
        output.rest();
        assert_eq!(output.buffer.capacity(), 0);
    }
}
