//! What a server takes while nothing happens: memory, threads, wake-ups; and what each sleeping
//! process and each idle connection adds.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};

use super::Stage;
use crate::client::{Client, Event, Start, Stdio};
use crate::report::Unit;

const CONNECTIONS: usize = 100;
const SLEEPERS: usize = 1000;
/// Starts at once, so that their buffers are not what is measured.
const OUTSTANDING: usize = 16;
/// For all of them to end.
const PATIENCE: Duration = Duration::from_secs(15);
const WATCH: Duration = Duration::from_secs(5);
/// For what was started to come to rest, and for freed memory to go back.
const SETTLE: Duration = Duration::from_millis(500);

pub(super) async fn on_server(stage: &mut Stage<'_>) -> Result<()> {
    let bytes = stage.family.binary_bytes()? as f64;
    stage.report.record("size of the binary", Unit::Mib, bytes / (1 << 20) as f64);
    let mut client = stage.connect().await?;
    tokio::time::sleep(SETTLE).await;
    stage.report.record("memory (RSS)", Unit::Mib, stage.family.rss_kib()? / 1024.0);
    stage.report.record("memory (PSS)", Unit::Mib, stage.family.pss_kib()? / 1024.0);
    stage.report.record("threads", Unit::Count, stage.family.threads()?);

    let before = stage.family.sleeps()?;
    let begin = Instant::now();
    tokio::time::sleep(stage.scale.span(WATCH)).await;
    let wake_ups = (stage.family.sleeps()? - before) / begin.elapsed().as_secs_f64();
    stage.report.record("wake-ups in a second, one client", Unit::Count, wake_ups);

    connections(stage).await?;
    sleepers(stage, &mut client).await
}

async fn connections(stage: &mut Stage<'_>) -> Result<()> {
    let before = stage.family.rss_kib()?;
    let mut clients = Vec::new();
    for _ in 0..CONNECTIONS {
        clients.push(stage.connect().await?);
    }
    tokio::time::sleep(SETTLE).await;
    let each = (stage.family.rss_kib()? - before) / CONNECTIONS as f64;
    stage.report.record("memory for each idle connection", Unit::Kib, each);
    Ok(())
}

async fn sleepers(stage: &mut Stage<'_>, client: &mut Client) -> Result<()> {
    let before = stage.family.rss_kib()?;
    // Not for ever: a server that fails here may leave them behind.
    let sleeper = Start { argv: &["/bin/sleep", "100"], stdio: Stdio::Pipes };
    let (mut started, mut answered) = (0, 0);
    while answered < SLEEPERS {
        while started < SLEEPERS && started - answered < OUTSTANDING {
            client.start(sleeper)?;
            started += 1;
        }
        answered += usize::from(matches!(client.next().await?, Event::Answer(_)));
    }
    tokio::time::sleep(SETTLE).await;
    let each = (stage.family.rss_kib()? - before) / SLEEPERS as f64;
    stage.report.record("memory for each sleeping process", Unit::Kib, each);

    let begin = Instant::now();
    let ended = tokio::time::timeout(PATIENCE, terminate(client)).await;
    ended.with_context(|| format!("1000 sleepers were not terminated within {PATIENCE:?}"))??;
    let span = begin.elapsed().as_secs_f64() * 1e3;
    stage.report.record("until 1000 sleepers are terminated", Unit::Millis, span);
    Ok(())
}

async fn terminate(client: &mut Client) -> Result<()> {
    for process in 0..SLEEPERS {
        client.about("process/terminate", process)?;
    }
    for process in 0..SLEEPERS {
        client.closed(process).await.with_context(|| format!("sleeper {process}"))?;
    }
    Ok(())
}
