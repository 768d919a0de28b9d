//! Any bytes as WebSocket frames and as lines.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| exec_transport::fuzz_decode(data));
