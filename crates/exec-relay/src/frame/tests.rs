//! Which frames are valid, and their bytes.

use super::*;

fn unhex(text: &str) -> Vec<u8> {
    (0..text.len())
        .step_by(2)
        .map(|at| u8::from_str_radix(&text[at..at + 2], 16).unwrap())
        .collect()
}

fn data(seq: u32, index: u32, count: u32, payload: &[u8]) -> Body {
    Body::Data(Data { seq, segment: Segment { index, count }, payload: payload.to_vec() })
}

#[test]
fn reliable_frames_are_as_written_down() {
    let receipt = |ack, ack_bits, limit| Receipt { ack, ack_bits, limit };
    let expected = [
        (receipt(0, 0, 64), Body::Handshake { payload: vec![1, 2, 3] }),
        (receipt(0, 0, 64), data(3, 1, 2, &[0xaa, 0xbb])),
        (receipt(5, 5, 69), data(0, 0, 1, &[0xaa])),
        (receipt(300, 0, 364), Body::Ack),
        (receipt(7, 0, 71), Body::Resume { next_seq: 7 }),
        (receipt(1, u32::MAX, u32::MAX), Body::Heartbeat),
    ];
    let text = include_str!("../../../../vectors/relay/reliable.hex");
    let lines: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
    assert_eq!(lines.len(), expected.len());
    for (line, (receipt, body)) in lines.iter().zip(expected) {
        let bytes = unhex(line.rsplit(' ').next().unwrap());
        let frame = Frame { stream: "s".to_owned(), receipt: Some(receipt), body };
        assert_eq!(Frame::decode(&bytes).as_ref(), Ok(&frame), "{line}");
        assert_eq!(frame.encode(), bytes, "{line}");
    }
}

#[test]
fn what_is_no_frame_is_refused() {
    let check = |stream: &str, reliable: bool, body: Body, valid: bool| {
        let receipt = reliable.then(Receipt::default);
        let frame = Frame { stream: stream.to_owned(), receipt, body };
        let decoded = Frame::decode(&frame.clone().encode());
        assert_eq!(decoded.is_ok(), valid, "{frame:?} is {decoded:?}");
    };
    check("s", false, Body::Ack, true);
    check("", false, Body::Ack, false);
    check(" \t", false, Body::Ack, false);
    check(&"s".repeat(128), false, Body::Ack, true);
    check(&"s".repeat(129), false, Body::Ack, false);
    check("s", false, Body::Reset { reason: String::new() }, false);
    check("s", false, Body::Handshake { payload: Vec::new() }, false);
    check("s", false, data(0, 0, 1, b"x"), true);
    check("s", false, data(0, 0, 1, b""), false);
    check("s", false, data(0, 0, 0, b"x"), false);
    check("s", false, data(0, 0, 2, b"x"), false);
    check("s", false, data(0, 1, 2, b"x"), false);
    check("s", true, data(0, 1, 2, b"x"), true);
    check("s", true, data(0, 2, 2, b"x"), false);
    check("s", true, data(0, 0, 0, b"x"), false);
    check("s", true, data(0, 3, 4, b"x"), true);
    check("s", true, data(0, 0, 5, b"x"), false);
    check("s", true, data(0, 0, 1, &[0; SEGMENT_BYTES_MAX]), true);
    check("s", true, data(0, 0, 1, &[0; SEGMENT_BYTES_MAX + 1]), false);
    check("s", false, data(0, 0, 1, &[0; FRAME_BYTES_MAX]), false);
    assert_eq!(Frame::decode(&[0x08, 2, 0x12, 1, b's', 0x32, 0]), Err(FrameError::Version(2)));
    assert_eq!(Frame::decode(&[0x08, 1, 0x12, 1, b's']), Err(FrameError::NoBody));
    assert_eq!(Frame::decode(b"{}"), Err(FrameError::Malformed));
}
