//! Finding and killing tagged processes by going through `/proc`.
//!
//! Used by the server and, after the server's death, by a fork of it: allocates and locks nothing.
//!
//! A single pass can miss a process that is just being forked, so passes repeat until one finds
//! nobody. That ends even a fork bomb: a fork fails while a SIGKILL is pending, and killing is some
//! hundred times faster than forking. Stopping everything first gains nothing over killing it. What
//! the sweep does need is a processor: among thousands of forking processes it would hardly get one,
//! so it asks for priority, which only a privileged server is given.

use std::ffi::{CStr, c_int};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use super::dirents::Dirents;
use super::raw::{self, Errno};
use super::tag::Tags;

/// How long a kill may take. A process in an uninterruptible wait cannot be killed sooner anyway.
pub(super) const KILL_TIME_MAX: Duration = Duration::from_secs(2);
/// Clean passes that make up for processes that were gone when their turn came: each of those may
/// have left a child behind the pass.
const CLEAN_PASSES: u32 = 3;

/// What one pass saw.
#[derive(Default)]
struct Pass {
    alive: usize,
    denied: usize,
    has_missed_some: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Deed {
    Look,
    Kill,
}

/// Kills every process that wears one of the tags, and returns when none is left. With ETIMEDOUT if
/// some did not die in time, with EPERM if those left belong to another user.
pub(super) fn kill(tags: Tags) -> Result<(), Errno> {
    let _priority = Priority::raise();
    let deadline = Instant::now() + KILL_TIME_MAX;
    let mut clean = 0;
    let mut pause = Duration::from_micros(50);
    while Instant::now() < deadline {
        let seen = pass(tags, Deed::Kill)?;
        if seen.alive == 0 {
            clean += 1;
            if !seen.has_missed_some || clean == CLEAN_PASSES {
                return Ok(());
            }
            continue;
        }
        if seen.denied == seen.alive {
            return Err(libc::EPERM);
        }
        clean = 0;
        // What was killed needs a moment on a processor to die.
        std::thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(2));
    }
    Err(libc::ETIMEDOUT)
}

/// Whether no live process wears one of the tags.
pub(super) fn is_empty(tags: Tags) -> bool {
    pass(tags, Deed::Look).is_ok_and(|seen| seen.alive == 0)
}

fn pass(tags: Tags, deed: Deed) -> Result<Pass, Errno> {
    let proc = raw::open_at(libc::AT_FDCWD, c"/proc", libc::O_RDONLY | libc::O_DIRECTORY)?;
    let mut entries = Dirents::new(proc.as_fd());
    let mut seen = Pass::default();
    while let Some(name) = entries.next_dir()? {
        let Some(pid) = pid_of(name) else { continue };
        match visit(proc.as_fd(), name, pid, tags, deed) {
            Ok(Visit::Stranger) => {}
            Ok(Visit::Member) => seen.alive += 1,
            Err(libc::EPERM) => {
                seen.alive += 1;
                seen.denied += 1;
            }
            Err(_) => seen.has_missed_some = true,
        }
        if deed == Deed::Look && seen.alive > 0 {
            break;
        }
    }
    Ok(seen)
}

enum Visit {
    Stranger,
    Member,
}

fn visit(
    proc: BorrowedFd<'_>,
    name: &CStr,
    pid: usize,
    tags: Tags,
    deed: Deed,
) -> Result<Visit, Errno> {
    if !tags.contain(worn(proc, name, pid)?) {
        return Ok(Visit::Stranger);
    }
    // SAFETY: takes numbers and makes a descriptor.
    let pidfd = raw::owned(unsafe { raw::syscall(libc::SYS_pidfd_open, [pid, 0, 0, 0, 0, 0]) }?)?;
    if has_ended(&pidfd)? {
        return Ok(Visit::Stranger);
    }
    // The number may have passed to another process before it was pinned. Now it cannot any more,
    // short of a death, which makes the signal below fail.
    if !tags.contain(worn(proc, name, pid)?) {
        return Ok(Visit::Stranger);
    }
    if deed == Deed::Kill {
        let args = [pidfd.as_raw_fd() as usize, libc::SIGKILL as usize, 0, 0, 0, 0];
        // SAFETY: without a siginfo the call takes numbers only.
        unsafe { raw::syscall(libc::SYS_pidfd_send_signal, args) }?;
    }
    Ok(Visit::Member)
}

/// The tag that a process wears, or whatever other limit it has.
fn worn(proc: BorrowedFd<'_>, name: &CStr, pid: usize) -> Result<u64, Errno> {
    let mut limit = libc::rlimit64 { rlim_cur: 0, rlim_max: 0 };
    let args = [pid, libc::RLIMIT_RTTIME as usize, 0, (&raw mut limit).addr(), 0, 0];
    // SAFETY: the call writes one limit.
    match unsafe { raw::syscall(libc::SYS_prlimit64, args) } {
        Ok(_) => Ok(limit.rlim_max),
        // Another user's process, such as a setuid descendant; its file is open to all.
        Err(libc::EPERM | libc::EACCES) => worn_by_stranger(proc, name),
        Err(errno) => Err(errno),
    }
}

fn worn_by_stranger(proc: BorrowedFd<'_>, name: &CStr) -> Result<u64, Errno> {
    let dir = raw::open_at(proc.as_raw_fd(), name, libc::O_PATH | libc::O_DIRECTORY)?;
    // A failure here must not look like EPERM, which says that a member could not be killed.
    let file = raw::open_at(dir.as_raw_fd(), c"limits", libc::O_RDONLY).map_err(|_| libc::ESRCH)?;
    let mut text = [0; 4096];
    let count = raw::read(file.as_fd(), &mut text)?;
    Ok(hard_limit(text.get(..count).unwrap_or_default()).unwrap_or(libc::RLIM64_INFINITY))
}

/// The hard limit on real-time CPU in the text of a `limits` file; `None` if there is none.
fn hard_limit(text: &[u8]) -> Option<u64> {
    let line = text
        .split(|&byte| byte == b'\n')
        .find_map(|line| line.strip_prefix(b"Max realtime timeout"))?;
    let mut words = line.split(|&byte| byte == b' ').filter(|word| !word.is_empty());
    words.nth(1).and_then(number)
}

fn has_ended(pidfd: &OwnedFd) -> Result<bool, Errno> {
    let mut poll = libc::pollfd { fd: pidfd.as_raw_fd(), events: libc::POLLIN, revents: 0 };
    let now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    let args = [(&raw mut poll).addr(), 1, (&raw const now).addr(), 0, 0, 0];
    // SAFETY: one pollfd and one timespec are valid, and no signal mask is given.
    Ok(unsafe { raw::syscall(libc::SYS_ppoll, args) }? > 0)
}

fn pid_of(name: &CStr) -> Option<usize> {
    number(name.to_bytes()).and_then(|pid| usize::try_from(pid).ok())
}

fn number(digits: &[u8]) -> Option<u64> {
    let start = if digits.is_empty() { None } else { Some(0u64) };
    digits.iter().try_fold(start?, |value, &digit| {
        let digit = digit.is_ascii_digit().then(|| u64::from(digit - b'0'))?;
        value.checked_mul(10)?.checked_add(digit)
    })
}

/// Real-time priority for this thread while it lives, if the thread is an ordinary one and may.
struct Priority {
    is_raised: bool,
}

impl Priority {
    fn raise() -> Self {
        // SAFETY: takes a number; 0 is this thread.
        let policy = unsafe { raw::syscall(libc::SYS_sched_getscheduler, [0; 6]) };
        let is_ordinary = policy == Ok(libc::SCHED_OTHER as usize);
        Priority { is_raised: is_ordinary && schedule(libc::SCHED_FIFO, 1).is_ok() }
    }
}

impl Drop for Priority {
    fn drop(&mut self) {
        if self.is_raised {
            // To go back to ordinary is always allowed.
            schedule(libc::SCHED_OTHER, 0).ok();
        }
    }
}

fn schedule(policy: c_int, priority: c_int) -> Result<(), Errno> {
    let param = libc::sched_param { sched_priority: priority };
    let args = [0, policy as usize, (&raw const param).addr(), 0, 0, 0];
    // SAFETY: the call reads one sched_param; 0 is this thread.
    unsafe { raw::syscall(libc::SYS_sched_setscheduler, args) }.map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limits_file_of_a_process_is_understood() {
        let text = std::fs::read("/proc/self/limits").unwrap();
        let proc = std::fs::File::open("/proc").unwrap();
        let mut limit = libc::rlimit64 { rlim_cur: 0, rlim_max: 0 };
        // SAFETY: the call writes one limit.
        assert_eq!(unsafe { libc::getrlimit64(libc::RLIMIT_RTTIME, &raw mut limit) }, 0);
        assert_eq!(hard_limit(&text).unwrap_or(libc::RLIM64_INFINITY), limit.rlim_max);
        assert_eq!(worn_by_stranger(proc.as_fd(), c"self"), Ok(limit.rlim_max));
        assert!(text.len() < 4096, "fits the buffer");
    }

    #[test]
    fn hard_limits_are_read_from_their_column() {
        let check = |line: &str, expected| assert_eq!(hard_limit(line.as_bytes()), expected);
        check("Max cpu time   1  2  seconds\nMax realtime timeout  12  345  us\n", Some(345));
        check("Max realtime timeout      12      unlimited      us", None);
        check("Max realtime timeout      12", None);
        check("Max nice priority 1 2", None);
        check("", None);
    }

    #[test]
    fn only_plain_numbers_are_process_ids() {
        let check = |name: &CStr, expected| assert_eq!(pid_of(name), expected);
        check(c"1", Some(1));
        check(c"32768", Some(32768));
        check(c"", None);
        check(c"self", None);
        check(c"12x", None);
        check(c"99999999999999999999999", None);
    }
}
