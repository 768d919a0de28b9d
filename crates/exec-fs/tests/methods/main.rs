//! Every method, row by row of the protocol's tables.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

#[path = "../support/mod.rs"]
mod support;

mod cached;
mod copying;
mod files;
mod searching;
mod streams;
mod trees;
mod watching;
