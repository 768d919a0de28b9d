//! The command line.

mod files;
mod sandbox;

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

pub(crate) use files::{
    CatArgs, CpArgs, FileCommand, LsArgs, MkdirArgs, RmArgs, SearchArgs, WatchArgs,
};

pub(crate) use sandbox::{LimitArgs, SandboxArgs, SandboxFlags};

/// Runs commands and keeps their output on behalf of an agent that may sit somewhere else.
///
/// Without a command it serves, as `exec-server serve` does, and prints the address to connect to.
#[derive(Debug, Parser)]
#[command(
    name = "exec-server",
    version,
    args_conflicts_with_subcommands = true,
    after_help = "Examples:\n  \
        exec-server                                   serve on a free port of this machine\n  \
        exec-server run -- cargo test                 run a command as if through a server\n  \
        exec-server run --url ws://127.0.0.1:9000 -- make\n  \
        exec-server shell --url ws://127.0.0.1:9000   a terminal on the other machine\n  \
        exec-server sandbox --writable . -- make      run a command that can change only this directory\n  \
        exec-server cp -r ./src :/srv/src --url ws://127.0.0.1:9000\n  \
        exec-server doctor                            what this machine can do\n\n\
        Logs go to stderr; EXEC_SERVER_LOG=debug shows more."
)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
    #[command(flatten)]
    pub(crate) serve: ServeArgs,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Serve clients: over WebSocket, or one over stdin and stdout.
    Serve(Box<ServeArgs>),
    /// Run one command; input, output, signals and exit code pass through as with ssh.
    Run(RunArgs),
    /// Run one command of this machine in a sandbox; say what was refused and what would allow it.
    Sandbox(SandboxArgs),
    /// Open a terminal on the executor. It survives a lost connection.
    Shell(ShellArgs),
    /// List the processes of a session.
    Ps(PsArgs),
    /// Print what a process of a session has written.
    Logs(LogsArgs),
    /// End processes of a session, with every descendant.
    Kill(KillArgs),
    #[command(flatten)]
    Files(FileCommand),
    /// Tell what this machine can do, and what it lacks.
    Doctor(DoctorArgs),
    /// Judge commands by rules files, and test, explain and format such files.
    Rules(crate::rules::RulesArgs),
}

#[derive(Debug, Args)]
pub(crate) struct ServeArgs {
    /// Where to listen: ws://IP:PORT, wss://IP:PORT or stdio. Port 0 takes a free one.
    #[arg(long, value_name = "URL", default_value = exec_server::listen::DEFAULT_LISTEN_URL)]
    pub(crate) listen: String,
    /// Requests of one connection worked on at once; 1 means strictly in order.
    #[arg(long, value_name = "COUNT", value_parser = parse_count)]
    pub(crate) concurrent_requests: Option<u64>,
    /// Who may connect.
    #[arg(long, value_name = "MODE")]
    pub(crate) ws_auth: Option<AuthMode>,
    /// File with the token clients must present.
    #[arg(long, value_name = "PATH")]
    pub(crate) ws_token_file: Option<PathBuf>,
    /// SHA-256 of the token clients must present.
    #[arg(long, value_name = "HEX")]
    pub(crate) ws_token_sha256: Option<String>,
    /// File with the secret that signs clients' tokens (HS256).
    #[arg(long, value_name = "PATH")]
    pub(crate) ws_shared_secret_file: Option<PathBuf>,
    /// Issuer that signed tokens must name.
    #[arg(long, value_name = "ISSUER")]
    pub(crate) ws_issuer: Option<String>,
    /// Audience that signed tokens must name.
    #[arg(long, value_name = "AUDIENCE")]
    pub(crate) ws_audience: Option<String>,
    /// How far clocks may differ (30 when absent).
    #[arg(long, value_name = "SECONDS")]
    pub(crate) ws_max_clock_skew_seconds: Option<u64>,
    /// Certificate chain for a wss:// listener (PEM).
    #[arg(long, value_name = "PATH", requires = "tls_key")]
    pub(crate) tls_cert: Option<PathBuf>,
    /// Private key for a wss:// listener (PEM).
    #[arg(long, value_name = "PATH", requires = "tls_cert")]
    pub(crate) tls_key: Option<PathBuf>,
    /// Listen beyond this machine without asking anybody for a password. Whoever reaches the port
    /// can run commands as this user.
    #[arg(long)]
    pub(crate) allow_unauthenticated_network: bool,
    /// How long a session outlives its connection; 0 ends it at once.
    #[arg(long, value_name = "SECONDS")]
    pub(crate) detached_session_seconds: Option<u64>,
    /// SIGTERM comes this long before SIGKILL when a session or the server ends.
    #[arg(long, value_name = "MS")]
    pub(crate) shutdown_grace_period_ms: Option<u64>,
    /// Processes one session may have.
    #[arg(long, value_name = "COUNT", value_parser = parse_count)]
    pub(crate) max_processes_per_connection: Option<u64>,
    #[command(flatten)]
    pub(crate) sandbox: SandboxFlags,
    #[command(flatten)]
    pub(crate) limits: LimitArgs,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum AuthMode {
    /// One secret token.
    CapabilityToken,
    /// Tokens signed with a shared secret.
    SignedBearerToken,
}

/// Which executor.
#[derive(Debug, Args)]
pub(crate) struct Target {
    /// The executor's address: ws://HOST:PORT or wss://HOST:PORT.
    #[arg(long, value_name = "URL", env = "EXEC_SERVER_URL")]
    pub(crate) url: Option<String>,
    /// File with the token to present.
    #[arg(long, value_name = "PATH")]
    pub(crate) token_file: Option<PathBuf>,
    /// Certificates to trust for wss:// (PEM), instead of the system's.
    #[arg(long, value_name = "PATH")]
    pub(crate) tls_roots: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    #[command(flatten)]
    pub(crate) target: Target,
    /// Give the command a terminal.
    #[arg(long, short = 't')]
    pub(crate) tty: bool,
    /// Working directory (this one without --url, the executor's own with it).
    #[arg(long, value_name = "DIR")]
    pub(crate) cwd: Option<String>,
    /// Set a variable; may be repeated.
    #[arg(long = "env", short = 'e', value_name = "K=V", value_parser = parse_variable)]
    pub(crate) env: Vec<(String, String)>,
    /// The command and its arguments.
    #[arg(last = true, required = true, value_name = "CMD")]
    pub(crate) argv: Vec<String>,
}

#[derive(Debug, Args)]
pub(crate) struct ShellArgs {
    #[command(flatten)]
    pub(crate) target: Target,
    /// Working directory (the executor's own when absent).
    #[arg(long, value_name = "DIR")]
    pub(crate) cwd: Option<String>,
}

/// Which session of which executor.
#[derive(Debug, Args)]
pub(crate) struct SessionTarget {
    #[command(flatten)]
    pub(crate) target: Target,
    /// The session's id, as its owner knows it. Looking at it does not disturb the owner.
    #[arg(long, value_name = "ID")]
    pub(crate) session: String,
}

#[derive(Debug, Args)]
pub(crate) struct PsArgs {
    #[command(flatten)]
    pub(crate) session: SessionTarget,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct LogsArgs {
    #[command(flatten)]
    pub(crate) session: SessionTarget,
    /// Go on until the process has closed.
    #[arg(long, short = 'f')]
    pub(crate) follow: bool,
    /// The process, as `ps` names it.
    #[arg(value_name = "PROCESS")]
    pub(crate) process: String,
}

#[derive(Debug, Args)]
pub(crate) struct KillArgs {
    #[command(flatten)]
    pub(crate) session: SessionTarget,
    /// SIGTERM first, and SIGKILL only after this time.
    #[arg(long, value_name = "MS")]
    pub(crate) grace_ms: Option<u64>,
    /// The processes, as `ps` names them.
    #[arg(required = true, value_name = "PROCESS")]
    pub(crate) processes: Vec<String>,
}

#[derive(Debug, Args)]
pub(crate) struct DoctorArgs {
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

pub(crate) fn parse_count(text: &str) -> Result<u64, String> {
    match text.parse() {
        Ok(0) => Err("must be at least 1".to_owned()),
        Ok(count) => Ok(count),
        Err(error) => Err(format!("{error}")),
    }
}

fn parse_variable(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err("expected NAME=VALUE".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_parser_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn flags_without_a_command_are_the_servers() {
        let cli = Cli::parse_from(["exec-server", "--listen", "stdio"]);
        assert!(cli.command.is_none());
        assert_eq!(cli.serve.listen, "stdio");
    }

    #[test]
    fn counts_start_at_one() {
        for bad in ["0", "-1", "x", "1.5", "18446744073709551616"] {
            assert!(parse_count(bad).is_err(), "{bad}");
        }
        assert_eq!(parse_count("18446744073709551615"), Ok(u64::MAX));
    }
}
