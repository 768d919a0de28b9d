//! The fuzz corpora of the files that this crate reads, replayed with a stable compiler, and
//! thousands of mutations.

#[path = "../../../fuzz/src/environment.rs"]
mod environment;
#[path = "../../../fuzz/src/replay.rs"]
mod replay;

use replay::replay;

#[test]
fn any_configuration_is_read_or_refused() {
    replay("config_toml", 400, environment::config_toml);
}

#[test]
fn any_skill_is_listed_or_left_out() {
    replay("skill", 400, environment::skill);
}

#[test]
fn any_manifest_names_only_what_is_below_it() {
    replay("plugin_manifest", 400, environment::plugin_manifest);
}
