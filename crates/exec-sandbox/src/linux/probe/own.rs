//! Whether we can make a sandbox ourselves: a child tries each step and says how far it came.

use std::io;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};
use std::time::Duration;

use crate::linux::bounded::readable_within;

/// What a sandbox needs from the kernel, in the order in which it is tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// New user, mount, process, IPC and host-name namespaces.
    Namespaces,
    /// To be the same user inside.
    UserMap,
    /// To mount a temporary file system.
    Mount,
    /// To mount a `/proc` of its own.
    ProcMount,
    /// To make a whole tree read-only at once.
    MountAttributes,
    /// A network namespace.
    Network,
    /// To switch its loopback on. A sandbox does without.
    Loopback,
}

impl Step {
    /// All, in order.
    pub const ALL: [Step; 7] = [
        Step::Namespaces,
        Step::UserMap,
        Step::Mount,
        Step::ProcMount,
        Step::MountAttributes,
        Step::Network,
        Step::Loopback,
    ];
}

/// How far we come ourselves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Own {
    /// By step: nothing if it worked, the system's error number if not. A step behind one that it
    /// depends on has that one's error.
    pub errors: [Option<i32>; Step::ALL.len()],
}

impl Own {
    /// Why the step does not work.
    pub fn error(&self, step: Step) -> Option<i32> {
        self.errors[step as usize]
    }

    /// The first step that is needed and does not work.
    pub fn obstacle(&self) -> Option<(Step, i32)> {
        let needed = Step::ALL.into_iter().filter(|step| *step != Step::Loopback);
        needed.filter_map(|step| Some((step, self.error(step)?))).next()
    }

    fn all(errno: i32) -> Own {
        Own { errors: [Some(errno); Step::ALL.len()] }
    }
}

/// Tries it, `patience` at most.
pub(super) fn try_own(patience: Duration) -> Own {
    attempt(patience).unwrap_or_else(|error| Own::all(error.raw_os_error().unwrap_or(libc::EIO)))
}

const REPORT_BYTES: usize = Step::ALL.len() * size_of::<i32>();

fn attempt(patience: Duration) -> io::Result<Own> {
    let (reader, writer) = pipe()?;
    // SAFETY: asks for numbers, cannot fail.
    let (uid, gid) = unsafe { (libc::geteuid(), libc::getegid()) };
    let maps = [format!("{uid} {uid} 1"), format!("{gid} {gid} 1")];
    let report_to = writer.as_raw_fd();

    let flags = libc::CLONE_NEWUSER
        | libc::CLONE_NEWNS
        | libc::CLONE_NEWPID
        | libc::CLONE_NEWIPC
        | libc::CLONE_NEWUTS
        | libc::SIGCHLD;
    // SAFETY: without CLONE_VM the child has a copy of everything and continues here; until its
    // exit it makes bare system calls on what was made before, and neither allocates nor locks.
    let pid = unsafe { libc::syscall(libc::SYS_clone, i64::from(flags), 0, 0, 0, 0) };
    if pid == 0 {
        report(report_to, &steps(&maps));
    }
    let pid = libc::pid_t::try_from(pid).map_err(io::Error::other)?;
    if pid < 0 {
        return Err(io::Error::last_os_error());
    }
    drop(writer);
    let answered = readable_within(reader.as_raw_fd(), patience);
    let mut bytes = [0_u8; REPORT_BYTES];
    let mut read = 0;
    if let Ok(true) = answered {
        // SAFETY: `bytes` takes that many.
        read = unsafe { libc::read(reader.as_raw_fd(), bytes.as_mut_ptr().cast(), REPORT_BYTES) };
    }
    // SAFETY: plain numbers; the child is not waited for yet, so the number is its own. It has
    // nothing more to do, and must not outlive the question.
    unsafe { libc::kill(pid, libc::SIGKILL) };
    let mut status = 0;
    // SAFETY: `status` is valid. A killed child ends at once, but for one that hangs in the kernel,
    // which is not waited for.
    unsafe {
        let patient = answered.as_ref().is_ok_and(|answered| *answered);
        libc::waitpid(pid, &raw mut status, if patient { 0 } else { libc::WNOHANG });
    }
    if !answered? {
        return Err(io::Error::from_raw_os_error(libc::ETIMEDOUT));
    }
    if usize::try_from(read).ok() != Some(REPORT_BYTES) {
        return Err(io::Error::from_raw_os_error(libc::EIO));
    }
    let mut own = Own::default();
    for (error, bytes) in own.errors.iter_mut().zip(bytes.chunks_exact(size_of::<i32>())) {
        let errno = bytes.try_into().map_or(libc::EIO, i32::from_ne_bytes);
        *error = (errno != 0).then_some(errno);
    }
    Ok(own)
}

fn pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    let mut ends = [-1; 2];
    // SAFETY: `ends` takes two descriptors.
    if unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: just made, and ours.
    Ok(unsafe { (OwnedFd::from_raw_fd(ends[0]), OwnedFd::from_raw_fd(ends[1])) })
}

/// In the child: writes the numbers and ends.
fn report(to: i32, errors: &[i32; Step::ALL.len()]) -> ! {
    // SAFETY: the array is that long; then the child ends without running anything of the server's.
    unsafe {
        libc::write(to, errors.as_ptr().cast(), REPORT_BYTES);
        libc::_exit(0)
    }
}

/// In the child, in its new namespaces: every further step, with its error number or 0.
fn steps(maps: &[String; 2]) -> [i32; Step::ALL.len()] {
    let mut errors = [0; Step::ALL.len()];
    // A hardened server is not dumpable, and neither is this copy of it: its maps would be root's.
    // SAFETY: plain numbers. It ends in a moment, and nothing of the command is near.
    unsafe { libc::prctl(libc::PR_SET_DUMPABLE, 1, 0, 0, 0) };
    let map = write_to(c"/proc/self/setgroups", b"deny")
        .and_then(|()| write_to(c"/proc/self/uid_map", maps[0].as_bytes()))
        .and_then(|()| write_to(c"/proc/self/gid_map", maps[1].as_bytes()));
    errors[Step::UserMap as usize] = number(map);
    errors[Step::Mount as usize] = number(map.and_then(|()| try_mount()));
    errors[Step::ProcMount as usize] = number(map.and_then(|()| try_proc()));
    errors[Step::MountAttributes as usize] = number(map.and_then(|()| try_attributes()));
    // SAFETY: a plain number.
    let network = check(unsafe { libc::unshare(libc::CLONE_NEWNET) });
    errors[Step::Network as usize] = number(network);
    errors[Step::Loopback as usize] = number(network.and_then(|()| try_loopback()));
    errors
}

type Tried = Result<(), i32>;

fn number(tried: Tried) -> i32 {
    tried.err().unwrap_or(0)
}

fn check(value: i32) -> Tried {
    // SAFETY: always a valid place.
    if value < 0 { Err(unsafe { *libc::__errno_location() }) } else { Ok(()) }
}

fn write_to(path: &std::ffi::CStr, text: &[u8]) -> Tried {
    // SAFETY: strings and lengths that live during the calls.
    unsafe {
        let file = libc::open(path.as_ptr(), libc::O_WRONLY | libc::O_CLOEXEC);
        check(file)?;
        let written = libc::write(file, text.as_ptr().cast(), text.len());
        let result = check(if written < 0 { -1 } else { 0 });
        // While it is open, its mount cannot become read-only.
        libc::close(file);
        result
    }
}

/// `/proc` is there in any case, so it serves as a mount point for both tries.
const PLACE: &std::ffi::CStr = c"/proc";

fn try_mount() -> Tried {
    // SAFETY: constant strings; the mounts are in a namespace that ends with this process.
    unsafe {
        let private = libc::MS_REC | libc::MS_PRIVATE;
        let none = std::ptr::null();
        check(libc::mount(none, c"/".as_ptr(), none, private, none.cast()))?;
        let flags = libc::MS_NOSUID | libc::MS_NODEV;
        let kind = c"tmpfs".as_ptr();
        check(libc::mount(kind, PLACE.as_ptr(), kind, flags, none.cast()))?;
        check(libc::umount2(PLACE.as_ptr(), libc::MNT_DETACH))
    }
}

fn try_proc() -> Tried {
    let flags = libc::MS_NOSUID | libc::MS_NODEV | libc::MS_NOEXEC;
    let kind = c"proc".as_ptr();
    // SAFETY: as above.
    check(unsafe { libc::mount(kind, PLACE.as_ptr(), kind, flags, std::ptr::null()) })
}

fn try_attributes() -> Tried {
    const AT_RECURSIVE: i32 = 0x8000;
    let read_only = libc::MOUNT_ATTR_RDONLY | libc::MOUNT_ATTR_NOSUID | libc::MOUNT_ATTR_NODEV;
    let attributes = [read_only, 0_u64, 0, 0];
    // SAFETY: `struct mount_attr` is four 64-bit numbers; it lives during the call.
    let value = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            libc::AT_FDCWD,
            c"/".as_ptr(),
            AT_RECURSIVE,
            attributes.as_ptr(),
            size_of_val(&attributes),
        )
    };
    check(if value < 0 { -1 } else { 0 })
}

fn try_loopback() -> Tried {
    /// `struct ifreq`, of which the name and the flags are used.
    #[repr(C)]
    struct Request {
        name: [u8; 16],
        flags: i16,
        rest: [u8; 22],
    }
    let mut request = Request { name: [0; 16], flags: 1, rest: [0; 22] };
    request.name[..2].copy_from_slice(b"lo");
    // SAFETY: the request has the size of `struct ifreq` and lives during the call.
    unsafe {
        let socket = libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0);
        check(socket)?;
        check(libc::ioctl(socket, libc::SIOCSIFFLAGS, &raw mut request))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_obstacle_counts_and_loopback_is_none() {
        let mut own = Own::default();
        assert_eq!(own.obstacle(), None);
        own.errors[Step::Loopback as usize] = Some(1);
        assert_eq!(own.obstacle(), None);
        own.errors[Step::ProcMount as usize] = Some(13);
        own.errors[Step::Network as usize] = Some(1);
        assert_eq!(own.obstacle(), Some((Step::ProcMount, 13)));
        assert_eq!(Own::all(28).obstacle(), Some((Step::Namespaces, 28)));
        for (index, step) in Step::ALL.into_iter().enumerate() {
            assert_eq!(step as usize, index);
        }
    }
}
