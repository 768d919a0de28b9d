//! What the server does for its own safety before anything else: commands of the same user must not
//! read its memory, and nothing that it starts for itself obeys the loader variables it was given.

use std::os::unix::ffi::OsStrExt;

/// Must be called while the program has one thread.
pub(crate) fn harden() {
    // SAFETY: a plain number; makes memory and descriptors of this process unreadable for others of
    // the same user, and cannot fail for this value.
    unsafe { libc::prctl(libc::PR_SET_DUMPABLE, 0, 0, 0, 0) };
    let none = libc::rlimit64 { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: reads one limit. Lowering is always allowed.
    unsafe { libc::setrlimit64(libc::RLIMIT_CORE, &raw const none) };
    // Children inherit what was given, if their policy says so; only the server does without.
    exec_process::env::keep_own();
    for (name, _) in std::env::vars_os() {
        if name.as_bytes().starts_with(b"LD_") {
            // SAFETY: no other thread is there that could read the environment meanwhile.
            unsafe { std::env::remove_var(name) };
        }
    }
}
