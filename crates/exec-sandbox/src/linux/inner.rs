//! The program that becomes the first process of a sandbox, and what it is told: see
//! `inner/main.rs` beside this crate's sources.

use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::path::Path;
use std::sync::{Arc, OnceLock, PoisonError};

#[path = "../../inner/format.rs"]
#[allow(missing_docs, dead_code, unreachable_pub, reason = "shared with the program")]
mod format;

pub(crate) use format::{
    Deed, MAGIC, Object, PROGRAM_BYTES_MAX, RootKind, STATUS_BYTES, Sink, Status, Step, Steps,
    Texts,
};

use super::landlock::Ruleset;
use super::seccomp::{self, Nesting, Record};
use crate::launch::{
    Command, FIRST_DESCRIPTOR, Failure, Launch, Program, SignalTarget, StatusChannel, joined,
};
use crate::plan::Filter;

/// The compiled program.
static ELF: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/inner"));

/// Descriptors of a launch have at least this number, out of the way of those they are placed at.
const LOWEST: RawFd = FIRST_DESCRIPTOR + 8;

impl Sink for Vec<u8> {
    fn put(&mut self, bytes: &[u8]) {
        self.extend_from_slice(bytes);
    }
}

impl Deed {
    /// What was being done, for people.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Deed::Other => "itself",
            Deed::Source => "its source",
            Deed::Target => "its place",
            Deed::Clone => "copying the mounts",
            Deed::Attributes => "restricting the mounts",
            Deed::Attach => "mounting",
            Deed::FileSystem => "a new file system",
            Deed::Compare => "it is not what it was",
            Deed::Pivot => "changing the root",
            Deed::Verify => "looking whether it is so",
        }
    }
}

/// A program being written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Script {
    bytes: Vec<u8>,
}

impl Script {
    pub(crate) fn new() -> Self {
        Script { bytes: MAGIC.to_vec() }
    }

    pub(crate) fn push(&mut self, step: Step<'_>) {
        step.encode(&mut self.bytes);
    }

    /// Adds a Landlock ruleset, with rules of its own for a terminal: that comes from the host's
    /// `/dev/pts`, so no path in a view leads to it.
    pub(crate) fn push_ruleset(
        &mut self,
        ruleset: &Ruleset,
        terminal: bool,
    ) -> Result<(), Failure> {
        let Ruleset { handled_access, handled_network, scoped, rules } = ruleset;
        self.push(Step::Landlock {
            file_rights: *handled_access,
            port_rights: *handled_network,
            scopes: *scoped,
        });
        for rule in rules {
            self.push(Step::LandlockAllow { path: &c_path(&rule.path)?, rights: rule.access });
        }
        if terminal {
            let rights = handled_access & super::landlock::access::OF_FILES;
            self.push(Step::LandlockAllowDescriptor { descriptor: 0, rights });
        }
        self.push(Step::LandlockEnforce);
        Ok(())
    }

    /// Adds the filter of a plan, if it has one.
    pub(crate) fn push_filter(&mut self, filter: Filter, nesting: Nesting) -> Result<(), Failure> {
        let Some(filter) = seccomp::Options::for_plan(filter, nesting, Record::Nothing) else {
            return Ok(());
        };
        let program = seccomp::program(filter).map_err(|error| {
            Failure::new("make the system call filter", io::Error::other(error))
        })?;
        self.push(Step::Filter { flags: 0, instructions: program.bytes() });
        Ok(())
    }

    /// Ends the program with a command that is started from the plan's directory.
    pub(crate) fn launch_command(
        self,
        command: &Command<'_>,
        cwd: &Path,
        role: Role,
    ) -> Result<Ready, Failure> {
        let list = |texts: &[CString]| joined(texts.iter().map(CString::as_c_str));
        let (candidates, argv, env) =
            (list(command.candidates), list(command.argv), list(command.env));
        self.launch(Step::Command {
            becomes: role == Role::Command,
            terminal: command.terminal && role == Role::FirstProcess,
            cwd: &c_path(cwd)?,
            candidates: texts(&candidates)?,
            argv: texts(&argv)?,
            env: texts(&env)?,
        })
    }

    /// Ends the program with its command and makes it ready. What is said about a failed step is read
    /// from the program, without the command, which may be large.
    pub(crate) fn launch(mut self, command: Step<'_>) -> Result<Ready, Failure> {
        let steps = self.clone();
        self.push(command);
        let program = sealed(c"exec-program", &self.bytes, Contents::Data);
        let program = program.map_err(|error| Failure::new("write the program", error))?;
        let (server, inside) =
            status_channel().map_err(|error| Failure::new("make a channel", error))?;
        let status = StatusChannel::new(server, move |step| steps.explain(step));
        Ok(Ready { descriptors: vec![program, inside], status })
    }

    fn explain(&self, index: u32) -> String {
        let steps = Steps::new(&self.bytes).into_iter().flatten().flatten();
        let step = usize::try_from(index).ok().and_then(|index| steps.into_iter().nth(index));
        step.map_or_else(|| format!("step {index}"), |step| in_words(&step))
    }
}

/// What `inner` is once everything is set up.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    /// The first process of a namespace, which starts the command and reaps what it leaves.
    FirstProcess,
    /// The command itself.
    Command,
}

/// A finished program and its channel.
pub(crate) struct Ready {
    pub(crate) descriptors: Vec<OwnedFd>,
    pub(crate) status: StatusChannel,
}

impl Ready {
    /// Executed directly, in these namespaces.
    pub(crate) fn executed(
        self,
        clone_flags: u64,
        capabilities: u64,
        takes_terminal: bool,
    ) -> Result<Launch, Failure> {
        let program = executable().map_err(|error| Failure::new("write inner", error))?;
        Ok(Launch {
            program: Program::Descriptor(program),
            argv: vec![c"exec-inner".to_owned()],
            descriptors: self.descriptors,
            clone_flags,
            capabilities,
            takes_terminal,
            signals: SignalTarget::Group,
            status: self.status,
        })
    }
}

fn in_words(step: &Step<'_>) -> String {
    let shown = |path: &CStr| path.to_string_lossy().into_owned();
    match *step {
        Step::Identity { .. } => "map the user".to_owned(),
        Step::Unshare { .. } => "make namespaces".to_owned(),
        Step::NoUserNamespaces => "forbid user namespaces".to_owned(),
        Step::Loopback => "bring up the loopback device".to_owned(),
        Step::Root(_) => "make the root".to_owned(),
        Step::Devices { .. } => "make /dev".to_owned(),
        Step::SharedMemory => "mount /dev/shm".to_owned(),
        Step::Bind { path, writable: true, .. } => format!("mount {} writable", shown(path)),
        Step::Bind { path, writable: false, .. } => format!("mount {} read-only", shown(path)),
        Step::Pin { path, .. } => format!("pin {}", shown(path)),
        Step::Link { path, .. } => format!("make the link {}", shown(path)),
        Step::MaskDirectory { path, .. } | Step::MaskFile { path, .. } => {
            format!("hide {}", shown(path))
        }
        Step::Processes => "mount /proc".to_owned(),
        Step::SealRoot => "seal the root".to_owned(),
        Step::Witness { path, .. } => format!("check {}", shown(path)),
        Step::Enter => "enter the new root".to_owned(),
        Step::Limit { resource, .. } => format!("set limit {resource}"),
        Step::DropCapabilities => "drop capabilities".to_owned(),
        Step::NoNewPrivileges => "forbid new privileges".to_owned(),
        Step::Landlock { .. } | Step::LandlockEnforce => "restrict with Landlock".to_owned(),
        Step::LandlockAllow { path, .. } => format!("allow {} with Landlock", shown(path)),
        Step::LandlockAllowDescriptor { .. } => "allow the terminal with Landlock".to_owned(),
        Step::Filter { .. } => "install the system call filter".to_owned(),
        Step::Command { .. } => "start the command".to_owned(),
    }
}

/// A list of texts in a program.
pub(crate) fn texts(bytes: &[u8]) -> Result<Texts<'_>, Failure> {
    let malformed = || Failure::new("write the program", io::ErrorKind::InvalidData.into());
    Texts::new(bytes).ok_or_else(malformed)
}

/// A path as a program has it.
pub(crate) fn c_path(path: &Path) -> Result<CString, Failure> {
    use std::os::unix::ffi::OsStrExt;
    CString::new(path.as_os_str().as_bytes())
        .map_err(|error| Failure::new(format!("name {}", path.display()), io::Error::other(error)))
}

/// The program as an open file, written once.
pub(crate) fn executable() -> io::Result<Arc<OwnedFd>> {
    static MADE: OnceLock<Arc<OwnedFd>> = OnceLock::new();
    static MAKING: std::sync::Mutex<()> = std::sync::Mutex::new(());
    if let Some(made) = MADE.get() {
        return Ok(made.clone());
    }
    let _making = MAKING.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(made) = MADE.get() {
        return Ok(made.clone());
    }
    let made = Arc::new(sealed(c"exec-inner", ELF, Contents::Executable)?);
    Ok(MADE.get_or_init(|| made).clone())
}

/// What a memory file is for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Contents {
    Data,
    Executable,
}

/// A file in memory that can never be changed again.
pub(crate) fn sealed(name: &CStr, bytes: &[u8], contents: Contents) -> io::Result<OwnedFd> {
    /// Since Linux 6.3 a memory file says which it is; before, there was only one kind.
    const MFD_NOEXEC_SEAL: u32 = 8;
    const MFD_EXEC: u32 = 16;
    if bytes.len() > PROGRAM_BYTES_MAX {
        return Err(io::ErrorKind::FileTooLarge.into());
    }
    let kind = match contents {
        Contents::Data => MFD_NOEXEC_SEAL,
        Contents::Executable => MFD_EXEC,
    };
    let flags = libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING;
    let file = match memory_file(name, flags | kind) {
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => memory_file(name, flags)?,
        made => made?,
    };
    let mut file = std::fs::File::from(file);
    io::Write::write_all(&mut file, bytes)?;
    let seals = libc::F_SEAL_SEAL | libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_WRITE;
    // SAFETY: takes numbers only.
    check(unsafe { libc::fcntl(file.as_raw_fd(), libc::F_ADD_SEALS, seals) })?;
    Ok(file.into())
}

fn memory_file(name: &CStr, flags: u32) -> io::Result<OwnedFd> {
    // SAFETY: the name is a C string that outlives the call.
    let fd = check(unsafe { libc::memfd_create(name.as_ptr(), flags) })?;
    // SAFETY: the kernel has just made it for us.
    raised(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// The server's end and the one inside. The server hears who is speaking.
fn status_channel() -> io::Result<(OwnedFd, OwnedFd)> {
    let mut ends: [RawFd; 2] = [-1; 2];
    let kind = libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC;
    // SAFETY: the array has room for the two descriptors.
    check(unsafe { libc::socketpair(libc::AF_UNIX, kind, 0, ends.as_mut_ptr()) })?;
    // SAFETY: the kernel has just made both for us.
    let (server, inside) =
        unsafe { (OwnedFd::from_raw_fd(ends[0]), OwnedFd::from_raw_fd(ends[1])) };
    let (server, inside) = (raised(server)?, raised(inside)?);
    let yes: libc::c_int = 1;
    const SIZE: libc::socklen_t = 4;
    let (level, option) = (libc::SOL_SOCKET, libc::SO_PASSCRED);
    // SAFETY: the option reads one int.
    check(unsafe {
        libc::setsockopt(server.as_raw_fd(), level, option, (&raw const yes).cast(), SIZE)
    })?;
    // SAFETY: takes numbers only.
    check(unsafe { libc::fcntl(server.as_raw_fd(), libc::F_SETFL, libc::O_NONBLOCK) })?;
    Ok((server, inside))
}

/// Moves a descriptor out of the way.
pub(crate) fn raised(fd: OwnedFd) -> io::Result<OwnedFd> {
    if fd.as_raw_fd() >= LOWEST {
        return Ok(fd);
    }
    // SAFETY: takes numbers and makes a descriptor.
    let moved = check(unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_DUPFD_CLOEXEC, LOWEST) })?;
    // SAFETY: the kernel has just made it for us.
    Ok(unsafe { OwnedFd::from_raw_fd(moved) })
}

fn check(value: libc::c_int) -> io::Result<libc::c_int> {
    if value < 0 { Err(io::Error::last_os_error()) } else { Ok(value) }
}

#[cfg(test)]
mod format_tests;
