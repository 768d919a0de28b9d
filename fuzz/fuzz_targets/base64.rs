//! Any text as base64, and any bytes through it.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| exec_fuzz::base64(data));
