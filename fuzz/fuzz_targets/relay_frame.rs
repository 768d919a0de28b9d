//! Any bytes as a frame of the relay.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| exec_relay::fuzz_frame(data));
