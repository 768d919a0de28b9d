//! `exec-server sandbox`: one command of this machine, confined as a client's would be.

mod hint;
mod intent;

use anyhow::Context;
use exec_client::{ExecServerClientConnectOptions, ProcessEvent};
use exec_protocol::path_uri::PathUri;
use exec_protocol::process::{StartParams, Stream};
use exec_sandbox::explain::explain;
use exec_server::{Confinement, Server};

use crate::args::SandboxArgs;
use crate::connect::here;
use crate::exit::Outcome;
use crate::run::{params, watched_process};
use crate::serve::load_config;

/// The end of what the command wrote to stderr or its terminal, in which the reason is looked for.
const WORDS_BYTES_MAX: usize = 8 << 10;

pub(crate) async fn sandbox(args: SandboxArgs) -> anyhow::Result<Outcome> {
    let mut config = load_config()?;
    config.sandbox.engine = args.engine.engine().or(config.sandbox.engine);
    let cwd = std::env::current_dir().context("cannot tell the working directory")?;
    let context = intent::context(&args.policy, &args.writable, args.network, &cwd)?;
    let is_explained = args.explain;
    let params = StartParams {
        sandbox: Some(context),
        ..params(args.argv, PathUri::from_native(&cwd)?, Default::default(), args.tty)
    };
    let server = Server::new(config);
    let confinement = server
        .confinement(params.clone())
        .map_err(|error| anyhow::anyhow!("{} ({})", error.message, error.code));
    if is_explained {
        print!("{}", explained(&server, confinement?.as_ref()));
        server.shut_down().await;
        return Ok(Outcome::Done);
    }
    let confinement = confinement?;
    let connected = here(server, ExecServerClientConnectOptions::default()).await?;
    let mut words = Words::default();
    let outcome = watched_process(&connected, params, |event| words.hear(event)).await;
    connected.close().await;
    if words.denied
        && let Some(Confinement { policy, .. }) = &confinement
    {
        for line in hint::lines(policy, &cwd, &String::from_utf8_lossy(&words.last)) {
            eprintln!("exec-server: {line}");
        }
    }
    outcome
}

fn explained(server: &Server, confinement: Option<&Confinement>) -> String {
    let Some(Confinement { policy, plan }) = confinement else {
        return "engine: none needed, nothing is restricted\n".to_owned();
    };
    let engine = match server.sandbox_engine() {
        Ok(engine) => engine.as_str().to_owned(),
        Err(reason) => format!("none. {reason}"),
    };
    format!("engine: {engine}\n{}", explain(policy, plan))
}

/// What was heard of the command.
#[derive(Default)]
struct Words {
    last: Vec<u8>,
    denied: bool,
}

impl Words {
    fn hear(&mut self, event: &ProcessEvent) {
        match event {
            ProcessEvent::Output { stream: Stream::Stderr | Stream::Pty, bytes, .. } => {
                self.last.extend_from_slice(bytes);
                let excess = self.last.len().saturating_sub(WORDS_BYTES_MAX);
                self.last.drain(..excess);
            }
            ProcessEvent::Exited { sandbox_denied, .. } => {
                self.denied = *sandbox_denied == Some(true);
            }
            ProcessEvent::Output { .. }
            | ProcessEvent::Closed
            | ProcessEvent::Gap { .. }
            | ProcessEvent::Lost(_) => {}
        }
    }
}
