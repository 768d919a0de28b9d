//! The system layer: children started in the shortest way the kernel has, and groups of processes
//! that can be killed whole.
//!
//! This module owns everything that speaks to the kernel about processes. It knows nothing of
//! sessions, output logs or the wire; it never waits for a child and has no threads of its own.
//!
//! * [`spawn`] starts a program on pipes or a terminal. The caller is suspended until the child has
//!   executed the program or failed to, nothing more.
//! * [`Containment`] is the server-wide promise that nothing a client started outlives the server,
//!   not even a server killed with SIGKILL. Each child gets a [`ContainedGroup`], which kills every
//!   descendant of it wherever it hid.
//! * [`read`], [`write`], [`try_wait`], [`signal_group`], [`set_window_size`] and [`reap_strangers`]
//!   are the rest of a child's life. [`shorten_time_slice`] gets a thread that starts children back
//!   on a processor sooner.
//!
//! Another platform is another folder beside `linux`.

#[cfg(target_os = "linux")]
mod linux;

#[cfg(target_os = "linux")]
pub use linux::{
    ChildStdio, ContainedGroup, Containment, ExitStatus, Mechanism, SpawnRequest, Spawned, Usage,
    descriptor_limit, needs_reaping, open_pidfd, raise_descriptor_limit, read, reap_strangers,
    set_window_size, shorten_time_slice, signal_group, signal_process, spawn, try_wait,
    try_wait_with_usage, write,
};

#[cfg(not(target_os = "linux"))]
compile_error!("exec-process has no system layer for this platform yet; add a folder in src/sys");
