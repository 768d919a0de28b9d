//! The few things that all attempts need: raw calls and their errors.

use std::ffi::{CString, c_char, c_int, c_void};

/// How an attempt ended without success.
pub(crate) enum Failure {
    /// The system said no, with this number.
    Refused(i32),
    /// It could not be tried.
    Impossible(String),
}

pub(crate) type Attempt = Result<(), Failure>;

unsafe extern "C" {
    pub(crate) fn syscall(number: i64, ...) -> i64;
    pub(crate) fn mount(
        source: *const c_char,
        target: *const c_char,
        kind: *const c_char,
        flags: u64,
        data: *const c_void,
    ) -> c_int;
    pub(crate) fn umount2(target: *const c_char, flags: c_int) -> c_int;
    pub(crate) fn unshare(flags: c_int) -> c_int;
    pub(crate) fn setns(descriptor: c_int, kind: c_int) -> c_int;
    pub(crate) fn chroot(path: *const c_char) -> c_int;
    pub(crate) fn ioctl(descriptor: c_int, request: u64, ...) -> c_int;
    pub(crate) fn ptrace(request: c_int, ...) -> i64;
    pub(crate) fn kill(pid: c_int, signal: c_int) -> c_int;
    pub(crate) fn fork() -> c_int;
    pub(crate) fn waitpid(pid: c_int, status: *mut c_int, options: c_int) -> c_int;
    pub(crate) fn _exit(code: c_int) -> !;
    pub(crate) fn socket(family: c_int, kind: c_int, protocol: c_int) -> c_int;
    pub(crate) fn socketpair(family: c_int, kind: c_int, protocol: c_int, pair: *mut c_int) -> c_int;
    pub(crate) fn connect(descriptor: c_int, address: *const c_void, length: u32) -> c_int;
    pub(crate) fn bind(descriptor: c_int, address: *const c_void, length: u32) -> c_int;
    pub(crate) fn listen(descriptor: c_int, backlog: c_int) -> c_int;
    pub(crate) fn sendto(
        descriptor: c_int,
        data: *const c_void,
        length: usize,
        flags: c_int,
        address: *const c_void,
        address_length: u32,
    ) -> isize;
    pub(crate) fn sendmsg(descriptor: c_int, message: *const c_void, flags: c_int) -> isize;
    pub(crate) fn write(descriptor: c_int, data: *const c_void, length: usize) -> isize;
    pub(crate) fn sethostname(name: *const c_char, length: usize) -> c_int;
    pub(crate) fn gethostname(name: *mut c_char, length: usize) -> c_int;
    pub(crate) fn setpriority(which: c_int, who: u32, priority: c_int) -> c_int;
    pub(crate) fn setrlimit(resource: c_int, limit: *const [u64; 2]) -> c_int;
    pub(crate) fn getrlimit(resource: c_int, limit: *mut [u64; 2]) -> c_int;
    pub(crate) fn sched_setscheduler(pid: c_int, policy: c_int, priority: *const c_int) -> c_int;
    pub(crate) fn personality(persona: u64) -> c_int;
    pub(crate) fn adjtimex(values: *mut u8) -> c_int;
    pub(crate) fn msgget(key: c_int, flags: c_int) -> c_int;
    pub(crate) fn msgsnd(id: c_int, message: *const c_void, length: usize, flags: c_int) -> c_int;
    pub(crate) fn shmget(key: c_int, length: usize, flags: c_int) -> c_int;
    pub(crate) fn shmat(id: c_int, address: *const c_void, flags: c_int) -> *mut u8;
    pub(crate) fn mq_open(name: *const c_char, flags: c_int, ...) -> c_int;
    pub(crate) fn mq_send(queue: c_int, data: *const c_char, length: usize, priority: u32) -> c_int;
    pub(crate) fn process_vm_readv(
        pid: c_int,
        local: *const c_void,
        local_count: u64,
        remote: *const c_void,
        remote_count: u64,
        flags: u64,
    ) -> isize;
    pub(crate) fn setuid(id: u32) -> c_int;
    pub(crate) fn setgroups(count: usize, groups: *const u32) -> c_int;
    pub(crate) fn capset(header: *const c_void, data: *const c_void) -> c_int;
    pub(crate) fn prctl(option: c_int, ...) -> c_int;
}

/// The error of the last call.
pub(crate) fn refused() -> Failure {
    Failure::Refused(std::io::Error::last_os_error().raw_os_error().unwrap_or(0))
}

/// The value of a call, or its error.
pub(crate) fn done(value: impl Into<i64>) -> Result<i64, Failure> {
    let value = value.into();
    if value < 0 { Err(refused()) } else { Ok(value) }
}

/// Success when the call got beyond the question of who asks: with arguments that cannot be right
/// it fails with something else than a refusal.
pub(crate) fn let_in(value: i64) -> Attempt {
    const EPERM: i32 = 1;
    const EACCES: i32 = 13;
    const ENOSYS: i32 = 38;
    match done(value) {
        Err(Failure::Refused(EPERM | EACCES | ENOSYS)) => Err(refused()),
        _ => Ok(()),
    }
}

pub(crate) fn text(text: &str) -> Result<CString, Failure> {
    CString::new(text).map_err(|_| Failure::Impossible("a NUL in an argument".to_owned()))
}

/// The argument at this place.
pub(crate) fn argument(arguments: &[String], index: usize) -> Result<&str, Failure> {
    let missing = || Failure::Impossible(format!("argument {} is missing", index + 1));
    arguments.get(index).map(String::as_str).ok_or_else(missing)
}

pub(crate) fn number(arguments: &[String], index: usize) -> Result<i64, Failure> {
    let text = argument(arguments, index)?;
    text.parse().map_err(|_| Failure::Impossible(format!("{text} is not a number")))
}

/// The error of the standard library as ours.
pub(crate) fn system(error: std::io::Error) -> Failure {
    match error.raw_os_error() {
        Some(number) => Failure::Refused(number),
        None => Failure::Impossible(error.to_string()),
    }
}
