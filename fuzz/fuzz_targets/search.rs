//! Any text as the parameters of a search.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| exec_fuzz::search(data));
