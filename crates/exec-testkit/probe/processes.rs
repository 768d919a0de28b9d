//! Other processes, and what this one may become.

use std::ffi::c_void;
use std::ptr::null_mut;

use crate::Try;
use crate::numbers;
use crate::sys::*;

pub(crate) const TRIES: &[(&str, Try)] = &[
    ("ptrace", seize),
    ("ptrace-child", trace_child),
    ("vm-read", read_memory),
    ("pidfd-getfd", steal_descriptor),
    ("kcmp", compare),
    ("kill", send_signal),
    ("dumpable", dumpable),
    ("nice", nice),
    ("realtime", realtime),
    ("raise-limit", raise_limit),
    ("core-limit", core_limit),
    ("setuid", become_root),
    ("setgroups", drop_groups),
    ("capset", take_capabilities),
    ("ambient", ambient),
    ("sysv-message", sysv_message),
    ("sysv-memory", sysv_memory),
    ("posix-queue", posix_queue),
    ("aio", asynchronous),
    ("fork-bomb", fork_bomb),
];

fn pid(arguments: &[String]) -> Result<i32, Failure> {
    number(arguments, 0).map(|number| number as i32)
}

/// Attaches without stopping anybody; it ends with us.
fn seize(arguments: &[String]) -> Attempt {
    const SEIZE: i32 = 0x4206;
    // SAFETY: takes numbers only.
    done(unsafe { ptrace(SEIZE, pid(arguments)?, 0_i64, 0_i64) }).map(drop)
}

fn trace_child(_: &[String]) -> Attempt {
    // SAFETY: the child only waits to be ended.
    let child = unsafe { fork() };
    if child == 0 {
        std::thread::sleep(std::time::Duration::from_secs(5));
        return Ok(());
    }
    let seized = seize(&[child.to_string()]);
    // SAFETY: takes numbers only; the child is ours.
    unsafe {
        kill(child, 9);
        waitpid(child, null_mut(), 0);
    }
    seized
}

/// Reads memory of another process, at an address that it has.
fn read_memory(arguments: &[String]) -> Attempt {
    let pid = pid(arguments)?;
    let address = match std::fs::read_to_string(format!("/proc/{pid}/maps")) {
        Ok(maps) => {
            let start = maps.split('-').next().unwrap_or_default();
            usize::from_str_radix(start, 16).unwrap_or(0x40_0000)
        }
        // Where programs without relocation begin.
        Err(_) => 0x40_0000,
    };
    let mut bytes = [0_u8; 8];
    let local = [bytes.as_mut_ptr() as usize, bytes.len()];
    let remote = [address, bytes.len()];
    let (local, remote) = (local.as_ptr().cast(), remote.as_ptr().cast());
    // SAFETY: the local piece is as long as we say.
    done(unsafe { process_vm_readv(pid, local, 1, remote, 1, 0) } as i64).map(drop)
}

/// `pidfd-getfd PID NUMBER`
fn steal_descriptor(arguments: &[String]) -> Attempt {
    let pid = i64::from(pid(arguments)?);
    // SAFETY: takes numbers only.
    let handle = done(unsafe { syscall(numbers::PIDFD_OPEN, pid, 0_i64) })?;
    let wanted = number(arguments, 1)?;
    // SAFETY: takes numbers only.
    done(unsafe { syscall(numbers::PIDFD_GETFD, handle, wanted, 0_i64) }).map(drop)
}

fn compare(arguments: &[String]) -> Attempt {
    const MEMORY: i64 = 1;
    let ours = i64::from(std::process::id());
    let theirs = i64::from(pid(arguments)?);
    // SAFETY: takes numbers only.
    done(unsafe { syscall(numbers::KCMP, ours, theirs, MEMORY, 0_i64, 0_i64) }).map(drop)
}

/// `kill PID SIGNAL`
fn send_signal(arguments: &[String]) -> Attempt {
    let signal = number(arguments, 1)? as i32;
    // SAFETY: takes numbers only.
    done(unsafe { kill(pid(arguments)?, signal) }).map(drop)
}

/// Whether the process lets itself be looked into: its memory can be opened.
fn dumpable(arguments: &[String]) -> Attempt {
    let path = format!("/proc/{}/mem", pid(arguments)?);
    std::fs::OpenOptions::new().read(true).write(true).open(path).map(drop).map_err(system)
}

fn nice(_: &[String]) -> Attempt {
    // SAFETY: takes numbers only.
    done(unsafe { setpriority(0, 0, -5) }).map(drop)
}

fn realtime(_: &[String]) -> Attempt {
    const FIFO: i32 = 1;
    let priority = 1;
    // SAFETY: the priority is a structure of one number.
    done(unsafe { sched_setscheduler(0, FIFO, &raw const priority) }).map(drop)
}

/// Asks for more open files than the most it may have.
fn raise_limit(_: &[String]) -> Attempt {
    const OPEN_FILES: i32 = 7;
    let mut limit = [0; 2];
    // SAFETY: two numbers are written, and read.
    unsafe {
        done(getrlimit(OPEN_FILES, &raw mut limit))?;
        limit[1] += 1;
        done(setrlimit(OPEN_FILES, &raw const limit)).map(drop)
    }
}

/// Success when cores may be written or be allowed again.
fn core_limit(_: &[String]) -> Attempt {
    const CORE: i32 = 4;
    let limit = [1 << 20, 1 << 20];
    // SAFETY: two numbers are read.
    done(unsafe { setrlimit(CORE, &raw const limit) }).map(drop)
}

fn become_root(_: &[String]) -> Attempt {
    // SAFETY: reads nothing, takes numbers only.
    let id = std::os::unix::fs::MetadataExt::uid(&std::fs::metadata("/proc/self").map_err(system)?);
    let other = if id == 0 { 1 } else { 0 };
    // SAFETY: takes a number only.
    done(unsafe { setuid(other) }).map(drop)
}

fn drop_groups(_: &[String]) -> Attempt {
    // SAFETY: an empty list.
    done(unsafe { setgroups(0, std::ptr::null()) }).map(drop)
}

/// Asks for all capabilities there are.
fn take_capabilities(_: &[String]) -> Attempt {
    const VERSION: u32 = 0x2008_0522;
    let header = [VERSION, 0];
    let most = [u32::MAX, u32::MAX, 0, 0x1ff, 0x1ff, 0];
    let (header, most): (*const u32, *const u32) = (header.as_ptr(), most.as_ptr());
    // SAFETY: both have the layout that the version asks for.
    done(unsafe { capset(header.cast::<c_void>(), most.cast()) }).map(drop)
}

/// Takes one capability over every exec to come.
fn ambient(_: &[String]) -> Attempt {
    const AMBIENT: i32 = 47;
    const RAISE: u64 = 2;
    const SYS_ADMIN: u64 = 21;
    // SAFETY: takes numbers only.
    done(unsafe { prctl(AMBIENT, RAISE, SYS_ADMIN, 0_u64, 0_u64) }).map(drop)
}

/// `sysv-message KEY TEXT`
fn sysv_message(arguments: &[String]) -> Attempt {
    let text = argument(arguments, 1)?.as_bytes();
    // SAFETY: takes numbers only.
    let queue = done(unsafe { msgget(number(arguments, 0)? as i32, 0) })?;
    let mut message = vec![1, 0, 0, 0, 0, 0, 0, 0];
    message.extend_from_slice(text);
    const NO_WAIT: i32 = 0o4000;
    // SAFETY: a number of eight bytes and then as much text as we say.
    done(unsafe { msgsnd(queue as i32, message.as_ptr().cast(), text.len(), NO_WAIT) }).map(drop)
}

/// `sysv-memory KEY`: writes into the first byte.
fn sysv_memory(arguments: &[String]) -> Attempt {
    // SAFETY: takes numbers only.
    let memory = done(unsafe { shmget(number(arguments, 0)? as i32, 0, 0) })?;
    // SAFETY: the system chooses the place.
    let place = unsafe { shmat(memory as i32, std::ptr::null(), 0) };
    if place.is_null() || place as isize == -1 {
        return Err(refused());
    }
    // SAFETY: attached for writing, and at least one page long.
    unsafe { place.write_volatile(b'!') };
    Ok(())
}

/// `posix-queue NAME TEXT`
fn posix_queue(arguments: &[String]) -> Attempt {
    const WRITE_ONLY: i32 = 1;
    const NO_WAIT: i32 = 0o4000;
    let (name, message) = (text(argument(arguments, 0)?)?, argument(arguments, 1)?);
    // SAFETY: a C string; nothing is created.
    let queue = done(unsafe { mq_open(name.as_ptr(), WRITE_ONLY | NO_WAIT) })?;
    // SAFETY: the text is as long as we say.
    done(unsafe { mq_send(queue as i32, message.as_ptr().cast(), message.len(), 0) }).map(drop)
}

/// The old asynchronous calls reach no further than `write`; they may stay.
fn asynchronous(_: &[String]) -> Attempt {
    let mut context = 0_u64;
    // SAFETY: one number is written.
    done(unsafe { syscall(numbers::IO_SETUP, 1_i64, &raw mut context) }).map(drop)
}

/// `fork-bomb COUNT`: that many processes that wait; did when there was room for all.
fn fork_bomb(arguments: &[String]) -> Attempt {
    for _ in 0..number(arguments, 0)? {
        // SAFETY: the child only waits to be ended.
        match unsafe { fork() } {
            0 => loop {
                std::thread::sleep(std::time::Duration::from_secs(1));
            },
            child => done(child).map(drop)?,
        }
    }
    Ok(())
}
