//! A plan, carried out by the kernel alone: namespaces made by the server's `clone`, and everything
//! inside them by `inner`.

use std::ffi::CString;
use std::path::{Path, PathBuf};

use super::inner::{Object, Role, RootKind, Script, Step, c_path, texts};
use super::landlock;
use super::seccomp::Nesting;
use crate::launch::{Command, Failure, Launch, joined};
use crate::plan::{Access, MaskMode, Mount, Network, Plan, Root, View};

/// Capabilities in the new user namespace that setting up takes; all are dropped before the command.
const CAPABILITIES: u64 =
    1 << CAP_SETPCAP | 1 << CAP_NET_ADMIN | 1 << CAP_SYS_ADMIN | 1 << CAP_SYS_RESOURCE;
const CAP_SETPCAP: u32 = 8;
const CAP_NET_ADMIN: u32 = 12;
const CAP_SYS_ADMIN: u32 = 21;
const CAP_SYS_RESOURCE: u32 = 24;

/// What a launch takes besides plan and command.
#[derive(Debug, Clone, Default)]
pub struct Options<'a> {
    /// Resource limits: resource, soft, hard. There are no core dumps in any case.
    pub limits: &'a [(u32, u64, u64)],
    /// Whether the command may make namespaces of its own.
    pub nesting: Nesting,
}

/// Makes everything ready, or says what stands against it. Nothing has been done to the system then
/// that does not go away with the launch.
pub fn launch(
    plan: &Plan,
    command: &Command<'_>,
    options: &Options<'_>,
) -> Result<Launch, Failure> {
    let mut script = Script::new();
    if let Some(view) = &plan.view {
        push_namespaces(&mut script, plan, options);
        push_view(&mut script, view, command.terminal)?;
    }
    push_locks(&mut script, plan, command.terminal, options)?;
    let is_alone = plan.view.is_some();
    let role = if is_alone { Role::FirstProcess } else { Role::Command };
    let ready = script.launch_command(command, &plan.cwd, role)?;
    let (flags, capabilities) = if is_alone {
        ((libc::CLONE_NEWUSER | libc::CLONE_NEWPID).unsigned_abs().into(), CAPABILITIES)
    } else {
        (0, 0)
    };
    ready.executed(flags, capabilities, is_alone)
}

/// What closes behind the set-up, whoever made the view.
pub(super) fn push_locks(
    script: &mut Script,
    plan: &Plan,
    terminal: bool,
    options: &Options<'_>,
) -> Result<(), Failure> {
    script.push(Step::Limit { resource: libc::RLIMIT_CORE, soft: 0, hard: 0 });
    for &(resource, soft, hard) in options.limits {
        script.push(Step::Limit { resource, soft, hard });
    }
    script.push(Step::NoNewPrivileges);
    if let Some(view) = &plan.view {
        push_second_layer(script, view, plan, terminal, options.nesting)?;
        script.push(Step::DropCapabilities);
    }
    script.push_filter(plan.filter, options.nesting)
}

/// The user and process namespaces come with the process; it makes the others itself, so that the
/// server does not wait for them.
fn push_namespaces(script: &mut Script, plan: &Plan, options: &Options<'_>) {
    // SAFETY: these calls take no arguments and cannot fail.
    let (uid, gid) = unsafe { (libc::geteuid(), libc::getegid()) };
    script.push(Step::Identity { uid, gid });
    let flags = libc::CLONE_NEWNS | libc::CLONE_NEWIPC | libc::CLONE_NEWUTS;
    let flags = match plan.network {
        Network::Isolated => flags | libc::CLONE_NEWNET,
        Network::Host => flags,
    };
    script.push(Step::Unshare { flags: flags.unsigned_abs().into() });
    if options.nesting == Nesting::Refused {
        script.push(Step::NoUserNamespaces);
    }
    if plan.network == Network::Isolated {
        script.push(Step::Loopback);
    }
}

fn push_view(script: &mut Script, view: &View, terminal: bool) -> Result<(), Failure> {
    for mount in &view.mounts {
        push_mount(script, mount, view, terminal)?;
    }
    // What is mounted is compared as it is opened; the rest is looked at here.
    let is_mounted = |path: &Path| view.mounts.iter().any(|mount| own_path(mount) == Some(path));
    for witness in view.witnesses.iter().filter(|witness| !is_mounted(&witness.path)) {
        let object = object(witness.device, witness.inode);
        script.push(Step::Witness { path: &c_path(&witness.path)?, object });
    }
    script.push(Step::Enter);
    Ok(())
}

/// Landlock, as far as this kernel has it. Ports are left to the network namespace, in which the
/// command may talk to itself; and mounting goes with it, which is what nesting is for.
fn push_second_layer(
    script: &mut Script,
    view: &View,
    plan: &Plan,
    terminal: bool,
    nesting: Nesting,
) -> Result<(), Failure> {
    let layer = match nesting {
        Nesting::Refused => landlock::second_layer(landlock::abi(), &view.writable, plan.network),
        Nesting::Allowed => None,
    };
    match layer {
        Some(layer) => {
            let layer = landlock::Ruleset { handled_network: 0, ..layer };
            script.push_ruleset(&layer, terminal)
        }
        None => Ok(()),
    }
}

fn push_mount(
    script: &mut Script,
    mount: &Mount,
    view: &View,
    terminal: bool,
) -> Result<(), Failure> {
    let path = own_path(mount).map(c_path).transpose()?.unwrap_or_default();
    let path = path.as_c_str();
    let witness = own_path(mount).and_then(|path| {
        let witness = view.witnesses.iter().find(|witness| witness.path == path)?;
        Some(object(witness.device, witness.inode))
    });
    match mount {
        Mount::Root(root) => script.push(Step::Root(match root {
            Root::HostReadOnly => RootKind::HostReadOnly,
            Root::HostWritable => RootKind::HostWritable,
            Root::Empty => RootKind::Empty,
        })),
        Mount::Devices => script.push(Step::Devices { terminal }),
        Mount::SharedMemory => script.push(Step::SharedMemory),
        Mount::Bind { access, .. } => {
            script.push(Step::Bind { path, writable: *access == Access::Writable, witness });
        }
        Mount::Pin(_) | Mount::PinLink(_) => script.push(Step::Pin { path, witness }),
        Mount::Link { target, .. } => script.push(Step::Link { path, target: &c_path(target)? }),
        Mount::MaskDirectory { mode, passages, files, .. } => {
            let mode = match mode {
                MaskMode::Closed => 0o000,
                MaskMode::Passage => 0o111,
                MaskMode::Listed => 0o555,
            };
            let (passages, files) = (joined_paths(passages)?, joined_paths(files)?);
            let (passages, files) = (texts(&passages)?, texts(&files)?);
            script.push(Step::MaskDirectory { path, mode, passages, files, witness });
        }
        Mount::MaskFile(_) => script.push(Step::MaskFile { path, witness }),
        Mount::Processes => script.push(Step::Processes),
        Mount::SealRoot => script.push(Step::SealRoot),
    }
    Ok(())
}

/// The path that a mount is about, if it names one.
fn own_path(mount: &Mount) -> Option<&Path> {
    match mount {
        Mount::Bind { path, .. }
        | Mount::Pin(path)
        | Mount::PinLink(path)
        | Mount::Link { path, .. }
        | Mount::MaskDirectory { path, .. }
        | Mount::MaskFile(path) => Some(path),
        Mount::Root(_)
        | Mount::Devices
        | Mount::SharedMemory
        | Mount::Processes
        | Mount::SealRoot => None,
    }
}

pub(super) fn object(device: u64, inode: u64) -> Object {
    Object { major: libc::major(device), minor: libc::minor(device), inode }
}

fn joined_paths(paths: &[PathBuf]) -> Result<Vec<u8>, Failure> {
    let paths: Vec<CString> = paths.iter().map(|path| c_path(path)).collect::<Result<_, _>>()?;
    Ok(joined(paths.iter().map(CString::as_c_str)))
}
