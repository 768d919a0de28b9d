//! New processes: one that borrows the server's memory until it executes a program, and a fork.
//!
//! `posix_spawn` of the C library does the former too, but can neither place the child in a cgroup
//! nor name its parent-death signal, terminal or limits. Borrowing the memory makes the cost
//! independent of the server's size: a fork copies page tables, some 10 ms for a gigabyte.

use std::arch::asm;
use std::cell::Cell;
use std::ffi::c_void;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::ptr::{self, NonNull};

use super::raw::{self, Errno};

/// `clone3` flags that do not fit the `c_int` that the libc crate gives them.
const CLONE_CLEAR_SIGHAND: u64 = 1 << 32;
const CLONE_INTO_CGROUP: u64 = 1 << 33;

/// The system call that makes the child.
#[derive(Clone, Copy)]
pub(super) enum CloneCall<'f> {
    /// `clone3`: signal handlers are cleared by the kernel, and the child may start in a cgroup.
    Clone3 { cgroup: Option<BorrowedFd<'f>> },
    /// `clone`, where a seccomp filter older than `clone3` refuses that.
    Clone,
}

/// A process just made.
pub(super) struct Cloned {
    pub(super) pid: i32,
    pub(super) pidfd: OwnedFd,
}

/// Runs `entry` in a child that shares the server's memory, and returns once it has executed a
/// program or exited. Only the calling thread is suspended. `namespaces` are the `CLONE_NEW` flags of
/// those it does not share with the server.
///
/// # Safety
/// All signals must be blocked. `entry` must be sound to run with `argument` while the caller is
/// suspended, must not allocate, lock, panic or use thread-local storage, and must fit the stack.
pub(super) unsafe fn vfork(
    call: CloneCall<'_>,
    namespaces: u64,
    entry: extern "C" fn(*const c_void) -> !,
    argument: *const c_void,
) -> Result<Cloned, Errno> {
    let stack = match STACK.take() {
        Some(stack) => stack,
        None => ChildStack::new().map_err(|error| error.raw_os_error().unwrap_or(libc::ENOMEM))?,
    };
    let mut pidfd: RawFd = -1;
    let flags = (libc::CLONE_VM | libc::CLONE_VFORK | libc::CLONE_PIDFD) as u64 | namespaces;
    let value = match call {
        CloneCall::Clone3 { cgroup } => {
            let args = libc::clone_args {
                stack: stack.bottom() as u64,
                stack_size: STACK_BYTES as u64,
                ..clone3_args(flags, libc::SIGCHLD as u64, &mut pidfd, cgroup)
            };
            // SAFETY: the stack is ours alone until the call returns; the rest is the caller's word.
            unsafe { clone3_on_stack(&args, entry, argument) }
        }
        CloneCall::Clone => {
            let flags = flags | libc::SIGCHLD as u64;
            let top = stack.bottom() + STACK_BYTES;
            // SAFETY: as above.
            unsafe { clone_on_stack(flags, top, &raw mut pidfd, entry, argument) }
        }
    };
    STACK.set(Some(stack));
    finish(value, pidfd)
}

/// Forks the server. `None` in the child, which has only the calling thread and must not allocate
/// or lock. The child is waited for with `__WALL` only, so that no other part of the server that
/// waits for any child takes it away.
///
/// # Safety
/// In the child only code that neither allocates nor locks may follow, up to its exit.
pub(super) unsafe fn fork(cgroup: Option<BorrowedFd<'_>>) -> Result<Option<Cloned>, Errno> {
    let mut pidfd: RawFd = -1;
    let args = clone3_args(libc::CLONE_PIDFD as u64, 0, &mut pidfd, cgroup);
    let size = size_of_val(&args);
    // SAFETY: without CLONE_VM the child gets a copy of everything, its stack included.
    let value =
        unsafe { raw::syscall(libc::SYS_clone3, [(&raw const args).addr(), size, 0, 0, 0, 0]) };
    let value = match value {
        Err(libc::ENOSYS | libc::EPERM) if cgroup.is_none() => {
            let flags = libc::CLONE_PIDFD as usize;
            // SAFETY: as above; without a stack of its own the child continues here.
            unsafe { raw::syscall(libc::SYS_clone, [flags, 0, (&raw mut pidfd).addr(), 0, 0, 0]) }
        }
        value => value,
    };
    match value? {
        0 => Ok(None),
        pid => finish(pid.cast_signed(), pidfd).map(Some),
    }
}

fn clone3_args(
    flags: u64,
    exit_signal: u64,
    pidfd: &mut RawFd,
    cgroup: Option<BorrowedFd<'_>>,
) -> libc::clone_args {
    libc::clone_args {
        flags: flags | CLONE_CLEAR_SIGHAND | cgroup.map_or(0, |_| CLONE_INTO_CGROUP),
        pidfd: ptr::from_mut(pidfd).addr() as u64,
        child_tid: 0,
        parent_tid: 0,
        exit_signal,
        stack: 0,
        stack_size: 0,
        tls: 0,
        set_tid: 0,
        set_tid_size: 0,
        cgroup: cgroup.map_or(0, |dir| dir.as_raw_fd() as u64),
    }
}

fn finish(value: isize, pidfd: RawFd) -> Result<Cloned, Errno> {
    let pid = i32::try_from(value).map_err(|_| libc::EIO)?;
    if pid < 0 {
        return Err(-pid);
    }
    Ok(Cloned { pid, pidfd: raw::owned(pidfd as usize)? })
}

/// Room for the child's own frames: a few hundred bytes in a release build, a few kilobytes in a
/// debug build.
const STACK_BYTES: usize = 32 * 1024;

thread_local! {
    /// The stack on which this thread's children run, made with the first of them.
    static STACK: Cell<Option<ChildStack>> = const { Cell::new(None) };
}

/// A stack with a page below it that faults, so that an overflow cannot reach other memory.
struct ChildStack {
    mapping: NonNull<c_void>,
    guard_bytes: usize,
}

impl ChildStack {
    fn new() -> io::Result<Self> {
        // SAFETY: takes a number only.
        let guard_bytes = usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) })
            .map_err(|_| io::Error::last_os_error())?;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_STACK | libc::MAP_NORESERVE;
        let bytes = guard_bytes + STACK_BYTES;
        // SAFETY: a new mapping at an address of the kernel's choice overlaps nothing.
        let mapping = unsafe { libc::mmap(ptr::null_mut(), bytes, libc::PROT_NONE, flags, -1, 0) };
        if mapping == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let mapping = NonNull::new(mapping).ok_or(io::ErrorKind::OutOfMemory)?;
        let stack = ChildStack { mapping, guard_bytes };
        let access = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: the range is the mapping made above, without its first page.
        if unsafe { libc::mprotect(stack.bottom() as *mut c_void, STACK_BYTES, access) } != 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(stack)
    }

    fn bottom(&self) -> usize {
        self.mapping.as_ptr() as usize + self.guard_bytes
    }
}

impl Drop for ChildStack {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, and no child runs on it: `vfork` returns it only afterwards.
        unsafe { libc::munmap(self.mapping.as_ptr(), self.guard_bytes + STACK_BYTES) };
    }
}

#[cfg(target_arch = "x86_64")]
unsafe fn clone3_on_stack(
    args: &libc::clone_args,
    entry: extern "C" fn(*const c_void) -> !,
    argument: *const c_void,
) -> isize {
    let value: isize;
    // SAFETY: the parent gets its registers back but rax, rcx and r11. The child starts on the stack
    // in `args`, aligned as the ABI wants before a call, and leaves this block only into `entry`.
    unsafe {
        asm!(
            "syscall",
            "test rax, rax",
            "jnz 2f",
            "xor ebp, ebp",
            "mov rdi, r9",
            "call r8",
            "ud2",
            "2:",
            inlateout("rax") libc::SYS_clone3 => value,
            in("rdi") ptr::from_ref(args), in("rsi") size_of::<libc::clone_args>(),
            in("r8") entry, in("r9") argument,
            lateout("rcx") _, lateout("r11") _,
        );
    }
    value
}

#[cfg(target_arch = "x86_64")]
unsafe fn clone_on_stack(
    flags: u64,
    top: usize,
    pidfd: *mut RawFd,
    entry: extern "C" fn(*const c_void) -> !,
    argument: *const c_void,
) -> isize {
    let value: isize;
    // SAFETY: as in `clone3_on_stack`. r8 is the thread pointer argument, ignored without
    // CLONE_SETTLS, so the entry travels in r12.
    unsafe {
        asm!(
            "syscall",
            "test rax, rax",
            "jnz 2f",
            "xor ebp, ebp",
            "mov rdi, r13",
            "call r12",
            "ud2",
            "2:",
            inlateout("rax") libc::SYS_clone => value,
            in("rdi") flags, in("rsi") top, in("rdx") pidfd, in("r10") 0usize, in("r8") 0usize,
            in("r12") entry, in("r13") argument,
            lateout("rcx") _, lateout("r11") _,
        );
    }
    value
}

#[cfg(target_arch = "aarch64")]
unsafe fn clone3_on_stack(
    args: &libc::clone_args,
    entry: extern "C" fn(*const c_void) -> !,
    argument: *const c_void,
) -> isize {
    let value: isize;
    // SAFETY: the parent gets its registers back but x0. The child starts on the stack in `args`,
    // and leaves this block only into `entry`.
    unsafe {
        asm!(
            "svc 0",
            "cbnz x0, 2f",
            "mov x29, xzr",
            "mov x0, x10",
            "blr x9",
            "brk #1",
            "2:",
            in("x8") libc::SYS_clone3,
            inlateout("x0") ptr::from_ref(args).addr() as isize => value,
            in("x1") size_of::<libc::clone_args>(),
            in("x9") entry, in("x10") argument,
        );
    }
    value
}

#[cfg(target_arch = "aarch64")]
unsafe fn clone_on_stack(
    flags: u64,
    top: usize,
    pidfd: *mut RawFd,
    entry: extern "C" fn(*const c_void) -> !,
    argument: *const c_void,
) -> isize {
    let value: isize;
    // SAFETY: as in `clone3_on_stack`.
    unsafe {
        asm!(
            "svc 0",
            "cbnz x0, 2f",
            "mov x29, xzr",
            "mov x0, x10",
            "blr x9",
            "brk #1",
            "2:",
            in("x8") libc::SYS_clone,
            inlateout("x0") flags as isize => value,
            in("x1") top, in("x2") pidfd, in("x3") 0usize, in("x4") 0usize,
            in("x9") entry, in("x10") argument,
        );
    }
    value
}
