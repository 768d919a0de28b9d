//! The executor's rules about handshakes, streams and frames, one by one.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on panics")]

mod support;

use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use exec_relay::{
    Body, CloseReason, Executor, ExecutorConfig, ExecutorEvent, Frame, Harness, HarnessConfig,
    HarnessEvent, Identity, Limits, Reliability, SendError, StreamKey,
};

static EXECUTOR: LazyLock<Arc<Identity>> = LazyLock::new(|| Arc::new(Identity::from_seed([1; 96])));
static HARNESS: LazyLock<Identity> = LazyLock::new(|| Identity::from_seed([2; 96]));

fn executor(limits: Limits) -> Executor {
    Executor::new(ExecutorConfig {
        identity: Arc::clone(&EXECUTOR),
        environment_id: "env".to_owned(),
        registration_id: "reg".to_owned(),
        reliable: true,
        limits,
    })
}

fn harness(stream_id: &str, reliability: Reliability, now: Instant) -> Harness {
    let config = HarnessConfig {
        identity: &HARNESS,
        executor: &EXECUTOR.public_key(),
        environment_id: "env",
        registration_id: "reg",
        authorization: "token",
        stream_id,
        reliability,
        limits: Limits::default(),
    };
    Harness::new(config, &[3; 128], now).unwrap()
}

/// The frame with message 1.
fn handshake(stream_id: &str, reliability: Reliability, now: Instant) -> Vec<u8> {
    let mut harness = harness(stream_id, reliability, now);
    let resume = harness.poll_transmit(now).unwrap();
    assert_eq!(Frame::decode(&resume).unwrap().body, Body::Resume { next_seq: 0 });
    harness.poll_transmit(now).unwrap()
}

/// The names of the streams that are reset, and nothing else may be sent.
fn resets(executor: &mut Executor, now: Instant) -> Vec<String> {
    let mut names = Vec::new();
    while let Some(frame) = executor.poll_transmit(now) {
        let frame = Frame::decode(&frame).unwrap();
        let reason = "noise_relay_protocol_error".to_owned();
        assert_eq!(frame.body, Body::Reset { reason });
        names.push(frame.stream);
    }
    names
}

fn validate(executor: &mut Executor) -> StreamKey {
    match executor.poll_event() {
        Some(ExecutorEvent::Validate { stream, .. }) => stream,
        other => panic!("{other:?}"),
    }
}

fn garbage(stream_id: &str) -> Vec<u8> {
    Frame::plain(stream_id, Body::Handshake { payload: vec![0; 4000] }).encode()
}

fn reset(stream_id: &str) -> Vec<u8> {
    Frame::plain(stream_id, Body::Reset { reason: "bye".to_owned() }).encode()
}

/// An executor and a harness that have shaken hands.
fn pair(reliability: Reliability, limits: Limits, now: Instant) -> (Executor, StreamKey, Harness) {
    let (mut executor, mut harness) = (executor(limits), harness("s", reliability, now));
    exchange(&mut executor, &mut harness, now);
    let stream = validate(&mut executor);
    executor.approve(stream, &[4; 160], now);
    exchange(&mut executor, &mut harness, now);
    let reliable = reliability != Reliability::Never;
    assert_eq!(executor.poll_event(), Some(ExecutorEvent::Opened { stream, reliable }));
    assert_eq!(harness.poll_event(), Some(HarnessEvent::Opened { reliable }));
    (executor, stream, harness)
}

/// Frames go to and fro until nobody has any.
fn exchange(executor: &mut Executor, harness: &mut Harness, now: Instant) {
    loop {
        let mut quiet = true;
        while let Some(frame) = harness.poll_transmit(now) {
            executor.handle_frame(&frame, now);
            quiet = false;
        }
        while let Some(frame) = executor.poll_transmit(now) {
            harness.handle_frame(&frame, now);
            quiet = false;
        }
        if quiet {
            return;
        }
    }
}

#[test]
fn a_second_handshake_of_an_active_stream_is_reset_and_the_stream_stays() {
    let now = Instant::now();
    let (mut executor, stream, mut harness) = pair(Reliability::Never, Limits::default(), now);
    executor.handle_frame(&handshake("s", Reliability::Never, now), now);
    assert_eq!(resets(&mut executor, now), ["s"]);
    harness.send(b"still here".to_vec()).unwrap();
    executor.handle_frame(&harness.poll_transmit(now).unwrap(), now);
    assert_eq!(executor.poll_message(stream, now).unwrap(), b"still here");
}

#[test]
fn a_second_handshake_of_a_pending_stream_ends_it_unless_it_is_a_copy_among_ours() {
    let now = Instant::now();
    let mut executor = executor(Limits::default());
    let first = handshake("s", Reliability::Never, now);
    executor.handle_frame(&first, now);
    let stream = validate(&mut executor);
    executor.handle_frame(&first, now);
    assert_eq!(resets(&mut executor, now), ["s"]);
    executor.approve(stream, &[4; 160], now);
    assert_eq!(executor.poll_transmit(now), None, "the first one is forgotten");

    let first = handshake("r", Reliability::Expect, now);
    executor.handle_frame(&first, now);
    let stream = validate(&mut executor);
    executor.handle_frame(&first, now);
    assert_eq!((executor.poll_transmit(now), executor.poll_event()), (None, None));
    executor.approve(stream, &[4; 160], now);
    let reply = executor.poll_transmit(now).unwrap();
    executor.handle_frame(&first, now);
    assert_eq!(executor.poll_transmit(now), Some(reply), "the answer again, the same bytes");
}

#[test]
fn streams_and_pending_handshakes_are_limited() {
    let now = Instant::now();
    let limits = Limits { streams_max: 2, pending_max: 2, ..Limits::default() };
    let mut executor = executor(limits);
    for name in ["a", "b", "c"] {
        executor.handle_frame(&handshake(name, Reliability::Never, now), now);
    }
    assert_eq!(resets(&mut executor, now), ["c"], "two may wait");
    for stream in [validate(&mut executor), validate(&mut executor)] {
        executor.approve(stream, &[4; 160], now);
        assert!(matches!(executor.poll_event(), Some(ExecutorEvent::Opened { .. })));
    }
    while executor.poll_transmit(now).is_some() {}
    executor.handle_frame(&handshake("d", Reliability::Never, now), now);
    assert_eq!(resets(&mut executor, now), ["d"], "two may be open");
    executor.handle_frame(&reset("a"), now);
    assert_eq!(resets(&mut executor, now), [""; 0], "a reset is not answered");
    assert!(matches!(executor.poll_event(), Some(ExecutorEvent::Closed { .. })));
    executor.handle_frame(&handshake("a", Reliability::Never, now), now);
    validate(&mut executor);
}

#[test]
fn eight_failures_pause_all_handshakes_for_ten_seconds() {
    let mut now = Instant::now();
    let (mut executor, stream, mut harness) = pair(Reliability::Never, Limits::default(), now);
    for number in 0..8 {
        let name = format!("bad {number}");
        match number {
            // Refused, too slow, spoilt by data: each is a failure.
            0 => {
                executor.handle_frame(&handshake(&name, Reliability::Never, now), now);
                let stream = validate(&mut executor);
                executor.refuse(stream, now);
            }
            1 => {
                executor.handle_frame(&handshake(&name, Reliability::Never, now), now);
                validate(&mut executor);
                now += Duration::from_secs(10);
                assert_eq!(executor.poll_timeout(), Some(now));
                executor.handle_timeout(now);
            }
            _ => executor.handle_frame(&garbage(&name), now),
        }
        assert_eq!(resets(&mut executor, now), [name]);
    }
    let good = handshake("good", Reliability::Never, now);
    executor.handle_frame(&good, now + Duration::from_millis(9999));
    assert_eq!(resets(&mut executor, now), ["good"]);
    harness.send(b"old streams go on".to_vec()).unwrap();
    executor.handle_frame(&harness.poll_transmit(now).unwrap(), now);
    assert!(executor.poll_message(stream, now).is_some());
    executor.poll_event();
    executor.handle_frame(&good, now + Duration::from_secs(10));
    validate(&mut executor);
}

#[test]
fn what_belongs_to_no_stream_is_answered_only_if_it_must_be() {
    let now = Instant::now();
    let mut executor = executor(Limits::default());
    let (_, _, mut other) = pair(Reliability::Never, Limits::default(), now);
    other.send(b"x".to_vec()).unwrap();
    executor.handle_frame(&other.poll_transmit(now).unwrap(), now);
    assert_eq!(resets(&mut executor, now), ["s"]);
    for body in [Body::Ack, Body::Heartbeat, Body::Resume { next_seq: 3 }] {
        executor.handle_frame(&Frame::plain("s", body.clone()).encode(), now);
        assert_eq!(resets(&mut executor, now), [""; 0]);
        let receipt = Some(exec_relay::Receipt { ack: 3, ack_bits: 0, limit: 67 });
        executor.handle_frame(&Frame { stream: "s".to_owned(), receipt, body }.encode(), now);
        assert_eq!(resets(&mut executor, now), ["s"], "one of ours must know that it is over");
    }
    executor.handle_frame(b"no frame", now);
    executor.handle_frame(&reset("s"), now);
    assert_eq!(resets(&mut executor, now), [""; 0]);
}

#[test]
fn frames_may_be_early_by_64_and_no_more() {
    let now = Instant::now();
    for (skipped, survives) in [(64, true), (65, false)] {
        let (mut executor, stream, mut harness) = pair(Reliability::Never, Limits::default(), now);
        let frames: Vec<Vec<u8>> = (0..=skipped)
            .map(|number| {
                harness.send(vec![number]).unwrap();
                harness.poll_transmit(now).unwrap()
            })
            .collect();
        executor.handle_frame(frames.last().unwrap(), now);
        let expected: &[&str] = if survives { &[] } else { &["s"] };
        assert_eq!(resets(&mut executor, now), expected);
        for frame in &frames {
            executor.handle_frame(frame, now);
            executor.handle_frame(frame, now);
        }
        let heard = std::iter::from_fn(|| executor.poll_message(stream, now)).count();
        assert_eq!(heard, if survives { frames.len() } else { 0 });
    }
}

#[test]
fn a_gap_in_a_plain_stream_is_reported() {
    let now = Instant::now();
    let (mut executor, stream, mut harness) = pair(Reliability::Never, Limits::default(), now);
    harness.send(b"lost".to_vec()).unwrap();
    harness.send(b"early".to_vec()).unwrap();
    drop(harness.poll_transmit(now));
    executor.handle_frame(&harness.poll_transmit(now).unwrap(), now);
    let due = executor.poll_timeout().unwrap();
    assert_eq!(due, now + Limits::default().gap);
    executor.handle_timeout(due);
    assert_eq!(resets(&mut executor, due), ["s"]);
    let reason = CloseReason::Lost;
    assert_eq!(executor.poll_event(), Some(ExecutorEvent::Closed { stream, reason }));
}

#[test]
fn unread_messages_reset_a_plain_stream_and_stop_a_reliable_one() {
    let now = Instant::now();
    let (mut executor, stream, mut harness) = pair(Reliability::Never, Limits::default(), now);
    for number in 0..129 {
        assert!(executor.has_room(stream), "{number}");
        harness.send(vec![number]).unwrap();
        exchange(&mut executor, &mut harness, now);
    }
    assert!(!executor.has_room(stream), "the 129th is too much");

    let (mut executor, stream, mut harness) = pair(Reliability::Offer, Limits::default(), now);
    let mut accepted = 0;
    while harness.has_room() {
        harness.send(vec![7; 10_000]).unwrap();
        accepted += 1;
        exchange(&mut executor, &mut harness, now);
    }
    assert!(matches!(harness.send(vec![7]), Err(SendError::Full(_))), "back-pressure is seen");
    assert!(executor.buffered_bytes() <= 3 << 20, "{}", executor.buffered_bytes());
    let mut heard = 0;
    while heard < accepted {
        let before = heard;
        heard += std::iter::from_fn(|| executor.poll_message(stream, now)).count();
        exchange(&mut executor, &mut harness, now);
        assert!(heard > before, "{heard} of {accepted}");
    }
    assert_eq!(harness.poll_event(), Some(HarnessEvent::Writable));
}

#[test]
fn a_lost_socket_is_a_pause_and_nothing_is_encrypted_twice() {
    let mut now = Instant::now();
    let (mut executor, stream, mut harness) = pair(Reliability::Offer, Limits::default(), now);
    harness.send(b"first".to_vec()).unwrap();
    let lost = Frame::decode(&harness.poll_transmit(now).unwrap()).unwrap();
    harness.handle_detached(now);
    assert_eq!(harness.poll_transmit(now), None);
    harness.send(b"second".to_vec()).unwrap();
    now += Duration::from_secs(20);
    harness.handle_timeout(now);
    harness.handle_attached(now);
    let resume = Frame::decode(&harness.poll_transmit(now).unwrap()).unwrap();
    assert_eq!(resume.body, Body::Resume { next_seq: 0 });
    let again = Frame::decode(&harness.poll_transmit(now).unwrap()).unwrap();
    assert_eq!(again.body, lost.body, "the same bytes");
    executor.handle_frame(&resume.encode(), now);
    executor.handle_frame(&again.encode(), now);
    exchange(&mut executor, &mut harness, now);
    assert_eq!(executor.poll_message(stream, now).unwrap(), b"first");
    assert_eq!(executor.poll_message(stream, now).unwrap(), b"second");

    harness.handle_detached(now);
    now += Limits::default().pause;
    harness.handle_timeout(now);
    assert_eq!(harness.poll_event(), Some(HarnessEvent::Closed(CloseReason::NotResumed)));
    executor.handle_timeout(now);
    let reason = CloseReason::Silent;
    let closed = std::iter::from_fn(|| executor.poll_event()).last();
    assert_eq!(closed, Some(ExecutorEvent::Closed { stream, reason }));
}

#[test]
fn a_plain_stream_ends_with_its_socket() {
    let now = Instant::now();
    let (mut executor, stream, mut harness) = pair(Reliability::Never, Limits::default(), now);
    executor.handle_detached(now);
    harness.handle_detached(now);
    let reason = CloseReason::Disconnected;
    assert_eq!(harness.poll_event(), Some(HarnessEvent::Closed(reason.clone())));
    assert_eq!(executor.poll_event(), Some(ExecutorEvent::Closed { stream, reason }));
    assert_eq!(executor.streams(), 0);
}

#[test]
fn what_was_sent_before_closing_is_delivered_before_the_end() {
    let now = Instant::now();
    for reliability in [Reliability::Never, Reliability::Offer] {
        let (mut executor, stream, mut harness) = pair(reliability, Limits::default(), now);
        executor.send(stream, b"last words".to_vec()).unwrap();
        executor.close(stream, now);
        assert_eq!(executor.send(stream, b"more".to_vec()), Err(SendError::NotOpen));
        exchange(&mut executor, &mut harness, now + Duration::from_millis(30));
        exchange(&mut executor, &mut harness, now + Duration::from_millis(60));
        assert_eq!(harness.poll_event(), None, "not before the message");
        assert_eq!(harness.poll_message(now).unwrap(), b"last words");
        let closed = harness.poll_event();
        assert!(matches!(closed, Some(HarnessEvent::Closed(CloseReason::Reset { .. }))));
        let reason = CloseReason::Closed;
        assert_eq!(executor.poll_event(), Some(ExecutorEvent::Closed { stream, reason }));
    }
}
