//! Both directions of one WebSocket: the codec, and which control frames are owed to the peer.

use crate::error::Error;
use crate::limits::{Limits, PONG_BYTES_MAX};
use crate::output::Output;
use crate::ws::frame::{CLOSE_NORMAL, Opcode, Role};
use crate::ws::{Decoder, Encoder, Event};

pub(crate) struct Session {
    decoder: Decoder,
    encoder: Encoder,
    /// A close frame was queued; nothing may follow it.
    closing: bool,
    /// Pongs in the output: their size, and the position at which the last one ends.
    pong_bytes: usize,
    pong_until: u64,
    /// The latest ping that came while too many pongs were waiting. RFC 6455, 5.5.3, lets us answer
    /// only that one.
    late_pong: Option<Vec<u8>>,
}

/// What the owner of a connection hears of.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Item {
    Message(Vec<u8>),
    End,
}

impl Session {
    pub(crate) fn new(role: Role, limits: Limits) -> Result<Self, Error> {
        Ok(Self {
            decoder: Decoder::new(role, limits),
            encoder: Encoder::new(role, limits)?,
            closing: false,
            pong_bytes: 0,
            pong_until: 0,
            late_pong: None,
        })
    }

    /// Decodes until there is something to report or `input` is used up. Answers to control frames
    /// go to `output`.
    pub(crate) fn decode(
        &mut self,
        input: &mut &[u8],
        output: &mut Output,
    ) -> Result<Option<Item>, Error> {
        while let Some(event) = self.decoder.decode(input)? {
            match event {
                Event::Message(message) => return Ok(Some(Item::Message(message))),
                Event::Ping(payload) => self.queue_pong(payload, output),
                Event::Close(code) => {
                    self.queue_close(code, output);
                    return Ok(Some(Item::End));
                }
            }
        }
        Ok(None)
    }

    pub(crate) fn message(
        &mut self,
        output: &mut Output,
        len: usize,
        fill: impl FnOnce(&mut Vec<u8>),
    ) -> Result<(), Error> {
        if self.closing {
            return Err(Error::Closed);
        }
        self.encoder.message(output.buffer_mut(), len, fill)
    }

    pub(crate) fn begin_parts(&mut self, output: &mut Output, first: &[u8]) -> Result<(), Error> {
        if self.closing {
            return Err(Error::Closed);
        }
        let fill = |out: &mut Vec<u8>| out.extend_from_slice(first);
        self.encoder.part(output.buffer_mut(), Opcode::Text, false, first.len(), fill)
    }

    pub(crate) fn part(
        &mut self,
        output: &mut Output,
        len: usize,
        last: bool,
        fill: impl FnOnce(&mut Vec<u8>),
    ) -> Result<(), Error> {
        if self.closing {
            return Err(Error::Closed);
        }
        self.encoder.part(output.buffer_mut(), Opcode::Continuation, last, len, fill)
    }

    pub(crate) fn ping(&mut self, output: &mut Output) {
        if !self.closing {
            self.encoder.control(output.buffer_mut(), Opcode::Ping, &[]);
        }
    }

    pub(crate) fn close(&mut self, output: &mut Output) {
        self.queue_close(Some(CLOSE_NORMAL), output);
    }

    /// Queues the pong that had to wait, once the ones before it are out.
    pub(crate) fn queue_late_pong(&mut self, output: &mut Output) {
        if output.written_until() >= self.pong_until
            && let Some(payload) = self.late_pong.take()
        {
            self.queue_pong(payload, output);
        }
    }

    fn queue_pong(&mut self, payload: Vec<u8>, output: &mut Output) {
        if self.closing {
            return;
        }
        if output.written_until() >= self.pong_until {
            self.pong_bytes = 0;
        }
        if self.pong_bytes >= PONG_BYTES_MAX {
            self.late_pong = Some(payload);
            return;
        }
        let before = output.pending().len();
        self.encoder.control(output.buffer_mut(), Opcode::Pong, &payload);
        self.pong_bytes += output.pending().len() - before;
        self.pong_until = output.queued_until();
        self.late_pong = None;
    }

    /// The first close frame, ours or the answer to the peer's.
    fn queue_close(&mut self, code: Option<u16>, output: &mut Output) {
        if self.closing {
            return;
        }
        self.closing = true;
        self.late_pong = None;
        let payload = code.map(u16::to_be_bytes);
        let payload = payload.as_ref().map_or(&[][..], |code| &code[..]);
        self.encoder.control(output.buffer_mut(), Opcode::Close, payload);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pings(range: std::ops::Range<u32>) -> Vec<u8> {
        let mut encoder = Encoder::new(Role::Client, Limits::default()).unwrap();
        let mut bytes = Vec::new();
        for number in range {
            encoder.control(&mut bytes, Opcode::Ping, &number.to_be_bytes());
        }
        bytes
    }

    #[test]
    fn pongs_that_pile_up_are_bounded_and_the_latest_is_answered() {
        let mut session = Session::new(Role::Server, Limits::default()).unwrap();
        let mut output = Output::default();
        let bytes = pings(0..10_000);
        assert_eq!(session.decode(&mut &bytes[..], &mut output).unwrap(), None);
        let queued = output.pending().len();
        assert!((PONG_BYTES_MAX..PONG_BYTES_MAX + 10).contains(&queued), "{queued}");

        session.queue_late_pong(&mut output);
        assert_eq!(output.pending().len(), queued, "the late pong waits for the others");
        output.advance(queued);
        session.queue_late_pong(&mut output);
        assert_eq!(output.pending(), [&[0x8a, 4][..], &9_999_u32.to_be_bytes()].concat());

        let bytes = pings(7..8);
        session.decode(&mut &bytes[..], &mut output).unwrap();
        assert_eq!(output.pending().len(), 12, "there is room again");
    }

    #[test]
    fn a_close_frame_is_answered_once_and_nothing_follows_it() {
        let mut session = Session::new(Role::Server, Limits::default()).unwrap();
        let mut output = Output::default();
        let mut bytes = Vec::new();
        let mut client = Encoder::new(Role::Client, Limits::default()).unwrap();
        client.control(&mut bytes, Opcode::Close, &4001_u16.to_be_bytes());
        assert_eq!(session.decode(&mut &bytes[..], &mut output).unwrap(), Some(Item::End));
        session.close(&mut output);
        session.ping(&mut output);
        assert!(matches!(session.message(&mut output, 0, |_| {}), Err(Error::Closed)));
        assert_eq!(output.pending(), [0x88, 2, 0x0f, 0xa1]);
    }
}
