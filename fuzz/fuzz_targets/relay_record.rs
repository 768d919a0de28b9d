//! Any bytes as frames to two ends of the relay that have shaken hands.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| exec_relay::fuzz_record(data));
