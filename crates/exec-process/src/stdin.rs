//! What is on its way to a child's stdin, and which writes have been accepted. Pure: the system
//! call is the caller's.

use std::collections::{HashSet, VecDeque};

use exec_protocol::id::WriteId;

/// Bytes that count as one place in the queue.
const PLACE_BYTES: usize = 128 << 10;

/// The queue between `process/write` and the pipe.
#[derive(Debug, Default)]
pub(crate) struct StdinQueue {
    pieces: VecDeque<Piece>,
    /// Close the pipe once the queue is empty.
    closing: bool,
}

#[derive(Debug)]
struct Piece {
    data: Vec<u8>,
    written: usize,
    places: u32,
}

impl StdinQueue {
    /// Places a write takes, of `places_max`: small writes one, large ones by their size, so that
    /// both the number of entries and their bytes are bounded.
    pub(crate) fn places(bytes: usize, places_max: u32) -> u32 {
        u32::try_from(bytes.div_ceil(PLACE_BYTES)).unwrap_or(u32::MAX).clamp(1, places_max)
    }

    pub(crate) fn push(&mut self, data: Vec<u8>, places: u32) {
        self.pieces.push_back(Piece { data, written: 0, places });
    }

    pub(crate) fn close_when_empty(&mut self) {
        self.closing = true;
    }

    /// Whether the client has said that nothing more comes.
    pub(crate) fn is_closing(&self) -> bool {
        self.closing
    }

    pub(crate) fn should_close(&self) -> bool {
        self.closing && self.pieces.is_empty()
    }

    /// Bytes to write next.
    pub(crate) fn front(&self) -> Option<&[u8]> {
        self.pieces.front().map(|piece| &piece.data[piece.written..])
    }

    /// Notes that `bytes` of the front are written; returns the places that became free.
    pub(crate) fn wrote(&mut self, bytes: usize) -> u32 {
        let Some(front) = self.pieces.front_mut() else { return 0 };
        front.written += bytes;
        if front.written < front.data.len() {
            return 0;
        }
        self.pieces.pop_front().map_or(0, |piece| piece.places)
    }

    /// Forgets everything, because nobody reads any more; returns the places that became free.
    pub(crate) fn discard(&mut self) -> u32 {
        self.pieces.drain(..).map(|piece| piece.places).sum()
    }
}

/// The last accepted write ids of one process.
#[derive(Debug, Default)]
pub(crate) struct WriteIds {
    order: VecDeque<WriteId>,
    known: HashSet<WriteId>,
}

impl WriteIds {
    pub(crate) fn contains(&self, id: &WriteId) -> bool {
        self.known.contains(id)
    }

    /// Remembers an id, and forgets the oldest beyond `ids_max`.
    pub(crate) fn insert(&mut self, id: WriteId, ids_max: usize) {
        if self.known.insert(id.clone()) {
            self.order.push_back(id);
        }
        if self.order.len() > ids_max
            && let Some(oldest) = self.order.pop_front()
        {
            self.known.remove(&oldest);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_bound_entries_and_bytes() {
        assert_eq!(StdinQueue::places(0, 128), 1);
        assert_eq!(StdinQueue::places(PLACE_BYTES, 128), 1);
        assert_eq!(StdinQueue::places(PLACE_BYTES + 1, 128), 2);
        assert_eq!(StdinQueue::places(usize::MAX, 128), 128);
    }

    #[test]
    fn a_piece_frees_its_places_when_it_is_whole_written() {
        let mut queue = StdinQueue::default();
        queue.push(b"hello".to_vec(), 3);
        queue.close_when_empty();
        assert_eq!(queue.wrote(2), 0);
        assert_eq!(queue.front(), Some(&b"llo"[..]));
        assert!(!queue.should_close());
        assert_eq!(queue.wrote(3), 3);
        assert!(queue.should_close());
    }

    #[test]
    fn the_oldest_write_id_is_forgotten_first() {
        let id = |n: u32| WriteId::try_from(n.to_string()).unwrap();
        let mut ids = WriteIds::default();
        for n in 0..5 {
            ids.insert(id(n), 4);
        }
        assert!(!ids.contains(&id(0)) && ids.contains(&id(1)) && ids.contains(&id(4)));
    }
}
