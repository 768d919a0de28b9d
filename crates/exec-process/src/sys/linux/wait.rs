//! How a child ended, and signals to its process group.

use std::ffi::c_int;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use super::{raw, reap};

/// How a process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExitStatus {
    /// It exited, with this code.
    Exited(i32),
    /// This signal ended it.
    Signaled(i32),
}

impl ExitStatus {
    /// The exit code, or 128 and the signal, as shells have it.
    pub fn code(self) -> i32 {
        match self {
            ExitStatus::Exited(code) => code,
            ExitStatus::Signaled(signal) => 128 + signal,
        }
    }

    /// The signal that ended it.
    pub fn signal(self) -> Option<i32> {
        match self {
            ExitStatus::Exited(_) => None,
            ExitStatus::Signaled(signal) => Some(signal),
        }
    }
}

/// Reaps the child behind `pidfd` if it has ended. The descriptor becomes readable when that is so.
pub fn try_wait(pidfd: BorrowedFd<'_>) -> io::Result<Option<ExitStatus>> {
    reap::reaping(|| wait(pidfd, libc::WNOHANG)).map(|ended| ended.map(|(_, status)| status))
}

/// Waits for a child that is known to be about to end.
pub(super) fn wait_for_end(pidfd: BorrowedFd<'_>) -> io::Result<()> {
    reap::reaping(|| wait(pidfd, libc::__WALL)).map(drop)
}

/// Waits until a process has ended, at most so many milliseconds.
pub(super) fn poll_end(pidfd: BorrowedFd<'_>, wait_ms: c_int) -> bool {
    let mut poll = libc::pollfd { fd: pidfd.as_raw_fd(), events: libc::POLLIN, revents: 0 };
    // SAFETY: one valid pollfd.
    unsafe { libc::poll(&raw mut poll, 1, wait_ms) > 0 }
}

/// Kills a process that ought to have ended.
pub(super) fn send_kill(pidfd: BorrowedFd<'_>) {
    let args = [pidfd.as_raw_fd() as usize, libc::SIGKILL as usize, 0, 0, 0, 0];
    // It can only fail because the process has ended.
    // SAFETY: without a siginfo the call takes numbers only.
    unsafe { raw::syscall(libc::SYS_pidfd_send_signal, args) }.ok();
}

fn wait(pidfd: BorrowedFd<'_>, options: c_int) -> io::Result<Option<(i32, ExitStatus)>> {
    loop {
        // SAFETY: siginfo_t is plain data, for which zero is valid.
        let mut info: libc::siginfo_t = unsafe { std::mem::zeroed() };
        let (id, options) = (pidfd.as_raw_fd() as libc::id_t, libc::WEXITED | options);
        // SAFETY: the descriptor is open and `info` has room for the answer.
        if unsafe { libc::waitid(libc::P_PIDFD, id, &raw mut info, options) } == 0 {
            return Ok(interpret(&info));
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
}

fn interpret(info: &libc::siginfo_t) -> Option<(i32, ExitStatus)> {
    // SAFETY: `waitid` has filled in these fields, or left them zero when nobody has ended.
    let (pid, status) = unsafe { (info.si_pid(), info.si_status()) };
    let ended = match info.si_code {
        libc::CLD_EXITED => ExitStatus::Exited(status),
        _ => ExitStatus::Signaled(status),
    };
    (pid != 0).then_some((pid, ended))
}

/// Sends a signal to the process group that a child leads. Only for a child not yet reaped: after
/// that its number may belong to a stranger.
pub fn signal_group(pid: i32, signal: i32) -> io::Result<()> {
    // 0 and 1 would reach the server's own group and every process there is.
    if pid <= 1 {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    // SAFETY: takes numbers only.
    if unsafe { libc::kill(-pid, signal) } == 0 {
        return Ok(());
    }
    Err(io::Error::last_os_error())
}
