//! `/bin/true`, many at once: on one connection, and on several.

use std::collections::VecDeque;
use std::time::Instant;

use anyhow::Result;
use futures_util::future::try_join_all;

use super::Stage;
use crate::bare::Bare;
use crate::client::{Client, Event, Start, Stdio};
use crate::report::{Report, Unit};
use crate::stats::Scale;

const STARTS: usize = 4000;
const OUTSTANDING: usize = 64;
const CONNECTIONS: usize = 8;
const START: Start<'static> = Start { argv: &["/bin/true"], stdio: Stdio::Pipes };
const ON_ONE: &str = "64 outstanding on one connection";
const ON_SEVERAL: &str = "8 outstanding on each of 8 connections";

pub(super) async fn on_server(stage: &mut Stage<'_>) -> Result<()> {
    let count = stage.scale.count(STARTS);
    let mut client = stage.connect().await?;
    let begin = Instant::now();
    pump(&mut client, count, OUTSTANDING).await?;
    stage.report.record(ON_ONE, Unit::PerSecond, rate(count, begin));
    drop(client);

    let mut clients = Vec::new();
    for _ in 0..CONNECTIONS {
        clients.push(stage.connect().await?);
    }
    let each = count / CONNECTIONS;
    let outstanding = OUTSTANDING / CONNECTIONS;
    let begin = Instant::now();
    try_join_all(clients.iter_mut().map(|client| pump(client, each, outstanding))).await?;
    stage.report.record(ON_SEVERAL, Unit::PerSecond, rate(each * CONNECTIONS, begin));
    Ok(())
}

/// Starts `count` processes, of which at most `outstanding` have not closed.
async fn pump(client: &mut Client, count: usize, outstanding: usize) -> Result<()> {
    let (mut started, mut closed) = (0, 0);
    while closed < count {
        while started < count && started - closed < outstanding {
            client.start(START)?;
            started += 1;
        }
        if let Event::Closed(_) = client.next().await? {
            closed += 1;
        }
    }
    Ok(())
}

pub(super) fn bare(scale: Scale, report: &mut Report) -> Result<()> {
    let count = scale.count(STARTS);
    let begin = Instant::now();
    let mut running = VecDeque::new();
    for _ in 0..count {
        if running.len() == OUTSTANDING {
            running.pop_front().map_or(Ok(()), finish)?;
        }
        running.push_back(Bare::start(START.argv, START.stdio)?);
    }
    running.into_iter().try_for_each(finish)?;
    report.record(ON_ONE, Unit::PerSecond, rate(count, begin));
    Ok(())
}

fn finish(mut child: Bare) -> Result<()> {
    child.drain()?;
    child.exited()
}

fn rate(count: usize, begin: Instant) -> f64 {
    count as f64 / begin.elapsed().as_secs_f64()
}
