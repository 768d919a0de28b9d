//! Masking: XOR with a 4-byte key, eight bytes at a time.

use crate::error::Error;

/// XORs `bytes` with `mask`, beginning at byte `offset` of the frame's payload.
pub(crate) fn apply(bytes: &mut [u8], mask: [u8; 4], offset: usize) {
    let mut key = mask;
    key.rotate_left(offset % 4);
    let wide = u64::from_ne_bytes([key[0], key[1], key[2], key[3], key[0], key[1], key[2], key[3]]);
    let (words, tail) = bytes.as_chunks_mut::<8>();
    for word in words {
        *word = (u64::from_ne_bytes(*word) ^ wide).to_ne_bytes();
    }
    for (byte, key) in tail.iter_mut().zip(key.iter().cycle()) {
        *byte ^= key;
    }
}

/// Where a client's masks come from: SplitMix64 from a seed of the operating system. Masks only have
/// to differ from what a script in a browser could foresee, and no browser speaks through us.
#[derive(Debug)]
pub(crate) struct MaskSource(u64);

impl MaskSource {
    pub(crate) fn new() -> Result<Self, Error> {
        Ok(Self(getrandom::u64()?))
    }

    pub(crate) fn next(&mut self) -> [u8; 4] {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        let [a, b, c, d, ..] = (z ^ (z >> 31)).to_ne_bytes();
        [a, b, c, d]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wide_masking_equals_bytewise_masking_at_every_offset_and_length() {
        let mask = [0x11, 0x22, 0x44, 0x88];
        for offset in 0..9 {
            for len in 0..40 {
                let mut bytes: Vec<u8> = (0..len).collect();
                let expected: Vec<u8> =
                    bytes.iter().enumerate().map(|(i, b)| b ^ mask[(offset + i) % 4]).collect();
                apply(&mut bytes, mask, offset);
                assert_eq!(bytes, expected);
            }
        }
    }

    #[test]
    fn masks_differ() {
        let mut source = MaskSource::new().unwrap();
        assert_ne!(source.next(), source.next());
    }
}
