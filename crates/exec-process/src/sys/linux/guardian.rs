//! The guardian: a fork of the server that does nothing but outlive it.
//!
//! It sleeps in `read` on a pipe whose other end only the server has. When that end closes without a
//! word the server has died, by whatever means, and the guardian kills all that it left behind and
//! removes its cgroups. A byte on the pipe means that the server has done so itself.
//!
//! The guardian starts from a copy of the server's memory, in which any lock may be held by a thread
//! that does not exist here. So it makes system calls only, and neither allocates nor locks.

use std::ffi::{CStr, CString};
use std::io::{self, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::time::{Duration, Instant};

use super::cgroup;
use super::clone::{self, Cloned};
use super::raw::{self, raw_result};
use super::signals::AllBlocked;
use super::sweep;
use super::tag::TagSpace;
use super::wait;

/// How long the guardian tries to remove cgroups, whose processes take a moment to die.
const REMOVE_TIME_MAX: Duration = Duration::from_secs(10);
/// How long a guardian may take to end when told to.
const DISMISS_WAIT_MS: i32 = 1000;

/// The server's hold on its guardian. Dropped, it sends the guardian home.
pub(super) struct Guardian {
    process: Cloned,
    line: io::PipeWriter,
}

/// What the guardian is to kill.
struct Orders<'a> {
    cgroup: Option<&'a CStr>,
    tags: Option<TagSpace>,
}

impl Guardian {
    /// Forks the guardian. Meant for the start of the server, when there is little to copy.
    pub(super) fn start(cgroup: Option<&CString>, tags: Option<TagSpace>) -> io::Result<Self> {
        let (listening, line) = io::pipe()?;
        let orders = Orders { cgroup: cgroup.map(CString::as_c_str), tags };
        // It inherits the mask: no signal but SIGKILL and SIGSTOP concerns it.
        let _blocked = raw_result(AllBlocked::new())?;
        // SAFETY: `watch` neither allocates nor locks, and does not return.
        match raw_result(unsafe { clone::fork(None) })? {
            Some(process) => Ok(Guardian { process, line }),
            None => watch(listening.as_fd(), &orders),
        }
    }
}

impl Drop for Guardian {
    fn drop(&mut self) {
        // If it has been killed there is nobody to tell.
        self.line.write_all(b"q").ok();
        let pidfd = self.process.pidfd.as_fd();
        if !wait::poll_end(pidfd, DISMISS_WAIT_MS) {
            wait::send_kill(pidfd);
        }
        // It has ended; a failure could only mean that somebody else reaped it.
        wait::wait_for_end(pidfd).ok();
    }
}

fn watch(line: BorrowedFd<'_>, orders: &Orders<'_>) -> ! {
    settle(line.as_raw_fd());
    // SAFETY: `settle` has put the pipe there and closed the rest.
    let line = unsafe { BorrowedFd::borrow_raw(0) };
    let mut word = [0];
    if raw::read(line, &mut word) != Ok(1) {
        clean_up(orders);
    }
    raw::exit(0)
}

/// Leaves the server's session and directory, and holds none of its descriptors but the pipe: whoever
/// waits for the end of the server's output must see it.
fn settle(line: i32) {
    // Each of these can fail only if it is so already, or not at all.
    raw::dup_onto(line, 0).ok();
    raw::close_from(1, 0).ok();
    raw::new_session().ok();
    raw::change_dir(c"/").ok();
    let name = c"exec-guard";
    let args = [libc::PR_SET_NAME as usize, name.as_ptr().addr(), 0, 0, 0, 0];
    // SAFETY: this option reads a C string of at most 16 bytes.
    unsafe { raw::syscall(libc::SYS_prctl, args) }.ok();
}

fn clean_up(orders: &Orders<'_>) {
    if let Some(path) = orders.cgroup
        && let Ok(top) = raw::open_at(libc::AT_FDCWD, path, libc::O_PATH | libc::O_DIRECTORY)
    {
        // The tags below are the second chance, the next server's start the third.
        cgroup::kill_at(top.as_raw_fd(), c"cgroup.kill").ok();
    }
    // Tags are in use beside a cgroup too: for children that could not be started in it.
    if let Some(tags) = orders.tags {
        sweep::kill(tags.all()).ok();
    }
    let deadline = Instant::now() + REMOVE_TIME_MAX;
    while let Some(path) = orders.cgroup
        && !matches!(cgroup::remove_branch(path), Ok(()) | Err(libc::ENOENT))
        && Instant::now() < deadline
    {
        std::thread::sleep(Duration::from_millis(1));
    }
}
