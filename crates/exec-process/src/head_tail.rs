//! Beginning and end of each stream, for snapshots.
//!
//! The beginning is copied as it is written and then never again. The end is mostly what the log
//! retains anyway; only when a stream's last bytes are pushed out of the log by another stream are
//! they kept here. So a flood on one stream costs the other nothing, and one stream alone costs no
//! second copy.

use std::collections::VecDeque;

use exec_protocol::process::Stream;

#[derive(Debug)]
pub(crate) struct HeadTail {
    half: usize,
    streams: [Ends; 3],
}

#[derive(Debug, Default)]
struct Ends {
    written: u64,
    head: Vec<u8>,
    /// Bytes of this stream that the log retains.
    retained: usize,
    /// Chunks the log has evicted and that still belong to the last `half` bytes.
    spilled: VecDeque<Vec<u8>>,
    spilled_bytes: usize,
}

impl HeadTail {
    pub(crate) fn new(bytes_max: usize) -> Self {
        Self { half: bytes_max / 2, streams: Default::default() }
    }

    fn ends(&mut self, stream: Stream) -> &mut Ends {
        &mut self.streams[index(stream)]
    }

    /// Output is being written.
    pub(crate) fn head(&mut self, stream: Stream, data: &[u8]) {
        let half = self.half;
        let ends = self.ends(stream);
        let room = half.saturating_sub(ends.head.len()).min(data.len());
        ends.head.extend_from_slice(&data[..room]);
        ends.written += data.len() as u64;
    }

    /// The log keeps these bytes now.
    pub(crate) fn retained(&mut self, stream: Stream, bytes: usize) {
        let half = self.half;
        let ends = self.ends(stream);
        ends.retained += bytes;
        ends.drop_beyond(half);
    }

    /// The log has let this chunk go.
    pub(crate) fn evicted(&mut self, stream: Stream, chunk: Vec<u8>) {
        let half = self.half;
        let ends = self.ends(stream);
        ends.retained -= chunk.len();
        ends.spilled_bytes += chunk.len();
        ends.spilled.push_back(chunk);
        ends.drop_beyond(half);
    }

    /// Head and tail, joined, and the bytes missing between them.
    pub(crate) fn snapshot<'a>(
        &'a self,
        stream: Stream,
        retained: impl Iterator<Item = &'a [u8]>,
    ) -> (Vec<u8>, u64) {
        let ends = &self.streams[index(stream)];
        let beyond_head = ends.written - ends.head.len() as u64;
        let mut tail: Vec<u8> = Vec::new();
        for chunk in ends.spilled.iter().map(Vec::as_slice).chain(retained) {
            tail.extend_from_slice(chunk);
        }
        let kept =
            usize::try_from(beyond_head).unwrap_or(usize::MAX).min(self.half).min(tail.len());
        let mut out = ends.head.clone();
        out.extend_from_slice(&tail[tail.len() - kept..]);
        (out, beyond_head - kept as u64)
    }
}

impl Ends {
    /// Lets spilled chunks go once the later ones alone make up the tail.
    fn drop_beyond(&mut self, half: usize) {
        while let Some(oldest) = self.spilled.front() {
            if self.retained + self.spilled_bytes - oldest.len() < half {
                return;
            }
            self.spilled_bytes -= oldest.len();
            self.spilled.pop_front();
        }
    }
}

fn index(stream: Stream) -> usize {
    match stream {
        Stream::Stdout => 0,
        Stream::Stderr => 1,
        Stream::Pty => 2,
    }
}
