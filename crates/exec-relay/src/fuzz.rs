//! What the fuzz targets call. Each panics when something that must hold does not.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::executor::{Executor, ExecutorConfig, ExecutorEvent};
use crate::frame::{Body, Frame};
use crate::harness::{Harness, HarnessConfig, Reliability};
use crate::key::Identity;
use crate::limits::{FRAME_BYTES_MAX, Limits};

/// Any bytes as a frame: what decodes encodes to something that means the same.
#[doc(hidden)]
pub fn fuzz_frame(bytes: &[u8]) {
    let Ok(frame) = Frame::decode(bytes) else { return };
    assert!(bytes.len() <= FRAME_BYTES_MAX);
    let again = frame.clone().encode();
    assert_eq!(Frame::decode(&again), Ok(frame));
}

/// Any bytes as both halves of a handshake: nothing is opened, and the ends survive.
#[doc(hidden)]
pub fn fuzz_handshake(bytes: &[u8]) {
    let now = epoch();
    let frame = |payload: Vec<u8>| Frame::plain(STREAM, Body::Handshake { payload }).encode();
    if bytes.is_empty() {
        return;
    }
    let mut executor = executor();
    executor.handle_frame(&frame(bytes.to_vec()), now);
    assert_eq!(executor.poll_event(), None, "nobody has signed this");
    let mut harness = harness(Reliability::Offer, now);
    harness.handle_frame(&frame(bytes.to_vec()), now);
    assert_eq!(harness.poll_message(now), None);
    assert!(!harness.has_room(), "nobody has signed this");
}

/// Any bytes as frames to two ends that have shaken hands; a byte in front says how long each is. What
/// nobody has sent is never delivered.
#[doc(hidden)]
pub fn fuzz_record(bytes: &[u8]) {
    let now = epoch();
    let reliability = match bytes.first() {
        Some(byte) if byte % 2 == 0 => Reliability::Never,
        _ => Reliability::Offer,
    };
    let (mut executor, mut harness) = (executor(), harness(reliability, now));
    while let Some(frame) = harness.poll_transmit(now) {
        executor.handle_frame(&frame, now);
    }
    while let Some(event) = executor.poll_event() {
        if let ExecutorEvent::Validate { stream, .. } = event {
            executor.approve(stream, &[3; 160], now);
        }
    }
    while let Some(frame) = executor.poll_transmit(now) {
        harness.handle_frame(&frame, now);
    }
    assert!(harness.has_room(), "the handshake was completed");
    let mut rest = bytes;
    while let Some((&length, after)) = rest.split_first() {
        let (payload, after) = after.split_at(after.len().min(usize::from(length)));
        rest = after;
        executor.handle_frame(payload, now);
        harness.handle_frame(payload, now);
        while let Some(event) = executor.poll_event() {
            assert!(!matches!(event, ExecutorEvent::Readable(_)), "nobody has sent this");
        }
        assert_eq!(harness.poll_message(now), None, "nobody has sent this");
    }
    while executor.poll_transmit(now).is_some() {}
    while harness.poll_transmit(now).is_some() {}
}

/// The name that the corpus uses.
const STREAM: &str = "s";

fn epoch() -> Instant {
    use std::sync::OnceLock;
    static EPOCH: OnceLock<Instant> = OnceLock::new();
    // Any instant will do, but there is no way to make one without a clock.
    *EPOCH.get_or_init(Instant::now)
}

fn limits() -> Limits {
    Limits { message_bytes_max: 4096, linger: Duration::from_secs(1), ..Limits::default() }
}

fn executor() -> Executor {
    Executor::new(ExecutorConfig {
        identity: Arc::new(Identity::from_seed([1; 96])),
        environment_id: "e".to_owned(),
        registration_id: "r".to_owned(),
        reliable: true,
        limits: limits(),
    })
}

fn harness(reliability: Reliability, now: Instant) -> Harness {
    let config = HarnessConfig {
        identity: &Identity::from_seed([2; 96]),
        executor: &Identity::from_seed([1; 96]).public_key(),
        environment_id: "e",
        registration_id: "r",
        authorization: "a",
        stream_id: STREAM,
        reliability,
        limits: limits(),
    };
    match Harness::new(config, &[4; 128], now) {
        Ok(harness) => harness,
        Err(error) => unreachable!("all of it is well-formed: {error}"),
    }
}
