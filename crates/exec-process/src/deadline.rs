//! The time a command and its descendants may live, watched by a task of its own: a descendant can
//! outlive both the command and its streams.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use crate::process::Process;

/// Kills what is left of the process when its time is up.
pub(crate) async fn enforce(process: Arc<Process>, deadline: Duration) {
    // A deadline that does not fit the clock never comes.
    let Some(until) = Instant::now().checked_add(deadline) else { return };
    if !process.wait_closed(Some(deadline)).await {
        process.pass_deadline();
        return;
    }
    // Whoever closed the streams may live on. The output is not kept for that long.
    let Some(group) = process.group() else { return };
    drop(process);
    tokio::time::sleep_until(until).await;
    let killed = tokio::task::spawn_blocking(move || group.kill()).await;
    if let Ok(Err(error)) = killed {
        tracing::warn!(%error, "cannot kill what outlived its deadline");
    }
}
