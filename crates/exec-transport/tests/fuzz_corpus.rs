//! The fuzz corpora of frames, lines and HTTP heads, replayed with a stable compiler, and thousands of
//! mutations.

#[path = "../../../fuzz/src/replay.rs"]
mod replay;

#[test]
fn frames_and_lines_do_not_depend_on_how_they_are_cut() {
    replay::replay("ws_frames", 20_000, exec_transport::fuzz_decode);
}

#[test]
fn an_http_head_is_judged_once() {
    replay::replay("http_head", 3_000, exec_transport::fuzz_http_head);
}
