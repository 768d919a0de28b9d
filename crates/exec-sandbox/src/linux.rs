//! Enforcement on Linux: namespaces, mounts, filters, and what this host has of them.

mod bounded;
pub mod bpf;
pub mod builtin;
pub mod bwrap;
pub(crate) mod inner;
pub mod landlock;
pub mod landlock_only;
pub mod placeholders;
pub mod probe;
pub mod proc_covers;
pub mod seccomp;
