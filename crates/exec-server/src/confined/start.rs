//! What a worker may see and do, and its start.

use std::path::{Path, PathBuf};

use exec_process::env::Environment;
use exec_process::launch;
use exec_process::limits::Limits;
use exec_process::sys::Spawned;
use exec_process::{Spec, Stdio};
use exec_protocol::sandbox::{
    Access, Entry, EntryPath, FileSystem, Network, Permissions, SandboxContext, Special,
};
use exec_sandbox::plan::{Filter, Mount, Plan};
use exec_sandbox::policy::Facts;

use super::serve::WORKER_ARGUMENT;
use crate::error::Error;
use crate::sandbox::{self, Confinement, Sandbox};
use crate::server::Server;

/// What has to be done for a context to hold for file calls; nothing if it restricts no file.
pub(super) fn inside(
    sandbox: &Sandbox,
    mut context: SandboxContext,
    program: PathBuf,
) -> Result<Option<Inside>, Error> {
    sandbox::refuse_foreign(&context)?;
    require_cwd(&context)?;
    extend(&mut context);
    let facts = Facts { readable: vec![program], ..sandbox.facts_without_command() };
    let confinement = sandbox.confinement(&context, &facts)?;
    let restricts = |confinement: &Confinement| confinement.policy.restricts_files();
    Ok(confinement.filter(restricts).map(|confinement| Inside::new(confinement.plan)))
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
    let program = server.config.file_worker.as_ref().ok_or(Error::CannotConfine)?;
    let spec = Spec {
        argv: vec![program.to_string_lossy().into_owned(), WORKER_ARGUMENT.to_owned()],
        arg0: None,
        cwd: PathBuf::from("/"),
        env: Environment::new(),
        stdio: Stdio::Socket,
        limits: Limits::default(),
        tells_usage: false,
    };
    let (sandbox, plan, command) = (server.sandbox.clone(), inside.plan.clone(), spec.clone());
    let launch = tokio::task::spawn_blocking(move || sandbox.launch(&plan, &command)).await;
    let launch = launch.map_err(|_| Error::Internal)??;
    let (spawned, _) = launch::start(launch, &spec, &server.containment).await?;
    Ok(spawned)
}
