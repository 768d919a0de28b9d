//! Tables for the decoder, and random streams cut at random places.

use proptest::prelude::*;

use super::*;
use crate::ws::Encoder;

const LIMITS: Limits =
    Limits { frame_bytes_max: 200, message_bytes_max: 300, send_fragment_bytes: 64 };

const KEY: [u8; 4] = [0x37, 0xfa, 0x21, 0x3d];

/// A masked frame, as a client sends it. `first` holds FIN, RSV and the opcode.
fn frame(first: u8, payload: &[u8]) -> Vec<u8> {
    let header =
        Header { fin: true, opcode: Opcode::Text, mask: Some(KEY), len: payload.len() as u64 };
    let (mut bytes, size) = header.encode();
    bytes[0] = first;
    let mut out = bytes[..size].to_vec();
    out.extend_from_slice(payload);
    mask::apply(&mut out[size..], KEY, 0);
    out
}

fn events(role: Role, bytes: &[u8], step: usize) -> (Vec<Event>, Option<String>) {
    let mut decoder = Decoder::new(role, LIMITS);
    let mut found = Vec::new();
    for mut piece in bytes.chunks(step.max(1)) {
        loop {
            match decoder.decode(&mut piece) {
                Ok(Some(event)) => found.push(event),
                Ok(None) => break,
                Err(error) => return (found, Some(error.to_string())),
            }
        }
        assert!(piece.is_empty());
    }
    (found, None)
}

fn check(frames: &[Vec<u8>], expected: &[Event], error: Option<&str>) {
    let bytes = frames.concat();
    for step in 1..=bytes.len() {
        let (found, end) = events(Role::Server, &bytes, step);
        assert_eq!(found, expected, "{bytes:x?} in steps of {step}");
        assert_eq!(end.as_deref(), error, "{bytes:x?} in steps of {step}");
    }
}

fn message(bytes: &[u8]) -> Event {
    Event::Message(bytes.to_vec())
}

#[test]
fn messages_of_one_frame_and_of_several() {
    check(&[frame(0x81, b"hello")], &[message(b"hello")], None);
    check(&[frame(0x82, b"\xff\xfe")], &[message(b"\xff\xfe")], None);
    check(&[frame(0x81, b"")], &[message(b"")], None);
    check(&[frame(0x81, &[b'x'; 150])], &[message(&[b'x'; 150])], None);
    check(
        &[frame(0x01, b"he"), frame(0x00, b""), frame(0x80, b"llo"), frame(0x81, b"two")],
        &[message(b"hello"), message(b"two")],
        None,
    );
    // A character cut in two by fragments is whole again in the message.
    check(&[frame(0x01, b"\xc3"), frame(0x80, b"\xa9")], &[message("é".as_bytes())], None);
}

#[test]
fn control_frames_stand_between_fragments() {
    check(
        &[frame(0x01, b"he"), frame(0x89, b"p"), frame(0x8a, b"ignored"), frame(0x80, b"llo")],
        &[Event::Ping(b"p".to_vec()), message(b"hello")],
        None,
    );
    check(&[frame(0x89, &[7; 125])], &[Event::Ping(vec![7; 125])], None);
    check(&[frame(0x8a, b"")], &[], None);
}

#[test]
fn close_frames_carry_nothing_or_a_status() {
    check(&[frame(0x88, b"")], &[Event::Close(None)], None);
    check(&[frame(0x88, b"\x03\xe8")], &[Event::Close(Some(1000))], None);
    check(&[frame(0x88, b"\x0f\xa0bye")], &[Event::Close(Some(4000))], None);
    let error = |text| format!("websocket protocol violation: {text}");
    let half = error("close frame with half a status");
    check(&[frame(0x88, b"\x03")], &[], Some(&half));
    let reserved = error("close frame with a reserved status");
    for code in [0_u16, 999, 1004, 1005, 1006, 1015, 2999, 5000] {
        check(&[frame(0x88, &code.to_be_bytes())], &[], Some(&reserved));
    }
    let reason = error("close reason is not utf-8");
    check(&[frame(0x88, b"\x03\xe8\xff")], &[], Some(&reason));
}

#[test]
fn violations_are_errors() {
    let table: &[(&[Vec<u8>], &str)] = &[
        (&[vec![0x81, 0x01, b'x']], "unmasked client frame"),
        (&[frame(0x83, b"")], "reserved opcode"),
        (&[frame(0x8b, b"")], "reserved opcode"),
        (&[frame(0xc1, b"")], "reserved bit set"),
        (&[frame(0xa1, b"")], "reserved bit set"),
        (&[frame(0x91, b"")], "reserved bit set"),
        (&[frame(0x80, b"x")], "continuation of no message"),
        (&[frame(0x01, b"x"), frame(0x81, b"x")], "new message inside a fragmented one"),
        (&[frame(0x01, b"x"), frame(0x02, b"x")], "new message inside a fragmented one"),
        (&[frame(0x09, b"")], "fragmented control frame"),
        (&[frame(0x89, &[0; 126])], "control frame over 125 bytes"),
    ];
    for (frames, text) in table {
        check(frames, &[], Some(&format!("websocket protocol violation: {text}")));
    }
    let (_, end) = events(Role::Client, &frame(0x81, b"x"), 99);
    assert_eq!(end.as_deref(), Some("websocket protocol violation: masked server frame"));
}

#[test]
fn text_must_be_utf8_and_binary_need_not() {
    check(&[frame(0x81, b"\xff")], &[], Some("message is not valid utf-8"));
    check(&[frame(0x01, b"\xc3"), frame(0x80, b"x")], &[], Some("message is not valid utf-8"));
}

#[test]
fn limits_are_exact_and_checked_before_the_payload() {
    check(&[frame(0x81, &[b'x'; 200])], &[message(&[b'x'; 200])], None);
    let (found, end) = events(Role::Server, &frame(0x81, &[b'x'; 201])[..8], 99);
    assert!(found.is_empty());
    assert_eq!(end.as_deref(), Some("websocket frame of 201 bytes is over the limit of 200"));

    let halves = [frame(0x01, &[b'x'; 150]), frame(0x80, &[b'x'; 150])];
    check(&halves, &[message(&[b'x'; 300])], None);
    let over = [frame(0x01, &[b'x'; 150]), frame(0x80, &[b'x'; 151])];
    check(&over, &[], Some("message of at least 301 bytes is over the limit of 300"));

    let huge = [0x82, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0];
    let (_, end) = events(Role::Server, &huge, 1);
    assert!(end.unwrap().contains("over the limit of 200"));
}

#[test]
fn an_announced_length_reserves_nothing() {
    let mut decoder = Decoder::new(Role::Server, Limits::default());
    let mut input: &[u8] = &[0x82, 0xff, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 1, 2, 3];
    assert_eq!(decoder.decode(&mut input).unwrap(), None);
    assert!(decoder.message.capacity() <= 16);
}

#[test]
fn a_complete_message_has_no_spare_capacity() {
    let mut decoder = Decoder::new(Role::Server, LIMITS);
    let bytes = frame(0x81, &[b'x'; 100]);
    match decoder.decode(&mut bytes.as_slice()).unwrap() {
        Some(Event::Message(message)) => assert_eq!(message.capacity(), 100),
        other => panic!("{other:?}"),
    }
}

/// One thing a client sends, with the event it should cause.
#[derive(Debug, Clone)]
enum Sent {
    Message(Vec<u8>),
    Ping(Vec<u8>),
    Pong,
}

fn sent() -> impl Strategy<Value = Sent> {
    prop_oneof![
        proptest::collection::vec(0x20_u8..0x7f, 0..300).prop_map(Sent::Message),
        proptest::collection::vec(any::<u8>(), 0..126).prop_map(Sent::Ping),
        Just(Sent::Pong),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..Default::default() })]

    #[test]
    fn any_split_yields_the_same_messages(
        items in proptest::collection::vec(sent(), 0..12),
        steps in proptest::collection::vec(1_usize..90, 1..40),
    ) {
        let mut encoder = Encoder::new(Role::Client, LIMITS).unwrap();
        let mut bytes = Vec::new();
        let mut expected = Vec::new();
        for item in items {
            match item {
                Sent::Message(text) => {
                    encoder.message(&mut bytes, text.len(), |v| v.extend_from_slice(&text)).unwrap();
                    expected.push(Event::Message(text));
                }
                Sent::Ping(payload) => {
                    encoder.control(&mut bytes, Opcode::Ping, &payload);
                    expected.push(Event::Ping(payload));
                }
                Sent::Pong => encoder.control(&mut bytes, Opcode::Pong, b"x"),
            }
        }
        let mut decoder = Decoder::new(Role::Server, LIMITS);
        let mut found = Vec::new();
        let mut rest = bytes.as_slice();
        for step in steps.iter().cycle() {
            if rest.is_empty() {
                break;
            }
            let (mut piece, after) = rest.split_at((*step).min(rest.len()));
            rest = after;
            while let Some(event) = decoder.decode(&mut piece).unwrap() {
                found.push(event);
            }
        }
        prop_assert_eq!(found, expected);
    }

    #[test]
    fn arbitrary_bytes_never_contradict_themselves(
        bytes in proptest::collection::vec(any::<u8>(), 0..600),
    ) {
        crate::ws::fuzz_decode(&bytes);
    }
}
