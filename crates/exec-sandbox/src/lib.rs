//! Confinement in four steps, each a value that the next one takes:
//!
//! ```text
//!   intent (wire)  ──►  policy (bound to this host)  ──►  plan (typed operations)  ──►  launch
//! ```
//!
//! Only the last step touches the system. A policy that cannot be enforced is refused before that.

pub mod denial;
pub mod explain;
pub mod launch;
pub mod legacy;
#[cfg(target_os = "linux")]
pub mod linux;
pub mod plan;
pub mod policy;
pub mod seatbelt;
pub mod windows;
