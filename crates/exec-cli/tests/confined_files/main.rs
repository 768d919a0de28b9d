//! File calls with a sandbox context, over the wire, made by the real binary: what they answer, what
//! they leave, and that nobody who races them gets further than a command would.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod bench;

mod answers;
mod lifetime;
mod races;
mod views;
