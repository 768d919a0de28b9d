//! The fuzz corpus of the rules loader, replayed with a stable compiler, and mutations of it.

#[path = "../../../fuzz/src/replay.rs"]
mod replay;
#[path = "../../../fuzz/src/rules.rs"]
mod rules;

#[test]
fn any_file_loads_or_is_refused() {
    replay::replay("rules", 1_000, rules::rules);
}
