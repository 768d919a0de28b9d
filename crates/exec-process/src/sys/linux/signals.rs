//! Signal masks and dispositions around the making of a child.

use std::ffi::c_int;
use std::sync::OnceLock;

use super::raw::{self, Errno};

/// A set of signals as the kernel sees it: signal n is bit n - 1.
type SignalSet = u64;

/// The size of that set, which every signal call wants to hear.
const SET_BYTES: usize = size_of::<SignalSet>();
const SIGNALS: std::ops::RangeInclusive<c_int> = 1..=64;

/// `struct sigaction` as the kernel has it on x86_64 and aarch64. Zero is the default disposition.
#[repr(C)]
#[derive(Default)]
struct KernelAction {
    handler: usize,
    flags: usize,
    restorer: usize,
    mask: SignalSet,
}

/// Blocks every signal of this thread while it lives. A handler of the server must never run in a
/// child that shares its memory. Not through the C library, which leaves its own two signals open.
pub(super) struct AllBlocked {
    before: SignalSet,
}

impl AllBlocked {
    pub(super) fn new() -> Result<Self, Errno> {
        set_mask(!0).map(|before| AllBlocked { before })
    }
}

impl Drop for AllBlocked {
    fn drop(&mut self) {
        // Cannot fail: it worked in `new`, with the same arguments but for the set.
        set_mask(self.before).ok();
    }
}

/// Sets the mask of this thread, and returns what it was. Allocates and locks nothing.
pub(super) fn set_mask(set: SignalSet) -> Result<SignalSet, Errno> {
    let mut before: SignalSet = 0;
    let (new, old) = ((&raw const set).addr(), (&raw mut before).addr());
    let args = [libc::SIG_SETMASK as usize, new, old, SET_BYTES, 0, 0];
    // SAFETY: both sets are valid and as long as the call is told.
    unsafe { raw::syscall(libc::SYS_rt_sigprocmask, args) }?;
    Ok(before)
}

/// What a child has to set back to the default, since neither exec nor `CLONE_CLEAR_SIGHAND` does:
/// signals that the server ignores. Asked once, as it takes 64 calls; those that programs do come
/// to ignore later are always in it.
pub(super) fn ignored() -> SignalSet {
    static IGNORED: OnceLock<SignalSet> = OnceLock::new();
    *IGNORED.get_or_init(|| SIGNALS.filter(|&signal| is_ignored(signal)).fold(OFTEN, with))
}

/// Every signal that has a disposition to reset, for a child that inherited the handlers too.
pub(super) const ALL: SignalSet = !(bit(libc::SIGKILL) | bit(libc::SIGSTOP));

const OFTEN: SignalSet = bit(libc::SIGPIPE)
    | bit(libc::SIGHUP)
    | bit(libc::SIGINT)
    | bit(libc::SIGQUIT)
    | bit(libc::SIGTERM)
    | bit(libc::SIGCHLD)
    | bit(libc::SIGALRM)
    | bit(libc::SIGUSR1)
    | bit(libc::SIGUSR2)
    | bit(libc::SIGTSTP)
    | bit(libc::SIGTTIN)
    | bit(libc::SIGTTOU);

/// Sets the signals of a set back to their default. Allocates and locks nothing.
pub(super) fn reset(set: SignalSet) {
    let default = KernelAction::default();
    let mut left = set;
    while left != 0 {
        let signal = left.trailing_zeros() as usize + 1;
        left &= left - 1;
        let args = [signal, (&raw const default).addr(), 0, SET_BYTES, 0, 0];
        // The C library's two signals may be refused by nobody, and the rest cannot fail.
        // SAFETY: the action is valid, and in a child no handler of ours is still wanted.
        unsafe { raw::syscall(libc::SYS_rt_sigaction, args) }.ok();
    }
}

const fn bit(signal: c_int) -> SignalSet {
    1 << (signal - 1)
}

const fn with(set: SignalSet, signal: c_int) -> SignalSet {
    set | bit(signal)
}

fn is_ignored(signal: c_int) -> bool {
    let mut action = KernelAction::default();
    let args = [signal as usize, 0, (&raw mut action).addr(), SET_BYTES, 0, 0];
    // SAFETY: without a new action the call only writes the present one.
    let asked = unsafe { raw::syscall(libc::SYS_rt_sigaction, args) };
    asked.is_ok() && action.handler == libc::SIG_IGN
}
