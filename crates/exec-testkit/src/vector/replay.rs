//! Replaying all vectors, and starting the servers that they are replayed against.

use std::collections::HashMap;
use std::process::Command;
use std::sync::Mutex;

use anyhow::{Context as _, Result};
use futures_util::StreamExt as _;

use super::conversation::replay;
use super::pattern::{Bindings, expand};
use super::{Scope, Vector, load};
use crate::codex::workspace_dir;
use crate::peer::RawPeer;
use crate::server::ServerUnderTest;
use crate::web::WebServer;

/// Conversations at a time. They mostly wait for children.
const PARALLEL: usize = 8;

/// Which server is being asked, and so which vectors hold for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Suite {
    /// The real codex: vectors tagged `codex` or `reference`.
    Codex,
    /// Our server: vectors tagged `codex` or `ours`.
    Ours,
}

/// How it is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transport {
    /// A pair of pipes inside the test.
    Memory,
    /// Lines on the stdin and stdout of a server; each connection has a server of its own.
    Stdio,
    /// A listening server.
    WebSocket,
}

/// What a conversation needs of the server it is held with.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Setup {
    /// Arguments besides `--listen`.
    pub args: Vec<String>,
    /// Environment variables.
    pub env: Vec<(String, String)>,
}

impl Setup {
    /// With the bound values in place of their names.
    pub(super) fn expanded(&self, bindings: &Bindings) -> Result<Self> {
        let expand =
            |(name, value): &(String, String)| Ok((name.clone(), expand(value, bindings)?));
        let env = self.env.iter().map(expand).collect::<Result<_>>()?;
        Ok(Self { args: self.args.clone(), env })
    }
}

/// How a replay went.
#[derive(Debug, Default)]
pub struct Report {
    /// Conversations that were held.
    pub replayed: usize,
    /// One text for each that went wrong.
    pub failures: Vec<String>,
}

impl Report {
    /// Panics with all failures, if there are any.
    pub fn assert_passed(&self) {
        let Self { replayed, failures } = self;
        println!("{replayed} conversations replayed, {} failed", failures.len());
        assert!(failures.is_empty(), "\n{}\n", failures.join("\n\n"));
        assert!(*replayed > 0, "no vector was replayed");
    }
}

impl Suite {
    pub(super) fn is_ours(self) -> bool {
        self == Suite::Ours
    }

    fn includes(self, scope: Scope) -> bool {
        match scope {
            Scope::Both => true,
            Scope::Ours => self == Suite::Ours,
            Scope::Reference => self == Suite::Codex,
        }
    }
}

/// Replays every vector of the workspace that is meant for this suite and transport, over
/// connections made by `connect`. With `VECTORS` in the environment only those whose name, such as
/// `process/start: a missing program`, contains its value.
pub async fn replay_all<C>(suite: Suite, transport: Transport, connect: C) -> Result<Report>
where
    C: AsyncFn(&Setup) -> Result<RawPeer>,
{
    let filter = std::env::var("VECTORS").unwrap_or_default();
    let is_meant = |vector: &Vector| {
        suite.includes(vector.scope)
            && (vector.transports.is_empty() || vector.transports.contains(&transport))
            && vector.name.contains(&filter)
    };
    let vectors: Vec<Vector> =
        load(&workspace_dir().join("vectors"))?.into_iter().filter(is_meant).collect();
    let (connect, web) = (&connect, &WebServer::start().await?);
    let outcomes: Vec<Result<()>> = futures_util::stream::iter(&vectors)
        .map(|vector| async move {
            let outcome = replay(vector, suite, web, connect).await;
            outcome.with_context(|| format!("{} (over {transport})", vector.name))
        })
        .buffered(PARALLEL)
        .collect()
        .await;
    let failures = outcomes.into_iter().filter_map(Result::err).map(|error| format!("{error:#}"));
    Ok(Report { replayed: vectors.len(), failures: failures.collect() })
}

/// Starts servers of one binary as the vectors need them, and connects to them.
pub struct Launcher<F> {
    command: F,
    listening: Mutex<HashMap<Setup, ServerUnderTest>>,
}

impl<F: Fn() -> Result<Command>> Launcher<F> {
    /// `command` is what starts the server, but for `--listen`.
    pub fn new(command: F) -> Self {
        Self { command, listening: Mutex::default() }
    }

    fn command(&self, setup: &Setup, listen: &str) -> Result<Command> {
        let mut command = (self.command)()?;
        command.args(["--listen", listen]).args(&setup.args);
        command.envs(setup.env.iter().map(|(name, value)| (name, value)));
        Ok(command)
    }

    /// A server of its own, on its stdin and stdout.
    pub fn stdio(&self, setup: &Setup) -> Result<RawPeer> {
        RawPeer::stdio(self.command(setup, "stdio")?.into())
    }

    /// A connection to the one server that has this setup.
    pub async fn websocket(&self, setup: &Setup) -> Result<RawPeer> {
        let url = self.url(setup)?;
        RawPeer::websocket(&url).await
    }

    fn url(&self, setup: &Setup) -> Result<String> {
        let mut listening = self.listening.lock().expect("no holder panics");
        if let Some(server) = listening.get(setup) {
            return Ok(server.url().to_owned());
        }
        let server = ServerUnderTest::start(self.command(setup, "ws://127.0.0.1:0")?)?;
        let url = server.url().to_owned();
        listening.insert(setup.clone(), server);
        Ok(url)
    }
}
