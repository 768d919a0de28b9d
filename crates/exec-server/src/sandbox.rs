//! From a caller's intent to a launch: the one place that decides how this executor confines.
//!
//! ```text
//!   context ──► Policy ──► Plan ──► Launch, by the engine that works on this host
//! ```
//!
//! Everything that can fail does so here, before anything runs.

mod state;

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use exec_process::Spec;
use exec_protocol::environment::{SandboxEngine, SandboxInfo};
use exec_protocol::sandbox::{SandboxContext, WindowsSandboxLevel};
use exec_sandbox::launch::{Command, Launch};
use exec_sandbox::linux::builtin;
use exec_sandbox::linux::bwrap::{self, Places};
use exec_sandbox::linux::placeholders::{Held, HoldError};
use exec_sandbox::linux::probe::{Engine, Facts as HostFacts, Probe, Verdict, choose};
use exec_sandbox::linux::seccomp::Nesting;
use exec_sandbox::plan::Plan;
use exec_sandbox::policy::{Disk, Facts, Policy};

use crate::config::SandboxConfig;
use crate::error::Error;
use state::State;

/// How long resolving a policy may look at the disk, patterns included.
const RESOLVE_TIME_MAX: Duration = Duration::from_secs(5);

/// What this server enforces with.
#[derive(Debug)]
pub(crate) struct Sandbox {
    config: SandboxConfig,
    probe: Probe,
    home: Option<PathBuf>,
    state: OnceLock<Option<State>>,
}

/// A policy and its plan: what would be enforced.
#[derive(Debug)]
pub(crate) struct Confinement {
    pub(crate) policy: Policy,
    pub(crate) plan: Plan,
}

impl Sandbox {
    pub(crate) fn new(config: SandboxConfig, home: Option<PathBuf>) -> Arc<Self> {
        let places =
            Places { operator: config.bwrap.clone(), server: std::env::current_exe().ok() };
        Arc::new(Self { config, probe: Probe::new(places), home, state: OnceLock::new() })
    }

    /// What the host can do; the first to ask waits for it to be tried.
    pub(crate) fn facts(&self) -> HostFacts {
        self.probe.facts()
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
        let disk = self.state()?.seen_by(disk);
        let policy = Policy::resolve(context, facts, &disk)?;
        let plan = Plan::build(&policy, &disk)?;
        Ok(plan.confines().then_some(Confinement { policy, plan }))
    }

    /// What is kept on the disk; opened once.
    fn state(&self) -> Result<&State, Error> {
        let opened = self.state.get_or_init(|| {
            let directory = state_directory(self.home.as_deref())?;
            State::open(directory.clone())
                .inspect_err(|error| tracing::error!(?directory, %error, "cannot keep state"))
                .ok()
        });
        opened
            .as_ref()
            .ok_or_else(|| Error::NoEngine("it has no directory for its state".to_owned()))
    }

    /// Makes the names that a confinement needs on the disk, until the result is dropped. `None`
    /// when the disk has changed and the plan has to be made again.
    pub(crate) fn hold(&self, plan: &mut Plan) -> Result<Option<Option<Held>>, Error> {
        match self.state()?.hold(plan) {
            Ok(held) => Ok(Some(held)),
            Err(HoldError::Appeared(_)) => Ok(None),
            Err(error) => Err(Error::NoEngine(error.to_string())),
        }
    }

    /// What a policy has to know of a command.
    pub(crate) fn facts_of(&self, spec: &Spec) -> Facts {
        let tmpdir = spec.env.get(std::ffi::OsStr::new("TMPDIR"));
        Facts {
            cwd: spec.cwd.clone(),
            tmpdir: tmpdir.filter(|dir| !dir.is_empty()).map(PathBuf::from),
            home: self.home.clone(),
            hidden: self.state().map(|state| state.directory().to_owned()).into_iter().collect(),
            readable: Vec::new(),
        }
    }

    /// Makes a confined command ready to be started.
    pub(crate) fn launch(&self, plan: &Plan, spec: &Spec) -> Result<Launch, Error> {
        let facts = self.facts();
        let engine = choose(self.config.engine, &facts).map_err(Error::NoEngine)?;
        let nesting =
            if self.config.nested_user_namespaces { Nesting::Allowed } else { Nesting::Refused };
        let options = builtin::Options { limits: &[], nesting };
        let strings = spec.exec_strings()?;
        let command = Command {
            argv: &strings.argv,
            candidates: &strings.candidates,
            env: &strings.env,
            terminal: matches!(spec.stdio, exec_process::Stdio::Terminal(_)),
        };
        let launch = match engine {
            Engine::Builtin => builtin::launch(plan, &command, &options),
            Engine::Bwrap => {
                let found = facts.bwrap.map_err(Error::NoEngine)?;
                let tools = self.state()?.tools(found).map_err(|_| Error::Internal)?;
                bwrap::launch(&tools, plan, &command, &options)
            }
            Engine::LandlockOnly => return Err(Error::CannotConfine),
        };
        launch.map_err(|failure| Error::Process(exec_process::Error::Confine(failure)))
    }
}

/// `exec-server` in the folder that is for state.
fn state_directory(home: Option<&std::path::Path>) -> Option<PathBuf> {
    let set = |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let folder = set("XDG_STATE_HOME").or_else(|| Some(home?.join(".local/state")))?;
    Some(folder.join("exec-server"))
}

/// What no engine here could do, said before the disk is looked at.
pub(crate) fn refuse_foreign(context: &SandboxContext) -> Result<(), Error> {
    if context.windows_sandbox_level == WindowsSandboxLevel::Mxc {
        return Err(Error::NoMxc);
    }
    context.foreign_path().map_or(Ok(()), |path| Err(Error::ForeignPermission(path)))
}
