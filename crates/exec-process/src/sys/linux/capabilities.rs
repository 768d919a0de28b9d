//! Capabilities that a child keeps over its exec.
//!
//! A child in a new user namespace has all capabilities there, and would lose them when it executes a
//! program: nobody has told the kernel yet which user it is inside. The ambient set survives that.

use std::ffi::c_int;

use super::raw::{self, Errno};

/// `struct __user_cap_header_struct` of the version with 64 capabilities.
const VERSION: u32 = 0x2008_0522;
/// The effective, permitted and inheritable sets, lower halves first.
type Sets = [u32; 6];
const INHERITABLE: [usize; 2] = [2, 5];

/// Keeps those of the set, which the caller must have. Runs in the child: allocates and locks nothing.
pub(super) fn keep_over_exec(set: u64) -> Result<(), Errno> {
    if set == 0 {
        return Ok(());
    }
    let mut sets: Sets = [0; 6];
    transfer(libc::SYS_capget, &mut sets)?;
    let [a, b, c, d, e, f, g, h] = set.to_le_bytes();
    let halves = [u32::from_le_bytes([a, b, c, d]), u32::from_le_bytes([e, f, g, h])];
    for (place, half) in INHERITABLE.into_iter().zip(halves) {
        sets[place] |= half;
    }
    transfer(libc::SYS_capset, &mut sets)?;
    let mut left = set;
    while left != 0 {
        let capability = left.trailing_zeros() as usize;
        left &= left - 1;
        raise(capability)?;
    }
    Ok(())
}

fn transfer(number: libc::c_long, sets: &mut Sets) -> Result<(), Errno> {
    let mut header = [VERSION, 0];
    let args = [(&raw mut header).addr(), sets.as_mut_ptr().addr(), 0, 0, 0, 0];
    // SAFETY: header and sets are as long as this version wants them.
    unsafe { raw::syscall(number, args) }.map(drop)
}

fn raise(capability: usize) -> Result<(), Errno> {
    const RAISE: c_int = libc::PR_CAP_AMBIENT_RAISE;
    let args = [libc::PR_CAP_AMBIENT as usize, RAISE as usize, capability, 0, 0, 0];
    // SAFETY: this option takes numbers only.
    unsafe { raw::syscall(libc::SYS_prctl, args) }.map(drop)
}
