//! The frame header: its fields, and which of them are allowed together.

use crate::error::Error;

/// Two bytes, an 8-byte length and a mask.
pub(crate) const HEADER_BYTES_MAX: usize = 14;

/// RFC 6455, 5.5: what a ping, pong or close may carry.
pub(crate) const CONTROL_BYTES_MAX: usize = 125;

/// RFC 6455, 7.4.1: the connection has fulfilled its purpose.
pub(crate) const CLOSE_NORMAL: u16 = 1000;

/// Which end of the connection we are. Clients mask what they send, servers never do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    Server,
    Client,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Opcode {
    Continuation,
    Text,
    Binary,
    Close,
    Ping,
    Pong,
}

impl Opcode {
    fn parse(bits: u8) -> Result<Self, Error> {
        match bits {
            0x0 => Ok(Self::Continuation),
            0x1 => Ok(Self::Text),
            0x2 => Ok(Self::Binary),
            0x8 => Ok(Self::Close),
            0x9 => Ok(Self::Ping),
            0xa => Ok(Self::Pong),
            _ => Err(Error::Protocol("reserved opcode")),
        }
    }

    fn bits(self) -> u8 {
        match self {
            Self::Continuation => 0x0,
            Self::Text => 0x1,
            Self::Binary => 0x2,
            Self::Close => 0x8,
            Self::Ping => 0x9,
            Self::Pong => 0xa,
        }
    }

    pub(crate) fn is_control(self) -> bool {
        match self {
            Self::Close | Self::Ping | Self::Pong => true,
            Self::Continuation | Self::Text | Self::Binary => false,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) fin: bool,
    pub(crate) opcode: Opcode,
    pub(crate) mask: Option<[u8; 4]>,
    pub(crate) len: u64,
}

impl Header {
    /// How long a header is, from its second byte.
    pub(crate) fn size(second: u8) -> usize {
        let mask = if second & 0x80 == 0 { 0 } else { 4 };
        2 + mask
            + match second & 0x7f {
                126 => 2,
                127 => 8,
                _ => 0,
            }
    }

    /// Parses a header of exactly [`Header::size`] bytes, sent by the other end of `role`.
    pub(crate) fn parse(bytes: &[u8], role: Role) -> Result<Self, Error> {
        let (first, second) = (bytes[0], bytes[1]);
        if first & 0x70 != 0 {
            return Err(Error::Protocol("reserved bit set"));
        }
        let opcode = Opcode::parse(first & 0x0f)?;
        let fin = first & 0x80 != 0;
        let masked = second & 0x80 != 0;
        match (role, masked) {
            (Role::Server, true) | (Role::Client, false) => {}
            (Role::Server, false) => return Err(Error::Protocol("unmasked client frame")),
            (Role::Client, true) => return Err(Error::Protocol("masked server frame")),
        }
        let mask_size = if masked { 4 } else { 0 };
        let (length, mask) = bytes[2..].split_at(bytes.len() - 2 - mask_size);
        let len = match length.len() {
            0 => u64::from(second & 0x7f),
            _ => length.iter().fold(0, |len, byte| len << 8 | u64::from(*byte)),
        };
        if opcode.is_control() && !fin {
            return Err(Error::Protocol("fragmented control frame"));
        }
        if opcode.is_control() && len > CONTROL_BYTES_MAX as u64 {
            return Err(Error::Protocol("control frame over 125 bytes"));
        }
        Ok(Self { fin, opcode, mask: mask.try_into().ok(), len })
    }

    /// How long the header of a payload of `len` bytes will be.
    pub(crate) fn size_for(len: usize, masked: bool) -> usize {
        let length = match len {
            0..=125 => 2,
            126..=0xffff => 4,
            _ => 10,
        };
        if masked { length + 4 } else { length }
    }

    /// The header as bytes, and how many of them are used.
    pub(crate) fn encode(&self) -> ([u8; HEADER_BYTES_MAX], usize) {
        let mut bytes = [0; HEADER_BYTES_MAX];
        bytes[0] = u8::from(self.fin) << 7 | self.opcode.bits();
        let long = self.len.to_be_bytes();
        let mut size = match self.len {
            0..=125 => {
                bytes[1] = long[7];
                2
            }
            126..=0xffff => {
                bytes[1] = 126;
                bytes[2..4].copy_from_slice(&long[6..]);
                4
            }
            _ => {
                bytes[1] = 127;
                bytes[2..10].copy_from_slice(&long);
                10
            }
        };
        if let Some(mask) = self.mask {
            bytes[1] |= 0x80;
            bytes[size..size + 4].copy_from_slice(&mask);
            size += 4;
        }
        (bytes, size)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_survive_encoding_in_every_length_class() {
        for len in [0, 1, 125, 126, 127, 0xffff, 0x1_0000, 16 << 20, u64::from(u32::MAX) + 1] {
            for (role, mask) in [(Role::Server, Some([1, 2, 3, 4])), (Role::Client, None)] {
                let header = Header { fin: len % 2 == 0, opcode: Opcode::Text, mask, len };
                let (bytes, size) = header.encode();
                assert_eq!(Header::size(bytes[1]), size);
                assert_eq!(Header::size_for(usize::try_from(len).unwrap(), mask.is_some()), size);
                assert_eq!(Header::parse(&bytes[..size], role).unwrap(), header);
            }
        }
    }

    #[test]
    fn bytes_are_as_in_the_rfc() {
        let header = Header { fin: true, opcode: Opcode::Text, mask: None, len: 5 };
        assert_eq!(header.encode().0[..2], [0x81, 0x05]);
        let header = Header { fin: true, opcode: Opcode::Binary, mask: None, len: 256 };
        assert_eq!(header.encode().0[..4], [0x82, 0x7e, 0x01, 0x00]);
        let header = Header { fin: true, opcode: Opcode::Binary, mask: None, len: 65536 };
        assert_eq!(header.encode().0[..10], [0x82, 0x7f, 0, 0, 0, 0, 0, 1, 0, 0]);
    }
}
