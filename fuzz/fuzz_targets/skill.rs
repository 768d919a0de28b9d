//! Any text as a skill.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| exec_fuzz::skill(data));
