//! Calls that may block, run where they delay nobody: in a bounded number, and told to stop when
//! nobody waits for them any more.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::Semaphore;

use crate::error::Error;

/// Set when nobody waits any more.
pub(crate) type Stop = Arc<AtomicBool>;

/// Whoever makes such calls.
pub(crate) trait Places {
    /// Where they are made.
    fn places(&self) -> &Place;
}

/// Where calls are made that may block.
#[derive(Clone)]
pub(crate) enum Place {
    /// On the runtime's threads, that many at once.
    Threads(Arc<Semaphore>),
    /// Here: it is such a thread. Somebody else sets that nobody waits any more.
    Here(Stop),
}

/// Runs a call on a thread that may block. Dropped, it is told to stop.
pub(crate) async fn blocking<T: Send + 'static>(
    caller: &impl Places,
    call: impl FnOnce(Stop) -> Result<T, Error> + Send + 'static,
) -> Result<T, Error> {
    struct Waiting(Stop);
    impl Drop for Waiting {
        fn drop(&mut self) {
            self.0.store(true, Ordering::Relaxed);
        }
    }
    let threads = match caller.places() {
        Place::Threads(threads) => threads,
        Place::Here(stop) => return call(stop.clone()),
    };
    let Ok(_place) = threads.acquire().await else {
        return Err(Error::Internal);
    };
    let waiting = Waiting(Stop::default());
    let stop = waiting.0.clone();
    match tokio::task::spawn_blocking(move || call(stop)).await {
        Ok(result) => result,
        Err(error) => {
            tracing::error!(%error, "a blocking call failed");
            Err(Error::Internal)
        }
    }
}
