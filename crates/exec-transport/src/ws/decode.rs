//! Bytes from the peer -> messages and control frames.
//!
//! ```text
//!            header complete              payload complete
//!  Header ---------------------> Payload ------------------> Header, and perhaps an Event
//! ```
//!
//! Payload bytes go straight into the message they belong to, unmasked on the way, so nothing is
//! kept twice and a partial frame costs what has arrived of it, never what it announces.

use crate::error::Error;
use crate::limits::Limits;
use crate::ws::frame::{HEADER_BYTES_MAX, Header, Opcode, Role};
use crate::ws::mask;

/// What the peer said.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// A whole message, text or binary.
    Message(Vec<u8>),
    /// To be answered with a pong of the same payload.
    Ping(Vec<u8>),
    /// To be answered with a close frame; nothing after it counts.
    Close(Option<u16>),
}

#[derive(Debug)]
pub(crate) struct Decoder {
    role: Role,
    limits: Limits,
    /// The header of the next frame, as far as it has come.
    header: [u8; HEADER_BYTES_MAX],
    header_len: usize,
    /// The frame whose payload is arriving.
    frame: Option<Frame>,
    /// Of which kind the message is whose frames are arriving.
    kind: Option<Kind>,
    message: Vec<u8>,
    control: Vec<u8>,
}

#[derive(Debug, Clone, Copy)]
struct Frame {
    header: Header,
    /// Payload bytes seen and still to come.
    seen: usize,
    remaining: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Text,
    Binary,
}

impl Decoder {
    pub(crate) fn new(role: Role, limits: Limits) -> Self {
        Self {
            role,
            limits,
            header: [0; HEADER_BYTES_MAX],
            header_len: 0,
            frame: None,
            kind: None,
            message: Vec::new(),
            control: Vec::new(),
        }
    }

    /// The next event, taken from the front of `input`; `None` when all of `input` is used up.
    /// After an error the decoder is not to be used again.
    pub(crate) fn decode(&mut self, input: &mut &[u8]) -> Result<Option<Event>, Error> {
        loop {
            let mut frame = match self.frame.take() {
                Some(frame) => frame,
                None => match self.take_header(input)? {
                    Some(header) => self.start_frame(header)?,
                    None => return Ok(None),
                },
            };
            self.take_payload(&mut frame, input);
            if frame.remaining > 0 {
                self.frame = Some(frame);
                return Ok(None);
            }
            if let Some(event) = self.finish_frame(frame.header)? {
                return Ok(Some(event));
            }
        }
    }

    fn take_header(&mut self, input: &mut &[u8]) -> Result<Option<Header>, Error> {
        loop {
            let size = if self.header_len < 2 { 2 } else { Header::size(self.header[1]) };
            let take = (size - self.header_len).min(input.len());
            let (bytes, rest) = input.split_at(take);
            self.header[self.header_len..][..take].copy_from_slice(bytes);
            self.header_len += take;
            *input = rest;
            if self.header_len < size {
                return Ok(None);
            }
            if Header::size(self.header[1]) == size {
                self.header_len = 0;
                return Header::parse(&self.header[..size], self.role).map(Some);
            }
        }
    }

    /// Checks a frame against what came before it and against the limits.
    fn start_frame(&mut self, header: Header) -> Result<Frame, Error> {
        match (header.opcode, self.kind) {
            (Opcode::Text, None) => self.kind = Some(Kind::Text),
            (Opcode::Binary, None) => self.kind = Some(Kind::Binary),
            (Opcode::Continuation, Some(_)) | (Opcode::Close | Opcode::Ping | Opcode::Pong, _) => {}
            (Opcode::Continuation, None) => {
                return Err(Error::Protocol("continuation of no message"));
            }
            (Opcode::Text | Opcode::Binary, Some(_)) => {
                return Err(Error::Protocol("new message inside a fragmented one"));
            }
        }
        let frame_bytes_max = self.limits.frame_bytes_max;
        let remaining = match usize::try_from(header.len) {
            Ok(len) if header.opcode.is_control() || len <= frame_bytes_max => len,
            _ => return Err(Error::FrameTooLarge { len: header.len, max: frame_bytes_max }),
        };
        if !header.opcode.is_control() {
            let len = self.message.len().saturating_add(remaining);
            if len > self.limits.message_bytes_max {
                return Err(Error::MessageTooLarge { len, max: self.limits.message_bytes_max });
            }
        }
        Ok(Frame { header, seen: 0, remaining })
    }

    fn take_payload(&mut self, frame: &mut Frame, input: &mut &[u8]) {
        let (bytes, rest) = input.split_at(frame.remaining.min(input.len()));
        *input = rest;
        let target = match frame.header.opcode.is_control() {
            true => &mut self.control,
            false => &mut self.message,
        };
        let start = target.len();
        if target.capacity() - start < bytes.len() {
            // Doubles, so that many small pieces cost little. The last frame says where it ends, so
            // a message that is complete gets exactly its size; a mere announcement gets nothing.
            let doubled = bytes.len().max(start);
            let end = if frame.header.fin { frame.remaining } else { usize::MAX };
            target.reserve_exact(doubled.min(end));
        }
        target.extend_from_slice(bytes);
        if let Some(key) = frame.header.mask {
            mask::apply(&mut target[start..], key, frame.seen);
        }
        frame.seen += bytes.len();
        frame.remaining -= bytes.len();
    }

    fn finish_frame(&mut self, header: Header) -> Result<Option<Event>, Error> {
        match header.opcode {
            Opcode::Continuation | Opcode::Text | Opcode::Binary => {
                if !header.fin {
                    return Ok(None);
                }
                let message = std::mem::take(&mut self.message);
                if self.kind.take() == Some(Kind::Text) && std::str::from_utf8(&message).is_err() {
                    return Err(Error::NotUtf8);
                }
                Ok(Some(Event::Message(message)))
            }
            Opcode::Ping => Ok(Some(Event::Ping(std::mem::take(&mut self.control)))),
            Opcode::Pong => {
                self.control = Vec::new();
                Ok(None)
            }
            Opcode::Close => {
                close_code(&std::mem::take(&mut self.control)).map(Event::Close).map(Some)
            }
        }
    }
}

/// RFC 6455, 5.5.1 and 7.4: nothing, or a status that may be sent and a reason in UTF-8.
fn close_code(payload: &[u8]) -> Result<Option<u16>, Error> {
    let Some((code, reason)) = payload.split_first_chunk::<2>() else {
        return match payload {
            [] => Ok(None),
            _ => Err(Error::Protocol("close frame with half a status")),
        };
    };
    let code = u16::from_be_bytes(*code);
    if !matches!(code, 1000..=1003 | 1007..=1014 | 3000..=4999) {
        return Err(Error::Protocol("close frame with a reserved status"));
    }
    match std::str::from_utf8(reason) {
        Ok(_) => Ok(Some(code)),
        Err(_) => Err(Error::Protocol("close reason is not utf-8")),
    }
}

#[cfg(test)]
#[path = "decode_tests.rs"]
mod tests;
