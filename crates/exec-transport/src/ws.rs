//! WebSocket framing (RFC 6455), sans-IO: bytes in, events out; messages in, bytes out.
//!
//! Written by hand because frames have to be encoded in place in the output buffer, an idle
//! connection must cost next to nothing, and a violation must end in silence. `tests/interop.rs`
//! holds it against another implementation in both roles.

mod decode;
mod encode;
mod frame;
mod fuzz;
mod handshake;
mod mask;
mod session;

use decode::{Decoder, Event};
use encode::Encoder;
pub(crate) use frame::Role;
pub use fuzz::fuzz_decode;
pub(crate) use handshake::{accept_key, new_key};
pub(crate) use session::{Item, Session};
