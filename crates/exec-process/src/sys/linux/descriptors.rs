//! The limit on open descriptors. A server needs many, its children get what the server was given:
//! programs that use `select` break above 1024.

use std::sync::OnceLock;

use super::raw::{self, Errno};

/// Nobody needs more; some systems allow a thousand million, and size tables by it.
const DESCRIPTORS_MAX: u64 = 1 << 17;

/// What the server was given, if it has raised its own limit since.
static GIVEN: OnceLock<[u64; 2]> = OnceLock::new();

/// The limit now, and what it may be raised to.
pub fn descriptor_limit() -> (u64, u64) {
    let mut limit = libc::rlimit64 { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the call writes one limit.
    unsafe { libc::getrlimit64(libc::RLIMIT_NOFILE, &raw mut limit) };
    (limit.rlim_cur, limit.rlim_max.min(DESCRIPTORS_MAX).max(limit.rlim_cur))
}

/// Raises the server's own limit as far as it goes. Children start with the old one.
pub fn raise_descriptor_limit() {
    let mut limit = libc::rlimit64 { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the call writes one limit.
    let asked = unsafe { libc::getrlimit64(libc::RLIMIT_NOFILE, &raw mut limit) };
    let (soft, hard) = descriptor_limit();
    if asked != 0 || soft >= hard {
        return;
    }
    GIVEN.get_or_init(|| [limit.rlim_cur, limit.rlim_max]);
    limit.rlim_cur = hard;
    // SAFETY: the call reads one limit. Should it be refused, the old limit stays, which is valid.
    unsafe { libc::setrlimit64(libc::RLIMIT_NOFILE, &raw const limit) };
}

/// The limit that children are to have, if it is not the server's own.
pub(super) fn for_children() -> Option<[u64; 2]> {
    GIVEN.get().copied()
}

/// Sets the limit of the calling process. Runs in the child: allocates and locks nothing.
pub(super) fn set(limit: [u64; 2]) -> Result<(), Errno> {
    set_limit(libc::RLIMIT_NOFILE, limit)
}

/// Sets any limit of the calling process. Runs in the child: allocates and locks nothing.
pub(super) fn set_limit(resource: u32, [soft, hard]: [u64; 2]) -> Result<(), Errno> {
    let limit = libc::rlimit64 { rlim_cur: soft, rlim_max: hard };
    let args = [0, resource as usize, (&raw const limit).addr(), 0, 0, 0];
    // SAFETY: the call reads one limit.
    unsafe { raw::syscall(libc::SYS_prlimit64, args) }.map(drop)
}
