//! `inner`: the first process of a sandbox. It carries out a program that the server wrote (see
//! `format.rs`), step by step, and then starts the command and reaps what that leaves behind.
//!
//! It has no library at all, not even the C one, so that it starts in no time, needs nothing of the
//! file system it takes apart, and no variable of the environment means anything to it.
//!
//! Reading order: `format` (what it is told), `view` and `system` (the file system), `lock` (what is
//! given up), `run` (the command).

#![no_std]
#![no_main]
#![no_builtins]

mod failure;
#[allow(dead_code, reason = "the server encodes, this program decodes")]
mod format;
mod lock;
mod memory;
mod mounts;
mod run;
mod sys;
mod system;
mod view;

use core::slice;

use failure::{At, Result};
use format::{Deed, PROGRAM_BYTES_MAX, PROGRAM_FD, STATUS_FD, Status, Step, Steps};
use sys::{Errno, Fd, nr, nr_new};
use view::View;

#[cfg(target_arch = "x86_64")]
core::arch::global_asm!(
    ".globl _start",
    "_start:",
    "xor ebp, ebp",
    "and rsp, -16",
    "call {main}",
    "ud2",
    main = sym main,
);

#[cfg(target_arch = "aarch64")]
core::arch::global_asm!(
    ".globl _start",
    "_start:",
    "mov x29, xzr",
    "mov x30, xzr",
    "bl {main}",
    "brk #1",
    main = sym main,
);

#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    sys::exit(125)
}

extern "C" fn main() -> ! {
    // Nothing may interrupt what follows; signals for the command wait until it is there.
    let begun = set_signal_mask(!0).and_then(|()| close_on_exec());
    if begun.is_err() || !server_lives() {
        sys::exit(125);
    }
    const SET_NAME: usize = 15;
    let _ = sys::with_text(nr::PRCTL, c"exec-inner", |name| [SET_NAME, name, 0, 0, 0, 0]);
    let Some(program) = program() else { end(Status::Malformed) };
    let Ok(steps) = Steps::new(program) else { end(Status::Malformed) };
    // All of it is read before any of it is done.
    if steps.clone().any(|step| step.is_err()) {
        end(Status::Malformed);
    }
    let mut state = State { view: None, ruleset: None, umask: 0 };
    state.umask = sys::plain(nr::UMASK, [0; 6]).unwrap_or(0o22);
    for (step, index) in steps.flatten().zip(0..) {
        if let Err(failure) = state.carry_out(step) {
            end(Status::Failed { step: index, deed: failure.deed, errno: failure.errno });
        }
    }
    // A program without a command.
    end(Status::Malformed)
}

fn end(status: Status) -> ! {
    let _ = sys::write(STATUS_FD as usize, &status.encode());
    sys::exit(125)
}

/// What one step leaves for the next.
struct State {
    view: Option<View>,
    ruleset: Option<Fd>,
    umask: usize,
}

impl State {
    fn carry_out(&mut self, step: Step<'_>) -> Result<()> {
        match step {
            Step::Identity { uid, gid } => lock::identity(uid, gid),
            Step::Unshare { flags } => lock::unshare(flags),
            Step::NoUserNamespaces => {
                lock::forbid_user_namespaces();
                Ok(())
            }
            Step::Loopback => {
                lock::loopback();
                Ok(())
            }
            Step::Root(kind) => {
                self.view = Some(View::begin(kind)?);
                Ok(())
            }
            Step::Devices { terminal } => self.view()?.devices(terminal),
            Step::SharedMemory => self.view()?.shared_memory(),
            Step::Bind { path, writable, witness } => self.view()?.bind(path, writable, witness),
            Step::Pin { path, witness } => self.view()?.pin(path, witness),
            Step::Link { path, target } => self.view()?.link(path, target),
            Step::MaskDirectory { path, mode, passages, files, witness } => {
                self.view()?.mask_directory(path, mode, [passages, files], witness)
            }
            Step::MaskFile { path, witness } => self.view()?.mask_file(path, witness),
            Step::Processes => self.view()?.processes(),
            Step::SealRoot => self.view()?.seal_root(),
            Step::Witness { path, object } => match &self.view {
                Some(view) => view.witness(path, object),
                // Somebody else has made the view, and this is it.
                None => mounts::witness(path, object),
            },
            Step::Enter => self.view.take().ok_or(sys::EINVAL).at(Deed::Other)?.enter(),
            Step::Limit { resource, soft, hard } => lock::limit(resource, soft, hard),
            Step::DropCapabilities => lock::drop_capabilities(),
            Step::NoNewPrivileges => lock::no_new_privileges(),
            Step::Landlock { file_rights, port_rights, scopes } => {
                self.ruleset = Some(lock::ruleset(file_rights, port_rights, scopes)?);
                Ok(())
            }
            Step::LandlockAllow { path, rights } => lock::allow_path(self.ruleset()?, path, rights),
            Step::LandlockAllowDescriptor { descriptor, rights } => {
                lock::allow_descriptor(self.ruleset()?, descriptor, rights);
                Ok(())
            }
            Step::LandlockEnforce => lock::enforce(self.ruleset()?),
            Step::Filter { flags, instructions } => lock::filter(flags, instructions),
            Step::Command { becomes, terminal, cwd, candidates, argv, env } => {
                let command = run::Command { terminal, cwd, candidates, argv, env };
                self.command(becomes, &command)
            }
        }
    }

    fn view(&mut self) -> Result<&mut View> {
        self.view.as_mut().ok_or(sys::EINVAL).at(Deed::Other)
    }

    fn ruleset(&self) -> Result<&Fd> {
        self.ruleset.as_ref().ok_or(sys::EINVAL).at(Deed::Other)
    }

    fn command(&self, becomes: bool, command: &run::Command<'_>) -> ! {
        let _ = sys::plain(nr::UMASK, [self.umask, 0, 0, 0, 0, 0]);
        if becomes {
            let _ = sys::write(STATUS_FD as usize, &Status::Executing.encode());
            end(Status::NotExecuted { errno: run::execute(command) });
        }
        // The command runs as the same user, and must not reach into this process.
        const SET_DUMPABLE: usize = 4;
        let _ = sys::prctl(SET_DUMPABLE, [0; 4]);
        run::start(command)
    }
}

/// The program, mapped into memory.
fn program() -> Option<&'static [u8]> {
    const READ: usize = 1;
    const PRIVATE: usize = 2;
    let file = PROGRAM_FD as usize;
    let bytes = usize::try_from(sys::stat(file).ok()?.size).ok()?;
    if bytes == 0 || bytes > PROGRAM_BYTES_MAX {
        return None;
    }
    let start = sys::plain(nr::MMAP, [0, bytes, READ, PRIVATE, file, 0]).ok()?;
    // SAFETY: the mapping is as long as the file, which is sealed, and is never unmapped.
    Some(unsafe { slice::from_raw_parts(core::ptr::with_exposed_provenance(start), bytes) })
}

/// Whether the other end of the status channel is open. It closes with the server, which in a process
/// namespace of its own is no parent that could be asked for.
fn server_lives() -> bool {
    const HUNG_UP: u16 = 0x10;
    #[repr(C)]
    struct Poll {
        fd: i32,
        events: u16,
        found: u16,
    }
    let mut poll = Poll { fd: STATUS_FD, events: 0, found: 0 };
    let now = [0_u64; 2];
    let args = [(&raw mut poll).addr(), 1, (&raw const now).addr(), 0, 0, 0];
    // SAFETY: one pollfd and one timespec are valid, and no signal mask is given.
    let polled = unsafe { sys::call(nr::PPOLL, args) };
    polled.is_ok() && poll.found & HUNG_UP == 0
}

/// Marks every descriptor but 0, 1 and 2.
pub(crate) fn close_on_exec() -> core::result::Result<(), Errno> {
    const CLOSE_RANGE_CLOEXEC: usize = 4;
    let args = [3, u32::MAX as usize, CLOSE_RANGE_CLOEXEC, 0, 0, 0];
    sys::plain(nr_new::CLOSE_RANGE, args).map(drop)
}

pub(crate) fn set_signal_mask(set: u64) -> core::result::Result<(), Errno> {
    const SET: usize = 2;
    let args = [SET, (&raw const set).addr(), 0, size_of_val(&set), 0, 0];
    // SAFETY: the set is valid and as long as the call is told.
    unsafe { sys::call(nr::RT_SIGPROCMASK, args) }.map(drop)
}
