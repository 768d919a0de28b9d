//! Which file systems live in this machine's kernel, and so keep its promises not to wait.
//!
//! A mount's type never changes and its unique number never comes again, so each is asked once.

use std::ffi::OsStr;
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::{AtFlags, StatxFlags};

use crate::resolve::{Status, retry};

/// Where a file lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Local {
    /// On a file system of the kernel.
    Disk,
    /// On tmpfs.
    Memory,
}

/// What a file is, and that it is local.
pub(super) struct LocalStatus {
    pub(super) status: Status,
    pub(super) local: Local,
}

const TMPFS: u64 = 0x0102_1994;

/// By `f_type`.
const DISKS: &[u64] = &[
    0xef53,      // ext2, ext3, ext4
    0x794c_7630, // overlayfs
    0x5846_5342, // xfs
    0x9123_683e, // btrfs
    0xf2f5_2010, // f2fs
    0x8584_58f6, // ramfs
    0x7371_7368, // squashfs
    0xe0f5_e1e2, // erofs
    0xca45_1a4e, // bcachefs
    0x2fc1_2fc1, // zfs
];

/// `STATX_MNT_ID_UNIQUE`, since Linux 6.8.
const UNIQUE_MOUNT: StatxFlags = StatxFlags::from_bits_retain(0x4000);

/// Mounts seen: the number shifted by two, and what was found of it. A slot that two mounts share
/// is only asked for more often.
static SEEN: [AtomicU64; 64] = [const { AtomicU64::new(0) }; 64];
const FOREIGN: u64 = 1;
const DISK: u64 = 2;
const MEMORY: u64 = 3;

/// What the descriptor is, without asking another machine; nothing if it is not local.
pub(super) fn status(fd: BorrowedFd<'_>) -> Option<LocalStatus> {
    let flags = AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC;
    let mask = StatxFlags::BASIC_STATS | StatxFlags::BTIME | UNIQUE_MOUNT;
    let raw = retry(|| rustix::fs::statx(fd, OsStr::new(""), flags, mask)).ok()?;
    let numbered = StatxFlags::from_bits_retain(raw.stx_mask).contains(UNIQUE_MOUNT);
    let found = if numbered { seen(fd, raw.stx_mnt_id) } else { ask(fd) };
    let local = match found? {
        DISK => Local::Disk,
        MEMORY => Local::Memory,
        _ => return None,
    };
    Some(LocalStatus { status: Status(raw), local })
}

fn seen(fd: BorrowedFd<'_>, mount: u64) -> Option<u64> {
    let slot = &SEEN[usize::try_from(mount % 64).ok()?];
    let value = slot.load(Ordering::Relaxed);
    if value >> 2 == mount {
        return Some(value & 3);
    }
    let found = ask(fd)?;
    slot.store(mount << 2 | found, Ordering::Relaxed);
    Some(found)
}

fn ask(fd: BorrowedFd<'_>) -> Option<u64> {
    let f_type = u64::try_from(rustix::fs::fstatfs(fd).ok()?.f_type).ok()?;
    Some(match f_type {
        TMPFS => MEMORY,
        known if DISKS.contains(&known) => DISK,
        _ => FOREIGN,
    })
}
