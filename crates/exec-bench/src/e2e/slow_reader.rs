//! A client that stops reading while a child floods it: what the server keeps for it, and whether
//! it can still end the child.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use exec_protocol::bytes;

use super::Stage;
use crate::client::{Client, Event, Start, Stdio};
use crate::cost::is_alive;
use crate::report::Unit;
use crate::wire::{self, Incoming};

/// How long it does not read.
const PAUSE: Duration = Duration::from_secs(3);
const SAMPLE: Duration = Duration::from_millis(50);
/// How long the child may live on after it was to be terminated.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long the rest may take to arrive when the client reads again.
const REST: Duration = Duration::from_secs(30);

pub(super) async fn on_server(stage: &mut Stage<'_>) -> Result<()> {
    let mut client = stage.connect().await?;
    // Says its number first, then floods.
    let argv = &["/bin/sh", "-c", "echo $$; sleep 0.2; exec cat /dev/zero"];
    // Its first output may come before the answer.
    let (_, process) = client.start(Start { argv, stdio: Stdio::Pipes })?;
    let pid = first_line(&mut client).await?;
    let before = stage.family.rss_kib()?;
    let mut most = before;
    let begin = Instant::now();
    while begin.elapsed() < stage.scale.span(PAUSE) {
        tokio::time::sleep(SAMPLE).await;
        most = most.max(stage.family.rss_kib()?);
    }
    stage.report.record("memory the server adds", Unit::Mib, (most - before) / 1024.0);

    let begin = Instant::now();
    client.about("process/terminate", process)?;
    client.flush().await?;
    while is_alive(pid) {
        ensure!(begin.elapsed() < PATIENCE, "the child outlives its termination by {PATIENCE:?}");
        tokio::time::sleep(Duration::from_micros(200)).await;
    }
    let span = begin.elapsed();
    stage.report.record("until a terminated child is gone", Unit::Millis, span.as_secs_f64() * 1e3);
    // Reads again: everything up to the last event has to be there.
    let rest = tokio::time::timeout(REST, client.closed(process)).await;
    rest.context("the rest of the output did not come")?
}

/// The number in the first output, whichever message brings it.
async fn first_line(client: &mut Client) -> Result<i32> {
    while !matches!(client.next().await?, Event::Output(_)) {}
    let Some(Incoming::Output { chunk, .. }) = wire::parse(client.message()) else {
        anyhow::bail!("output became something else");
    };
    let line = bytes::decode(std::str::from_utf8(chunk)?)?;
    let line = String::from_utf8(line)?;
    line.trim().parse().context("the first output is no process number")
}
