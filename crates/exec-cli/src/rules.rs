//! `exec-server rules`: what rules files say about a command, and tools for those who write them.

mod check;
mod explain;
mod format;
mod test;

use std::path::PathBuf;

use clap::{Args, Subcommand};
use exec_rules::{Error, Places, Source};

use crate::exit::Outcome;

#[derive(Debug, Args)]
pub(crate) struct RulesArgs {
    #[command(subcommand)]
    command: RulesCommand,
}

#[derive(Debug, Subcommand)]
enum RulesCommand {
    /// Print as JSON which rules match a command, as `codex execpolicy check` does.
    Check(CheckArgs),
    /// Tell which rule decides about a command, where it stands, and what else matched.
    Explain(ExplainArgs),
    /// Try every example of the files and look for rules that would let anything run.
    Test(TestArgs),
    /// Lay rules files out; comments stay.
    Fmt(FmtArgs),
}

#[derive(Debug, Args)]
struct CheckArgs {
    /// Rules file; may be repeated.
    #[arg(short, long, value_name = "PATH", required = true)]
    rules: Vec<PathBuf>,
    /// Print the JSON on several lines.
    #[arg(long)]
    pretty: bool,
    /// Match an absolute program by its name too, as far as `host_executable` permits.
    #[arg(long)]
    resolve_host_executables: bool,
    /// The command; everything from its first word on belongs to it.
    #[arg(
        trailing_var_arg = true,
        allow_hyphen_values = true,
        required = true,
        value_name = "COMMAND"
    )]
    command: Vec<String>,
}

#[derive(Debug, Args)]
struct ExplainArgs {
    /// Rules file; may be repeated.
    #[arg(short, long, value_name = "PATH", required = true)]
    rules: Vec<PathBuf>,
    /// The command; everything from its first word on belongs to it.
    #[arg(
        trailing_var_arg = true,
        allow_hyphen_values = true,
        required = true,
        value_name = "COMMAND"
    )]
    command: Vec<String>,
}

#[derive(Debug, Args)]
struct TestArgs {
    /// Accept rules that would let anything run.
    #[arg(long)]
    force: bool,
    /// Rules files, the weakest layer first.
    #[arg(required = true, value_name = "PATH")]
    files: Vec<PathBuf>,
}

#[derive(Debug, Args)]
struct FmtArgs {
    /// Change nothing; list the files that are laid out otherwise and exit with 1.
    #[arg(long)]
    check: bool,
    /// Rules files.
    #[arg(required = true, value_name = "PATH")]
    files: Vec<PathBuf>,
}

pub(crate) fn rules(args: RulesArgs) -> anyhow::Result<Outcome> {
    match args.command {
        RulesCommand::Check(args) => check::check(&args),
        RulesCommand::Explain(args) => explain::explain(&args),
        RulesCommand::Test(args) => test::test(&args),
        RulesCommand::Fmt(args) => format::format(&args),
    }
}

/// Where relative programs lie: here.
fn places() -> Places {
    let home = std::env::var_os("HOME").map(PathBuf::from).filter(|home| home.is_absolute());
    Places { cwd: std::env::current_dir().ok(), home }
}

fn read(paths: &[PathBuf]) -> Result<Vec<Source>, Error> {
    paths.iter().map(|path| Source::read(path)).collect()
}
