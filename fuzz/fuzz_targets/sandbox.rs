//! Any text as a sandbox intent.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| exec_fuzz::sandbox(data));
