//! What must hold for any HTTP request that a client asks for. Panics when it does not.

#![allow(unreachable_pub, reason = "public to the fuzz targets, private to the tests")]

/// Parameters that decode are refused, or prepared without any secret of the executor.
pub fn http_request(data: &[u8]) {
    if let Ok(params) = serde_json::from_slice(data) {
        exec_http::fuzz_prepare(params);
    }
}
