//! System calls, and the few numbers of the kernel that they take.

use core::arch::asm;
use core::ffi::CStr;

/// An error number as the kernel gives it, positive.
pub type Errno = i32;

pub const ENOENT: Errno = 2;
pub const EINTR: Errno = 4;
pub const EACCES: Errno = 13;
pub const EEXIST: Errno = 17;
pub const ENOTDIR: Errno = 20;
pub const EINVAL: Errno = 22;
pub const ESTALE: Errno = 116;

/// Numbers of system calls.
#[cfg(target_arch = "x86_64")]
pub mod nr {
    pub const WRITE: usize = 1;
    pub const CLOSE: usize = 3;
    pub const MMAP: usize = 9;
    pub const RT_SIGPROCMASK: usize = 14;
    pub const IOCTL: usize = 16;
    pub const SOCKET: usize = 41;
    pub const CLONE: usize = 56;
    pub const EXECVE: usize = 59;
    pub const WAIT4: usize = 61;
    pub const KILL: usize = 62;
    pub const CHDIR: usize = 80;
    pub const FCHDIR: usize = 81;
    pub const UMASK: usize = 95;
    pub const SETSID: usize = 112;
    pub const CAPGET: usize = 125;
    pub const CAPSET: usize = 126;
    pub const RT_SIGTIMEDWAIT: usize = 128;
    pub const PIVOT_ROOT: usize = 155;
    pub const PRCTL: usize = 157;
    pub const MOUNT: usize = 165;
    pub const UMOUNT2: usize = 166;
    pub const GETDENTS64: usize = 217;
    pub const EXIT_GROUP: usize = 231;
    pub const OPENAT: usize = 257;
    pub const MKDIRAT: usize = 258;
    pub const SYMLINKAT: usize = 266;
    pub const READLINKAT: usize = 267;
    pub const FCHMODAT: usize = 268;
    pub const PPOLL: usize = 271;
    pub const UNSHARE: usize = 272;
    pub const PRLIMIT64: usize = 302;
    pub const SECCOMP: usize = 317;
    pub const STATX: usize = 332;
}

/// Numbers of system calls.
#[cfg(target_arch = "aarch64")]
pub mod nr {
    pub const IOCTL: usize = 29;
    pub const MKDIRAT: usize = 34;
    pub const SYMLINKAT: usize = 36;
    pub const UMOUNT2: usize = 39;
    pub const MOUNT: usize = 40;
    pub const PIVOT_ROOT: usize = 41;
    pub const CHDIR: usize = 49;
    pub const FCHDIR: usize = 50;
    pub const FCHMODAT: usize = 53;
    pub const OPENAT: usize = 56;
    pub const CLOSE: usize = 57;
    pub const GETDENTS64: usize = 61;
    pub const WRITE: usize = 64;
    pub const PPOLL: usize = 73;
    pub const READLINKAT: usize = 78;
    pub const CAPGET: usize = 90;
    pub const CAPSET: usize = 91;
    pub const EXIT_GROUP: usize = 94;
    pub const UNSHARE: usize = 97;
    pub const KILL: usize = 129;
    pub const RT_SIGPROCMASK: usize = 135;
    pub const RT_SIGTIMEDWAIT: usize = 137;
    pub const SETSID: usize = 157;
    pub const UMASK: usize = 166;
    pub const PRCTL: usize = 167;
    pub const SOCKET: usize = 198;
    pub const CLONE: usize = 220;
    pub const EXECVE: usize = 221;
    pub const MMAP: usize = 222;
    pub const WAIT4: usize = 260;
    pub const PRLIMIT64: usize = 261;
    pub const SECCOMP: usize = 277;
    pub const STATX: usize = 291;
}

/// Newer calls have one number everywhere.
pub mod nr_new {
    pub const OPEN_TREE: usize = 428;
    pub const MOVE_MOUNT: usize = 429;
    pub const FSOPEN: usize = 430;
    pub const FSCONFIG: usize = 431;
    pub const FSMOUNT: usize = 432;
    pub const CLOSE_RANGE: usize = 436;
    pub const OPENAT2: usize = 437;
    pub const MOUNT_SETATTR: usize = 442;
    pub const LANDLOCK_CREATE_RULESET: usize = 444;
    pub const LANDLOCK_ADD_RULE: usize = 445;
    pub const LANDLOCK_RESTRICT_SELF: usize = 446;
}

pub const O_RDONLY: usize = 0;
pub const O_WRONLY: usize = 1;
pub const O_CREAT: usize = 0o100;
pub const O_EXCL: usize = 0o200;
pub const O_CLOEXEC: usize = 0o2000000;
pub const O_PATH: usize = 0o10000000;
#[cfg(target_arch = "x86_64")]
pub const O_DIRECTORY: usize = 0o200000;
#[cfg(target_arch = "x86_64")]
pub const O_NOFOLLOW: usize = 0o400000;
#[cfg(target_arch = "aarch64")]
pub const O_DIRECTORY: usize = 0o40000;
#[cfg(target_arch = "aarch64")]
pub const O_NOFOLLOW: usize = 0o100000;

pub const AT_FDCWD: usize = -100_isize as usize;
pub const AT_EMPTY_PATH: usize = 0x1000;
pub const AT_RECURSIVE: usize = 0x8000;

/// Makes one system call.
///
/// # Safety
/// The arguments must be what the call documents; memory it reads or writes must be valid.
pub unsafe fn call(number: usize, args: [usize; 6]) -> Result<usize, Errno> {
    // SAFETY: passed on to the caller.
    let value = unsafe { trap(number, args) };
    if (-4095..0).contains(&value) { Err(-value as Errno) } else { Ok(value as usize) }
}

#[cfg(target_arch = "x86_64")]
unsafe fn trap(number: usize, [a, b, c, d, e, f]: [usize; 6]) -> isize {
    let value: isize;
    // SAFETY: the registers are those of the x86_64 system call convention; the kernel changes only
    // rax, rcx and r11, and memory as the caller of `call` vouches for.
    unsafe {
        asm!(
            "syscall",
            inlateout("rax") number as isize => value,
            in("rdi") a, in("rsi") b, in("rdx") c, in("r10") d, in("r8") e, in("r9") f,
            lateout("rcx") _, lateout("r11") _,
            options(nostack),
        );
    }
    value
}

#[cfg(target_arch = "aarch64")]
unsafe fn trap(number: usize, [a, b, c, d, e, f]: [usize; 6]) -> isize {
    let value: isize;
    // SAFETY: the registers are those of the aarch64 system call convention; the kernel changes only
    // x0, and memory as the caller of `call` vouches for.
    unsafe {
        asm!(
            "svc 0",
            in("x8") number,
            inlateout("x0") a as isize => value,
            in("x1") b, in("x2") c, in("x3") d, in("x4") e, in("x5") f,
            options(nostack),
        );
    }
    value
}

/// A descriptor; closed when it goes away.
pub struct Fd(usize);

impl Fd {
    /// Takes charge of a descriptor that a call has just made.
    pub fn new(fd: usize) -> Self {
        Fd(fd)
    }

    pub fn raw(&self) -> usize {
        self.0
    }
}

impl Drop for Fd {
    fn drop(&mut self) {
        // SAFETY: the descriptor is ours, and nobody uses it after this.
        let _ = unsafe { call(nr::CLOSE, [self.0, 0, 0, 0, 0, 0]) };
    }
}

/// A call whose arguments are numbers only.
pub fn plain(number: usize, args: [usize; 6]) -> Result<usize, Errno> {
    // SAFETY: the callers in this program pass numbers only, and descriptors that are theirs.
    unsafe { call(number, args) }
}

/// A call that takes a text as one of its arguments.
pub fn with_text(
    number: usize,
    text: &CStr,
    args: impl FnOnce(usize) -> [usize; 6],
) -> Result<usize, Errno> {
    // SAFETY: the text outlives the call, and the callers in this program pass numbers besides.
    unsafe { call(number, args(text.as_ptr().addr())) }
}

pub fn open(dir: usize, path: &CStr, flags: usize) -> Result<Fd, Errno> {
    with_text(nr::OPENAT, path, |path| [dir, path, flags | O_CLOEXEC, 0, 0, 0]).map(Fd::new)
}

/// Opens a path without following any link on the way. A link at its end is opened itself.
pub fn open_plain(dir: usize, path: &CStr, flags: usize) -> Result<Fd, Errno> {
    /// RESOLVE_NO_SYMLINKS, which with O_NOFOLLOW and O_PATH still opens a final link itself.
    const NO_SYMLINKS: u64 = 4;
    const NO_MAGICLINKS: u64 = 2;
    let how: [u64; 3] =
        [(flags | O_PATH | O_NOFOLLOW | O_CLOEXEC) as u64, 0, NO_SYMLINKS | NO_MAGICLINKS];
    let (how, size) = ((&raw const how).addr(), size_of_val(&how));
    // SAFETY: `how` is a `struct open_how` and outlives the call, as does the path.
    let fd = unsafe { call(nr_new::OPENAT2, [dir, path.as_ptr().addr(), how, size, 0, 0]) };
    fd.map(Fd::new)
}

pub fn make_dir(dir: usize, path: &CStr, mode: usize) -> Result<(), Errno> {
    with_text(nr::MKDIRAT, path, |path| [dir, path, mode, 0, 0, 0]).map(drop)
}

/// Makes an empty file.
pub fn make_file(dir: usize, path: &CStr, mode: usize) -> Result<(), Errno> {
    let flags = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
    with_text(nr::OPENAT, path, |path| [dir, path, flags, mode, 0, 0]).map(|fd| drop(Fd::new(fd)))
}

pub fn make_link(target: &CStr, dir: usize, path: &CStr) -> Result<(), Errno> {
    let target = target.as_ptr().addr();
    // SAFETY: both texts outlive the call.
    unsafe { call(nr::SYMLINKAT, [target, dir, path.as_ptr().addr(), 0, 0, 0]) }.map(drop)
}

pub fn change_mode(dir: usize, path: &CStr, mode: u32) -> Result<(), Errno> {
    with_text(nr::FCHMODAT, path, |path| [dir, path, mode as usize, 0, 0, 0]).map(drop)
}

/// Writes everything at once, or fails.
pub fn write(fd: usize, bytes: &[u8]) -> Result<(), Errno> {
    // SAFETY: the bytes are valid for reads of their length.
    match unsafe { call(nr::WRITE, [fd, bytes.as_ptr().addr(), bytes.len(), 0, 0, 0]) } {
        Ok(count) if count == bytes.len() => Ok(()),
        Ok(_) => Err(EINVAL),
        Err(errno) => Err(errno),
    }
}

pub fn write_file(path: &CStr, bytes: &[u8]) -> Result<(), Errno> {
    let file = open(AT_FDCWD, path, O_WRONLY)?;
    write(file.raw(), bytes)
}

pub fn prctl(option: usize, args: [usize; 4]) -> Result<usize, Errno> {
    let [a, b, c, d] = args;
    plain(nr::PRCTL, [option, a, b, c, d, 0])
}

pub fn exit(code: i32) -> ! {
    loop {
        let _ = plain(nr::EXIT_GROUP, [code as usize, 0, 0, 0, 0, 0]);
    }
}

/// What a descriptor stands for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Stat {
    pub major: u32,
    pub minor: u32,
    pub inode: u64,
    pub mode: u32,
    pub size: u64,
    pub device: (u32, u32),
}

impl Stat {
    pub fn is_directory(self) -> bool {
        self.kind() == 0o040000
    }

    pub fn is_link(self) -> bool {
        self.kind() == 0o120000
    }

    fn kind(self) -> u32 {
        self.mode & 0o170000
    }
}

/// `struct statx`, as far as it is read here.
#[repr(C)]
struct Statx {
    before_mode: [u8; 28],
    mode: u16,
    _spare: u16,
    inode: u64,
    size: u64,
    before_devices: [u8; 80],
    device_major: u32,
    device_minor: u32,
    major: u32,
    minor: u32,
    rest: [u8; 112],
}

pub fn stat(fd: usize) -> Result<Stat, Errno> {
    stat_at(fd, c"", AT_EMPTY_PATH)
}

pub fn stat_at(dir: usize, path: &CStr, flags: usize) -> Result<Stat, Errno> {
    const BASIC: usize = 0x7ff;
    // SAFETY: all zero is a valid value of a struct of numbers.
    let mut found: Statx = unsafe { core::mem::zeroed() };
    let args = [dir, path.as_ptr().addr(), flags, BASIC, (&raw mut found).addr(), 0];
    // SAFETY: the path is a text, and `found` has the size of the kernel's struct.
    unsafe { call(nr::STATX, args) }?;
    Ok(Stat {
        major: found.major,
        minor: found.minor,
        inode: found.inode,
        mode: found.mode.into(),
        size: found.size,
        device: (found.device_major, found.device_minor),
    })
}
