//! `exec-server ps | logs | kill`: a look into a session that may belong to somebody else.

use std::io::Write;

use anyhow::Context;
use exec_client::ExecServerClient;
use exec_protocol::id::ProcessId;
use exec_protocol::methods::{ProcessRead, ProcessTerminate};
use exec_protocol::process::{
    ListedProcess, ReadParams, ReadResult, Stream, TerminateMode, TerminateParams,
};

use crate::args::{KillArgs, LogsArgs, PsArgs};
use crate::connect::observe;
use crate::exit::Outcome;

/// How long one request of `logs --follow` waits.
const FOLLOW_MS: u64 = 20_000;

/// How much of a log one request asks for.
const PAGE_BYTES: u64 = 1 << 20;

pub(crate) async fn ps(args: PsArgs) -> anyhow::Result<Outcome> {
    let client = observe(&args.session).await?;
    let list = client.list().await?;
    let mut stdout = std::io::stdout().lock();
    if args.json {
        serde_json::to_writer_pretty(&mut stdout, &list)?;
        writeln!(stdout)?;
    } else {
        writeln!(stdout, "{:<24} {:>8} {:<12} {:>8} COMMAND", "PROCESS", "PID", "STATE", "EVENTS")?;
        for process in &list.processes {
            writeln!(
                stdout,
                "{:<24} {:>8} {:<12} {:>8} {}",
                process.process_id.as_str(),
                process.pid,
                state(process),
                process.next_seq - 1,
                process.argv.join(" ")
            )?;
        }
    }
    client.close().await;
    Ok(Outcome::Done)
}

fn state(process: &ListedProcess) -> String {
    match (process.exit_code, process.closed) {
        (None, _) => "running".to_owned(),
        (Some(code), false) => format!("exited {code} *"),
        (Some(code), true) => format!("exited {code}"),
    }
}

pub(crate) async fn logs(args: LogsArgs) -> anyhow::Result<Outcome> {
    let client = observe(&args.session).await?;
    let result = copy_log(&client, &args).await;
    client.close().await;
    result.map(|()| Outcome::Done)
}

async fn copy_log(client: &ExecServerClient, args: &LogsArgs) -> anyhow::Result<()> {
    let mut after_seq = 0;
    let mut position = 0;
    loop {
        let page = client
            .call::<ProcessRead>(ReadParams {
                process_id: ProcessId::from(args.process.as_str()),
                after_seq: Some(after_seq),
                max_bytes: Some(PAGE_BYTES),
                wait_ms: Some(if args.follow { FOLLOW_MS } else { 0 }),
            })
            .await?;
        print_page(&page, &mut position)?;
        after_seq = page.next_seq - 1;
        let done = if args.follow { page.closed } else { true };
        if page.chunks.is_empty() && done {
            return Ok(());
        }
    }
}

fn print_page(page: &ReadResult, position: &mut u64) -> anyhow::Result<()> {
    if let Some(offset) = page.output_offset
        && offset > *position
    {
        eprintln!("exec-server: {} bytes are no longer kept", offset - *position);
        *position = offset;
    }
    for chunk in &page.chunks {
        *position += chunk.chunk.0.len() as u64;
        let written = match chunk.stream {
            Stream::Stderr => std::io::stderr().lock().write_all(&chunk.chunk.0),
            Stream::Stdout | Stream::Pty => std::io::stdout().lock().write_all(&chunk.chunk.0),
        };
        written.context("cannot write the output")?;
    }
    std::io::stdout().lock().flush().context("cannot write the output")
}

pub(crate) async fn kill(args: KillArgs) -> anyhow::Result<Outcome> {
    let client = observe(&args.session).await?;
    let mut missed = Vec::new();
    for name in &args.processes {
        let mode = args.grace_ms.map(|timeout_ms| TerminateMode::Graceful { timeout_ms });
        let params = TerminateParams { process_id: ProcessId::from(name.as_str()), mode };
        if !client.call::<ProcessTerminate>(params).await?.running {
            missed.push(name.as_str());
        }
    }
    client.close().await;
    anyhow::ensure!(missed.is_empty(), "not running: {}", missed.join(", "));
    Ok(Outcome::Done)
}
