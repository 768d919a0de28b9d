//! Starting a child.
//!
//! The parent prepares everything: descriptors, argument arrays, the group. The child (`child.rs`)
//! shares the parent's memory while the calling thread is suspended, places the descriptors and
//! executes. The child's error comes back through that memory, without a pipe.

use std::ffi::{CStr, CString, c_char};
use std::fmt;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};

use exec_sandbox::launch::{Launch, Program};

use crate::limits::{GroupLimits, ResourceLimit};

use super::child::{self, ChildPlan};
use super::clone::{self, CloneCall, Cloned};
use super::containment::{ContainedGroup, Containment};
use super::raw::Errno;
use super::signals::{self, AllBlocked};
use super::stdio::{ChildStdio, ServerEnds, Stdio};
use super::{descriptors, reap, wait};

/// What to start.
pub struct SpawnRequest<'a> {
    /// The arguments as the program sees them, its own name first.
    pub argv: &'a [CString],
    /// Paths to execute, in order: absolute, or relative to `cwd`. The first that exists and may be
    /// executed is the program. As with `execvp`, EACCES outlives a later ENOENT, and any error but
    /// ENOENT, ENOTDIR and EACCES ends the search.
    pub program: &'a [CString],
    /// The whole environment, as `NAME=value`.
    pub env: &'a [CString],
    /// The working directory.
    pub cwd: &'a CStr,
    /// What the child gets as 0, 1 and 2. It inherits no other descriptor but a launch's.
    pub stdio: ChildStdio,
    /// Who answers for its end.
    pub containment: &'a Containment,
    /// What each of its processes may use. With a launch they are that one's to set: it knows better
    /// when.
    pub limits: &'a [ResourceLimit],
    /// What all of them may use together; needs a cgroup with those controllers.
    pub group_limits: GroupLimits,
    /// How the program is started, if not as the server's equal: the descriptors it gets besides, the
    /// namespaces it is in, and the open file that is executed instead of `program`.
    pub launch: Option<&'a Launch>,
}

/// A child that has executed its program.
pub struct Spawned {
    /// Its process id, which is also that of its process group and session.
    pub pid: i32,
    /// Readable when it has ended; for [`try_wait`](super::try_wait).
    pub pidfd: OwnedFd,
    /// Where to write its input: with [`ChildStdio::Pipes`] only, and only if asked for.
    pub stdin: Option<OwnedFd>,
    /// Its output; with [`ChildStdio::Pty`] the terminal's master, for reading and writing. A master
    /// answers reads with EIO once no process has the terminal open any more. With
    /// [`ChildStdio::Socket`] the other end of its stdin.
    pub stdout: Option<OwnedFd>,
    /// Its error output, unless it has a terminal; with [`ChildStdio::Socket`] its output too.
    pub stderr: Option<OwnedFd>,
    /// Kills it and every descendant of it.
    pub group: ContainedGroup,
}

impl fmt::Debug for Spawned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Spawned").field("pid", &self.pid).field("group", &self.group).finish()
    }
}

/// Starts a child. The calling thread is suspended until the child has executed its program, which
/// takes as long as `chdir` and `execve` do: a fraction of a millisecond, unless a file system hangs.
///
/// The child leads a session and process group of its own, has no signal blocked or ignored, and
/// inherits 0, 1 and 2 only. It is killed when the *thread* that started it ends, so call this on a
/// thread that lives as long as the server, such as a worker of the runtime.
///
/// The error is that of the system call that failed; `chdir` and `execve` are the common ones.
pub fn spawn(request: &SpawnRequest<'_>) -> io::Result<Spawned> {
    let stdio = Stdio::open(request.stdio)?;
    let (argv, env) = (pointers(request.argv), pointers(request.env));
    let launch = request.launch;
    let mut plan = ChildPlan {
        candidates: request.program,
        program: launch.and_then(|launch| match &launch.program {
            Program::Descriptor(program) => Some(program.as_raw_fd()),
            Program::Path(_) => None,
        }),
        argv: &argv,
        env: &env,
        cwd: request.cwd,
        stdio: stdio.child,
        extra: launch.map_or(&[], |launch| &launch.descriptors),
        namespaces: launch.map_or(0, |launch| launch.clone_flags),
        capabilities: launch.map_or(0, |launch| launch.capabilities),
        has_terminal: stdio.has_terminal && launch.is_none_or(|launch| !launch.takes_terminal),
        server_pid: std::process::id().cast_signed(),
        tag: None,
        descriptor_limit: descriptors::for_children(),
        limits: request.limits,
        reset_signals: 0,
        outcome: AtomicI32::new(child::NOT_RUN),
    };
    let (child, group) = place(&mut plan, request.containment, &request.group_limits)?;
    let errno = plan.outcome.load(Ordering::Relaxed);
    if errno > 0 {
        wait::wait_for_end(child.pidfd.as_fd())?;
        return Err(io::Error::from_raw_os_error(errno));
    }
    let ServerEnds { stdin, stdout, stderr } = stdio.server;
    Ok(Spawned { pid: child.pid, pidfd: child.pidfd, stdin, stdout, stderr, group })
}

/// A cgroup that was used before may turn out to kill what is started in it; the next may be new.
const CGROUP_ATTEMPTS: usize = 2;

/// Makes the child in a cgroup if there is one for it, else with a tag.
fn place(
    plan: &mut ChildPlan<'_>,
    containment: &Containment,
    limits: &GroupLimits,
) -> io::Result<(Cloned, ContainedGroup)> {
    for _ in 0..CGROUP_ATTEMPTS {
        let Some((group, directory)) = containment.admit_to_cgroup() else { break };
        group.limit(limits)?;
        match launch(plan, CloneCall::Clone3 { cgroup: Some(directory.as_fd()) }) {
            Ok(child) if plan.outcome.load(Ordering::Relaxed) != child::NOT_RUN => {
                return Ok((child, group));
            }
            Ok(child) => wait::wait_for_end(child.pidfd.as_fd())?,
            // No room for a process is no fault of the cgroup.
            Err(errno @ (libc::EAGAIN | libc::ENOMEM)) => {
                return Err(io::Error::from_raw_os_error(errno));
            }
            // Nor is it if namespaces are forbidden.
            Err(errno @ (libc::EPERM | libc::ENOSPC | libc::EUSERS)) if plan.namespaces != 0 => {
                return Err(io::Error::from_raw_os_error(errno));
            }
            Err(errno) => {
                let error = io::Error::from_raw_os_error(errno);
                tracing::warn!(%error, "cannot start a child in its cgroup");
            }
        }
        group.discard();
    }
    if !limits.is_empty() {
        return Err(io::Error::other("cannot limit the process: there is no cgroup for it"));
    }
    let (group, tag) = containment.admit_by_tag()?;
    plan.tag = Some(tag);
    let child = launch_without_cgroup(plan).map_err(io::Error::from_raw_os_error)?;
    Ok((child, group))
}

fn launch_without_cgroup(plan: &mut ChildPlan<'_>) -> Result<Cloned, Errno> {
    /// Set once `clone3` was refused: a seccomp filter does not change its mind.
    static CLONE3_REFUSED: AtomicBool = AtomicBool::new(false);
    if !CLONE3_REFUSED.load(Ordering::Relaxed) {
        match launch(plan, CloneCall::Clone3 { cgroup: None }) {
            // With namespaces it may be those that are refused, which says nothing of the call.
            Err(libc::EPERM | libc::EINVAL) if plan.namespaces != 0 => {}
            Err(libc::ENOSYS | libc::EPERM | libc::EINVAL) => {
                CLONE3_REFUSED.store(true, Ordering::Relaxed);
            }
            done => return done,
        }
    }
    launch(plan, CloneCall::Clone)
}

fn launch(plan: &mut ChildPlan<'_>, call: CloneCall<'_>) -> Result<Cloned, Errno> {
    plan.reset_signals = match call {
        CloneCall::Clone3 { .. } => signals::ignored(),
        CloneCall::Clone => signals::ALL,
    };
    let plan: &ChildPlan<'_> = plan;
    reap::enlisting(|| {
        let _blocked = AllBlocked::new()?;
        // SAFETY: signals are blocked; `child::run` keeps the rules of a shared memory, and the plan
        // stays where it is, unchanged, until the child no longer shares it.
        unsafe { clone::vfork(call, plan.namespaces, child::run, ptr::from_ref(plan).cast()) }
    })
}

/// An array of pointers as `execve` wants it, ended by a null pointer.
fn pointers(strings: &[CString]) -> Vec<*const c_char> {
    strings.iter().map(|string| string.as_ptr()).chain([ptr::null()]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_made_without_clone3_runs_with_default_signals() {
        let stdio = Stdio::open(ChildStdio::Pipes { stdin: false }).unwrap();
        let candidates = [c"/bin/grep".to_owned(), c"/usr/bin/grep".to_owned()];
        let argv = [c"grep".to_owned(), c"^Sig".to_owned(), c"/proc/self/status".to_owned()];
        let argv = pointers(&argv);
        let mut plan = ChildPlan {
            candidates: &candidates,
            program: None,
            argv: &argv,
            env: &[ptr::null()],
            cwd: c"/",
            stdio: stdio.child,
            extra: &[],
            namespaces: 0,
            capabilities: 0,
            has_terminal: false,
            server_pid: std::process::id().cast_signed(),
            tag: None,
            descriptor_limit: None,
            limits: &[],
            reset_signals: 0,
            outcome: AtomicI32::new(child::NOT_RUN),
        };
        let child = launch(&mut plan, CloneCall::Clone).unwrap();
        wait::wait_for_end(child.pidfd.as_fd()).unwrap();
        let mut status = String::new();
        let mut output = std::fs::File::from(stdio.server.stdout.unwrap());
        // The child's end in this process would keep the pipe from ending, so one read it is.
        let mut buffer = [0; 1024];
        let count = io::Read::read(&mut output, &mut buffer).unwrap();
        status.push_str(std::str::from_utf8(&buffer[..count]).unwrap());
        for line in ["SigBlk:\t0000000000000000", "SigIgn:\t0000000000000000"] {
            assert!(status.contains(line), "{line} not in {status}");
        }
    }
}
