//! The start of a command up to its end: bare, confined by us, and confined by bubblewrap with equal
//! flags. In turns, so that a busy moment of the machine hits all of them alike.

use std::ffi::OsString;
use std::ops::ControlFlow;
use std::process::Command as Bare;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use exec_process::log::LogLimits;
use exec_process::sys::Containment;
use exec_process::{Limits, Process, Spec, Stdio, Watcher};
use exec_sandbox::launch::Command;
use exec_sandbox::linux::builtin::{self, Options};
use exec_sandbox::plan::{Filter, Mount, Network, Plan, Root, View};

use crate::report::{show, table};
use crate::stats::{median, quantile};

const PROGRAM: &str = "/bin/true";
const BWRAP: [&str; 15] = [
    "--ro-bind",
    "/",
    "/",
    "--dev",
    "/dev",
    "--unshare-user",
    "--unshare-pid",
    "--unshare-ipc",
    "--unshare-uts",
    "--unshare-net",
    "--proc",
    "/proc",
    "--cap-drop",
    "ALL",
    "--die-with-parent",
];

struct Nobody;

impl Watcher for Nobody {
    fn changed(&self, process: &Arc<Process>) {
        process.follow(|_| ControlFlow::Continue(()));
    }
    fn closed(&self, _: &Arc<Process>) {}
}

/// Starts everything so many times, and gives the table.
pub(crate) fn run(rounds: u32) -> Result<String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let containment = Containment::detect();
    let mut samples: [Vec<f64>; 4] = Default::default();
    for _ in 0..rounds {
        let spans = [
            runtime.block_on(ours(&containment, None))?,
            runtime.block_on(ours(&containment, Some(Filter::Restricted)))?,
            bare(&mut Bare::new(PROGRAM))?,
            bare(Bare::new("bwrap").args(BWRAP).arg(PROGRAM))?,
        ];
        for (samples, span) in samples.iter_mut().zip(spans) {
            samples.push(span.as_secs_f64() * 1e3);
        }
    }
    let names = ["exec-process", "exec-process, read-only view and filter", "std, bare", "bwrap"];
    let head = ["Start to end of /bin/true, ms", "min", "median", "p90"];
    let mut lines = vec![head.map(str::to_owned).to_vec()];
    for (name, samples) in names.into_iter().zip(&samples) {
        let figures = [quantile(samples, 0.0), median(samples), quantile(samples, 0.9)];
        let figures = figures.map(|figure| figure.map_or("–".to_owned(), show));
        lines.push([vec![name.to_owned()], figures.to_vec()].concat());
    }
    Ok(table(&lines))
}

fn bare(command: &mut Bare) -> Result<Duration> {
    let begun = Instant::now();
    let status = command.env_clear().status().context("cannot start")?;
    ensure!(status.success(), "{command:?} ended with {status}");
    Ok(begun.elapsed())
}

async fn ours(containment: &Containment, filter: Option<Filter>) -> Result<Duration> {
    let begun = Instant::now();
    let spec = Spec {
        argv: vec![PROGRAM.to_owned()],
        arg0: None,
        cwd: "/".into(),
        env: [("PATH", "/bin")].map(|(name, value)| (OsString::from(name), value.into())).into(),
        stdio: Stdio::Pipes { stdin: false },
        limits: Limits::default(),
        tells_usage: false,
    };
    let limits = LogLimits {
        retained_bytes_max: 1 << 20,
        retained_chunks_max: 1000,
        unsent_bytes_max: 256 << 10,
        chunk_bytes_max: 64 << 10,
        snapshot_bytes_max: 256 << 10,
    };
    let (id, watcher) = ("p".into(), Arc::new(Nobody));
    let process = match filter {
        None => Process::start(id, spec, limits, containment, watcher)?,
        Some(filter) => {
            let strings = spec.exec_strings()?;
            let command = Command {
                argv: &strings.argv,
                candidates: &strings.candidates,
                env: &strings.env,
                terminal: false,
            };
            let launch = builtin::launch(&plan(filter), &command, &Options::default())?;
            Process::launch(id, spec, launch, limits, containment, watcher, Box::new(())).await?
        }
    };
    ensure!(process.wait_closed(Some(Duration::from_secs(10))).await, "did not end");
    ensure!(process.state().exit.is_some_and(|exit| exit.code == 0), "failed");
    Ok(begun.elapsed())
}

fn plan(filter: Filter) -> Plan {
    let view = View {
        mounts: vec![Mount::Root(Root::HostReadOnly), Mount::Devices, Mount::Processes],
        placeholders: Vec::new(),
        witnesses: Vec::new(),
        writable: Vec::new(),
    };
    Plan { view: Some(view), network: Network::Isolated, filter, cwd: "/".into() }
}
