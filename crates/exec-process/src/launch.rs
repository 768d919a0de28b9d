//! The start of a confined command: a child is made, sets up what it was told from inside, and says
//! how that went. Whatever goes wrong before the command runs leaves nothing behind.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use exec_sandbox::launch::{Failure, Launch, Outcome, Program, SignalTarget, StatusChannel};
use tokio::io::Interest;

use crate::actor;
use crate::error::Error;
use crate::spec::Spec;
use crate::sys::{self, Containment, ExitStatus, Spawned};

/// How long setting up may take. It is a matter of milliseconds, unless a file system hangs.
const SET_UP_TIME_MAX: Duration = Duration::from_secs(10);

/// Starts the child and waits until its command runs. Returns it and, if signals for the command go
/// through another process, that one.
pub async fn start(
    launch: Launch,
    spec: &Spec,
    containment: &Containment,
) -> Result<(Spawned, Option<OwnedFd>), Error> {
    let program = match &launch.program {
        Program::Descriptor(_) => &[][..],
        Program::Path(path) => std::slice::from_ref(path),
    };
    let spawned = sys::spawn(&sys::SpawnRequest {
        argv: &launch.argv,
        program,
        env: &[],
        cwd: c"/",
        stdio: spec.stdio.for_child(),
        containment,
        limits: &[],
        group_limits: spec.limits.of_group(containment.controllers()),
        launch: Some(&launch),
    })
    .map_err(|source| confine("make namespaces for it", source))?;
    let child = Unfinished(Some(spawned));
    // The descriptors that only the child should have are closed here, or its end would go unnoticed.
    let Launch { status, signals, descriptors, .. } = launch;
    drop(descriptors);
    match watch(status, signals).await {
        Ok(passes_on) => match child.finished() {
            Some(spawned) => Ok((spawned, passes_on)),
            None => Err(confine("keep the child", io::ErrorKind::NotFound.into())),
        },
        Err(error) => {
            child.end().await;
            Err(error)
        }
    }
}

async fn watch(mut status: StatusChannel, signals: SignalTarget) -> Result<Option<OwnedFd>, Error> {
    let failed = |source: io::Error| confine("hear of the set-up", source);
    let waited = tokio::time::timeout(SET_UP_TIME_MAX, running(&mut status)).await;
    let reporter = waited.unwrap_or_else(|_| Err(failed(io::ErrorKind::TimedOut.into())))?;
    match signals {
        SignalTarget::Group => Ok(None),
        SignalTarget::Reporter => {
            let reporter = match sys::open_pidfd(reporter) {
                // The command has ended already, and with it whoever spoke for it.
                Err(error) if error.raw_os_error() == Some(libc::ESRCH) => return Ok(None),
                opened => opened.map_err(failed)?,
            };
            // While it holds its end of the channel, its number cannot be anybody else's.
            Ok((!status.is_closed()).then_some(reporter))
        }
    }
}

/// Waits until the command runs; then, who said so.
async fn running(status: &mut StatusChannel) -> Result<i32, Error> {
    let failed = |source| confine("hear of the set-up", source);
    let watched = actor::watch(status.descriptor(), Interest::READABLE).map_err(failed)?;
    loop {
        let mut ready = watched.readable().await.map_err(failed)?;
        match status.receive() {
            Outcome::Pending => ready.clear_ready(),
            Outcome::Running { reporter } => return Ok(reporter),
            Outcome::NotExecuted(source) => return Err(Error::Spawn(source)),
            Outcome::Failed(failure) => return Err(Error::Confine(failure)),
        }
    }
}

fn confine(step: &str, source: io::Error) -> Error {
    Error::Confine(Failure { step: step.to_owned(), source })
}

/// A child whose command does not run yet. Dropped, it is ended, and waited for by a task.
struct Unfinished(Option<Spawned>);

impl Unfinished {
    fn finished(mut self) -> Option<Spawned> {
        self.0.take()
    }

    async fn end(mut self) {
        if let Some(spawned) = self.0.take() {
            end(spawned, Duration::ZERO).await;
        }
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        if let Some(spawned) = self.0.take()
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
        {
            runtime.spawn(end(spawned, Duration::ZERO));
        }
    }
}

/// Gives a child so long to end by itself, then kills it and everything it made, and waits for it.
/// Returns how it ended, if that is known.
pub async fn end(spawned: Spawned, patience: Duration) -> Option<ExitStatus> {
    let Spawned { pid, pidfd, group, .. } = spawned;
    let pidfd = actor::watch(Arc::new(pidfd), Interest::READABLE).ok()?;
    // Nothing else is done at the end of the time than if it had ended.
    tokio::time::timeout(patience, pidfd.readable()).await.map(drop).ok();
    // It may have ended by itself.
    sys::signal_group(pid, libc::SIGKILL).ok();
    let killed = tokio::task::spawn_blocking(move || group.kill().map(|()| group)).await;
    if let Ok(Err(error)) = killed {
        tracing::warn!(%error, pid, "cannot kill what a child left");
    }
    pidfd.readable().await.ok()?.retain_ready();
    // Somebody else waited for it: then it is gone as well.
    sys::try_wait(pidfd.get_ref().as_fd()).ok().flatten()
}
