//! Mounts, namespaces and the doors into the kernel.

use std::ffi::{c_char, c_void};
use std::fs::File;
use std::os::fd::AsRawFd as _;
use std::ptr::null;

use crate::Try;
use crate::numbers;
use crate::sys::*;

pub(crate) const TRIES: &[(&str, Try)] = &[
    ("mount-tmpfs", mount_tmpfs),
    ("mount-proc", mount_proc),
    ("bind", bind_mount),
    ("remount", remount),
    ("umount", umount),
    ("propagate", propagate),
    ("pivot-root", pivot_root),
    ("chroot", change_root),
    ("fsopen", fsopen),
    ("fspick", fspick),
    ("open-tree", open_tree),
    ("move-mount", move_mount),
    ("mount-setattr", mount_setattr),
    ("unshare", unshare_flags),
    ("clone", clone_flags),
    ("clone3", clone3_flags),
    ("setns", enter),
    ("add-key", add_key),
    ("request-key", request_key),
    ("keyctl", keyctl),
    ("bpf", bpf),
    ("perf", perf),
    ("userfaultfd", userfaultfd),
    ("io-uring", io_uring),
    ("fanotify", fanotify),
    ("call", call),
    ("hostname", hostname),
    ("clock", clock),
    ("tiocsti", tiocsti),
    ("tiocsti-high", tiocsti_high),
    ("tioclinux", tioclinux),
    ("int80", int80),
    ("x32", x32),
    ("personality", persona),
];

const NEW_NS: i32 = 0x0002_0000;
const NEW_UTS: i32 = 0x0400_0000;
const NEW_IPC: i32 = 0x0800_0000;
const NEW_USER: i32 = 0x1000_0000;

/// For a run without a sandbox: what is changed is changed for nobody else.
pub(crate) fn take_private_namespaces() {
    let own = NEW_NS | NEW_UTS;
    // SAFETY: both take numbers or C strings only; there is one thread.
    unsafe {
        if unshare(own) < 0 && unshare(own | NEW_USER) < 0 {
            return;
        }
        const PRIVATE_BELOW: u64 = (1 << 18) | (1 << 14);
        mount(null(), c"/".as_ptr(), null(), PRIVATE_BELOW, null());
    }
}

const DETACH: i32 = 2;

fn mounted(path: &str, result: i32) -> Attempt {
    done(result)?;
    let path = text(path)?;
    // SAFETY: a C string. What we mounted goes again.
    unsafe { umount2(path.as_ptr(), DETACH) };
    Ok(())
}

fn mount_tmpfs(arguments: &[String]) -> Attempt {
    let target = text(argument(arguments, 0)?)?;
    // SAFETY: all are C strings or null.
    let result = unsafe { mount(c"x".as_ptr(), target.as_ptr(), c"tmpfs".as_ptr(), 0, null()) };
    mounted(argument(arguments, 0)?, result)
}

fn mount_proc(arguments: &[String]) -> Attempt {
    let target = text(argument(arguments, 0)?)?;
    // SAFETY: all are C strings or null.
    let result = unsafe { mount(c"x".as_ptr(), target.as_ptr(), c"proc".as_ptr(), 0, null()) };
    mounted(argument(arguments, 0)?, result)
}

fn bind_mount(arguments: &[String]) -> Attempt {
    const BIND: u64 = 1 << 12;
    let (source, target) = (text(argument(arguments, 0)?)?, text(argument(arguments, 1)?)?);
    // SAFETY: all are C strings or null.
    let result = unsafe { mount(source.as_ptr(), target.as_ptr(), null(), BIND, null()) };
    mounted(argument(arguments, 1)?, result)
}

/// Takes the read-only away.
fn remount(arguments: &[String]) -> Attempt {
    const REMOUNT_BIND: u64 = (1 << 5) | (1 << 12);
    let target = text(argument(arguments, 0)?)?;
    // SAFETY: all are C strings or null.
    done(unsafe { mount(null(), target.as_ptr(), null(), REMOUNT_BIND, null()) }).map(drop)
}

fn umount(arguments: &[String]) -> Attempt {
    let target = text(argument(arguments, 0)?)?;
    // SAFETY: a C string.
    done(unsafe { umount2(target.as_ptr(), DETACH) }).map(drop)
}

fn propagate(_: &[String]) -> Attempt {
    const SHARED_BELOW: u64 = (1 << 20) | (1 << 14);
    // SAFETY: all are C strings or null.
    done(unsafe { mount(null(), c"/".as_ptr(), null(), SHARED_BELOW, null()) }).map(drop)
}

/// With arguments that cannot be right: the question is whether we may.
fn pivot_root(arguments: &[String]) -> Attempt {
    let place = text(argument(arguments, 0)?)?;
    // SAFETY: C strings.
    let_in(unsafe { syscall(numbers::PIVOT_ROOT, place.as_ptr(), place.as_ptr()) })
}

fn change_root(arguments: &[String]) -> Attempt {
    let place = text(argument(arguments, 0)?)?;
    // SAFETY: a C string.
    done(unsafe { chroot(place.as_ptr()) }).map(drop)
}

fn fsopen(_: &[String]) -> Attempt {
    // SAFETY: a C string and a number.
    done(unsafe { syscall(numbers::FSOPEN, c"tmpfs".as_ptr(), 0_i64) }).map(drop)
}

fn fspick(_: &[String]) -> Attempt {
    // SAFETY: a C string and numbers.
    done(unsafe { syscall(numbers::FSPICK, -100_i64, c"/".as_ptr(), 0_i64) }).map(drop)
}

/// A copy of the mount at a path.
fn tree(path: &str) -> Result<i64, Failure> {
    const CLONE: i64 = 1;
    let path = text(path)?;
    // SAFETY: a C string and numbers.
    done(unsafe { syscall(numbers::OPEN_TREE, -100_i64, path.as_ptr(), CLONE) })
}

fn open_tree(arguments: &[String]) -> Attempt {
    tree(argument(arguments, 0)?).map(drop)
}

/// `move-mount FROM TO`
fn move_mount(arguments: &[String]) -> Attempt {
    const FROM_EMPTY: i64 = 4;
    let copy = tree(argument(arguments, 0)?)?;
    let target = text(argument(arguments, 1)?)?;
    // SAFETY: C strings and numbers.
    let moved = unsafe {
        syscall(
            numbers::MOVE_MOUNT,
            copy,
            c"".as_ptr(),
            -100_i64,
            target.as_ptr(),
            FROM_EMPTY,
        )
    };
    done(moved)?;
    // SAFETY: a C string.
    unsafe { umount2(target.as_ptr(), DETACH) };
    Ok(())
}

/// Takes the read-only away, in the new manner.
fn mount_setattr(arguments: &[String]) -> Attempt {
    const READ_ONLY: u64 = 1;
    let target = text(argument(arguments, 0)?)?;
    let attributes: [u64; 4] = [0, READ_ONLY, 0, 0];
    // SAFETY: the attributes are as long as we say.
    let set = unsafe {
        syscall(
            numbers::MOUNT_SETATTR,
            -100_i64,
            target.as_ptr(),
            0_i64,
            attributes.as_ptr(),
            32_i64,
        )
    };
    done(set).map(drop)
}

/// Names of namespaces as flags.
fn flags(arguments: &[String]) -> Result<i32, Failure> {
    let mut flags = 0;
    for name in arguments {
        flags |= match name.as_str() {
            "user" => NEW_USER,
            "mnt" => NEW_NS,
            "pid" => 0x2000_0000,
            "net" => 0x4000_0000,
            "uts" => NEW_UTS,
            "ipc" => NEW_IPC,
            "cgroup" => 0x0200_0000,
            "time" => 0x0000_0080,
            other => return Err(Failure::Impossible(format!("no such namespace: {other}"))),
        };
    }
    Ok(flags)
}

fn unshare_flags(arguments: &[String]) -> Attempt {
    // SAFETY: takes numbers only.
    done(unsafe { unshare(flags(arguments)?) }).map(drop)
}

const CHILD_SIGNAL: i64 = 17;

/// What a fork without a new stack returns, in both processes.
fn forked(result: i64) -> Attempt {
    let child = done(result)?;
    // SAFETY: the child does nothing but end; we wait for it.
    unsafe {
        if child == 0 {
            _exit(0);
        }
        waitpid(child as i32, std::ptr::null_mut(), 0);
    }
    Ok(())
}

fn clone_flags(arguments: &[String]) -> Attempt {
    let flags = i64::from(flags(arguments)?) | CHILD_SIGNAL;
    // SAFETY: a fork in other words: no new stack, nothing shared.
    forked(unsafe { syscall(numbers::CLONE, flags, 0_i64, 0_i64, 0_i64, 0_i64) })
}

fn clone3_flags(arguments: &[String]) -> Attempt {
    let mut how = [0_u64; 11];
    how[0] = flags(arguments)? as u64;
    how[4] = CHILD_SIGNAL as u64;
    // SAFETY: a fork in other words: no new stack, nothing shared.
    forked(unsafe { syscall(numbers::CLONE3, how.as_ptr(), 88_i64) })
}

/// `setns FILE`
fn enter(arguments: &[String]) -> Attempt {
    let namespace = File::open(argument(arguments, 0)?).map_err(system)?;
    // SAFETY: takes numbers only.
    done(unsafe { setns(namespace.as_raw_fd(), 0) }).map(drop)
}

fn add_key(_: &[String]) -> Attempt {
    const OF_THIS_PROCESS: i64 = -2;
    let (kind, name) = (c"user".as_ptr(), c"probe".as_ptr());
    // SAFETY: C strings, and one byte of data as said.
    done(unsafe { syscall(numbers::ADD_KEY, kind, name, c"x".as_ptr(), 1_i64, OF_THIS_PROCESS) })
        .map(drop)
}

fn request_key(_: &[String]) -> Attempt {
    let (kind, name) = (c"user".as_ptr(), c"no such key".as_ptr());
    // SAFETY: C strings.
    let_in(unsafe { syscall(numbers::REQUEST_KEY, kind, name, null::<c_char>(), 0_i64) })
}

fn keyctl(_: &[String]) -> Attempt {
    const GET_ID: i64 = 0;
    const OF_THE_SESSION: i64 = -3;
    // SAFETY: takes numbers only.
    done(unsafe { syscall(numbers::KEYCTL, GET_ID, OF_THE_SESSION, 1_i64) }).map(drop)
}

fn bpf(_: &[String]) -> Attempt {
    const MAP_CREATE: i64 = 0;
    // An array of one entry, key and value of four bytes.
    let mut attributes = [0_u32; 32];
    attributes[..4].copy_from_slice(&[2, 4, 4, 1]);
    // SAFETY: the attributes are as long as we say.
    done(unsafe { syscall(numbers::BPF, MAP_CREATE, attributes.as_ptr(), 128_i64) }).map(drop)
}

/// Counts the processor's time of the whole system.
fn perf(_: &[String]) -> Attempt {
    let mut attributes = [0_u32; 32];
    attributes[..2].copy_from_slice(&[1, 128]);
    // SAFETY: the attributes are as long as they say.
    let opened = unsafe {
        syscall(numbers::PERF_EVENT_OPEN, attributes.as_ptr(), -1_i64, 0_i64, -1_i64, 0_i64)
    };
    done(opened).map(drop)
}

fn userfaultfd(_: &[String]) -> Attempt {
    const USER_ONLY: i64 = 1;
    // SAFETY: takes numbers only.
    done(unsafe { syscall(numbers::USERFAULTFD, USER_ONLY) }).map(drop)
}

fn io_uring(_: &[String]) -> Attempt {
    let mut parameters = [0_u32; 30];
    // SAFETY: there is room for what the kernel tells.
    done(unsafe { syscall(numbers::IO_URING_SETUP, 1_i64, parameters.as_mut_ptr()) }).map(drop)
}

fn fanotify(_: &[String]) -> Attempt {
    const CONTENT: i64 = 4;
    // SAFETY: takes numbers only.
    done(unsafe { syscall(numbers::FANOTIFY_INIT, CONTENT, 0_i64) }).map(drop)
}

/// Calls that only the owner of the machine may make, with arguments that cannot be right.
fn call(arguments: &[String]) -> Attempt {
    let bad: *const c_void = std::ptr::without_provenance(1);
    let result = |number| {
        // SAFETY: the kernel finds that the pointers lead nowhere, and does nothing.
        let_in(unsafe { syscall(number, bad, bad, bad, bad, bad) })
    };
    match argument(arguments, 0)? {
        "kexec" => result(numbers::KEXEC_LOAD),
        "init-module" => result(numbers::INIT_MODULE),
        "delete-module" => result(numbers::DELETE_MODULE),
        "finit-module" => result(numbers::FINIT_MODULE),
        "swapon" => result(numbers::SWAPON),
        "reboot" => result(numbers::REBOOT),
        "acct" => result(numbers::ACCT),
        "syslog" => {
            const READ_ALL: i64 = 3;
            // SAFETY: no buffer, and no length.
            let_in(unsafe { syscall(numbers::SYSLOG, READ_ALL, bad, 0_i64) })
        }
        "quotactl" => result(numbers::QUOTACTL),
        "migrate-pages" => result(numbers::MIGRATE_PAGES),
        "iopl" => io_permission(),
        other => Err(Failure::Impossible(format!("no such call: {other}"))),
    }
}

#[cfg(target_arch = "x86_64")]
fn io_permission() -> Attempt {
    const IOPL: i64 = 172;
    // SAFETY: takes a number only; the level ends with this process.
    done(unsafe { syscall(IOPL, 3_i64) }).map(drop)
}

#[cfg(not(target_arch = "x86_64"))]
fn io_permission() -> Attempt {
    Err(Failure::Refused(38))
}

/// Gives the machine the name it has.
fn hostname(_: &[String]) -> Attempt {
    let mut name = [0; 64];
    // SAFETY: the buffer is as long as we say.
    done(unsafe { gethostname(name.as_mut_ptr(), name.len()) })?;
    let length = name.iter().position(|byte| *byte == 0).unwrap_or(0);
    // SAFETY: the name is as long as we say.
    done(unsafe { sethostname(name.as_ptr(), length) }).map(drop)
}

/// Gives the clock the error bound it has.
fn clock(_: &[String]) -> Attempt {
    const MAXIMAL_ERROR: u32 = 4;
    let mut values = [0_u8; 256];
    // SAFETY: there is room for all of the values.
    done(unsafe { adjtimex(values.as_mut_ptr()) })?;
    values[..4].copy_from_slice(&MAXIMAL_ERROR.to_ne_bytes());
    // SAFETY: the same values.
    done(unsafe { adjtimex(values.as_mut_ptr()) }).map(drop)
}

const TIOCSTI: u64 = 0x5412;

/// Types into the terminal for whoever reads it next.
fn tiocsti(_: &[String]) -> Attempt {
    // SAFETY: one byte is read.
    done(unsafe { ioctl(0, TIOCSTI, c"x".as_ptr()) }).map(drop)
}

/// The same, with bits that the kernel does not look at and a careless filter does.
fn tiocsti_high(_: &[String]) -> Attempt {
    // SAFETY: one byte is read.
    done(unsafe { ioctl(0, TIOCSTI | 1 << 32, c"x".as_ptr()) }).map(drop)
}

fn tioclinux(_: &[String]) -> Attempt {
    const TIOCLINUX: u64 = 0x541c;
    const SHIFT_STATE: u8 = 6;
    let mut code = [SHIFT_STATE; 8];
    // SAFETY: there is room for the answer.
    done(unsafe { ioctl(0, TIOCLINUX, code.as_mut_ptr()) }).map(drop)
}

/// `getpid`, asked as a 32-bit program would.
#[cfg(target_arch = "x86_64")]
fn int80(_: &[String]) -> Attempt {
    let answer: i32;
    // SAFETY: changes nothing but the register that is named.
    unsafe { std::arch::asm!("int 0x80", inlateout("eax") 20 => answer) };
    if answer > 0 { Ok(()) } else { Err(Failure::Refused(-answer)) }
}

#[cfg(not(target_arch = "x86_64"))]
fn int80(_: &[String]) -> Attempt {
    Err(Failure::Refused(38))
}

/// `getpid` with the number that x32 programs use.
fn x32(_: &[String]) -> Attempt {
    // SAFETY: takes no arguments.
    done(unsafe { syscall(numbers::GETPID | 0x4000_0000) }).map(drop)
}

/// Pretends to be a 32-bit machine with readable pages that can be executed, then writes.
fn persona(arguments: &[String]) -> Attempt {
    // SAFETY: takes a number only.
    done(unsafe { personality(0x0040_0008) })?;
    std::fs::write(argument(arguments, 0)?, "overwritten").map_err(system)
}
