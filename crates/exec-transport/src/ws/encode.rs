//! Messages and control frames -> bytes, appended to the output buffer in place.

use crate::error::Error;
use crate::limits::Limits;
use crate::ws::frame::{CONTROL_BYTES_MAX, Header, Opcode, Role};
use crate::ws::mask::{self, MaskSource};

#[derive(Debug)]
pub(crate) struct Encoder {
    /// Present on the client's side.
    masks: Option<MaskSource>,
    limits: Limits,
}

impl Encoder {
    pub(crate) fn new(role: Role, limits: Limits) -> Result<Self, Error> {
        let masks = match role {
            Role::Server => None,
            Role::Client => Some(MaskSource::new()?),
        };
        Ok(Self { masks, limits })
    }

    /// Appends a text message of `len` bytes, which `fill` appends to the buffer. On an error the
    /// buffer is as it was.
    pub(crate) fn message(
        &mut self,
        out: &mut Vec<u8>,
        len: usize,
        fill: impl FnOnce(&mut Vec<u8>),
    ) -> Result<(), Error> {
        let start = out.len();
        let piece = self.piece_bytes(len);
        let pieces = len.div_ceil(piece).max(1);
        // The payload is placed behind the room for all headers. So the only piece, or the last one,
        // is in its place already, and the others move forward.
        let room =
            (pieces - 1) * self.header_size(piece) + self.header_size(len - (pieces - 1) * piece);
        out.reserve(room + len);
        out.resize(start + room, 0);
        fill(out);
        let filled = out.len() - start - room;
        if filled != len {
            out.truncate(start);
            return Err(Error::LengthMismatch { announced: len, filled });
        }
        let (mut from, mut to) = (start + room, start);
        let mut opcode = Opcode::Text;
        for number in 1..=pieces {
            let size = piece.min(out.len() - from);
            let fin = number == pieces;
            to = self.place(out, Header { fin, opcode, mask: None, len: size as u64 }, from, to);
            from += size;
            opcode = Opcode::Continuation;
        }
        debug_assert_eq!(to, out.len());
        Ok(())
    }

    /// Appends one frame of a message whose frames the caller counts. On an error the buffer is as
    /// it was.
    pub(crate) fn part(
        &mut self,
        out: &mut Vec<u8>,
        opcode: Opcode,
        fin: bool,
        len: usize,
        fill: impl FnOnce(&mut Vec<u8>),
    ) -> Result<(), Error> {
        let start = out.len();
        let from = start + self.header_size(len);
        out.reserve(from - start + len);
        out.resize(from, 0);
        fill(out);
        let filled = out.len() - from;
        if filled != len {
            out.truncate(start);
            return Err(Error::LengthMismatch { announced: len, filled });
        }
        self.place(out, Header { fin, opcode, mask: None, len: len as u64 }, from, start);
        Ok(())
    }

    /// Appends a control frame.
    pub(crate) fn control(&mut self, out: &mut Vec<u8>, opcode: Opcode, payload: &[u8]) {
        debug_assert!(opcode.is_control() && payload.len() <= CONTROL_BYTES_MAX);
        let start = out.len();
        let from = start + self.header_size(payload.len());
        out.resize(from, 0);
        out.extend_from_slice(payload);
        let header = Header { fin: true, opcode, mask: None, len: payload.len() as u64 };
        self.place(out, header, from, start);
    }

    /// Writes a header at `to`, moves the payload from `from` to behind it, masks it if we are a
    /// client, and returns where the frame ends.
    fn place(&mut self, out: &mut [u8], mut header: Header, from: usize, to: usize) -> usize {
        header.mask = self.masks.as_mut().map(MaskSource::next);
        let (bytes, size) = header.encode();
        let payload = to + size;
        let payload_len = usize::try_from(header.len).expect("the payload is in memory");
        if from != payload {
            out.copy_within(from..from + payload_len, payload);
        }
        out[to..payload].copy_from_slice(&bytes[..size]);
        let end = payload + payload_len;
        if let Some(key) = header.mask {
            mask::apply(&mut out[payload..end], key, 0);
        }
        end
    }

    fn header_size(&self, len: usize) -> usize {
        Header::size_for(len, self.masks.is_some())
    }

    fn piece_bytes(&self, len: usize) -> usize {
        let Limits { frame_bytes_max, send_fragment_bytes, .. } = self.limits;
        if len <= frame_bytes_max { len } else { send_fragment_bytes.min(frame_bytes_max) }.max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ws::{Decoder, Event};

    const LIMITS: Limits =
        Limits { frame_bytes_max: 300, message_bytes_max: 5000, send_fragment_bytes: 128 };

    fn other(role: Role) -> Role {
        match role {
            Role::Server => Role::Client,
            Role::Client => Role::Server,
        }
    }

    #[test]
    fn every_length_round_trips_in_both_roles() {
        for role in [Role::Server, Role::Client] {
            let mut encoder = Encoder::new(role, LIMITS).unwrap();
            let mut decoder = Decoder::new(other(role), LIMITS);
            for len in 0..1200 {
                let message: Vec<u8> = (b'a'..=b'z').cycle().take(len).collect();
                let mut out = b"before".to_vec();
                encoder.message(&mut out, len, |v| v.extend_from_slice(&message)).unwrap();
                let mut input = &out[6..];
                let event = decoder.decode(&mut input).unwrap();
                assert_eq!(event, Some(Event::Message(message)), "{role:?} {len}");
                assert!(input.is_empty());
            }
        }
    }

    #[test]
    fn a_message_above_the_frame_limit_is_cut_into_fragments() {
        let mut encoder = Encoder::new(Role::Server, LIMITS).unwrap();
        let mut out = Vec::new();
        encoder.message(&mut out, 300, |v| v.resize(v.len() + 300, b'x')).unwrap();
        assert_eq!(out[..4], [0x81, 126, 1, 44]);
        out.clear();
        encoder.message(&mut out, 301, |v| v.resize(v.len() + 301, b'x')).unwrap();
        assert_eq!(out[..4], [0x01, 126, 0, 128]);
        assert_eq!(out[132..136], [0x00, 126, 0, 128]);
        assert_eq!(out[264..266], [0x80, 45]);
        assert_eq!(out.len(), 266 + 45);
    }

    #[test]
    fn a_wrong_length_leaves_the_buffer_as_it_was() {
        let mut encoder = Encoder::new(Role::Client, LIMITS).unwrap();
        let mut out = b"kept".to_vec();
        let result = encoder.message(&mut out, 3, |v| v.extend_from_slice(b"four"));
        assert!(matches!(result, Err(Error::LengthMismatch { announced: 3, filled: 4 })));
        assert_eq!(out, b"kept");
    }
}
