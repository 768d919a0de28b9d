//! The encrypted stream through a relay, without sockets, clocks or randomness of its own.
//!
//! An executor that nobody can reach keeps one WebSocket to a relay open; a harness opens another. The
//! relay forwards [`Frame`]s between them and is trusted with nothing: a Noise handshake over X25519 and
//! ML-KEM-768 gives each stream its own keys. With the reference (codex 0.166) as its peer an end sends
//! exactly what the reference expects. Two of ours agree on a *reliable* stream: frames are kept until
//! they are acknowledged, so a lost socket is a pause and nothing else. `docs/relay.md` is the contract.
//!
//! # How to use it
//!
//! One task owns an [`Executor`] or a [`Harness`] and its socket, and does in a loop:
//!
//! 1. for each binary message of the socket: `handle_frame`, once it may be taken (`wants_frames`);
//! 2. take what came of it: `poll_event`, and `poll_message` until there is none;
//! 3. hand over messages with `send` while `has_room`;
//! 4. while the socket can be written: send what `poll_transmit` gives;
//! 5. sleep until `poll_timeout`, then call `handle_timeout`, and `poll_transmit` again.
//!
//! When the socket is lost: `handle_detached`, connect again, `handle_attached`. Plain streams end with
//! the socket, reliable ones go on. A closed stream says so once, after its last message was taken. Pings
//! of the WebSocket are the owner's business.
//!
//! ```
//! # use std::sync::Arc;
//! # use std::time::Instant;
//! use exec_relay::{Executor, ExecutorConfig, ExecutorEvent, Harness, HarnessConfig, HarnessEvent};
//! use exec_relay::{Identity, Limits, Reliability};
//! # let now = Instant::now();
//! // In real life every seed and every entropy comes from the system's generator.
//! let identity = Arc::new(Identity::from_seed([1; 96]));
//! let mut executor = Executor::new(ExecutorConfig {
//!     identity: Arc::clone(&identity),
//!     environment_id: "env".to_owned(),
//!     registration_id: "reg".to_owned(),
//!     reliable: true,
//!     limits: Limits::default(),
//! });
//! let config = HarnessConfig {
//!     identity: &Identity::from_seed([2; 96]),
//!     executor: &identity.public_key(),
//!     environment_id: "env",
//!     registration_id: "reg",
//!     authorization: "token",
//!     stream_id: "00000000-0000-4000-8000-000000000001",
//!     reliability: Reliability::Offer,
//!     limits: Limits::default(),
//! };
//! let mut harness = Harness::new(config, &[3; 128], now)?;
//!
//! while let Some(frame) = harness.poll_transmit(now) {
//!     executor.handle_frame(&frame, now);
//! }
//! let Some(ExecutorEvent::Validate { stream, .. }) = executor.poll_event() else { panic!() };
//! executor.approve(stream, &[4; 160], now);
//! while let Some(frame) = executor.poll_transmit(now) {
//!     harness.handle_frame(&frame, now);
//! }
//! assert_eq!(harness.poll_event(), Some(HarnessEvent::Opened { reliable: true }));
//!
//! harness.send(b"{}".to_vec())?;
//! while let Some(frame) = harness.poll_transmit(now) {
//!     executor.handle_frame(&frame, now);
//! }
//! assert_eq!(executor.poll_message(stream, now).as_deref(), Some(&b"{}"[..]));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod error;
mod limits;

mod frame;
mod key;
mod noise;

mod recv_window;
mod reliable;
mod segment;
mod send_window;
mod stream;

mod executor;
mod harness;

mod fuzz;

pub use error::{CloseReason, ProtocolError, SendError};
pub use executor::{Executor, ExecutorConfig, ExecutorEvent, StreamKey};
pub use frame::{Body, Data, Frame, FrameError, Receipt, Segment};
pub use fuzz::{fuzz_frame, fuzz_handshake, fuzz_record};
pub use harness::{Harness, HarnessConfig, HarnessEvent, Reliability};
pub use key::{IDENTITY_SEED_BYTES, Identity, KeyError, PublicKey, SUITE};
pub use limits::{
    AUTHORIZATION_BYTES_MAX, FRAME_BYTES_MAX, Limits, MESSAGE_BYTES_MAX, SEGMENT_BYTES_MAX,
    STREAM_ID_BYTES_MAX,
};
pub use noise::{EXECUTOR_ENTROPY_BYTES, HARNESS_ENTROPY_BYTES, NoiseError};
pub use recv_window::WindowError;
pub use segment::MessageError;
pub use send_window::AckError;
