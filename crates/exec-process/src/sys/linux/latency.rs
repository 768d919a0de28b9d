//! A short time slice for the server's threads.
//!
//! A thread that starts a child is woken when the child executes its program, and then has to get a
//! processor back from that very child. With an ordinary slice the scheduler often lets the child go
//! first, for most of a millisecond on a busy machine. A thread with a short slice goes first: it gets
//! no more time than others, but what it gets it gets at once. No privilege is needed.

use std::io;

/// The shortest slice the kernel grants, in nanoseconds.
const SLICE_NS: u64 = 100_000;
/// The thread's children and threads start with the ordinary slice.
const SCHED_FLAG_RESET_ON_FORK: u64 = 1;

/// `struct sched_attr` in its first version.
#[repr(C)]
#[derive(Default)]
struct SchedAttr {
    size: u32,
    policy: u32,
    flags: u64,
    nice: i32,
    priority: u32,
    runtime: u64,
    deadline: u64,
    period: u64,
}

/// Gives the calling thread a short time slice; for each worker of the runtime, as it starts. Since
/// Linux 6.12, and without effect before. A thread that is not an ordinary one stays as it is. Does
/// not pass to the thread's children; if the server has a negative nice value, neither does that.
pub fn shorten_time_slice() -> io::Result<()> {
    let mut attr = SchedAttr::default();
    let size = size_of::<SchedAttr>();
    // SAFETY: the call writes at most `size` bytes to the structure; 0 is this thread.
    check(unsafe { libc::syscall(libc::SYS_sched_getattr, 0, &raw mut attr, size, 0) })?;
    if attr.policy != libc::SCHED_OTHER.cast_unsigned() {
        return Ok(());
    }
    attr.runtime = SLICE_NS;
    attr.flags |= SCHED_FLAG_RESET_ON_FORK;
    // SAFETY: the call reads the structure, which says its own size; 0 is this thread.
    check(unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attr, 0) })
}

fn check(value: libc::c_long) -> io::Result<()> {
    if value < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_slice_is_granted_and_leaves_niceness_alone() {
        let niceness = || {
            // SAFETY: takes numbers only; 0 is this thread.
            unsafe { libc::getpriority(libc::PRIO_PROCESS, 0) }
        };
        let before = niceness();
        shorten_time_slice().unwrap();
        assert_eq!(niceness(), before);
        shorten_time_slice().unwrap();
    }
}
