//! Any bytes as a handshake message of the relay.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| exec_relay::fuzz_handshake(data));
