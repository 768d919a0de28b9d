//! Orphans that the kernel hands to a server that is init of its container, or a subreaper.
//!
//! Such a server is the new parent of every descendant whose own parent died, and has to reap it or
//! the process table fills up. A zombie among the server's children may also be a child of ours whose
//! status the server still wants, so ours are written down here. The writing down is gated: a
//! stranger is never sought while a child of ours exists that is not in the book yet.

use std::collections::BTreeSet;
use std::ffi::c_int;
use std::io;
use std::sync::{Mutex, PoisonError, RwLock};

use super::clone::Cloned;
use super::raw::Errno;
use super::wait::ExitStatus;

/// Held for reading while a child is made and written down, for writing while strangers are reaped.
static GATE: RwLock<()> = RwLock::new(());
/// Children of ours that nobody has waited for yet. Empty when this server adopts nobody.
static OURS: Mutex<BTreeSet<i32>> = Mutex::new(BTreeSet::new());

/// Whether orphans become children of this process: it is init, or made itself a subreaper.
pub fn needs_reaping() -> bool {
    let mut subreaper: c_int = 0;
    // SAFETY: this option writes one int.
    let asked = unsafe { libc::prctl(libc::PR_GET_CHILD_SUBREAPER, &raw mut subreaper) };
    std::process::id() == 1 || (asked == 0 && subreaper != 0)
}

/// Reaps ended children that nobody started: neither [`spawn`](super::spawn) nor, as `is_ours` says,
/// the rest of the server. Costs one system call when there are none, so it may be called on every
/// SIGCHLD. Only of use when [`needs_reaping`].
pub fn reap_strangers(is_ours: impl Fn(i32) -> bool) {
    let _gate = GATE.write().unwrap_or_else(PoisonError::into_inner);
    let ours = OURS.lock().unwrap_or_else(PoisonError::into_inner);
    let is_stranger = |pid: i32| !ours.contains(&pid) && !is_ours(pid);
    // The kernel shows the same zombie until it is reaped, so one of ours hides those behind it.
    while let Some(pid) = any_zombie() {
        if !is_stranger(pid) {
            children().into_iter().filter(|&pid| is_stranger(pid)).for_each(reap);
            return;
        }
        reap(pid);
    }
}

/// Makes a child and writes it down, if this server has to tell its own from strangers.
pub(super) fn enlisting(make: impl FnOnce() -> Result<Cloned, Errno>) -> Result<Cloned, Errno> {
    if !needs_reaping() {
        return make();
    }
    let _gate = GATE.read().unwrap_or_else(PoisonError::into_inner);
    let child = make()?;
    OURS.lock().unwrap_or_else(PoisonError::into_inner).insert(child.pid);
    Ok(child)
}

/// Waits for a child and strikes it out, before its number can be given to the next one.
pub(super) fn reaping(
    wait: impl FnOnce() -> io::Result<Option<(i32, ExitStatus)>>,
) -> io::Result<Option<(i32, ExitStatus)>> {
    if !needs_reaping() {
        return wait();
    }
    let mut ours = OURS.lock().unwrap_or_else(PoisonError::into_inner);
    let ended = wait()?;
    if let Some((pid, _)) = ended {
        ours.remove(&pid);
    }
    Ok(ended)
}

fn any_zombie() -> Option<i32> {
    wait_id(libc::P_ALL, 0, libc::WNOWAIT)
}

fn reap(pid: i32) {
    wait_id(libc::P_PID, pid, 0);
}

fn wait_id(kind: libc::idtype_t, pid: i32, options: c_int) -> Option<i32> {
    // SAFETY: siginfo_t is plain data, for which zero is valid.
    let mut info: libc::siginfo_t = unsafe { std::mem::zeroed() };
    let options = libc::WEXITED | libc::WNOHANG | options;
    // SAFETY: `info` has room for the answer.
    let waited = unsafe { libc::waitid(kind, pid as libc::id_t, &raw mut info, options) };
    // SAFETY: `waitid` has filled this in, or left it zero when nobody has ended.
    let pid = unsafe { info.si_pid() };
    (waited == 0 && pid != 0).then_some(pid)
}

/// All children of this process, of whichever thread. Needs CONFIG_PROC_CHILDREN, as every
/// distribution has; without it the strangers behind a zombie of ours wait for the next call.
fn children() -> Vec<i32> {
    let Ok(threads) = std::fs::read_dir("/proc/self/task") else { return Vec::new() };
    threads
        .flatten()
        .filter_map(|thread| std::fs::read_to_string(thread.path().join("children")).ok())
        .flat_map(|list| list.split_whitespace().flat_map(str::parse).collect::<Vec<i32>>())
        .collect()
}
