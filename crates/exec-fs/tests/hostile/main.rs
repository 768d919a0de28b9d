//! Paths, files and neighbours that mean no good.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

#[path = "../support/mod.rs"]
mod support;

mod disk;
mod large;
mod paths;
mod race;
mod special;
