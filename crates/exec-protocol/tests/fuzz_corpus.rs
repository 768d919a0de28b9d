//! The fuzz corpora of this crate, replayed with a stable compiler, and thousands of mutations.

#[path = "../../../fuzz/src/properties.rs"]
mod properties;
#[path = "../../../fuzz/src/replay.rs"]
mod replay;

use replay::replay;

#[test]
fn any_message_is_read_or_refused() {
    replay("envelope", 20_000, properties::envelope);
}

#[test]
fn any_params_decode_or_are_refused() {
    replay("params", 20_000, properties::params);
}

#[test]
fn any_path_is_stable_or_refused() {
    replay("path_uri", 20_000, properties::path_uri);
}

#[test]
fn any_text_is_base64_or_refused() {
    replay("base64", 20_000, properties::base64);
}
