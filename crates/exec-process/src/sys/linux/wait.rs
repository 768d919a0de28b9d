//! How a child ended, and signals to its process group.

use std::ffi::c_int;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use super::raw::raw_result;
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

/// What a process used, with all descendants that were waited for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Usage {
    /// Time on a processor, in programs and in the kernel for them.
    pub cpu: Duration,
    /// The most memory that one of them had at a time.
    pub memory_bytes_max: u64,
}

impl Usage {
    fn new(usage: &libc::rusage) -> Self {
        let span = |time: libc::timeval| {
            let seconds = Duration::from_secs(time.tv_sec.unsigned_abs());
            seconds + Duration::from_micros(time.tv_usec.unsigned_abs())
        };
        let kilobytes = usage.ru_maxrss.unsigned_abs();
        let cpu = span(usage.ru_utime) + span(usage.ru_stime);
        Usage { cpu, memory_bytes_max: kilobytes.saturating_mul(1024) }
    }
}

/// Reaps the child behind `pidfd` if it has ended. The descriptor becomes readable when that is so.
pub fn try_wait(pidfd: BorrowedFd<'_>) -> io::Result<Option<ExitStatus>> {
    Ok(try_wait_with_usage(pidfd)?.map(|(status, _)| status))
}

/// As [`try_wait`], and what the child used.
pub fn try_wait_with_usage(pidfd: BorrowedFd<'_>) -> io::Result<Option<(ExitStatus, Usage)>> {
    let mut usage = Usage::default();
    let ended = reap::reaping(|| wait(pidfd, libc::WNOHANG, &mut usage))?;
    Ok(ended.map(|(_, status)| (status, usage)))
}

/// Waits for a child that is known to be about to end.
pub(super) fn wait_for_end(pidfd: BorrowedFd<'_>) -> io::Result<()> {
    reap::reaping(|| wait(pidfd, libc::__WALL, &mut Usage::default())).map(drop)
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

fn wait(
    pidfd: BorrowedFd<'_>,
    options: c_int,
    usage: &mut Usage,
) -> io::Result<Option<(i32, ExitStatus)>> {
    loop {
        // SAFETY: both are plain data, for which zero is valid.
        let (mut info, mut used): (libc::siginfo_t, libc::rusage) =
            unsafe { (std::mem::zeroed(), std::mem::zeroed()) };
        let (id, options) = (pidfd.as_raw_fd() as usize, (libc::WEXITED | options) as usize);
        let (answer, used_at) = ((&raw mut info).addr(), (&raw mut used).addr());
        let args = [libc::P_PIDFD as usize, id, answer, options, used_at, 0];
        // The C library's `waitid` cannot ask for the usage.
        // SAFETY: the descriptor is open, `info` and `used` have room for the answers.
        match unsafe { raw::syscall(libc::SYS_waitid, args) } {
            Ok(_) => {
                *usage = Usage::new(&used);
                return Ok(interpret(&info));
            }
            Err(libc::EINTR) => {}
            Err(errno) => return Err(io::Error::from_raw_os_error(errno)),
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

/// A descriptor of a process that is no child of the server, for [`signal_process`]. The caller makes
/// sure that the number still was that process's.
pub fn open_pidfd(pid: i32) -> io::Result<OwnedFd> {
    let pid = usize::try_from(pid).map_err(|_| io::ErrorKind::InvalidInput)?;
    // SAFETY: takes numbers and makes a descriptor.
    raw_result(
        unsafe { raw::syscall(libc::SYS_pidfd_open, [pid, 0, 0, 0, 0, 0]) }.and_then(raw::owned),
    )
}

/// Sends a signal to one process.
pub fn signal_process(pidfd: BorrowedFd<'_>, signal: i32) -> io::Result<()> {
    let args = [pidfd.as_raw_fd() as usize, signal as usize, 0, 0, 0, 0];
    // SAFETY: without a siginfo the call takes numbers only.
    raw_result(unsafe { raw::syscall(libc::SYS_pidfd_send_signal, args) }).map(drop)
}
