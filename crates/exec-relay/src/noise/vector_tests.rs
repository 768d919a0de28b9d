//! The published vectors, byte for byte.

use super::*;
use crate::frame::{Body, Data, Frame, Segment};

const STREAM: &str = "00000000-0000-4000-8000-000000000001";
const CONTEXT: Context<'_> =
    Context { environment_id: "env-1", registration_id: "reg-1", stream_id: STREAM };

fn identity(first: u8) -> Identity {
    Identity::from_seed(seed(&[first, first + 1, first + 2]))
}

fn seed<const N: usize>(parts: &[u8]) -> [u8; N] {
    let bytes: Vec<u8> = parts.iter().flat_map(|&part| [part; 32]).collect();
    bytes.try_into().unwrap()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn sha256(bytes: &[u8]) -> String {
    use sha2::Digest as _;
    hex(&sha2::Sha256::digest(bytes))
}

/// The value of a line of the file; lines that begin with a blank continue the one before.
fn vector(name: &str) -> String {
    let text = include_str!("../../../../vectors/relay/handshake.hex");
    let mut found = None::<String>;
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        match (line.strip_prefix(' '), &mut found) {
            (Some(more), Some(found)) => found.push_str(more.trim()),
            (Some(_), None) => {}
            (None, Some(_)) => break,
            (None, None) => {
                found = line
                    .split_once(':')
                    .filter(|(key, _)| *key == name)
                    .map(|(_, value)| value.trim().to_owned());
            }
        }
    }
    found.unwrap_or_else(|| panic!("no vector {name}"))
}

#[test]
fn identities_and_prologue() {
    let (executor, harness) = (identity(1).public_key(), identity(0x11).public_key());
    assert_eq!(hex(executor.x25519()), vector("executor x25519"));
    assert_eq!(sha256(executor.mlkem768()), vector("executor mlkem768 sha256"));
    assert_eq!(hex(harness.x25519()), vector("harness x25519"));
    assert_eq!(sha256(harness.mlkem768()), vector("harness mlkem768 sha256"));
    assert_eq!(hex(&CONTEXT.prologue()), vector("prologue"));
}

#[test]
fn a_whole_handshake_and_the_first_record() {
    let (executor, harness) = (identity(1), identity(0x11));
    let entropy = seed(&[0x21, 0x22, 0x23, 0x24]);
    let key = executor.public_key();
    let (initiator, message1) =
        Initiator::start(CONTEXT, &harness, &key, "authz-token", &entropy).unwrap();
    assert_eq!(message1.len(), 3579);
    assert_eq!(sha256(&message1), vector("message 1 sha256"));
    assert_eq!(hex(&message1[..32]), vector("message 1 begins"));
    assert_eq!(hex(&message1[3552..]), vector("message 1 ends"));

    let (responder, request) = Responder::read(CONTEXT, &executor, &message1).unwrap();
    assert_eq!(request.harness, harness.public_key());
    assert_eq!(request.authorization, "authz-token");
    assert_eq!(hex(&*responder.0.get_state().get_hash()), vector("h after message 1"));
    let entropy = seed(&[0x31, 0x32, 0x33, 0x34, 0x35]);
    let (executor, message2) = responder.accept(&entropy).unwrap();
    assert_eq!(sha256(&message2), vector("message 2 sha256"));
    assert_eq!(hex(&message2[3408..]), vector("message 2 ends"));

    let mut harness = initiator.finish(&message2).unwrap();
    let record = harness.seal(&first_plaintext()).unwrap();
    assert_eq!(hex(&record), vector("first record"));
    for channel in [harness, executor] {
        let (there, back, hash) = channel.into_secrets();
        assert_eq!(hex(&there), vector("key harness to executor"));
        assert_eq!(hex(&back), vector("key executor to harness"));
        assert_eq!(hex(&hash), vector("handshake hash"));
    }
}

fn first_plaintext() -> Vec<u8> {
    let message =
        br#"{"id":1,"method":"initialize","params":{"clientName":"t","resumeSessionId":null}}"#;
    let mut writer = crate::segment::MessageWriter::default();
    writer.push(message);
    writer.next_record().unwrap()
}

#[test]
fn frames() {
    let record: Vec<u8> = (0..202)
        .step_by(2)
        .map(|at| u8::from_str_radix(&vector("first record")[at..at + 2], 16).unwrap())
        .collect();
    let check = |name: &str, body: Body| {
        let frame = Frame::plain(STREAM, body);
        let bytes = frame.clone().encode();
        assert_eq!(hex(&bytes), format!("{}{}", vector("frame prefix"), vector(name)), "{name}");
        assert_eq!(Frame::decode(&bytes), Ok(frame));
    };
    let data = |seq| Body::Data(Data { seq, segment: Segment::WHOLE, payload: record.clone() });
    check("frame resume", Body::Resume { next_seq: 0 });
    check("frame data 0", data(0));
    check("frame data 1", data(1));
    check("frame reset", Body::Reset { reason: "noise_relay_protocol_error".to_owned() });
    check("frame heartbeat", Body::Heartbeat);
}

#[test]
fn a_long_authorization_is_refused_on_both_sides() {
    let (executor, harness) = (identity(1), identity(0x11));
    let start = |length: usize| {
        let entropy = [7; HARNESS_ENTROPY_BYTES];
        Initiator::start(CONTEXT, &harness, &executor.public_key(), &"a".repeat(length), &entropy)
    };
    let (_, message) = start(AUTHORIZATION_BYTES_MAX).unwrap();
    assert!(Responder::read(CONTEXT, &executor, &message).is_ok());
    assert_eq!(start(AUTHORIZATION_BYTES_MAX + 1).err(), Some(NoiseError::Authorization));
    let long = [&message[..], &[0]].concat();
    let read = Responder::read(CONTEXT, &executor, &long);
    assert_eq!(read.err(), Some(NoiseError::Authorization));
}

#[test]
fn another_context_does_not_fit() {
    let (executor, harness) = (identity(1), identity(0x11));
    let entropy = [7; HARNESS_ENTROPY_BYTES];
    let key = executor.public_key();
    let (_, message) = Initiator::start(CONTEXT, &harness, &key, "t", &entropy).unwrap();
    for context in [
        Context { environment_id: "env-2", ..CONTEXT },
        Context { registration_id: "reg-2", ..CONTEXT },
        Context { stream_id: "other", ..CONTEXT },
        // The same bytes, cut elsewhere.
        Context { environment_id: "env-1r", registration_id: "eg-1", ..CONTEXT },
    ] {
        let read = Responder::read(context, &executor, &message);
        assert_eq!(read.err(), Some(NoiseError::Handshake));
    }
}

#[test]
fn degenerate_keys_are_refused() {
    let harness = identity(0x11);
    let zero = PublicKey::new([0; 32], identity(1).public_key().mlkem768).unwrap();
    let entropy = [7; HARNESS_ENTROPY_BYTES];
    assert!(Initiator::start(CONTEXT, &harness, &zero, "t", &entropy).is_err());
    let mut unreduced = identity(1).public_key().mlkem768;
    unreduced[..2].fill(0xff);
    assert!(PublicKey::new([9; 32], unreduced).is_err());
}
