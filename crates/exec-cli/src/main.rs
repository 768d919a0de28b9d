//! The `exec-server` binary.
fn main() {}
