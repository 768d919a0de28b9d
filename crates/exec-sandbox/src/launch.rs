//! A plan and a command, made ready to be started by somebody who knows nothing of either.
//!
//! A [`Launch`] says which program to execute, with which descriptors and in which namespaces. The
//! program sets everything up from inside and says on the status channel how that went; until then
//! nothing of the command has run.

use std::ffi::{CStr, CString};
use std::fmt;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// The first number that a launch's descriptors get in the child.
pub const FIRST_DESCRIPTOR: i32 = 3;

/// What the command is, once everything stands around it.
#[derive(Debug, Clone, Copy)]
pub struct Command<'a> {
    /// The arguments as the program sees them, its own name first.
    pub argv: &'a [CString],
    /// Paths to execute, in order, as for `execvp`: absolute, or relative to the plan's directory.
    pub candidates: &'a [CString],
    /// The whole environment, as `NAME=value`.
    pub env: &'a [CString],
    /// Whether descriptor 0 is a terminal that the command is to control.
    pub terminal: bool,
}

/// What to execute.
#[derive(Debug, Clone)]
pub enum Program {
    /// An open file. It may be closed on exec.
    Descriptor(Arc<OwnedFd>),
    /// An absolute path.
    Path(CString),
}

/// Who is sent the signals that are meant for the command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SignalTarget {
    /// The process group that the started process leads, as without a launch.
    Group,
    /// The process that said that the command runs.
    Reporter,
}

/// Everything that the start of a confined command takes. It is for one start.
pub struct Launch {
    /// What to execute.
    pub program: Program,
    /// Its arguments, its own name first. Its environment is empty.
    pub argv: Vec<CString>,
    /// What it gets as descriptors from [`FIRST_DESCRIPTOR`] on. Their numbers here are above all of
    /// those, so that placing one never closes another.
    pub descriptors: Vec<OwnedFd>,
    /// Flags for `clone`: the namespaces it starts in.
    pub clone_flags: u64,
    /// The capabilities it keeps over the exec, in its new user namespace.
    pub capabilities: u64,
    /// Whether it starts the session that gets the terminal; else that is done before it is executed.
    pub takes_terminal: bool,
    /// Who is sent the command's signals.
    pub signals: SignalTarget,
    /// Where it says how it went.
    pub status: StatusChannel,
}

impl fmt::Debug for Launch {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = formatter.debug_struct("Launch");
        shown.field("program", &self.program).field("clone_flags", &self.clone_flags);
        shown.finish_non_exhaustive()
    }
}

/// The server's end of the status channel.
pub struct StatusChannel {
    socket: Arc<OwnedFd>,
    explain: Box<dyn Fn(u32) -> String + Send + Sync>,
    is_executing: bool,
}

/// What was said about a launch.
#[derive(Debug)]
pub enum Outcome {
    /// Nothing yet.
    Pending,
    /// The command runs.
    Running {
        /// The process that said so, by its number here.
        reporter: i32,
    },
    /// Everything stood, but the command could not be executed or its directory not be entered.
    NotExecuted(io::Error),
    /// What was planned could not be done. Nothing of the command ran.
    Failed(Failure),
}

/// A step that could not be done.
#[derive(Debug, thiserror::Error)]
#[error("{step}: {source}")]
pub struct Failure {
    /// Which, in words.
    pub step: String,
    /// What the system said.
    #[source]
    pub source: io::Error,
}

impl Failure {
    pub(crate) fn new(step: impl Into<String>, source: io::Error) -> Self {
        Failure { step: step.into(), source }
    }
}

impl StatusChannel {
    /// `explain` says in words what the step with this number was about.
    pub(crate) fn new(
        socket: OwnedFd,
        explain: impl Fn(u32) -> String + Send + Sync + 'static,
    ) -> Self {
        StatusChannel { socket: Arc::new(socket), explain: Box::new(explain), is_executing: false }
    }

    /// What becomes readable when there is something to [`receive`](Self::receive).
    pub fn descriptor(&self) -> Arc<OwnedFd> {
        self.socket.clone()
    }
}

#[cfg(target_os = "linux")]
mod channel {
    use std::mem::size_of;
    use std::os::fd::AsRawFd;

    use super::*;
    use crate::linux::inner::{STATUS_BYTES, Status};

    impl StatusChannel {
        /// Takes the next message, if there is one. Never blocks.
        pub fn receive(&mut self) -> Outcome {
            loop {
                match self.receive_once() {
                    Ok(Some((message, reporter))) => {
                        let outcome = self.interpret(&message, reporter);
                        if !matches!(outcome, Outcome::Pending) {
                            return outcome;
                        }
                    }
                    Ok(None) => return self.closed(),
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                        return Outcome::Pending;
                    }
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    Err(error) => {
                        return Outcome::Failed(Failure::new("hear of the set-up", error));
                    }
                }
            }
        }

        /// Whether the other side has gone.
        pub fn is_closed(&self) -> bool {
            let fd = self.socket.as_raw_fd();
            let mut poll = libc::pollfd { fd, events: 0, revents: 0 };
            // SAFETY: one valid pollfd.
            unsafe { libc::poll(&raw mut poll, 1, 0) > 0 }
        }

        fn interpret(&mut self, message: &[u8], reporter: i32) -> Outcome {
            let broken = |text: &'static str| {
                Outcome::Failed(Failure::new("read the program", io::Error::other(text)))
            };
            match Status::decode(message) {
                Some(Status::Ready) => Outcome::Running { reporter },
                Some(Status::Executing) => {
                    self.is_executing = true;
                    Outcome::Pending
                }
                Some(Status::NotExecuted { errno }) => {
                    Outcome::NotExecuted(io::Error::from_raw_os_error(errno))
                }
                Some(Status::Failed { step, deed, errno }) => {
                    let step = format!("{} ({})", (self.explain)(step), deed.name());
                    Outcome::Failed(Failure::new(step, io::Error::from_raw_os_error(errno)))
                }
                Some(Status::Malformed) => broken("it is malformed"),
                None => broken("the answer is malformed"),
            }
        }

        /// Without a word the first process has died; after the last word before its exec it has
        /// become the command.
        fn closed(&self) -> Outcome {
            if self.is_executing {
                return Outcome::Running { reporter: 0 };
            }
            let died = io::Error::other("it ended without a word");
            Outcome::Failed(Failure::new("start the first process inside", died))
        }

        /// A message and who sent it; `None` at the end.
        fn receive_once(&self) -> io::Result<Option<([u8; STATUS_BYTES], i32)>> {
            let mut message = [0; STATUS_BYTES];
            // Room for one `ucred` with its header, aligned as control messages are.
            let mut control = [0_u64; 8];
            let mut part =
                libc::iovec { iov_base: message.as_mut_ptr().cast(), iov_len: message.len() };
            // SAFETY: msghdr is plain data, for which zero is valid.
            let mut header: libc::msghdr = unsafe { std::mem::zeroed() };
            header.msg_iov = &raw mut part;
            header.msg_iovlen = 1;
            header.msg_control = control.as_mut_ptr().cast();
            header.msg_controllen = size_of_val(&control) as _;
            let flags = libc::MSG_DONTWAIT | libc::MSG_CMSG_CLOEXEC;
            // SAFETY: the header points to buffers that are as long as it says.
            let count = unsafe { libc::recvmsg(self.socket.as_raw_fd(), &raw mut header, flags) };
            match usize::try_from(count) {
                Err(_) => Err(io::Error::last_os_error()),
                Ok(0) => Ok(None),
                Ok(_) => Ok(Some((message, sender(&header).unwrap_or(0)))),
            }
        }
    }

    /// Who sent a message, as the kernel says it, by the number in this process namespace.
    fn sender(header: &libc::msghdr) -> Option<i32> {
        // SAFETY: the header is as `recvmsg` left it, with its buffers alive.
        let first = unsafe { libc::CMSG_FIRSTHDR(header).as_ref() }?;
        let is_sender = first.cmsg_level == libc::SOL_SOCKET
            && first.cmsg_type == libc::SCM_CREDENTIALS
            && first.cmsg_len as usize >= size_of::<libc::cmsghdr>() + size_of::<libc::ucred>();
        // SAFETY: a message of this type holds a `ucred`, and its length says so too.
        let sender = is_sender
            .then(|| unsafe { libc::CMSG_DATA(first).cast::<libc::ucred>().read_unaligned() });
        sender.map(|sender| sender.pid)
    }
}

/// Texts as they stand in a program: back to back, each with its NUL.
pub(crate) fn joined<'a>(texts: impl IntoIterator<Item = &'a CStr>) -> Vec<u8> {
    texts.into_iter().flat_map(|text| text.to_bytes_with_nul()).copied().collect()
}
