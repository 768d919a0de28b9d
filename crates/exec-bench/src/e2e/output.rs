//! Output as fast as it goes: from one process, from eight at once, and from a terminal; how fast,
//! and how much processor time the server spends on each gibibyte.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};

use super::Stage;
use crate::bare::Bare;
use crate::client::{Start, Stdio};
use crate::cost::Family;
use crate::report::{Report, Unit};
use crate::stats::Scale;

const GIB: f64 = (1_u64 << 30) as f64;

/// A name, how many processes, their streams, and how much they write together.
const KINDS: [(&str, usize, Stdio, usize); 3] = [
    ("one process", 1, Stdio::Pipes, 1024),
    ("8 processes at once", 8, Stdio::Pipes, 1024),
    ("terminal", 1, Stdio::Tty, 128),
];

pub(super) async fn on_server(stage: &mut Stage<'_>) -> Result<()> {
    for (kind, processes, stdio, full_mib) in KINDS {
        let mut client = stage.connect().await?;
        let each = (stage.scale.bytes(full_mib) / processes) as u64;
        let length = each.to_string();
        let argv = &["/bin/head", "-c", &length, "/dev/zero"];
        let cpu = stage.family.cpu()?;
        let begin = Instant::now();
        let mut started = Vec::new();
        for _ in 0..processes {
            started.push(client.start(Start { argv, stdio })?.1);
        }
        for process in started {
            client.closed(process).await?;
            let bytes = client.bytes(process);
            ensure!(bytes == each, "{bytes} bytes came of {each}");
        }
        let span = begin.elapsed();
        let cpu = stage.family.cpu()?.saturating_sub(cpu);
        record(stage.report, kind, each * processes as u64, span, cpu);
    }
    Ok(())
}

pub(super) fn bare(scale: Scale, report: &mut Report) -> Result<()> {
    let own = Family::own()?;
    for (kind, processes, stdio, full_mib) in KINDS {
        let each = scale.bytes(full_mib) / processes;
        let cpu = own.cpu()?;
        let begin = Instant::now();
        std::thread::scope(|scope| {
            let readers: Vec<_> =
                (0..processes).map(|_| scope.spawn(move || drain(each, stdio))).collect();
            readers.into_iter().try_for_each(|reader| reader.join().ok().context("a panic")?)
        })?;
        let span = begin.elapsed();
        let cpu = own.cpu()?.saturating_sub(cpu);
        record(report, kind, (each * processes) as u64, span, cpu);
    }
    Ok(())
}

fn drain(bytes: usize, stdio: Stdio) -> Result<()> {
    let mut child = Bare::start(&["/bin/head", "-c", &bytes.to_string(), "/dev/zero"], stdio)?;
    let read = child.drain()?;
    ensure!(read == bytes, "{read} bytes came of {bytes}");
    child.exited()
}

fn record(report: &mut Report, kind: &str, bytes: u64, span: Duration, cpu: Duration) {
    let bytes = bytes as f64;
    report.record(kind, Unit::MbPerSecond, bytes / 1e6 / span.as_secs_f64());
    let label = format!("{kind}: processor time");
    report.record(&label, Unit::CpuPerGib, cpu.as_secs_f64() / (bytes / GIB));
}
