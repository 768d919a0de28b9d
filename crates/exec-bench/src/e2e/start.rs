//! `/bin/true`, one after another: until the answer, the exit and the close.

use std::time::{Duration, Instant};

use anyhow::Result;

use super::Stage;
use crate::bare::Bare;
use crate::client::{Client, Event, Start, Stdio};
use crate::report::Report;
use crate::stats::Scale;

const ARGV: &[&str] = &["/bin/true"];
const KINDS: [(Stdio, &str, usize); 2] =
    [(Stdio::Pipes, "pipes", 500), (Stdio::Tty, "terminal", 250)];
/// The first ones find cold caches.
const WARM_UP: usize = 10;

/// Spans until the answer, the exit and the close.
#[derive(Default)]
struct Spans([Vec<Duration>; 3]);

impl Spans {
    fn push(&mut self, spans: [Duration; 3]) {
        self.0.iter_mut().zip(spans).for_each(|(all, span)| all.push(span));
    }

    fn report(&self, report: &mut Report, kind: &str) {
        for (spans, name) in self.0.iter().zip(["answered", "exited", "closed"]) {
            report.latency(&format!("{kind}: until {name}"), spans);
        }
    }
}

pub(super) async fn on_server(stage: &mut Stage<'_>) -> Result<()> {
    let mut client = stage.connect().await?;
    for (stdio, kind, full) in KINDS {
        let mut spans = Spans::default();
        for _ in 0..WARM_UP {
            once(&mut client, stdio).await?;
        }
        for _ in 0..stage.scale.count(full) {
            spans.push(once(&mut client, stdio).await?);
        }
        spans.report(stage.report, kind);
    }
    Ok(())
}

async fn once(client: &mut Client, stdio: Stdio) -> Result<[Duration; 3]> {
    let begin = Instant::now();
    let (id, process) = client.start(Start { argv: ARGV, stdio })?;
    let mut spans = [None; 3];
    // The answer may come after the exit: nothing orders them.
    while spans.contains(&None) {
        let at = match client.next().await? {
            Event::Answer(answered) if answered == id => 0,
            Event::Exited(exited) if exited == process => 1,
            Event::Closed(closed) if closed == process => 2,
            Event::Answer(_)
            | Event::Exited(_)
            | Event::Closed(_)
            | Event::Output(_)
            | Event::Other => continue,
        };
        spans[at] = Some(begin.elapsed());
    }
    Ok(spans.map(Option::unwrap_or_default))
}

pub(super) fn bare(scale: Scale, report: &mut Report) -> Result<()> {
    for (stdio, kind, full) in KINDS {
        let mut spans = Spans::default();
        for _ in 0..scale.count(full) {
            let begin = Instant::now();
            let mut child = Bare::start(ARGV, stdio)?;
            let started = begin.elapsed();
            child.exited()?;
            let exited = begin.elapsed();
            child.drain()?;
            spans.push([started, exited, begin.elapsed()]);
        }
        spans.report(report, kind);
    }
    Ok(())
}
