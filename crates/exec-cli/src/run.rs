//! `exec-server run` and `exec-server shell`: one process, as if it ran here.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::Context;
use exec_client::ProcessEvent;
use exec_protocol::id::ProcessId;
use exec_protocol::path_uri::PathUri;
use exec_protocol::process::{ExecEnvPolicy, Inherit, StartParams, TerminalSize};

use crate::args::{RunArgs, ShellArgs};
use crate::connect::{Connected, connect};
use crate::drive::drive;
use crate::exit::Outcome;
use crate::terminal::{self, RawMode};

pub(crate) async fn run(args: RunArgs) -> anyhow::Result<Outcome> {
    let connected = connect(&args.target).await?;
    let outcome = run_on(&connected, args).await;
    connected.close().await;
    outcome
}

async fn run_on(connected: &Connected, args: RunArgs) -> anyhow::Result<Outcome> {
    let cwd = connected.resolve(Path::new(args.cwd.as_deref().unwrap_or_default()))?;
    let env = args.env.into_iter().collect();
    one_process(connected, params(args.argv, cwd, env, args.tty)).await
}

pub(crate) async fn shell(args: ShellArgs) -> anyhow::Result<Outcome> {
    let connected = connect(&args.target).await?;
    let outcome = shell_on(&connected, args).await;
    connected.close().await;
    outcome
}

async fn shell_on(connected: &Connected, args: ShellArgs) -> anyhow::Result<Outcome> {
    let cwd = connected.resolve(Path::new(args.cwd.as_deref().unwrap_or_default()))?;
    let info = connected.client.environment_info().await?;
    let argv = vec![info.shell.path, "-l".to_owned()];
    one_process(connected, params(argv, cwd, BTreeMap::new(), true)).await
}

/// Starts the process, lends it this terminal, and waits for its end.
async fn one_process(connected: &Connected, params: StartParams) -> anyhow::Result<Outcome> {
    watched_process(connected, params, |_| {}).await
}

/// The same; `watch` sees everything that happens to it.
pub(crate) async fn watched_process(
    connected: &Connected,
    mut params: StartParams,
    watch: impl FnMut(&ProcessEvent),
) -> anyhow::Result<Outcome> {
    let control = connected.client.supports_process_control();
    params.pipe_stdin = !params.tty && control;
    let tty = params.tty;
    let stdin = tty || params.pipe_stdin;
    let process = connected.client.start(params).await?;
    let raw = if tty { RawMode::enter().context("cannot use this terminal")? } else { None };
    let code = drive(&process, stdin, tty && control, watch).await;
    drop(raw);
    Ok(Outcome::Code(code?))
}

pub(crate) fn params(
    argv: Vec<String>,
    cwd: PathUri,
    mut env: BTreeMap<String, String>,
    tty: bool,
) -> StartParams {
    if tty && let Ok(term) = std::env::var("TERM") {
        env.entry("TERM".to_owned()).or_insert(term);
    }
    StartParams {
        process_id: ProcessId::from("run"),
        argv,
        cwd,
        env,
        tty,
        pipe_stdin: false,
        arg0: None,
        env_policy: Some(ExecEnvPolicy {
            inherit: Inherit::All,
            ignore_default_excludes: true,
            exclude: Vec::new(),
            set: BTreeMap::new(),
            include_only: Vec::new(),
        }),
        metadata: None,
        shell_snapshot: None,
        sandbox: None,
        enforce_managed_network: false,
        managed_network: None,
        network_proxy: None,
        size: terminal::size().map(|(rows, cols)| TerminalSize { rows, cols }),
        mode: None,
        limits: None,
    }
}
