//! The system layer on Linux 5.11 and later.
//!
//! Three kinds of code live here, and each file says which it is:
//! ordinary code in the server; code in a child that still shares the server's memory (`child`);
//! and code in a fork of the server (`guardian`, `sweep`). The last two may neither allocate nor
//! lock, since another thread may have held that lock when the child was made.

mod capabilities;
mod child;
mod clone;
mod descriptors;
mod latency;
mod reap;
mod signals;
mod spawn;
mod stdio;
mod wait;

mod cgroup;
mod cgroup_mount;
mod containment;
mod dirents;
mod guardian;
mod raw;
mod sweep;
mod tag;

pub use containment::{ContainedGroup, Containment, Mechanism};
pub use descriptors::{descriptor_limit, raise_descriptor_limit};
pub use latency::shorten_time_slice;
pub use reap::{needs_reaping, reap_strangers};
pub use spawn::{SpawnRequest, Spawned, spawn};
pub use stdio::{ChildStdio, read, set_window_size, write};
pub use wait::{
    ExitStatus, Usage, open_pidfd, signal_group, signal_process, try_wait, try_wait_with_usage,
};
