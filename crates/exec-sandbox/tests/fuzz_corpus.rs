//! The fuzz corpus of this crate, replayed with a stable compiler, and thousands of mutations.

#[path = "../../../fuzz/src/replay.rs"]
mod replay;
#[path = "../../../fuzz/src/sandbox.rs"]
mod sandbox;

#[test]
fn any_intent_is_refused_or_planned() {
    replay::replay("sandbox", 5_000, sandbox::sandbox);
}
