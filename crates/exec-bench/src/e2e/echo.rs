//! Sixteen bytes through a child's stdin and back.

use std::time::{Duration, Instant};

use anyhow::Result;

use super::Stage;
use crate::bare::Bare;
use crate::client::{Client, Event, Start, Stdio};
use crate::report::Report;
use crate::stats::Scale;

const ECHOES: usize = 1000;
const WARM_UP: usize = 10;
const TEXT: &[u8; 16] = b"0123456789abcde\n";
const TEXT_BASE64: &str = "MDEyMzQ1Njc4OWFiY2RlCg==";

/// Programs that say `ready` and then repeat what they read. The terminal is made to pass bytes
/// through unchanged, so that both say the same.
const READY: u64 = 6;
const KINDS: [(Stdio, &str, &str); 2] = [
    (Stdio::PipedStdin, "pipes", "echo ready; exec cat"),
    (Stdio::Tty, "terminal", "stty raw -echo; echo ready; exec cat"),
];

pub(super) async fn on_server(stage: &mut Stage<'_>) -> Result<()> {
    let mut client = stage.connect().await?;
    for (stdio, kind, script) in KINDS {
        let argv = &["/bin/sh", "-c", script];
        let process = client.started(Start { argv, stdio }).await?;
        client.output(process, READY).await?;
        for _ in 0..WARM_UP {
            once(&mut client, process).await?;
        }
        let mut spans = Vec::new();
        for _ in 0..stage.scale.count(ECHOES) {
            spans.push(once(&mut client, process).await?);
        }
        stage.report.latency(kind, &spans);
        client.about("process/terminate", process)?;
        client.closed(process).await?;
    }
    Ok(())
}

/// The echo counts, not the answer to the write, which may come before or after it.
async fn once(client: &mut Client, process: usize) -> Result<Duration> {
    let want = client.bytes(process) + TEXT.len() as u64;
    let begin = Instant::now();
    // Any name does, as long as it is new.
    let params =
        format!(r#"{{"processId":"{process}","chunk":"{TEXT_BASE64}","writeId":"{want}"}}"#);
    let id = client.request("process/write", &params)?;
    let (mut answered, mut span) = (false, None);
    while !answered || span.is_none() {
        answered |= client.next().await? == Event::Answer(id);
        if span.is_none() && client.bytes(process) >= want {
            span = Some(begin.elapsed());
        }
    }
    Ok(span.unwrap_or_default())
}

pub(super) fn bare(scale: Scale, report: &mut Report) -> Result<()> {
    for (stdio, kind, script) in KINDS {
        let mut child = Bare::start(&["/bin/sh", "-c", script], stdio)?;
        child.read_exactly(usize::try_from(READY)?)?;
        let mut spans = Vec::new();
        for _ in 0..scale.count(ECHOES) {
            let begin = Instant::now();
            child.write(TEXT)?;
            child.read_exactly(TEXT.len())?;
            spans.push(begin.elapsed());
        }
        report.latency(kind, &spans);
    }
    Ok(())
}
