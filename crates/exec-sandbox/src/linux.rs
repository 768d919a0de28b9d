//! Enforcement on Linux: namespaces, mounts, filters, and what this host has of them.

pub mod bpf;
pub mod seccomp;
