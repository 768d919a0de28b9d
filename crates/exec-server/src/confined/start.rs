//! What a worker may see and do, and its start.

use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Instant;

use exec_process::launch;
use exec_process::sys::{ChildStdio, Spawned};
use exec_protocol::sandbox::{
    Access, Entry, EntryPath, FileSystem, Network, Permissions, SandboxContext, Special,
};
use exec_sandbox::launch::{Command, Launch};
use exec_sandbox::linux::{builtin, seccomp};
use exec_sandbox::plan::{Filter, Mount, Plan};
use exec_sandbox::policy::{Disk, Facts, Policy, Remembered};

use super::serve::WORKER_ARGUMENT;
use crate::error::Error;
use crate::limits::POLICY_TIME_MAX;
use crate::server::Server;

/// What has to be done for a context to hold for file calls; nothing if it restricts no file.
pub(super) fn inside(
    mut context: SandboxContext,
    program: PathBuf,
) -> Result<Option<Inside>, Error> {
    require_cwd(&context)?;
    extend(&mut context);
    let facts = Facts {
        cwd: PathBuf::from("/"),
        tmpdir: std::env::var_os("TMPDIR").map(PathBuf::from),
        home: std::env::var_os("HOME").map(PathBuf::from),
        hidden: Vec::new(),
        readable: vec![program],
    };
    let host = Remembered::new(Disk::until(Instant::now() + POLICY_TIME_MAX));
    let policy = Policy::resolve(&context, &facts, &host)?;
    if !policy.restricts_files() {
        return Ok(None);
    }
    Ok(Some(Inside::new(Plan::build(&policy, &host)?)))
}

/// Symbols and relative patterns stand for nothing when no directory is known; a command would have
/// its own.
fn require_cwd(context: &SandboxContext) -> Result<(), Error> {
    let Some(entries) = entries(context) else { return Ok(()) };
    let bound = match &context.policy_context {
        Some(bound) => bound.cwd.is_some(),
        None => context.cwd.is_some(),
    };
    let symbolic = |entry: &Entry| match &entry.path {
        EntryPath::Special { value: Special::ProjectRoots { .. } } => true,
        EntryPath::GlobPattern { pattern } => !pattern.starts_with('/'),
        EntryPath::Special { .. } | EntryPath::Path { .. } => false,
    };
    if !bound && entries.iter().any(symbolic) {
        return Err(Error::NoPolicyCwd);
    }
    Ok(())
}

fn entries(context: &SandboxContext) -> Option<&[Entry]> {
    match &context.permissions {
        Permissions::Managed { file_system: FileSystem::Restricted { entries, .. }, .. } => {
            Some(entries)
        }
        Permissions::Managed { file_system: FileSystem::Unrestricted, .. }
        | Permissions::Disabled
        | Permissions::External { .. } => None,
    }
}

/// A worker needs no network, and the libraries that any program needs.
fn extend(context: &mut SandboxContext) {
    let Permissions::Managed { file_system: FileSystem::Restricted { entries, .. }, network } =
        &mut context.permissions
    else {
        return;
    };
    *network = Network::Restricted;
    let is_root = |path: &EntryPath| match path {
        EntryPath::Special { value } => matches!(value, Special::Root),
        EntryPath::Path { path } => path.to_native().is_ok_and(|path| path == Path::new("/")),
        EntryPath::GlobPattern { .. } => false,
    };
    if !entries.iter().any(|entry| is_root(&entry.path) && entry.access != Access::Deny) {
        let path = EntryPath::Special { value: Special::Minimal };
        entries.push(Entry { path, access: Access::Read, missing_path_behavior: None });
    }
}

/// What a worker is started with. It is also its name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Inside {
    /// What it may see and do. There are no placeholders for it.
    plan: Plan,
    /// The names it must neither make nor remove.
    pub(super) protected: Vec<PathBuf>,
}

impl Inside {
    /// A worker outlives its calls, so nothing is put into the workspace for it to mount on: it
    /// refuses these names itself. What somebody else has put there now is mounted on all the same.
    fn new(mut plan: Plan) -> Self {
        plan.filter = Filter::Restricted;
        let Some(view) = &mut plan.view else { return Self { plan, protected: Vec::new() } };
        let protected: Vec<PathBuf> = view.placeholders.drain(..).map(|one| one.path).collect();
        view.mounts.retain(|mount| match mount {
            Mount::MaskDirectory { path, .. } | Mount::MaskFile(path) => {
                !protected.contains(path) || path.symlink_metadata().is_ok()
            }
            Mount::Root(_)
            | Mount::Devices
            | Mount::SharedMemory
            | Mount::Bind { .. }
            | Mount::Pin(_)
            | Mount::PinLink(_)
            | Mount::Link { .. }
            | Mount::Processes
            | Mount::SealRoot => true,
        });
        Self { plan, protected }
    }
}

/// Starts a worker.
pub(super) async fn start(server: &Server, inside: &Inside) -> Result<Spawned, Error> {
    let program = server.config.file_worker.as_deref().ok_or(Error::CannotConfine)?;
    let launch = launch(&inside.plan, program)?;
    let (spawned, _) = launch::start(launch, ChildStdio::Socket, &server.containment).await?;
    Ok(spawned)
}

fn launch(plan: &Plan, program: &Path) -> Result<Launch, Error> {
    let options = seccomp::Options::for_plan(
        plan.filter,
        seccomp::Nesting::Refused,
        seccomp::Record::Nothing,
    );
    let filter = match options.map(seccomp::program).transpose() {
        Ok(filter) => filter.map_or(&[][..], |filter| filter.bytes()),
        Err(error) => return Err(Error::Worker(error.to_string())),
    };
    let program = CString::new(program.as_os_str().as_bytes()).map_err(|_| Error::Internal)?;
    let name = CString::new(WORKER_ARGUMENT).map_err(|_| Error::Internal)?;
    let command = Command {
        argv: &[program.clone(), name],
        candidates: &[program],
        env: &[],
        terminal: false,
    };
    let options = builtin::Options { filter, ..builtin::Options::default() };
    builtin::launch(plan, &command, &options).map_err(|error| Error::Worker(error.to_string()))
}
