//! What a fuzz target calls. Panics when the decoders contradict themselves.

use crate::limits::Limits;
use crate::lines::LineDecoder;
use crate::ws::{Decoder, Event, Role};

/// Small, so that a fuzzer reaches them.
const LIMITS: Limits =
    Limits { frame_bytes_max: 200, message_bytes_max: 500, send_fragment_bytes: 50 };

/// Decodes arbitrary bytes in both roles and as lines, once whole and once byte by byte. Both must
/// yield the same, and nothing over the limits.
#[doc(hidden)]
pub fn fuzz_decode(bytes: &[u8]) {
    for role in [Role::Server, Role::Client] {
        let whole = decode(role, bytes, bytes.len().max(1));
        assert_eq!(whole, decode(role, bytes, 1));
        for event in &whole.0 {
            match event {
                Event::Message(message) => assert!(message.len() <= LIMITS.message_bytes_max),
                Event::Ping(payload) => assert!(payload.len() <= 125),
                Event::Close(_) => {}
            }
        }
    }
    assert_eq!(lines(bytes, bytes.len().max(1)), lines(bytes, 1));
}

fn decode(role: Role, bytes: &[u8], step: usize) -> (Vec<Event>, Option<String>) {
    let mut decoder = Decoder::new(role, LIMITS);
    collect(bytes, step, |input| decoder.decode(input).map_err(|error| error.to_string()))
}

/// An overlong line is noticed earlier, at another length, when it comes in pieces.
fn lines(bytes: &[u8], step: usize) -> (Vec<Vec<u8>>, Option<()>) {
    let mut decoder = LineDecoder::new(LIMITS.message_bytes_max);
    collect(bytes, step, |input| decoder.decode(input).map_err(|_| ()))
}

fn collect<T, E>(
    bytes: &[u8],
    step: usize,
    mut decode: impl FnMut(&mut &[u8]) -> Result<Option<T>, E>,
) -> (Vec<T>, Option<E>) {
    let mut found = Vec::new();
    for mut piece in bytes.chunks(step) {
        loop {
            match decode(&mut piece) {
                Ok(Some(item)) => found.push(item),
                Ok(None) => break,
                Err(error) => return (found, Some(error)),
            }
        }
    }
    (found, None)
}
