//! The server's branch of the cgroup v2 hierarchy: one directory, and below it one for each process.
//!
//! Membership is kept by the kernel: a descendant can leave only by being moved, which takes write
//! access to the hierarchy. `cgroup.kill` ends a whole branch at once, forks in flight included.
//!
//! A directory costs more to make and remove than a process to start, so a few that are empty wait to
//! be used again. No descriptor is held for any of them: a name is opened again in a microsecond.

use std::collections::VecDeque;
use std::ffi::{CStr, CString, c_int};
use std::io::{self, Read};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use crate::limits::Controllers;

use super::clone;
use super::dirents::{self, Dirents};
use super::raw::{self, Errno, raw_result};
use super::signals::AllBlocked;
use super::sweep::KILL_TIME_MAX;
use super::wait;

/// The name of a server's directory starts like this, and goes on with its pid and a random number.
const PREFIX: &str = "exec-server-";
/// Directories made ahead.
const RESERVE: usize = 4;
/// How long the probe waits for a death that should take microseconds.
const PROBE_WAIT_MS: c_int = 1000;
/// Cgroups that clients' own programs make are removed down to here.
pub(super) const DEPTH_MAX: u8 = 8;

/// The branch of one server.
pub(super) struct CgroupTree {
    path: CString,
    /// Locked as long as the server lives: a branch that is not has lost its server.
    top: OwnedFd,
    next: AtomicU32,
    shelf: Mutex<Shelf>,
    idle_max: usize,
    controllers: Controllers,
}

/// Directories that no group stands for.
#[derive(Default)]
struct Shelf {
    /// Empty, ready to be used again.
    idle: Vec<u32>,
    /// Given back while a process was left in them, and whether they are spent. Looked at again, one
    /// at a time.
    inhabited: VecDeque<(u32, bool)>,
}

/// What `cgroup.events` says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct State {
    is_populated: bool,
    is_frozen: bool,
}

impl CgroupTree {
    /// Makes a branch below the server's own cgroup, and tries whether a process can be started and
    /// killed in it. First removes the branches of servers that died without anyone to do it.
    pub(super) fn create(own: &Path, random: u64, idle_max: usize) -> io::Result<Self> {
        remove_abandoned(own);
        let name = format!("{PREFIX}{}-{random:016x}", std::process::id());
        let path = CString::new(own.join(name).into_os_string().as_bytes())?;
        make_dir(libc::AT_FDCWD, &path)?;
        let made = open_dir(libc::AT_FDCWD, &path).and_then(|top| {
            lock(top.as_fd())?;
            enable_controllers(top.as_fd());
            let controllers = enabled_controllers(top.as_fd());
            let (next, shelf, path) = (AtomicU32::new(0), Mutex::default(), path.clone());
            let tree = CgroupTree { path, top, next, shelf, idle_max, controllers };
            tree.probe()?;
            (0..RESERVE).for_each(|_| tree.restock());
            Ok(tree)
        });
        if made.is_err() {
            // The reason matters more than an empty directory.
            raw_result(remove_branch(&path)).ok();
        }
        made
    }

    /// The absolute path of the branch.
    pub(super) fn path(&self) -> &CString {
        &self.path
    }

    /// What can be limited in its directories.
    pub(super) fn controllers(&self) -> Controllers {
        self.controllers
    }

    /// An empty directory, and a descriptor of it to start a process with.
    pub(super) fn take(&self) -> io::Result<(u32, OwnedFd)> {
        let idle = self.shelf().idle.pop();
        let number = match idle {
            Some(number) => number,
            None => self.make()?,
        };
        let name = file(number, "");
        let flags = libc::O_PATH | libc::O_DIRECTORY;
        Ok((number, raw_result(raw::open_at(self.top.as_raw_fd(), &name, flags))?))
    }

    /// Takes a directory back from its group; a spent one is not used again. If a process is left in
    /// it, it stays until the process is gone or the branch is removed.
    pub(super) fn give_back(&self, number: u32, is_spent: bool) {
        // At most one old one with each, so that the cost stays the same however many there are.
        let old = self.shelf().inhabited.pop_front();
        self.shelve(number, is_spent);
        if let Some((old, is_spent)) = old {
            self.shelve(old, is_spent);
        }
        self.restock();
    }

    /// Makes one directory ahead if few are idle, so that the start of a child rarely waits for it.
    fn restock(&self) {
        if self.shelf().idle.len() < RESERVE.min(self.idle_max)
            // If none can be made, the next start finds out why.
            && let Ok(number) = self.make()
        {
            self.shelf().idle.push(number);
        }
    }

    fn shelve(&self, number: u32, is_spent: bool) {
        // Gone already, with the branch?
        let Ok(state) = self.state(number) else { return };
        let mut shelf = self.shelf();
        if state.is_populated {
            shelf.inhabited.push_back((number, is_spent));
        } else if is_spent || state.is_frozen || shelf.idle.len() >= self.idle_max {
            // A process may have left its own cgroup frozen; the next one in it would never start.
            drop(shelf);
            self.discard(number);
        } else {
            shelf.idle.push(number);
        }
    }

    fn discard(&self, number: u32) {
        let (top, name) = (self.top.as_fd(), file(number, ""));
        if raw::remove_dir_at(top, &name).is_err()
            && let Ok(dir) = open_dir(top.as_raw_fd(), &name)
        {
            dirents::remove_subdirs(dir.as_fd(), DEPTH_MAX);
            // What is left goes with the branch.
            raw::remove_dir_at(top, &name).ok();
        }
    }

    /// Writes a number to a file of a directory.
    pub(super) fn set(&self, number: u32, name: &str, value: u64) -> io::Result<()> {
        let path = file(number, name);
        let opened = raw_result(raw::open_at(self.top.as_raw_fd(), &path, libc::O_WRONLY))?;
        raw_result(raw::write(opened.as_fd(), value.to_string().as_bytes())).map(drop)
    }

    /// Kills every process in a directory and below.
    pub(super) fn kill(&self, number: u32) -> io::Result<()> {
        match kill_at(self.top.as_raw_fd(), &file(number, "/cgroup.kill")) {
            // The directory can only have been removed empty.
            Err(libc::ENOENT | libc::ENODEV) => Ok(()),
            result => raw_result(result),
        }
    }

    /// Whether no live process is in a directory or below.
    pub(super) fn is_empty(&self, number: u32) -> bool {
        // Without the directory there is no member either.
        self.state(number).is_ok_and(|state| !state.is_populated) || !self.exists(number)
    }

    /// Kills every process of the branch, and waits until all have died, for a bounded time.
    pub(super) fn kill_all(&self) -> io::Result<()> {
        raw_result(kill_at(self.top.as_raw_fd(), c"cgroup.kill"))?;
        // All of them are spent now.
        std::mem::take(&mut *self.shelf());
        let deadline = Instant::now() + KILL_TIME_MAX;
        while read_state(self.top.as_fd(), c"cgroup.events")?.is_populated {
            if Instant::now() > deadline {
                return Err(io::ErrorKind::TimedOut.into());
            }
            std::thread::sleep(std::time::Duration::from_micros(500));
        }
        Ok(())
    }

    /// Removes the branch, which must be empty.
    pub(super) fn remove(&self) -> io::Result<()> {
        raw_result(remove_branch(&self.path))
    }

    fn make(&self) -> io::Result<u32> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        make_dir(self.top.as_raw_fd(), &file(number, ""))?;
        Ok(number)
    }

    fn state(&self, number: u32) -> io::Result<State> {
        read_state(self.top.as_fd(), &file(number, "/cgroup.events"))
    }

    fn exists(&self, number: u32) -> bool {
        let opened = raw::open_at(self.top.as_raw_fd(), &file(number, ""), libc::O_PATH);
        !matches!(opened, Err(libc::ENOENT | libc::ENODEV))
    }

    fn shelf(&self) -> MutexGuard<'_, Shelf> {
        self.shelf.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts a process in a directory and kills it there. Several things can forbid either: a kernel
    /// before 5.14, a read-only or foreign part of the hierarchy, a threaded cgroup, a filter.
    fn probe(&self) -> io::Result<()> {
        let (number, directory) = self.take()?;
        let (mut sign_of_life, line) = io::pipe()?;
        let blocked = raw_result(AllBlocked::new())?;
        // SAFETY: the child neither allocates nor locks before it ends.
        let child = match raw_result(unsafe { clone::fork(Some(directory.as_fd())) })? {
            Some(child) => child,
            None => wait_for_kill(line.as_fd()),
        };
        drop(blocked);
        drop(line);
        // A kernel may kill it at birth, so its death alone proves nothing.
        let lived = sign_of_life.read_exact(&mut [0]);
        let killed = lived.and_then(|()| self.kill(number));
        if killed.is_err() || !wait::poll_end(child.pidfd.as_fd(), PROBE_WAIT_MS) {
            wait::send_kill(child.pidfd.as_fd());
        }
        wait::wait_for_end(child.pidfd.as_fd())?;
        self.give_back(number, true);
        killed
    }
}

/// The probe's child: waits for the end, which comes from the cgroup or with the server's.
fn wait_for_kill(line: BorrowedFd<'_>) -> ! {
    // Without it the child would outlive a server killed in this very moment.
    raw::die_with_parent(libc::SIGKILL).ok();
    raw::write(line, b"1").ok();
    loop {
        // SAFETY: no descriptors, no time limit, no mask: waits for a signal.
        unsafe { raw::syscall(libc::SYS_ppoll, [0; 6]) }.ok();
    }
}

/// Writes to a `cgroup.kill`. Allocates and locks nothing.
pub(super) fn kill_at(dir: c_int, path: &CStr) -> Result<(), Errno> {
    let file = raw::open_at(dir, path, libc::O_WRONLY)?;
    raw::write(file.as_fd(), b"1").map(drop)
}

/// Removes a branch and all below. Allocates and locks nothing.
pub(super) fn remove_branch(path: &CStr) -> Result<(), Errno> {
    let top = raw::open_at(libc::AT_FDCWD, path, libc::O_RDONLY | libc::O_DIRECTORY)?;
    dirents::remove_subdirs(top.as_fd(), DEPTH_MAX);
    let flags = libc::AT_REMOVEDIR as usize;
    let args = [libc::AT_FDCWD as usize, path.as_ptr().addr(), flags, 0, 0, 0];
    // SAFETY: the path is a C string that outlives the call.
    unsafe { raw::syscall(libc::SYS_unlinkat, args) }.map(drop)
}

/// Ends and removes branches that nobody has locked: their servers died, and so did their guardians.
fn remove_abandoned(own: &Path) {
    let Ok(path) = CString::new(own.as_os_str().as_bytes()) else { return };
    let Ok(own) = open_dir(libc::AT_FDCWD, &path) else { return };
    let mut entries = Dirents::new(own.as_fd());
    while let Ok(Some(name)) = entries.next_dir() {
        if !name.to_bytes().starts_with(PREFIX.as_bytes()) {
            continue;
        }
        let Ok(top) = open_dir(own.as_raw_fd(), name) else { continue };
        if lock(top.as_fd()).is_err() {
            continue;
        }
        // Whatever cannot be removed now is left to the next server.
        kill_at(top.as_raw_fd(), c"cgroup.kill").ok();
        dirents::remove_subdirs(top.as_fd(), DEPTH_MAX);
        raw::remove_dir_at(own.as_fd(), name).ok();
    }
}

/// Lets directories below have limits, where the hierarchy above allows it. One at a time: one that
/// is missing would spoil the others.
fn enable_controllers(top: BorrowedFd<'_>) {
    for controller in [&b"+memory"[..], b"+pids"] {
        // Without a controller there is no such limit, and `limits.rs` says what holds then.
        raw::open_at(top.as_raw_fd(), c"cgroup.subtree_control", libc::O_WRONLY)
            .and_then(|control| raw::write(control.as_fd(), controller))
            .ok();
    }
}

/// Which of them the directories below have got.
fn enabled_controllers(top: BorrowedFd<'_>) -> Controllers {
    let mut text = [0; 1024];
    let count = raw::open_at(top.as_raw_fd(), c"cgroup.subtree_control", libc::O_RDONLY)
        .and_then(|control| raw::read(control.as_fd(), &mut text));
    parse_controllers(&text[..count.unwrap_or(0)])
}

fn parse_controllers(text: &[u8]) -> Controllers {
    let has = |name: &[u8]| text.split(u8::is_ascii_whitespace).any(|found| found == name);
    Controllers { memory: has(b"memory"), processes: has(b"pids") }
}

fn lock(dir: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: takes numbers only.
    match unsafe { libc::flock(dir.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

fn read_state(dir: BorrowedFd<'_>, path: &CStr) -> io::Result<State> {
    let events = raw_result(raw::open_at(dir.as_raw_fd(), path, libc::O_RDONLY))?;
    let mut text = [0; 256];
    let count = raw_result(raw::read(events.as_fd(), &mut text))?;
    Ok(parse_state(&text[..count]))
}

/// A line that is missing counts as the worse case.
fn parse_state(text: &[u8]) -> State {
    let says = |line: &[u8]| text.split(|&byte| byte == b'\n').any(|found| found == line);
    State { is_populated: !says(b"populated 0"), is_frozen: !says(b"frozen 0") }
}

fn file(number: u32, suffix: &str) -> CString {
    // Digits and a constant: no NUL byte can be in it.
    CString::new(format!("p{number}{suffix}")).unwrap_or_default()
}

fn make_dir(dir: c_int, path: &CStr) -> io::Result<()> {
    // SAFETY: the path is a C string that outlives the call.
    match unsafe { libc::mkdirat(dir, path.as_ptr(), 0o755) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

fn open_dir(dir: c_int, path: &CStr) -> io::Result<OwnedFd> {
    raw_result(raw::open_at(dir, path, libc::O_RDONLY | libc::O_DIRECTORY))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn controllers_are_known_by_their_whole_names() {
        let check = |text: &[u8], memory, processes| {
            assert_eq!(parse_controllers(text), Controllers { memory, processes });
        };
        check(b"cpu io memory pids\n", true, true);
        check(b"memory", true, false);
        check(b"hugetlb pids\n", false, true);
        check(b"memory_recursiveprot pidsx\n", false, false);
        check(b"", false, false);
    }

    #[test]
    fn an_empty_thawed_directory_is_told_from_others() {
        let check = |text: &[u8], is_populated, is_frozen| {
            assert_eq!(parse_state(text), State { is_populated, is_frozen });
        };
        check(b"populated 0\nfrozen 0\n", false, false);
        check(b"populated 1\nfrozen 0\n", true, false);
        check(b"populated 0\nfrozen 1\n", false, true);
        check(b"", true, true);
    }
}
