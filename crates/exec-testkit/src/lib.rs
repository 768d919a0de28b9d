//! What tests share: raw peers, the real codex binary, a scripted model, vectors.
//!
//! Nothing in here uses our own transport or protocol crates: a test that spoke through the code it
//! tests would agree with its mistakes.

mod skip;

pub mod peer;

pub mod probe;

pub mod server;

pub mod codex;

pub mod leaks;

pub mod web;

pub mod vector;

pub mod model;

pub mod tap;

pub mod codex_exec;

pub mod scenarios;

pub use skip::skip;
