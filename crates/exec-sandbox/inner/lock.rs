//! Everything that a process gives up for itself and all it starts.

use core::ffi::CStr;

use crate::failure::{At, Result};
use crate::format::Deed;
use crate::sys::{self, Errno, Fd, nr, nr_new};

/// The same user and group inside as outside, and no way to give up groups.
pub fn identity(uid: u32, gid: u32) -> Result<()> {
    // Kernels without it let nobody map groups who may not drop them either.
    match sys::write_file(c"/proc/self/setgroups", b"deny") {
        Err(sys::ENOENT) => {}
        written => written.at(Deed::Other)?,
    }
    let write = |path: &CStr, id: u32| {
        let mut line = *b"0000000000 0000000000 1";
        crate::view::number_into(&mut line[..10], id);
        crate::view::number_into(&mut line[11..21], id);
        sys::write_file(path, &line).at(Deed::Other)
    };
    write(c"/proc/self/uid_map", uid)?;
    write(c"/proc/self/gid_map", gid)
}

pub fn unshare(flags: u64) -> Result<()> {
    sys::plain(nr::UNSHARE, [flags as usize, 0, 0, 0, 0, 0]).map(drop).at(Deed::Other)
}

/// The second of two locks, the filter being the first: where it cannot be set, that one holds.
pub fn forbid_user_namespaces() {
    let _ = sys::write_file(c"/proc/sys/user/max_user_namespaces", b"0");
}

/// Programs expect 127.0.0.1 to be there. Without it the namespace is as closed.
pub fn loopback() {
    const INTERNET: usize = 2;
    const DATAGRAM_CLOEXEC: usize = 2 | sys::O_CLOEXEC;
    const SET_FLAGS: usize = 0x8914;
    const UP: u8 = 1;
    let socket = sys::plain(nr::SOCKET, [INTERNET, DATAGRAM_CLOEXEC, 0, 0, 0, 0]);
    let Ok(socket) = socket.map(Fd::new) else { return };
    // `struct ifreq`: a name of 16 bytes, then the flags.
    let mut request = [0_u8; 40];
    request[..2].copy_from_slice(b"lo");
    request[16] = UP;
    let args = [socket.raw(), SET_FLAGS, (&raw const request).addr(), 0, 0, 0];
    // SAFETY: the request is a whole `struct ifreq`, which the call only reads.
    let _ = unsafe { sys::call(nr::IOCTL, args) };
}

pub fn limit(resource: u32, soft: u64, hard: u64) -> Result<()> {
    let limit = [soft, hard];
    let args = [0, resource as usize, (&raw const limit).addr(), 0, 0, 0];
    // SAFETY: the call reads one limit.
    unsafe { sys::call(nr::PRLIMIT64, args) }.map(drop).at(Deed::Other)
}

const CAPABILITIES_MAX: usize = 64;
const BOUNDING_READ: usize = 23;
const BOUNDING_DROP: usize = 24;

/// Empties every set, and looks whether they are.
pub fn drop_capabilities() -> Result<()> {
    const SET_SECURE_BITS: usize = 28;
    // Root is nobody special, and neither that nor the ambient set can be changed any more.
    const ALL_LOCKED: usize = 0xef;
    const AMBIENT: usize = 47;
    const CLEAR_ALL: usize = 4;
    // Refused to who has no capabilities, who then needs none of it.
    let _ = sys::prctl(SET_SECURE_BITS, [ALL_LOCKED, 0, 0, 0]);
    sys::prctl(AMBIENT, [CLEAR_ALL, 0, 0, 0]).at(Deed::Other)?;
    for capability in 0..CAPABILITIES_MAX {
        match sys::prctl(BOUNDING_READ, [capability, 0, 0, 0]) {
            Ok(0) => {}
            Ok(_) => drop(sys::prctl(BOUNDING_DROP, [capability, 0, 0, 0]).at(Deed::Other)?),
            // The first that the kernel does not know.
            Err(_) => break,
        }
    }
    capabilities(nr::CAPSET, &mut [0; 6]).at(Deed::Other)?;
    verify_capabilities()
}

fn verify_capabilities() -> Result<()> {
    let mut sets = [!0; 6];
    capabilities(nr::CAPGET, &mut sets).at(Deed::Verify)?;
    let bounding = (0..CAPABILITIES_MAX)
        .any(|capability| matches!(sys::prctl(BOUNDING_READ, [capability, 0, 0, 0]), Ok(1..)));
    /// EPERM.
    const REFUSED: Errno = 1;
    if sets == [0; 6] && !bounding { Ok(()) } else { Err(REFUSED).at(Deed::Verify) }
}

/// The effective, permitted and inheritable sets, twice: the lower and the upper half.
fn capabilities(number: usize, sets: &mut [u32; 6]) -> core::result::Result<(), Errno> {
    const VERSION: u32 = 0x2008_0522;
    let mut header = [VERSION, 0];
    let args = [(&raw mut header).addr(), sets.as_mut_ptr().addr(), 0, 0, 0, 0];
    // SAFETY: header and sets are as long as this version wants them.
    unsafe { sys::call(number, args) }.map(drop)
}

pub fn no_new_privileges() -> Result<()> {
    const SET_NO_NEW_PRIVILEGES: usize = 38;
    sys::prctl(SET_NO_NEW_PRIVILEGES, [1, 0, 0, 0]).map(drop).at(Deed::Other)
}

/// Begins a Landlock ruleset.
pub fn ruleset(file_rights: u64, port_rights: u64, scopes: u64) -> Result<Fd> {
    // An older kernel takes a longer structure, if what it does not know is zero.
    let wanted = [file_rights, port_rights, scopes];
    let size = size_of_val(&wanted);
    let args = [(&raw const wanted).addr(), size, 0, 0, 0, 0];
    // SAFETY: the call reads as much as it is told.
    let made = unsafe { sys::call(nr_new::LANDLOCK_CREATE_RULESET, args) };
    made.map(Fd::new).at(Deed::Other)
}

/// Allows rights below a path, if it is there.
pub fn allow_path(ruleset: &Fd, path: &CStr, rights: u64) -> Result<()> {
    match sys::open_plain(sys::AT_FDCWD, path, 0) {
        Err(sys::ENOENT | sys::ENOTDIR | sys::EACCES) => Ok(()),
        opened => {
            let opened = opened.at(Deed::Target)?;
            allow(ruleset, opened.raw(), rights).at(Deed::Other)
        }
    }
}

/// Allows rights on an open object. A pipe needs none, and takes none.
pub fn allow_descriptor(ruleset: &Fd, descriptor: u32, rights: u64) {
    let _ = allow(ruleset, descriptor as usize, rights);
}

fn allow(ruleset: &Fd, object: usize, rights: u64) -> core::result::Result<(), Errno> {
    const BELOW_PATH: usize = 1;
    /// Execute, write, read, truncate, use as a device: all that a file that is no directory has.
    const FILE_RIGHTS: u64 = 1 | 1 << 1 | 1 << 2 | 1 << 14 | 1 << 15;
    #[repr(C, packed)]
    struct Rule {
        rights: u64,
        object: i32,
    }
    let is_directory = sys::stat(object)?.is_directory();
    let rights = if is_directory { rights } else { rights & FILE_RIGHTS };
    if rights == 0 {
        return Ok(());
    }
    let rule = Rule { rights, object: object as i32 };
    let args = [ruleset.raw(), BELOW_PATH, (&raw const rule).addr(), 0, 0, 0];
    // SAFETY: the call reads one rule.
    unsafe { sys::call(nr_new::LANDLOCK_ADD_RULE, args) }.map(drop)
}

pub fn enforce(ruleset: &Fd) -> Result<()> {
    let args = [ruleset.raw(), 0, 0, 0, 0, 0];
    sys::plain(nr_new::LANDLOCK_RESTRICT_SELF, args).map(drop).at(Deed::Other)
}

/// Installs a system call filter, for this process and all it starts.
pub fn filter(flags: u32, instructions: &[u8]) -> Result<()> {
    const SET_MODE_FILTER: usize = 1;
    #[repr(C)]
    struct Program {
        count: u16,
        instructions: *const u8,
    }
    let count = u16::try_from(instructions.len() / 8).map_err(|_| sys::EINVAL).at(Deed::Other)?;
    let program = Program { count, instructions: instructions.as_ptr() };
    let args = [SET_MODE_FILTER, flags as usize, (&raw const program).addr(), 0, 0, 0];
    // SAFETY: the program has as many instructions as it says.
    unsafe { sys::call(nr::SECCOMP, args) }.map(drop).at(Deed::Other)
}
