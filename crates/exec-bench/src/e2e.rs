//! Servers from the outside. Every round runs each scenario against the server, against the other
//! one, and on the bare operating system; the servers change places every round. Each scenario gets
//! a server of its own, so none inherits another's memory.

mod echo;
mod idle;
mod long_poll;
mod output;
mod request;
mod slow_reader;
mod start;
mod start_rate;

use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result};
use clap::ValueEnum;
use exec_testkit::server::ServerUnderTest;

use crate::E2eArgs;
use crate::client::Client;
use crate::cost::Family;
use crate::report::{Report, Subject};
use crate::stats::Scale;

/// A scenario may take so long; then the rest of it is left out.
const PATIENCE: Duration = Duration::from_secs(120);

/// What can be measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Scenario {
    /// `/bin/true`, one after another.
    Start,
    /// `/bin/true`, many at once.
    StartRate,
    /// Through stdin and back.
    Echo,
    /// How soon a waiting `process/read` is answered.
    LongPoll,
    /// Requests that do next to nothing.
    Request,
    /// Output as fast as it goes.
    Output,
    /// A client that stops reading.
    SlowReader,
    /// Memory, threads and wake-ups.
    Idle,
}

impl Scenario {
    /// The head of its table.
    fn title(self) -> &'static str {
        match self {
            Scenario::Start => "Start of `/bin/true`",
            Scenario::StartRate => "Starts at once",
            Scenario::Echo => "Echo of 16 bytes",
            Scenario::LongPoll => "Long poll",
            Scenario::Request => "Requests",
            Scenario::Output => "Output",
            Scenario::SlowReader => "A client that stops reading",
            Scenario::Idle => "At rest",
        }
    }

    async fn on_server(self, stage: &mut Stage<'_>) -> Result<()> {
        match self {
            Scenario::Start => start::on_server(stage).await,
            Scenario::StartRate => start_rate::on_server(stage).await,
            Scenario::Echo => echo::on_server(stage).await,
            Scenario::LongPoll => long_poll::on_server(stage).await,
            Scenario::Request => request::on_server(stage).await,
            Scenario::Output => output::on_server(stage).await,
            Scenario::SlowReader => slow_reader::on_server(stage).await,
            Scenario::Idle => idle::on_server(stage).await,
        }
    }

    fn bare(self, scale: Scale, report: &mut Report) -> Result<()> {
        match self {
            Scenario::Start => start::bare(scale, report),
            Scenario::StartRate => start_rate::bare(scale, report),
            Scenario::Echo => echo::bare(scale, report),
            Scenario::LongPoll => long_poll::bare(scale, report),
            Scenario::Request => request::bare(scale, report),
            Scenario::Output => output::bare(scale, report),
            Scenario::SlowReader | Scenario::Idle => Ok(()),
        }
    }
}

/// A running server, and where its figures go.
struct Stage<'a> {
    url: String,
    family: Family,
    scale: Scale,
    report: &'a mut Report,
}

impl Stage<'_> {
    async fn connect(&self) -> Result<Client> {
        Client::connect(&self.url).await.context("cannot connect")
    }
}

/// Runs everything, and gives the tables.
pub(crate) fn run(args: &E2eArgs) -> Result<String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let scenarios = match args.only.as_slice() {
        [] => Scenario::value_variants(),
        only => only,
    };
    let mut report = Report::default();
    for round in 0..args.rounds {
        for scenario in scenarios {
            eprintln!("round {} of {}: {scenario:?}", round + 1, args.rounds);
            for (subject, name, command) in servers(args, round) {
                report.enter(subject, round, scenario.title());
                let measured = on_server(*scenario, command, Scale(args.scale), &mut report);
                if let Err(error) = runtime.block_on(measured) {
                    report.fail(name, &error);
                }
            }
            report.enter(Subject::Bare, round, scenario.title());
            if let Err(error) = scenario.bare(Scale(args.scale), &mut report) {
                report.fail("bare OS", &error);
            }
        }
    }
    let summary = format!("{} rounds, scale {}, {}.\n\n", args.rounds, args.scale, machine());
    Ok(summary
        + &report.tables(&args.server_name, args.against.as_ref().map(|_| &*args.against_name)))
}

/// The servers in the order of this round.
fn servers(args: &E2eArgs, round: u32) -> Vec<(Subject, &str, &str)> {
    let mut servers = vec![(Subject::Server, args.server_name.as_str(), args.server.as_str())];
    let against = args.against.as_deref();
    servers.extend(against.map(|command| (Subject::Against, args.against_name.as_str(), command)));
    if round % 2 == 1 {
        servers.reverse();
    }
    servers
}

async fn on_server(
    scenario: Scenario,
    command: &str,
    scale: Scale,
    report: &mut Report,
) -> Result<()> {
    let mut shell = Command::new("/bin/sh");
    // `exec`, so that the process whose cost is measured is the server and not a shell.
    shell.args(["-c", &format!("exec {command}")]);
    let server = ServerUnderTest::start(shell)?;
    let family = Family::of(server.pid())?;
    let mut stage = Stage { url: server.url().to_owned(), family, scale, report };
    tokio::time::timeout(PATIENCE, scenario.on_server(&mut stage))
        .await
        .with_context(|| format!("not done within {PATIENCE:?}"))?
}

fn machine() -> String {
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    format!("{cores} cores, Linux {}", release.trim())
}
