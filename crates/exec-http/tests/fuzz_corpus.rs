//! The fuzz corpus of request parameters, replayed with a stable compiler, and thousands of mutations.

#[path = "../../../fuzz/src/http.rs"]
mod http;
#[path = "../../../fuzz/src/replay.rs"]
mod replay;

#[test]
fn no_request_carries_what_it_must_not() {
    replay::replay("http_request", 10_000, http::http_request);
}
