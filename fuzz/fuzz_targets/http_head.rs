//! Any bytes as the head of an HTTP request or answer.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| exec_transport::fuzz_http_head(data));
