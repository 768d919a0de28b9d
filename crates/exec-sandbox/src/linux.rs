//! Confinement on Linux: a plan, carried out by what this kernel has.

pub mod builtin;
pub(crate) mod inner;
mod second_layer;
