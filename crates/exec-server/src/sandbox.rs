//! From a caller's intent to a launch: the one place that decides how this executor confines.
//!
//! ```text
//!   context ──► Policy ──► Plan ──► Launch, by the engine that works on this host
//! ```
//!
//! Everything that can fail does so here, before anything runs.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use exec_process::Spec;
use exec_process::limits::{Controllers, Counted};
use exec_protocol::environment::{SandboxEngine, SandboxInfo};
use exec_protocol::sandbox::{SandboxContext, WindowsSandboxLevel};
use exec_sandbox::launch::{Command, Failure, Launch};
use exec_sandbox::linux::bwrap::{self, Places, Tools};
use exec_sandbox::linux::landlock::{self, Wanted};
use exec_sandbox::linux::placeholders::{Held, HoldError, Registry};
use exec_sandbox::linux::probe::{Engine, Facts as HostFacts, Probe, Verdict, choose};
use exec_sandbox::linux::seccomp::Nesting;
use exec_sandbox::linux::{builtin, landlock_only};
use exec_sandbox::plan::Plan;
use exec_sandbox::policy::{Access, Disk, Facts, Host, Kind, Object, Policy, Remembered};

use crate::config::SandboxConfig;
use crate::error::Error;

/// How long resolving a policy may look at the disk, patterns included.
const RESOLVE_TIME_MAX: Duration = Duration::from_secs(5);

/// What this server enforces with.
#[derive(Debug)]
pub(crate) struct Sandbox {
    config: SandboxConfig,
    probe: Probe,
    home: Option<PathBuf>,
    /// What the cgroups of commands can limit.
    controllers: Controllers,
    /// The server's own directory: journals of placeholders, the file that masks others.
    state: PathBuf,
    registry: OnceLock<Result<Registry, String>>,
    tools: OnceLock<Result<Tools, String>>,
}

/// How often the disk may change under a plan before nothing runs.
const PLANS_MAX: usize = 5;

/// A policy and its plan: what would be enforced.
#[derive(Debug)]
pub struct Confinement {
    /// What is allowed.
    pub policy: Policy,
    /// How that is made true.
    pub plan: Plan,
}

impl Sandbox {
    pub(crate) fn new(
        config: SandboxConfig,
        home: Option<PathBuf>,
        controllers: Controllers,
    ) -> Arc<Self> {
        let places =
            Places { operator: config.bwrap.clone(), server: std::env::current_exe().ok() };
        let state = state_directory(home.as_deref());
        let probe = Probe::new(places);
        let (registry, tools) = (OnceLock::new(), OnceLock::new());
        Arc::new(Self { config, probe, home, controllers, state, registry, tools })
    }

    /// What the host can do; the first to ask waits for it to be tried.
    pub(crate) fn facts(&self) -> HostFacts {
        self.probe.facts()
    }

    /// The engine that confines, or why there is none and what to do about it.
    pub(crate) fn engine(&self) -> Result<Engine, String> {
        choose(self.config.engine, &self.facts())
    }

    /// What the operator should hear when the server starts.
    pub(crate) fn warnings(&self) -> Vec<String> {
        let mut warnings = self.facts().warnings();
        if let Err(reason) = self.engine() {
            // A reason for one engine only does not say what follows from it.
            let what = "Requests for a sandbox will be refused:";
            warnings.push(format!("{what} {reason}"));
        }
        warnings
    }

    /// The same in words.
    pub(crate) fn describe(&self) -> SandboxInfo {
        let facts = self.facts();
        let chosen = choose(self.config.engine, &facts).ok();
        let engines = [Engine::Builtin, Engine::Bwrap, Engine::LandlockOnly];
        let engines = engines.map(|engine| {
            let (usable, reason) = match facts.verdict(engine) {
                Verdict::Usable => (true, None),
                Verdict::Unusable { why, remedy } => (false, Some(format!("{why} {remedy}"))),
            };
            SandboxEngine { name: engine.as_str().to_owned(), usable, reason }
        });
        SandboxInfo {
            engine: chosen.map(|engine| engine.as_str().to_owned()),
            engines: engines.into(),
        }
    }

    /// Binds the intent to this host. `None` when it leaves nothing to enforce. Looks at the disk.
    pub(crate) fn confinement(
        &self,
        context: &SandboxContext,
        facts: &Facts,
    ) -> Result<Option<Confinement>, Error> {
        let disk = Disk::until(Instant::now() + RESOLVE_TIME_MAX);
        let registry = self.registry().ok();
        let host = Remembered::new(Seen { disk, registry });
        let policy = Policy::resolve(context, facts, &host)?;
        let plan = Plan::build(&policy, &host)?;
        Ok(plan.confines().then_some(Confinement { policy, plan }))
    }

    /// What a policy has to know of a command.
    pub(crate) fn facts_of(&self, spec: &Spec) -> Facts {
        let tmpdir = spec.env.get(std::ffi::OsStr::new("TMPDIR"));
        Facts {
            cwd: spec.cwd.clone(),
            tmpdir: tmpdir.filter(|dir| !dir.is_empty()).map(PathBuf::from),
            home: self.home.clone(),
            hidden: vec![self.state.clone()],
            readable: Vec::new(),
        }
    }

    /// What a policy has to know where there is no command, but only file calls.
    pub(crate) fn facts_without_command(&self) -> Facts {
        let tmpdir = std::env::var_os("TMPDIR").filter(|dir| !dir.is_empty());
        Facts {
            cwd: PathBuf::from("/"),
            tmpdir: tmpdir.map(PathBuf::from),
            home: self.home.clone(),
            hidden: vec![self.state.clone()],
            readable: Vec::new(),
        }
    }

    /// Makes a command ready to be started under a caller's intent, with what has to be kept as long
    /// as it runs. `None` when there is nothing to enforce. Looks at the disk.
    pub(crate) fn ready(
        &self,
        context: &SandboxContext,
        spec: &Spec,
    ) -> Result<Option<(Launch, Option<Held>)>, Error> {
        let facts = self.facts_of(spec);
        for _ in 0..PLANS_MAX {
            // Before the disk is looked at, so that nobody's placeholder is taken for a real name.
            let registry = self.registry()?;
            let Some(Confinement { policy, mut plan }) = self.confinement(context, &facts)? else {
                return Ok(None);
            };
            if self.engine().map_err(Error::NoEngine)? == Engine::LandlockOnly {
                return Ok(Some((self.landlock_only(&policy, &plan, spec)?, None)));
            }
            let Some(view) = plan.view.take() else {
                return Ok(Some((self.launch(&plan, spec)?, None)));
            };
            match registry.hold(&view.placeholders) {
                Ok(held) => {
                    plan.view = Some(held.fit(view));
                    return Ok(Some((self.launch(&plan, spec)?, Some(held))));
                }
                Err(HoldError::Appeared(_)) => {}
                Err(error) => return Err(Error::Unprotected(error.to_string())),
            }
        }
        Err(Error::Unprotected("the workspace keeps changing".to_owned()))
    }

    fn registry(&self) -> Result<&Registry, Error> {
        let open = || {
            Registry::open(&self.state.join("placeholders"))
                .map_err(|error| format!("{}: {error}", self.state.display()))
        };
        self.registry.get_or_init(open).as_ref().map_err(|error| Error::Unprotected(error.clone()))
    }

    fn landlock_only(&self, policy: &Policy, plan: &Plan, spec: &Spec) -> Result<Launch, Error> {
        let writable = plan.view.as_ref().map(|view| view.writable.clone()).unwrap_or_default();
        let carve_outs: Vec<PathBuf> = policy
            .rules()
            .filter(|(path, rule)| rule.access != Access::Write && is_carve_out(path, &writable))
            .map(|(path, _)| path.to_owned())
            .collect();
        let wanted = Wanted {
            reads_everything: policy.full_read(),
            writable: &writable,
            carve_outs: &carve_outs,
            protects_metadata: policy.restricts_files(),
            accept_unprotected_metadata: false,
            network: plan.network,
        };
        let ruleset = landlock::alone(landlock::abi(), &wanted)
            .map_err(|error| Error::NoEngine(error.to_string()))?;
        self.command(spec, Counted::User, |command, options| {
            landlock_only::launch(&ruleset, plan, command, options)
        })
    }

    /// Makes a confined command ready to be started.
    pub(crate) fn launch(&self, plan: &Plan, spec: &Spec) -> Result<Launch, Error> {
        let counted = match plan.view {
            Some(_) => Counted::in_own_namespace(),
            None => Counted::User,
        };
        match self.engine().map_err(Error::NoEngine)? {
            Engine::Builtin | Engine::LandlockOnly => {
                self.command(spec, counted, |command, options| {
                    builtin::launch(plan, command, options)
                })
            }
            Engine::Bwrap => {
                let tools = self.tools()?;
                self.command(spec, counted, |command, options| {
                    bwrap::launch(tools, plan, command, options)
                })
            }
        }
    }

    fn tools(&self) -> Result<&Tools, Error> {
        let find = || {
            let bwrap = self.facts().bwrap?;
            Tools::new(bwrap, &self.state).map_err(|error| error.to_string())
        };
        self.tools.get_or_init(find).as_ref().map_err(|error| Error::NoEngine(error.clone()))
    }

    fn command(
        &self,
        spec: &Spec,
        counted: Counted,
        launch: impl FnOnce(&Command<'_>, &builtin::Options<'_>) -> Result<Launch, Failure>,
    ) -> Result<Launch, Error> {
        let nesting =
            if self.config.nested_user_namespaces { Nesting::Allowed } else { Nesting::Refused };
        let limits = spec.limits.of_each(self.controllers, counted);
        let limits = limits.map_err(exec_process::Error::Limit)?;
        let options = builtin::Options { limits: &limits, nesting };
        let strings = spec.exec_strings()?;
        let command = Command {
            argv: &strings.argv,
            candidates: &strings.candidates,
            env: &strings.env,
            terminal: matches!(spec.stdio, exec_process::Stdio::Terminal(_)),
        };
        let launch = launch(&command, &options);
        launch.map_err(|failure| Error::Process(exec_process::Error::Confine(failure)))
    }
}

fn is_carve_out(path: &Path, writable: &[PathBuf]) -> bool {
    writable.iter().any(|root| path != root && path.starts_with(root))
}

/// Where the server keeps what is its own: out of reach of what it runs.
fn state_directory(home: Option<&Path>) -> PathBuf {
    let set = std::env::var_os("XDG_STATE_HOME").map(PathBuf::from);
    let state = set.filter(|path| path.is_absolute());
    let state = state.or_else(|| home.map(|home| home.join(".local/state")));
    state.unwrap_or_else(|| PathBuf::from("/var/lib")).join("exec-server")
}

/// The disk as it is without placeholders.
struct Seen<'a> {
    disk: Disk,
    registry: Option<&'a Registry>,
}

impl Host for Seen<'_> {
    fn look(&self, path: &Path) -> io::Result<Option<Object>> {
        let seen = self.disk.look(path)?;
        let ours = |registry: &Registry| registry.is_placeholder(path);
        let is_directory = seen.is_some_and(|it| it.kind == Kind::Directory);
        Ok(seen.filter(|_| !(is_directory && self.registry.is_some_and(ours))))
    }

    fn read_link(&self, path: &Path) -> io::Result<PathBuf> {
        self.disk.read_link(path)
    }

    fn read_file(&self, path: &Path, bytes_max: usize) -> io::Result<Vec<u8>> {
        self.disk.read_file(path, bytes_max)
    }

    fn list(&self, path: &Path, entries_max: usize) -> io::Result<Vec<(OsString, Kind)>> {
        self.disk.list(path, entries_max)
    }

    fn may_add(&self, directory: &Path) -> bool {
        self.disk.may_add(directory)
    }

    fn out_of_time(&self) -> bool {
        self.disk.out_of_time()
    }
}

/// What no engine here could do, said before the disk is looked at.
pub(crate) fn refuse_foreign(context: &SandboxContext) -> Result<(), Error> {
    if context.windows_sandbox_level == WindowsSandboxLevel::Mxc {
        return Err(Error::NoMxc);
    }
    context.foreign_path().map_or(Ok(()), |path| Err(Error::ForeignPermission(path)))
}
