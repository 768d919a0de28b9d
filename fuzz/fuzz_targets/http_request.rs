//! Any text as the parameters of an HTTP request.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| exec_fuzz::http_request(data));
