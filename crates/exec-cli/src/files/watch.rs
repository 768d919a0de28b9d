//! `exec-server watch`: one line for each change, until interrupted.

use std::io::Write;

use exec_client::files::{Changes, Recursion};
use exec_protocol::fs::ChangeKind;
use serde_json::json;
use tokio::signal::unix::{SignalKind, signal};

use super::explain::explain;
use super::{Remote, printable};
use crate::args::WatchArgs;
use crate::exit::{INTERRUPTED, Outcome};

pub(super) async fn watch(remote: &Remote, args: &WatchArgs) -> anyhow::Result<Outcome> {
    let shown = args.path.display();
    let cannot = |error| explain(&format!("watch {shown}"), &error);
    let place = remote.connected.resolve(&args.path)?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    let recursion = if args.recursive { Recursion::Tree } else { Recursion::Single };
    let watch = remote.files.watch(&place, recursion).await.map_err(cannot)?;
    eprintln!("exec-server: watching {shown}");
    loop {
        tokio::select! {
            changes = watch.next() => print(&changes.map_err(cannot)?, args.json)?,
            _ = interrupt.recv() => return Ok(Outcome::Code(INTERRUPTED)),
            _ = terminate.recv() => return Ok(Outcome::Code(INTERRUPTED)),
        }
    }
}

fn print(changes: &Changes, as_json: bool) -> std::io::Result<()> {
    let mut stdout = std::io::stdout().lock();
    for event in &changes.events {
        let path = event.path.to_native().map_or_else(
            |_| event.path.as_str().to_owned(),
            |native| native.to_string_lossy().into_owned(),
        );
        let kind = word(event.kind);
        if as_json {
            let uri = event.path.as_str();
            writeln!(stdout, "{}", json!({"kind": kind, "path": path, "uri": uri}))?;
        } else {
            writeln!(stdout, "{kind:<8}  {}", printable(&path))?;
        }
    }
    if changes.rescan {
        if as_json {
            writeln!(stdout, "{}", json!({"kind": "rescan"}))?;
        } else {
            writeln!(stdout, "rescan    changes were lost: look at everything again")?;
        }
    }
    stdout.flush()
}

fn word(kind: ChangeKind) -> &'static str {
    match kind {
        ChangeKind::Created => "created",
        ChangeKind::Modified => "modified",
        ChangeKind::Removed => "removed",
        ChangeKind::Renamed => "renamed",
        ChangeKind::Other => "other",
    }
}
