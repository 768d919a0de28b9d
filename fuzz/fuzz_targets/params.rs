//! Any text as the parameters of any method.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| exec_fuzz::params(data));
