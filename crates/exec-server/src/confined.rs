//! File calls inside a sandbox: made by a worker, which is this program again, confined as a command
//! of the same policy would be.
//!
//! ```text
//! context ──policy, plan──► worker of that plan ──► the same handlers, inside
//!                                   └── open files come out as descriptors
//! ```
//! The policy is resolved anew for every call, and the plan is the worker's name: when the disk has
//! changed what the policy means, that is another worker. `start` says what a worker may do, `worker`
//! is the server's side of one, `pool` keeps them for a while, `serve` is the worker itself.

mod channel;
mod pool;
mod serve;
mod start;
mod watch;
mod worker;

use std::os::fd::AsFd;
use std::sync::Mutex;

use exec_fs::FileReader;
use exec_protocol::capability::{CapabilityRoot, DiscoverRootsParams, DiscoverRootsResult};
use exec_protocol::fs::*;
use exec_protocol::methods::{CapabilityRootsDiscover, Method};
use exec_protocol::sandbox::SandboxContext;
use serde::Serialize;

use crate::blocking::blocking;
use crate::dispatch::Caller;
use crate::error::Error;
use crate::limits::read_file_bytes_max;
use crate::reply::RawResult;
use crate::{discovery, fs};
use pool::Pool;
use serve::{OPEN, OpenFile, READ, ReadFile};
use start::Inside;
use worker::{Answer, Failure};

pub use serve::{WORKER_ARGUMENT, serve_files};
pub(crate) use watch::{ConfinedWatches, unwatch, watch};

/// How often a call is given to another worker, because the one before ended without seeing it.
const ATTEMPTS: usize = 4;

/// The workers of a server.
#[derive(Default)]
pub(crate) struct Confined(Mutex<Pool>);

/// Parameters that may come with a context.
pub(crate) trait Confinable: Serialize + Send + Sync {
    /// The context.
    fn sandbox(&mut self) -> &mut Option<SandboxContext>;
}

macro_rules! confinable {
    ($($params:ty),* $(,)?) => {
        $(impl Confinable for $params {
            fn sandbox(&mut self) -> &mut Option<SandboxContext> {
                &mut self.sandbox
            }
        })*
    };
}

confinable!(
    ReadFileParams,
    WriteFileParams,
    OpenParams,
    CreateDirectoryParams,
    GetMetadataParams,
    CanonicalizeParams,
    ReadDirectoryParams,
    WalkParams,
    RemoveParams,
    CopyParams,
    RenameParams,
    SearchParams,
    WatchParams,
    CapabilityRoot,
);

/// Makes a call inside, if its context asks for that. The answer is the result as JSON.
pub(crate) async fn call<M>(
    caller: &Caller,
    params: &mut M::Params,
) -> Result<Option<Vec<u8>>, Error>
where
    M: Method,
    M::Params: Confinable,
{
    match inside(caller, params).await? {
        Some(inside) => Ok(Some(ask(caller, &inside, M::NAME, params).await?.result)),
        None => Ok(None),
    }
}

pub(crate) async fn read_file(
    caller: Caller,
    mut params: ReadFileParams,
) -> Result<RawResult, Error> {
    let Some(inside) = inside(&caller, &mut params).await? else {
        return fs::read_file(caller.files(), params).await;
    };
    let ReadFileParams { path, follow_symlinks, .. } = params;
    let bytes_max = read_file_bytes_max(caller.message_bytes_max);
    let wanted = ReadFile { path, follow_symlinks, bytes_max };
    let answer = ask(&caller, &inside, READ, &wanted).await?;
    let Some(file) = answer.descriptor else { return Ok(RawResult::Json(answer.result)) };
    fs::send_file(&caller.files(), move || {
        // Only the worker may read what is made up for its reader.
        if exec_fs::lend::is_made_up(file.as_fd())? {
            return Err(Error::Worker("it lent a file that is not to be lent".to_owned()));
        }
        Ok(FileReader::of(file, bytes_max)?)
    })
    .await
}

pub(crate) async fn open(caller: Caller, mut params: OpenParams) -> Result<HandleRef, Error> {
    let Some(inside) = inside(&caller, &mut params).await? else {
        return fs::open(caller.files(), params).await;
    };
    let OpenParams { handle_id, path, mode, .. } = params;
    let files = &caller.scope.files;
    let reserved = files.reserve(&handle_id)?;
    let opened = ask(&caller, &inside, OPEN, &OpenFile { path, mode }).await;
    let opened = opened.and_then(|answer| {
        let file =
            answer.descriptor.ok_or_else(|| Error::Worker("it opened nothing".to_owned()))?;
        match exec_fs::lend::is_made_up(file.as_fd())? {
            false => Ok(file),
            true => Err(Error::Worker("it lent a file that is not to be lent".to_owned())),
        }
    });
    files.settle(&handle_id, reserved, opened)?;
    Ok(HandleRef { handle_id })
}

/// Looks for capabilities below one root.
pub(crate) async fn discover(
    caller: &Caller,
    mut root: CapabilityRoot,
) -> Result<DiscoverRootsResult, Error> {
    let inside = inside(caller, &mut root).await?;
    let params = DiscoverRootsParams { roots: vec![root] };
    let Some(inside) = inside else { return discovery::look_through(caller.files(), params).await };
    let answer = ask(caller, &inside, CapabilityRootsDiscover::NAME, &params).await?;
    serde_json::from_slice(&answer.result).map_err(|error| Error::Worker(error.to_string()))
}

/// Takes the context out of the parameters. What has to be done for it to hold on this host; nothing
/// if it restricts no file.
async fn inside(caller: &Caller, params: &mut impl Confinable) -> Result<Option<Inside>, Error> {
    match params.sandbox().take() {
        Some(context) if context.restricts_files() => {
            let program = caller.server.config.file_worker.clone().ok_or(Error::CannotConfine)?;
            let sandbox = caller.server.sandbox.clone();
            blocking(caller, move |_| start::inside(&sandbox, context, program)).await
        }
        Some(_) | None => Ok(None),
    }
}

/// Asks the worker of a view.
async fn ask<P: Serialize>(
    caller: &Caller,
    inside: &Inside,
    method: &str,
    params: &P,
) -> Result<Answer, Error> {
    let server = &caller.server;
    for _ in 0..ATTEMPTS {
        let worker = server.confined.pool().worker(server, inside).ok_or(Error::Internal)?;
        match worker.ask(method, params).await {
            Ok(answer) => return Ok(answer),
            Err(Failure::Unasked) => {}
            Err(Failure::Answered(error)) => return Err(Error::Inside(error)),
            Err(Failure::Gone(why)) => return Err(Error::Worker(why.to_string())),
        }
    }
    Err(Error::Worker("it ended again and again".to_owned()))
}

impl Confined {
    fn pool(&self) -> std::sync::MutexGuard<'_, Pool> {
        self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Lets go of all workers, which then end.
    pub(crate) fn end(&self) {
        self.pool().clear();
    }
}
