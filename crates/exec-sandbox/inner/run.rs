//! The command: started, reaped, and told of the signals that were meant for it.

use core::ffi::CStr;
use core::ptr;
use core::sync::atomic::{AtomicI32, Ordering};

use crate::format::{STATUS_FD, Status, Texts};
use crate::sys::{self, Errno, nr, nr_new};

pub struct Command<'a> {
    pub terminal: bool,
    pub cwd: &'a CStr,
    pub candidates: Texts<'a>,
    pub argv: Texts<'a>,
    pub env: Texts<'a>,
}

/// Signals that are passed on to the command's process group.
const PASSED_ON: [usize; 9] = [
    1,  // HUP
    2,  // INT
    3,  // QUIT
    10, // USR1
    12, // USR2
    15, // TERM
    18, // CONT
    20, // TSTP
    28, // WINCH
];
const CHILD: usize = 17;

/// Becomes the command; returns only with an error.
pub fn execute(command: &Command<'_>) -> Errno {
    let (argv, env) = match (pointers(command.argv), pointers(command.env)) {
        (Ok(argv), Ok(env)) => (argv, env),
        (Err(errno), _) | (_, Err(errno)) => return errno,
    };
    match prepare(command) {
        Ok(()) => try_candidates(command.candidates, argv, env),
        Err(errno) => errno,
    }
}

/// Starts the command, says so, and stays until it has ended. Everything else that runs in this
/// process namespace then ends too.
pub fn start(command: &Command<'_>) -> ! {
    let outcome = match shared_number() {
        Ok(outcome) => outcome,
        Err(errno) => not_executed(errno),
    };
    /// The parent waits until the child has executed its program or ended.
    const VFORK: usize = 0x4000;
    let child = match sys::plain(nr::CLONE, [VFORK | CHILD, 0, 0, 0, 0, 0]) {
        Ok(0) => {
            let errno = match session(command.terminal) {
                Ok(()) => execute(command),
                Err(errno) => errno,
            };
            outcome.store(errno, Ordering::Relaxed);
            sys::exit(127)
        }
        Ok(child) => child,
        Err(errno) => not_executed(errno),
    };
    match outcome.load(Ordering::Relaxed) {
        0 => {}
        errno => not_executed(errno),
    }
    // The command's streams end when the command closes them, so they must not be open here. Of all
    // descriptors only the status channel is kept.
    let status = STATUS_FD as usize;
    let _ = sys::plain(nr_new::CLOSE_RANGE, [0, status - 1, 0, 0, 0, 0]);
    let _ = sys::plain(nr_new::CLOSE_RANGE, [status + 1, u32::MAX as usize, 0, 0, 0, 0]);
    if sys::write(STATUS_FD as usize, &Status::Ready.encode()).is_err() {
        // Nobody is there to answer for it any more.
        sys::exit(1);
    }
    supervise(child)
}

fn not_executed(errno: Errno) -> ! {
    let _ = sys::write(STATUS_FD as usize, &Status::NotExecuted { errno }.encode());
    sys::exit(127)
}

fn supervise(child: usize) -> ! {
    let all: u64 = !0;
    loop {
        let args = [(&raw const all).addr(), 0, 0, size_of_val(&all), 0, 0];
        // SAFETY: the set is valid; no details and no time limit are given.
        match unsafe { sys::call(nr::RT_SIGTIMEDWAIT, args) } {
            Ok(CHILD) => reap(child),
            Ok(signal) if PASSED_ON.contains(&signal) => {
                // It may have ended just now.
                let group = (child as isize).wrapping_neg() as usize;
                let _ = sys::plain(nr::KILL, [group, signal, 0, 0, 0, 0]);
            }
            Ok(_) | Err(_) => {}
        }
    }
}

/// Waits for all that have ended. With the command's end this process ends as it did.
fn reap(child: usize) {
    const NO_HANG_ALL: usize = 1 | 0x4000_0000;
    const ANY: usize = usize::MAX;
    loop {
        let mut status: i32 = 0;
        let args = [ANY, (&raw mut status).addr(), NO_HANG_ALL, 0, 0, 0];
        // SAFETY: the call writes one status.
        match unsafe { sys::call(nr::WAIT4, args) } {
            Ok(0) => return,
            Ok(pid) if pid == child => sys::exit(code(status)),
            Ok(_) | Err(sys::EINTR) => {}
            Err(_) => return,
        }
    }
}

/// The exit code, or 128 and the signal.
fn code(status: i32) -> i32 {
    match status & 0x7f {
        0 => status >> 8 & 0xff,
        signal => 128 + signal,
    }
}

/// A session of its own and, with a terminal, that terminal's.
fn session(terminal: bool) -> Result<(), Errno> {
    const TAKE_TERMINAL: usize = 0x540e;
    sys::plain(nr::SETSID, [0; 6])?;
    if terminal {
        sys::plain(nr::IOCTL, [0, TAKE_TERMINAL, 0, 0, 0, 0])?;
    }
    Ok(())
}

fn prepare(command: &Command<'_>) -> Result<(), Errno> {
    sys::with_text(nr::CHDIR, command.cwd, |cwd| [cwd, 0, 0, 0, 0, 0])?;
    crate::close_on_exec()?;
    crate::set_signal_mask(0)
}

/// As `execvp` does: one that may not be executed is remembered, one that does not exist passed over.
fn try_candidates(candidates: Texts<'_>, argv: usize, env: usize) -> Errno {
    let mut result = sys::ENOENT;
    for candidate in candidates {
        // SAFETY: the path is a text, the arrays hold texts and end with a null pointer.
        match unsafe { sys::call(nr::EXECVE, [candidate.as_ptr().addr(), argv, env, 0, 0, 0]) } {
            Err(sys::EACCES) => result = sys::EACCES,
            Err(errno @ (sys::ENOENT | sys::ENOTDIR)) if result != sys::EACCES => result = errno,
            Err(sys::ENOENT | sys::ENOTDIR) | Ok(_) => {}
            Err(errno) => return errno,
        }
    }
    result
}

/// The address of an array of pointers to the texts, ended by a null pointer.
fn pointers(texts: Texts<'_>) -> Result<usize, Errno> {
    const PRIVATE: usize = 2;
    let count = texts.count();
    let array = map(PRIVATE, (count + 1) * size_of::<usize>())? as *mut *const u8;
    for (index, text) in texts.take(count).enumerate() {
        // SAFETY: the mapping has room for `count` pointers and, zero already, the last.
        unsafe { array.add(index).write(text.as_ptr().cast()) };
    }
    Ok(array.addr())
}

/// A number that a child shares with its parent. Zero to begin with.
fn shared_number() -> Result<&'static AtomicI32, Errno> {
    const SHARED: usize = 1;
    let page = map(SHARED, size_of::<AtomicI32>())?;
    // SAFETY: the mapping is new, never unmapped, and zero is a valid number.
    Ok(unsafe { &*ptr::with_exposed_provenance(page) })
}

/// New memory, zeroed.
fn map(sharing: usize, bytes: usize) -> Result<usize, Errno> {
    const READ_WRITE: usize = 3;
    const ANONYMOUS: usize = 0x20;
    const NO_FILE: usize = usize::MAX;
    sys::plain(nr::MMAP, [0, bytes, READ_WRITE, sharing | ANONYMOUS, NO_FILE, 0])
}
