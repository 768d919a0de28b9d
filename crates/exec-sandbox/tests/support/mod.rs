//! Children for the live tests: a fork that makes bare system calls, and programs under a filter.

#![allow(dead_code, reason = "each test binary uses its own part")]

use std::io;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::process::{Command, ExitStatus};

use exec_sandbox::linux::seccomp::{self, Options};

/// Forks, runs `act` in the child and returns how that ended. What `act` returns is the exit code.
/// It may make system calls but neither allocate nor panic: the child has one thread of many.
pub(crate) fn in_child(act: impl FnOnce() -> i32) -> ExitStatus {
    // SAFETY: the child does what `act` does, see above, and exits without unwinding.
    let pid = unsafe { libc::fork() };
    assert!(pid >= 0, "{}", io::Error::last_os_error());
    if pid == 0 {
        let code = act();
        // SAFETY: ends the child without running anything of the parent's.
        unsafe { libc::_exit(code) };
    }
    wait(pid)
}

pub(crate) fn wait(pid: i32) -> ExitStatus {
    let mut status = 0;
    loop {
        // SAFETY: `status` is valid for the call.
        if unsafe { libc::waitpid(pid, &raw mut status, 0) } == pid {
            return ExitStatus::from_raw(status);
        }
        let error = io::Error::last_os_error();
        assert_eq!(error.kind(), io::ErrorKind::Interrupted, "{error}");
    }
}

/// Installs the filter on the calling thread. With `flags` 8 the result is the listener.
pub(crate) fn install(program: &seccomp::Program, flags: u64) -> io::Result<i32> {
    #[repr(C)]
    struct Filter {
        length: u16,
        instructions: *const u8,
    }
    let length = u16::try_from(program.instructions().len()).unwrap_or(u16::MAX);
    let filter = Filter { length, instructions: program.bytes().as_ptr() };
    // SAFETY: plain numbers.
    if unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: `filter` and what it points to live during the call.
    let value = unsafe { libc::syscall(libc::SYS_seccomp, 1_u64, flags, &raw const filter) };
    match i32::try_from(value) {
        Ok(value) if value >= 0 => Ok(value),
        _ => Err(io::Error::last_os_error()),
    }
}

/// The command starts under the filter.
pub(crate) fn confine(command: &mut Command, options: Options) -> &mut Command {
    let program = seccomp::program(options).unwrap();
    // SAFETY: two bare system calls on memory that was made before the fork.
    unsafe { command.pre_exec(move || install(program, 0).map(drop)) }
}

/// The call's errno, 0 if it succeeded. For use in a fork.
pub(crate) fn errno_of(number: i64, arguments: [i64; 6]) -> i32 {
    let [a, b, c, d, e, f] = arguments;
    // SAFETY: the caller passes numbers, or pointers to what lives during the call.
    let value = unsafe { libc::syscall(number, a, b, c, d, e, f) };
    // SAFETY: always a valid place.
    if value < 0 { unsafe { *libc::__errno_location() } } else { 0 }
}

/// Whether this machine has the program; says so if not.
pub(crate) fn has(program: &str) -> bool {
    let found = std::path::Path::new(program).exists();
    if !found {
        exec_testkit::skip(format!("{program} is not installed"));
    }
    found
}
