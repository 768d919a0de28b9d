//! Any text as a path.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| exec_fuzz::path_uri(data));
