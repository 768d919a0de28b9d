//! Flags about confinement and limits, and how they change a configuration.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use exec_sandbox::linux::probe::Engine;
use exec_server::ExecServerConfig;

use super::parse_count;

#[derive(Debug, Args)]
pub(crate) struct SandboxArgs {
    /// What the command may do: `read-only`, `workspace-write` (this directory and the temporary ones
    /// can be changed), or a JSON file with a sandbox context or a flat policy.
    #[arg(long, value_name = "POLICY", default_value = "read-only")]
    pub(crate) policy: String,
    /// A directory that can be changed too; may be repeated.
    #[arg(long, value_name = "DIR")]
    pub(crate) writable: Vec<PathBuf>,
    /// Let it use the network.
    #[arg(long)]
    pub(crate) network: bool,
    /// What to confine with.
    #[arg(long, value_name = "ENGINE", default_value = "auto")]
    pub(crate) engine: EngineName,
    /// Print what would be enforced, and how; run nothing.
    #[arg(long)]
    pub(crate) explain: bool,
    /// Give the command a terminal.
    #[arg(long, short = 't')]
    pub(crate) tty: bool,
    /// The command and its arguments.
    #[arg(last = true, required = true, value_name = "CMD")]
    pub(crate) argv: Vec<String>,
}

/// How the server confines commands.
#[derive(Debug, Args)]
pub(crate) struct SandboxFlags {
    /// What to confine with. `landlock` is weaker: it refuses what it cannot express.
    #[arg(long, value_name = "ENGINE")]
    pub(crate) sandbox_engine: Option<EngineName>,
    /// The bubblewrap to use, instead of the system's.
    #[arg(long, value_name = "PATH", value_parser = parse_absolute)]
    pub(crate) sandbox_bwrap: Option<PathBuf>,
    /// Let confined commands make user namespaces, as browsers do.
    #[arg(long)]
    pub(crate) sandbox_nested_user_namespaces: bool,
}

/// Ways to confine, by name.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum EngineName {
    /// The best that works here.
    Auto,
    /// Bubblewrap.
    Bwrap,
    /// The server itself.
    Builtin,
    /// Landlock and a filter, without namespaces.
    Landlock,
}

impl EngineName {
    pub(crate) fn engine(self) -> Option<Engine> {
        match self {
            EngineName::Auto => None,
            EngineName::Bwrap => Some(Engine::Bwrap),
            EngineName::Builtin => Some(Engine::Builtin),
            EngineName::Landlock => Some(Engine::LandlockOnly),
        }
    }
}

impl SandboxFlags {
    pub(crate) fn apply(&self, config: &mut ExecServerConfig) {
        if let Some(name) = self.sandbox_engine {
            config.sandbox.engine = name.engine();
        }
        if let Some(path) = &self.sandbox_bwrap {
            config.sandbox.bwrap = Some(path.clone());
        }
        config.sandbox.nested_user_namespaces |= self.sandbox_nested_user_namespaces;
    }
}

/// What each process may use at most.
#[derive(Debug, Args)]
pub(crate) struct LimitArgs {
    /// Memory of a process and its descendants (of each of them without a cgroup for it).
    #[arg(long, value_name = "BYTES", value_parser = parse_count)]
    pub(crate) limit_memory_bytes: Option<u64>,
    /// Processes and threads it may have.
    #[arg(long, value_name = "COUNT", value_parser = parse_count)]
    pub(crate) limit_pids: Option<u64>,
    /// Processor time of each.
    #[arg(long, value_name = "SECONDS", value_parser = parse_count)]
    pub(crate) limit_cpu_seconds: Option<u64>,
    /// Size of a file it writes.
    #[arg(long, value_name = "BYTES", value_parser = parse_count)]
    pub(crate) limit_file_bytes: Option<u64>,
    /// Open files of each.
    #[arg(long, value_name = "COUNT", value_parser = parse_count)]
    pub(crate) limit_open_files: Option<u64>,
    /// Time after which it is killed with every descendant.
    #[arg(long, value_name = "MS", value_parser = parse_count)]
    pub(crate) limit_deadline_ms: Option<u64>,
}

impl LimitArgs {
    pub(crate) fn apply(&self, config: &mut ExecServerConfig) {
        let limits = &mut config.limits;
        limits.memory_bytes = self.limit_memory_bytes.or(limits.memory_bytes);
        limits.processes = self.limit_pids.or(limits.processes);
        limits.cpu = self.limit_cpu_seconds.map(Duration::from_secs).or(limits.cpu);
        limits.file_bytes = self.limit_file_bytes.or(limits.file_bytes);
        limits.open_files = self.limit_open_files.or(limits.open_files);
        limits.deadline = self.limit_deadline_ms.map(Duration::from_millis).or(limits.deadline);
    }
}

fn parse_absolute(text: &str) -> Result<PathBuf, String> {
    let path = PathBuf::from(text);
    if path.is_absolute() { Ok(path) } else { Err("must be an absolute path".to_owned()) }
}
