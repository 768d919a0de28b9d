//! System calls without the C library, for code that runs in a child before it executes a program.
//!
//! A child made with `CLONE_VM` shares the server's thread-local storage, so even `errno` is out of
//! bounds there. Nothing in this file allocates, locks, panics or touches thread-local storage.

use std::arch::asm;
use std::ffi::{CStr, c_int, c_long, c_uint};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

/// An error number as the kernel gives it, positive.
pub(super) type Errno = i32;

/// The same result for the rest of the server.
pub(super) fn raw_result<T>(result: Result<T, Errno>) -> io::Result<T> {
    result.map_err(io::Error::from_raw_os_error)
}

/// Makes one system call.
///
/// # Safety
/// The arguments must be what the call documents; memory it reads or writes must be valid.
pub(super) unsafe fn syscall(number: c_long, args: [usize; 6]) -> Result<usize, Errno> {
    // SAFETY: passed on to the caller.
    let value = unsafe { trap(number, args) };
    // The kernel keeps the last page of the number space for errors.
    if (-4095..0).contains(&value) {
        Err(Errno::try_from(-value).unwrap_or(libc::EIO))
    } else {
        Ok(value.cast_unsigned())
    }
}

#[cfg(target_arch = "x86_64")]
unsafe fn trap(number: c_long, [a, b, c, d, e, f]: [usize; 6]) -> isize {
    let value: isize;
    // SAFETY: the registers are those of the x86_64 system call convention; the kernel changes only
    // rax, rcx and r11, and memory as the caller of `syscall` vouches for.
    unsafe {
        asm!(
            "syscall",
            inlateout("rax") number => value,
            in("rdi") a, in("rsi") b, in("rdx") c, in("r10") d, in("r8") e, in("r9") f,
            lateout("rcx") _, lateout("r11") _,
            options(nostack),
        );
    }
    value
}

#[cfg(target_arch = "aarch64")]
unsafe fn trap(number: c_long, [a, b, c, d, e, f]: [usize; 6]) -> isize {
    let value: isize;
    // SAFETY: the registers are those of the aarch64 system call convention; the kernel changes only
    // x0, and memory as the caller of `syscall` vouches for.
    unsafe {
        asm!(
            "svc 0",
            in("x8") number,
            inlateout("x0") a as isize => value,
            in("x1") b, in("x2") c, in("x3") d, in("x4") e, in("x5") f,
            options(nostack),
        );
    }
    value
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
compile_error!("exec-process makes its own system calls on x86_64 and aarch64 only");

/// Opens a path below `dir`, always close-on-exec.
pub(super) fn open_at(dir: RawFd, path: &CStr, flags: c_int) -> Result<OwnedFd, Errno> {
    let flags = (flags | libc::O_CLOEXEC) as usize;
    // SAFETY: the path is a C string that outlives the call.
    let fd =
        unsafe { syscall(libc::SYS_openat, [dir as usize, path.as_ptr().addr(), flags, 0, 0, 0])? };
    owned(fd)
}

/// Takes charge of a descriptor that a system call has just made.
pub(super) fn owned(fd: usize) -> Result<OwnedFd, Errno> {
    let fd = RawFd::try_from(fd).map_err(|_| libc::EBADF)?;
    // SAFETY: the kernel has just made this descriptor for us, and nobody else knows it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Reads once; an interrupted read is made again.
pub(super) fn read(fd: BorrowedFd<'_>, buffer: &mut [u8]) -> Result<usize, Errno> {
    let args = [fd.as_raw_fd() as usize, buffer.as_mut_ptr().addr(), buffer.len(), 0, 0, 0];
    loop {
        // SAFETY: the buffer is valid for writes of its length.
        match unsafe { syscall(libc::SYS_read, args) } {
            Err(libc::EINTR) => {}
            done => return done,
        }
    }
}

/// Writes once.
pub(super) fn write(fd: BorrowedFd<'_>, bytes: &[u8]) -> Result<usize, Errno> {
    let args = [fd.as_raw_fd() as usize, bytes.as_ptr().addr(), bytes.len(), 0, 0, 0];
    // SAFETY: the bytes are valid for reads of their length.
    unsafe { syscall(libc::SYS_write, args) }
}

/// Removes an empty directory below `dir`.
pub(super) fn remove_dir_at(dir: BorrowedFd<'_>, name: &CStr) -> Result<(), Errno> {
    let flags = libc::AT_REMOVEDIR as usize;
    let args = [dir.as_raw_fd() as usize, name.as_ptr().addr(), flags, 0, 0, 0];
    // SAFETY: the name is a C string that outlives the call.
    unsafe { syscall(libc::SYS_unlinkat, args) }.map(drop)
}

/// Copies a descriptor onto a number, open across exec.
pub(super) fn dup_onto(source: RawFd, target: RawFd) -> Result<(), Errno> {
    // SAFETY: takes numbers only.
    unsafe { syscall(libc::SYS_dup3, [source as usize, target as usize, 0, 0, 0, 0]) }.map(drop)
}

/// Closes, or with `CLOSE_RANGE_CLOEXEC` marks, every descriptor from `first` on.
pub(super) fn close_from(first: c_uint, flags: c_uint) -> Result<(), Errno> {
    let args = [first as usize, c_uint::MAX as usize, flags as usize, 0, 0, 0];
    // SAFETY: takes numbers only. The caller is a child about to execute or a fork that owns its
    // whole descriptor table, so no `OwnedFd` is closed behind its back.
    unsafe { syscall(libc::SYS_close_range, args) }.map(drop)
}

/// Changes the working directory.
pub(super) fn change_dir(path: &CStr) -> Result<(), Errno> {
    // SAFETY: the path is a C string that outlives the call.
    unsafe { syscall(libc::SYS_chdir, [path.as_ptr().addr(), 0, 0, 0, 0, 0]) }.map(drop)
}

/// Starts a session of which the caller is the leader.
pub(super) fn new_session() -> Result<(), Errno> {
    // SAFETY: takes no arguments.
    unsafe { syscall(libc::SYS_setsid, [0; 6]) }.map(drop)
}

/// Has the kernel send `signal` to the caller when the thread that made it dies.
pub(super) fn die_with_parent(signal: c_int) -> Result<(), Errno> {
    let args = [libc::PR_SET_PDEATHSIG as usize, signal as usize, 0, 0, 0, 0];
    // SAFETY: this option takes numbers only.
    unsafe { syscall(libc::SYS_prctl, args) }.map(drop)
}

/// The id of the caller's parent.
pub(super) fn parent_pid() -> i32 {
    // SAFETY: takes no arguments.
    let pid = unsafe { syscall(libc::SYS_getppid, [0; 6]) };
    pid.ok().and_then(|pid| i32::try_from(pid).ok()).unwrap_or(0)
}

/// Ends the process without running anything of the C library.
pub(super) fn exit(code: c_int) -> ! {
    loop {
        // SAFETY: takes a number and does not return.
        unsafe { syscall(libc::SYS_exit_group, [code as usize, 0, 0, 0, 0, 0]) }.ok();
    }
}
