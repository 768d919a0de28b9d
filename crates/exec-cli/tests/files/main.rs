//! The commands for files: the real binary on both sides, real files, a line that can be cut.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking, its helpers too")]

mod codex;
mod copy;
mod cut;
mod look;
mod support;
mod trouble;
mod watch;
