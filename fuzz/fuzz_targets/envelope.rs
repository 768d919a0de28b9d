//! Any bytes as one message.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| exec_fuzz::envelope(data));
