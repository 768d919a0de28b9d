//! The fuzz corpus of the frame and line decoders, replayed with a stable compiler, and thousands of
//! mutations.

#[path = "../../../fuzz/src/replay.rs"]
mod replay;

#[test]
fn frames_and_lines_do_not_depend_on_how_they_are_cut() {
    replay::replay("ws_frames", 20_000, exec_transport::fuzz_decode);
}
