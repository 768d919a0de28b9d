//! Requests that do next to nothing: what a round trip costs, alone, in crowds, and while a process
//! floods the connection.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

use anyhow::Result;

use super::Stage;
use crate::client::{Client, Event, Start, Stdio};
use crate::report::{Report, Unit};
use crate::stats::Scale;

const ALONE: usize = 3000;
const CROWD: usize = 60_000;
const OUTSTANDING: usize = 64;
const IN_FLOOD: usize = 300;
/// Output between two requests in the flood.
const BETWEEN: u64 = 1 << 20;
const WARM_UP: usize = 50;
const STATUS: &str = "`environment/status`";

pub(super) async fn on_server(stage: &mut Stage<'_>) -> Result<()> {
    let mut client = stage.connect().await?;
    let spans = status(&mut client, stage.scale.count(ALONE)).await?;
    stage.report.latency(STATUS, &spans);

    let process = client.started(Start { argv: &["/bin/true"], stdio: Stdio::Pipes }).await?;
    client.closed(process).await?;
    let mut spans = Vec::new();
    for _ in 0..stage.scale.count(ALONE) {
        let begin = Instant::now();
        let id = client.read(process, 0)?;
        client.answer(id).await?;
        spans.push(begin.elapsed());
    }
    stage.report.latency("`process/read` of a finished process", &spans);

    let count = stage.scale.count(CROWD);
    let begin = Instant::now();
    crowd(&mut client, count).await?;
    let rate = count as f64 / begin.elapsed().as_secs_f64();
    stage.report.record(&format!("{STATUS}, 64 outstanding"), Unit::PerSecond, rate);

    let argv = &["/bin/cat", "/dev/zero"];
    let process = client.started(Start { argv, stdio: Stdio::Pipes }).await?;
    let mut spans = Vec::new();
    for _ in 0..stage.scale.count(IN_FLOOD) {
        // On a busy machine the child may be the one that waits; then there is no flood.
        let flowed = client.bytes(process) + BETWEEN;
        client.output(process, flowed).await?;
        let begin = Instant::now();
        let id = client.request("environment/status", "{}")?;
        client.answer(id).await?;
        spans.push(begin.elapsed());
    }
    stage.report.latency(&format!("{STATUS} in a flood of output"), &spans);
    client.about("process/terminate", process)?;
    client.closed(process).await
}

async fn status(client: &mut Client, count: usize) -> Result<Vec<Duration>> {
    let mut spans = Vec::new();
    for at in 0..WARM_UP + count {
        let begin = Instant::now();
        let id = client.request("environment/status", "{}")?;
        client.answer(id).await?;
        if at >= WARM_UP {
            spans.push(begin.elapsed());
        }
    }
    Ok(spans)
}

async fn crowd(client: &mut Client, count: usize) -> Result<()> {
    let (mut asked, mut answered) = (0, 0);
    while answered < count {
        while asked < count && asked - answered < OUTSTANDING {
            client.request("environment/status", "{}")?;
            asked += 1;
        }
        if let Event::Answer(_) = client.next().await? {
            answered += 1;
        }
    }
    Ok(())
}

/// A thread that returns what it reads from a socket.
pub(super) fn bare(scale: Scale, report: &mut Report) -> Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    let echo = std::thread::spawn(move || -> std::io::Result<()> {
        let (mut stream, _) = listener.accept()?;
        stream.set_nodelay(true)?;
        let mut buffer = [0; 64];
        // Ends when the other end is dropped.
        while stream.read_exact(&mut buffer).is_ok() {
            stream.write_all(&buffer)?;
        }
        Ok(())
    });
    let mut stream = TcpStream::connect(address)?;
    stream.set_nodelay(true)?;
    let mut spans = Vec::new();
    for _ in 0..scale.count(ALONE) {
        let begin = Instant::now();
        stream.write_all(&[1; 64])?;
        stream.read_exact(&mut [0; 64])?;
        spans.push(begin.elapsed());
    }
    report.latency(STATUS, &spans);
    drop(stream);
    // It ends with the connection; that it ended is all that matters.
    drop(echo.join());
    Ok(())
}
