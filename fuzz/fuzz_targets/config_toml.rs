//! Any text as configuration.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| exec_fuzz::config_toml(data));
