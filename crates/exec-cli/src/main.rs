//! The `exec-server` binary: an executor, and the ways a person uses one.
//!
//! Every command is a module named like it. Exit codes are decided in [`exit`].

mod args;
mod connect;
mod doctor;
mod drive;
mod exit;
mod files;
mod harden;
mod rules;
mod run;
mod sandbox;
mod serve;
mod session;
mod terminal;

use std::io::IsTerminal;
use std::os::fd::AsFd;
use std::process::ExitCode;

use clap::Parser;
use tracing_subscriber::EnvFilter;

use args::{Cli, Command};
use exit::Outcome;

fn main() -> ExitCode {
    if is_file_worker() {
        return serve_files();
    }
    let cli = Cli::parse();
    log_to_stderr();
    if matches!(cli.command, None | Some(Command::Serve(_))) {
        harden::harden();
    }
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return exit::failed(&anyhow::Error::new(error).context("cannot start")),
    };
    let outcome = runtime.block_on(perform(cli));
    // A thread may still be waiting for a line of stdin; nobody needs it any more.
    runtime.shutdown_background();
    match outcome {
        Ok(Outcome::Done) => ExitCode::SUCCESS,
        Ok(Outcome::Code(code)) => exit::as_process(code),
        Err(error) => exit::failed(&error),
    }
}

async fn perform(cli: Cli) -> anyhow::Result<Outcome> {
    match cli.command {
        None => serve::serve(cli.serve).await,
        Some(Command::Serve(args)) => serve::serve(*args).await,
        Some(Command::Run(args)) => run::run(args).await,
        Some(Command::Sandbox(args)) => sandbox::sandbox(args).await,
        Some(Command::Shell(args)) => run::shell(args).await,
        Some(Command::Ps(args)) => session::ps(args).await,
        Some(Command::Logs(args)) => session::logs(args).await,
        Some(Command::Kill(args)) => session::kill(args).await,
        Some(Command::Doctor(args)) => doctor::doctor(&args),
        Some(Command::Files(command)) => files::perform(command).await,
        Some(Command::Rules(args)) => rules::rules(args),
    }
}

/// Whether a server has started this program to make file calls inside a sandbox.
fn is_file_worker() -> bool {
    let mut args = std::env::args_os().skip(1);
    args.next().is_some_and(|arg| arg == exec_server::WORKER_ARGUMENT) && args.next().is_none()
}

fn serve_files() -> ExitCode {
    // Standard input is a socket then, for both directions.
    match std::io::stdin().as_fd().try_clone_to_owned().and_then(exec_server::serve_files) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => exit::failed(&anyhow::Error::new(error)),
    }
}

/// Warnings and errors; more with `EXEC_SERVER_LOG=debug`.
fn log_to_stderr() {
    let filter = EnvFilter::try_from_env("EXEC_SERVER_LOG").unwrap_or_else(|_| "warn".into());
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        .init();
}
