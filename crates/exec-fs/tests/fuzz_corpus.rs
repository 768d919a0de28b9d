//! The fuzz corpus of search parameters, replayed with a stable compiler, and thousands of mutations.

#[path = "../../../fuzz/src/replay.rs"]
mod replay;
#[path = "../../../fuzz/src/search.rs"]
mod search;

#[test]
fn any_search_ends_within_its_limits() {
    replay::replay("search", 2_000, search::search);
}
