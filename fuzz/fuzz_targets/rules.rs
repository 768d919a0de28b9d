//! Any text as a rules file.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| exec_fuzz::rules(data));
