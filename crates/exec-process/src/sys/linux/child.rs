//! What the child does between its making and its program.
//!
//! It runs in the server's memory, on a stack of its own, while the thread that made it waits. So:
//! system calls only; no allocation, no lock, no panic, no thread-local storage.

use std::ffi::{CStr, CString, c_char, c_void};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicI32, Ordering};

use super::raw::{self, Errno};
use super::{capabilities, descriptors, signals, tag};

/// TIOCSCTTY, in the width of a register.
const TAKE_TERMINAL: usize = 0x540e;

/// CLONE_NEWPID.
const NEW_PROCESS_NAMESPACE: u64 = 0x2000_0000;

/// Everything the child needs, prepared by the parent, and the place for its error.
pub(super) struct ChildPlan<'a> {
    pub(super) candidates: &'a [CString],
    /// Executed instead of the candidates; above the numbers of `extra`.
    pub(super) program: Option<RawFd>,
    /// Ends with a null pointer, as does `env`.
    pub(super) argv: &'a [*const c_char],
    pub(super) env: &'a [*const c_char],
    pub(super) cwd: &'a CStr,
    /// For 0, 1 and 2; none of them is one of those numbers.
    pub(super) stdio: [RawFd; 3],
    /// For 3 and so on; all of them are above those numbers.
    pub(super) extra: &'a [OwnedFd],
    /// The `CLONE_NEW` flags of its own namespaces.
    pub(super) namespaces: u64,
    /// Kept over the exec.
    pub(super) capabilities: u64,
    /// Whether stdin is a terminal that the child is to control.
    pub(super) has_terminal: bool,
    pub(super) server_pid: i32,
    pub(super) tag: Option<u64>,
    /// Its limit on descriptors, if not the server's.
    pub(super) descriptor_limit: Option<[u64; 2]>,
    /// Its other limits: resource, soft, hard.
    pub(super) limits: &'a [(u32, u64, u64)],
    pub(super) reset_signals: u64,
    /// How far the child came, written by it: `NOT_RUN`, 0 when it went on to its program, or what
    /// went wrong.
    pub(super) outcome: AtomicI32,
}

/// The child has not run a single instruction of ours: something killed it at birth.
pub(super) const NOT_RUN: i32 = -1;

/// The child's entry point. `plan` is a `ChildPlan` of the suspended parent.
pub(super) extern "C" fn run(plan: *const c_void) -> ! {
    // SAFETY: the parent passes its plan, and is suspended as long as this child can use it.
    let plan = unsafe { &*plan.cast::<ChildPlan<'_>>() };
    plan.outcome.store(0, Ordering::Relaxed);
    let errno = match prepare(plan) {
        Ok(()) => execute(plan),
        Err(errno) => errno,
    };
    plan.outcome.store(errno, Ordering::Relaxed);
    raw::exit(127)
}

fn prepare(plan: &ChildPlan<'_>) -> Result<(), Errno> {
    raw::new_session()?;
    raw::die_with_parent(libc::SIGKILL)?;
    // The server may have died before the line above; then nobody would end this child. In a process
    // namespace of its own it sees no parent, and its program has to find out.
    let sees_parent = plan.namespaces & NEW_PROCESS_NAMESPACE == 0;
    if sees_parent && raw::parent_pid() != plan.server_pid {
        raw::exit(127);
    }
    let [stdin, stdout, stderr] = plan.stdio;
    raw::dup_onto(stdin, 0)?;
    raw::dup_onto(stdout, 1)?;
    raw::dup_onto(stderr, 2)?;
    if plan.has_terminal {
        // Without a controlling terminal, a resize never reaches the child as SIGWINCH.
        // SAFETY: this request takes a number only.
        unsafe { raw::syscall(libc::SYS_ioctl, [0, TAKE_TERMINAL, 0, 0, 0, 0]) }?;
    }
    if let Some(tag) = plan.tag {
        tag::wear(tag)?;
    }
    if let Some(limit) = plan.descriptor_limit {
        descriptors::set(limit)?;
    }
    for &(resource, soft, hard) in plan.limits {
        descriptors::set_limit(resource, [soft, hard])?;
    }
    raw::change_dir(plan.cwd)?;
    capabilities::keep_over_exec(plan.capabilities)?;
    let mut next: RawFd = 3;
    for descriptor in plan.extra {
        raw::dup_onto(descriptor.as_raw_fd(), next)?;
        next += 1;
    }
    // Marked, not closed: a failed exec still needs nothing of them, and exec closes them in one go.
    raw::close_from(next.cast_unsigned(), libc::CLOSE_RANGE_CLOEXEC)?;
    signals::reset(plan.reset_signals);
    signals::set_mask(0)?;
    Ok(())
}

/// Tries the candidates in order. Returns only with an error: as with `execvp`, a candidate that may
/// not be executed is remembered and one that does not exist is passed over.
fn execute(plan: &ChildPlan<'_>) -> Errno {
    let (argv, env) = (plan.argv.as_ptr().addr(), plan.env.as_ptr().addr());
    if let Some(program) = plan.program {
        let empty = c"".as_ptr().addr();
        let args = [program as usize, empty, argv, env, libc::AT_EMPTY_PATH as usize, 0];
        // SAFETY: the arrays hold C strings and end with a null pointer.
        return unsafe { raw::syscall(libc::SYS_execveat, args) }.err().unwrap_or(libc::EIO);
    }
    let mut result = libc::ENOENT;
    for candidate in plan.candidates {
        let args = [candidate.as_ptr().addr(), argv, env, 0, 0, 0];
        // SAFETY: the path is a C string, the arrays hold C strings and end with a null pointer.
        match unsafe { raw::syscall(libc::SYS_execve, args) } {
            Err(libc::EACCES) => result = libc::EACCES,
            Err(errno @ (libc::ENOENT | libc::ENOTDIR)) if result != libc::EACCES => result = errno,
            Err(libc::ENOENT | libc::ENOTDIR) | Ok(_) => {}
            Err(errno) => return errno,
        }
    }
    result
}
