//! Any text as the manifest of a plugin.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| exec_fuzz::plugin_manifest(data));
