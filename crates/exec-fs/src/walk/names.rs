//! The names of one directory, sorted bytewise. Many names of few allocations: one buffer holds
//! the texts, one the places in it; both are used again for the next directory.

use rustix::fs::FileType;

use crate::entries::EntryBuffer;

/// Below this many names nothing is thrown away.
const KEEP_MIN: usize = 1024;

pub(super) struct Names {
    texts: Vec<u8>,
    places: Vec<Place>,
    /// Names that matter; of more, the last in order are dropped.
    keep: usize,
    buffer: Option<EntryBuffer>,
}

#[derive(Clone, Copy)]
struct Place {
    /// The first eight bytes, which decide most comparisons.
    head: u64,
    start: u32,
    len: u16,
    kind: FileType,
}

impl Names {
    pub(super) fn new() -> Self {
        Self { texts: Vec::new(), places: Vec::new(), keep: KEEP_MIN, buffer: None }
    }

    /// Forgets everything. Only the first `keep` in order will be asked for.
    pub(super) fn clear(&mut self, keep: usize) {
        self.texts.clear();
        self.places.clear();
        self.keep = keep.max(KEEP_MIN);
    }

    pub(super) fn take_buffer(&mut self) -> EntryBuffer {
        self.buffer.take().unwrap_or_else(EntryBuffer::new)
    }

    pub(super) fn return_buffer(&mut self, buffer: EntryBuffer) {
        self.buffer = Some(buffer);
    }

    pub(super) fn push(&mut self, name: &[u8], kind: FileType) {
        if self.places.len() >= self.keep.saturating_mul(2) {
            self.drop_last();
        }
        let mut head = [0; 8];
        let len = name.len().min(8);
        head[..len].copy_from_slice(&name[..len]);
        self.places.push(Place {
            head: u64::from_be_bytes(head),
            start: u32::try_from(self.texts.len()).expect("names are dropped long before 4 GiB"),
            len: u16::try_from(name.len()).expect("a name has at most 255 bytes"),
            kind,
        });
        self.texts.extend_from_slice(name);
    }

    /// Keeps what matters of twice as much, and moves the texts together.
    fn drop_last(&mut self) {
        self.sort();
        self.places.truncate(self.keep);
        let mut texts = Vec::with_capacity(self.texts.len());
        for place in &mut self.places {
            let start = texts.len();
            texts.extend_from_slice(text(&self.texts, place));
            place.start = u32::try_from(start).expect("less than before");
        }
        self.texts = texts;
    }

    pub(super) fn sort(&mut self) {
        let texts = &self.texts;
        // A shorter name has zeros there, which no name contains, so it comes first.
        self.places.sort_unstable_by(|a, b| {
            a.head.cmp(&b.head).then_with(|| text(texts, a).cmp(text(texts, b)))
        });
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&[u8], FileType)> {
        self.places.iter().map(|place| (text(&self.texts, place), place.kind))
    }
}

fn text<'t>(texts: &'t [u8], place: &Place) -> &'t [u8] {
    &texts[place.start as usize..][..usize::from(place.len)]
}

#[cfg(test)]
mod tests {
    use super::*;

    proptest::proptest! {
        #![proptest_config(proptest::prelude::ProptestConfig::with_cases(50))]

        #[test]
        fn the_first_in_order_survive(
            mut all in proptest::collection::vec("[a-c]{1,12}", 0..200),
        ) {
            let mut names = Names::new();
            names.clear(0);
            names.keep = 20;
            for name in &all {
                names.push(name.as_bytes(), FileType::RegularFile);
            }
            names.sort();
            let got: Vec<_> =
                names.iter().take(20).map(|(name, _)| String::from_utf8_lossy(name).into_owned()).collect();
            all.sort();
            all.truncate(20);
            proptest::prop_assert_eq!(got, all);
        }
    }
}
