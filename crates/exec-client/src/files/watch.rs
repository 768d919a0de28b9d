//! Being told of changes. A watch belongs to its connection; after a cut it is set up again, and
//! what happened meanwhile is reported as lost.

use std::sync::Arc;

use exec_protocol::fs::{ChangeEvent, UnwatchParams, WatchMissingParams, WatchParams};
use exec_protocol::methods::{FsUnwatch, FsWatch, FsWatchMissing};
use exec_protocol::path_uri::PathUri;

use super::{Files, Recursion};
use crate::ExecServerError;
use crate::notices::{Notice, NoticeQueue, Topic};

/// What changed since the last time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Changes {
    /// Each path once.
    pub events: Vec<ChangeEvent>,
    /// Changes were lost, here, on the way or on the server: look at everything again.
    pub rescan: bool,
}

/// A watched file or directory. Dropped, it is watched no longer.
#[derive(Debug)]
pub struct Watch {
    files: Files,
    params: WatchParams,
    queue: Arc<NoticeQueue>,
}

impl Files {
    /// Watches a path that exists. Codex cannot.
    pub async fn watch(
        &self,
        path: &PathUri,
        recursion: Recursion,
    ) -> Result<Watch, ExecServerError> {
        self.require("fs/watch", |can| can.fs_watch)?;
        let params = WatchParams {
            watch_id: format!("w{}", self.client.next_number()),
            path: path.clone(),
            recursive: recursion == Recursion::Tree,
            sandbox: None,
        };
        let queue = self.client.listen(Topic::Watch(params.watch_id.clone())).await?;
        let watch = Watch { files: self.clone(), params, queue };
        self.client.call::<FsWatch>(watch.params.clone()).await?;
        Ok(watch)
    }

    /// Tells once that one of the paths, which are missing now, may have appeared. `None` if the
    /// server cannot tell: then the caller looks itself. A later one ends it.
    pub async fn watch_missing(
        &self,
        missing: Vec<PathUri>,
        present: Option<PathUri>,
    ) -> Result<Option<MissingWatch>, ExecServerError> {
        self.require("fs/watchMissing", |can| can.fs_watch_missing)?;
        let watch_id = self.client.next_number();
        let queue = self.client.listen(Topic::Missing(watch_id)).await?;
        let watch = MissingWatch { queue };
        let params = WatchMissingParams { watch_id, missing, present };
        let answer = self.client.call::<FsWatchMissing>(params).await?;
        Ok(answer.watching.then_some(watch))
    }
}

impl Watch {
    /// Waits for changes. Cancel-safe.
    ///
    /// # Errors
    /// When the connection is gone for good, or what was watched is, after a cut.
    pub async fn next(&self) -> Result<Changes, ExecServerError> {
        match self.queue.next().await {
            Notice::Changes { events, lost } => Ok(Changes { events, rescan: lost }),
            Notice::Cut(reason) => {
                if self.files.client.is_closed() {
                    return Err(ExecServerError::ConnectionLost(reason));
                }
                // Sent again by itself if the next connection is cut as well.
                self.files.client.call::<FsWatch>(self.params.clone()).await?;
                Ok(Changes { events: Vec::new(), rescan: true })
            }
            Notice::Appeared | Notice::Body(_) | Notice::Overflow => {
                Ok(Changes { events: Vec::new(), rescan: true })
            }
        }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.queue.leave();
        let (client, watch_id) = (self.files.client.clone(), self.params.watch_id.clone());
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            // A connection that is gone has ended it already.
            runtime
                .spawn(async move { client.call::<FsUnwatch>(UnwatchParams { watch_id }).await });
        }
    }
}

/// Paths that were missing.
#[derive(Debug)]
pub struct MissingWatch {
    queue: Arc<NoticeQueue>,
}

impl MissingWatch {
    /// Waits until one of them may have appeared, or a cut makes it unknown.
    pub async fn appeared(self) {
        self.queue.next().await;
    }
}

impl Drop for MissingWatch {
    fn drop(&mut self) {
        self.queue.leave();
    }
}
