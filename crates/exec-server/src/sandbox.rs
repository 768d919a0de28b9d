//! From a caller's intent to a launch: the one place that decides how this executor confines.
//!
//! ```text
//!   context ──► Policy ──► Plan ──► Launch, by the engine that works on this host
//! ```
//!
//! Everything that can fail does so here, before anything runs.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use exec_process::Spec;
use exec_process::limits::{Controllers, Counted};
use exec_protocol::environment::{SandboxEngine, SandboxInfo};
use exec_protocol::sandbox::{SandboxContext, WindowsSandboxLevel};
use exec_sandbox::launch::{Command, Launch};
use exec_sandbox::linux::builtin;
use exec_sandbox::linux::bwrap::Places;
use exec_sandbox::linux::probe::{Engine, Facts as HostFacts, Probe, Verdict, choose};
use exec_sandbox::linux::seccomp::Nesting;
use exec_sandbox::plan::Plan;
use exec_sandbox::policy::{Disk, Facts, Policy};

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
}

/// A policy and its plan: what would be enforced.
#[derive(Debug)]
pub struct Confinement {
    /// What is allowed.
    pub policy: Policy,
    /// How that is made true.
    pub plan: Plan,
}

impl Sandbox {
    pub(crate) fn new(config: SandboxConfig, home: Option<PathBuf>) -> Arc<Self> {
        let places =
            Places { operator: config.bwrap.clone(), server: std::env::current_exe().ok() };
        Arc::new(Self { config, probe: Probe::new(places), home })
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
        let policy = Policy::resolve(context, facts, &disk)?;
        let plan = Plan::build(&policy, &disk)?;
        Ok(plan.confines().then_some(Confinement { policy, plan }))
    }

    /// What a policy has to know of a command.
    pub(crate) fn facts_of(&self, spec: &Spec) -> Facts {
        let tmpdir = spec.env.get(std::ffi::OsStr::new("TMPDIR"));
        Facts {
            cwd: spec.cwd.clone(),
            tmpdir: tmpdir.filter(|dir| !dir.is_empty()).map(PathBuf::from),
            home: self.home.clone(),
            hidden: Vec::new(),
            readable: Vec::new(),
        }
    }

    /// Makes a confined command ready to be started; `controllers` are those its group will have.
    pub(crate) fn launch(
        &self,
        plan: &Plan,
        spec: &Spec,
        controllers: Controllers,
    ) -> Result<Launch, Error> {
        let facts = self.facts();
        let engine = choose(self.config.engine, &facts).map_err(Error::NoEngine)?;
        let nesting =
            if self.config.nested_user_namespaces { Nesting::Allowed } else { Nesting::Refused };
        let counted = match (&plan.view, engine) {
            (Some(_), Engine::Builtin | Engine::Bwrap) => Counted::in_own_namespace(),
            (Some(_), Engine::LandlockOnly) | (None, _) => Counted::User,
        };
        let limits =
            spec.limits.of_each(controllers, counted).map_err(exec_process::Error::Limit)?;
        let options = builtin::Options { limits: &limits, nesting };
        let strings = spec.exec_strings()?;
        let command = Command {
            argv: &strings.argv,
            candidates: &strings.candidates,
            env: &strings.env,
            terminal: matches!(spec.stdio, exec_process::Stdio::Terminal(_)),
        };
        let launch = match engine {
            Engine::Builtin => builtin::launch(plan, &command, &options),
            Engine::Bwrap | Engine::LandlockOnly => return Err(Error::CannotConfine),
        };
        launch.map_err(|failure| Error::Process(exec_process::Error::Confine(failure)))
    }
}

/// What no engine here could do, said before the disk is looked at.
pub(crate) fn refuse_foreign(context: &SandboxContext) -> Result<(), Error> {
    if context.windows_sandbox_level == WindowsSandboxLevel::Mxc {
        return Err(Error::NoMxc);
    }
    context.foreign_path().map_or(Ok(()), |path| Err(Error::ForeignPermission(path)))
}
