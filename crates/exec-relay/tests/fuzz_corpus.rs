//! The fuzz corpora of the relay, replayed with a stable compiler, and thousands of mutations.

#[path = "../../../fuzz/src/replay.rs"]
mod replay;

#[test]
fn frames_mean_the_same_when_encoded_again() {
    replay::replay("relay_frame", 20_000, exec_relay::fuzz_frame);
}

#[test]
fn handshakes_that_nobody_signed_open_nothing() {
    replay::replay("relay_handshake", 500, exec_relay::fuzz_handshake);
}

#[test]
fn records_that_nobody_sent_are_not_delivered() {
    replay::replay("relay_record", 500, exec_relay::fuzz_record);
}
