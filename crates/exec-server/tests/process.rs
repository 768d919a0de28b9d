//! One process from its start to its close, as a client sees it.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod support;

#[path = "process/control.rs"]
mod control;
#[path = "process/environment.rs"]
mod environment;
#[path = "process/limits.rs"]
mod limits;
#[path = "process/output.rs"]
mod output;
#[path = "process/stdin.rs"]
mod stdin;
