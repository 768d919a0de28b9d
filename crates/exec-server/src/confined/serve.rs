//! The worker: this program again, inside a sandbox, serving the file calls of one policy to the
//! server that started it.
//!
//! It is greeted with the names that it must not make, and says that it serves. From then on it
//! answers calls until its socket ends. Nothing but files can be reached by its calls, and nothing of
//! its own environment is in it.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::future::poll_fn;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use exec_fs::{FileReader, Links, MissingHub, lend};
use exec_protocol::fs::OpenMode;
use exec_protocol::jsonrpc::{self, Message as Rpc, Notification, Request, RequestId};
use exec_protocol::limits::MESSAGE_BYTES_MAX;
use exec_protocol::path_uri::PathUri;
use exec_protocol::process::Empty;
use futures_util::future::{AbortHandle, Abortable};
use futures_util::stream::{FuturesUnordered, Stream};
use serde::{Deserialize, Serialize};
use tokio::sync::{Semaphore, mpsc};

use super::channel::{Channel, Message};
use crate::blocking::blocking;
use crate::dispatch::{FileCaller, encode, file_routes};
use crate::error::Error;
use crate::limits::{CONFINED_ANSWER_BYTES, CONFINED_CALLS_MAX};
use crate::reply::{RawResult, Reply};
use crate::scope::Scope;

/// The argument that makes a program a worker.
pub const WORKER_ARGUMENT: &str = "__file-worker";

/// Opens a file and hands it over.
pub(super) const OPEN: &str = "open";

/// Reads a file, or hands it over if it is large.
pub(super) const READ: &str = "read";

/// Nobody waits for that call any more.
pub(super) const CANCEL: &str = "cancel";

/// The first message to a worker.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Hello {
    /// Of the server. Another version speaks otherwise.
    version: String,
    /// What must not come into being, in bytes.
    protected: Vec<Vec<u8>>,
}

impl Hello {
    pub(super) fn new(protected: &[PathBuf]) -> Self {
        let bytes = |path: &PathBuf| path.as_os_str().as_bytes().to_vec();
        Self { version: VERSION.to_owned(), protected: protected.iter().map(bytes).collect() }
    }
}

const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Parameters of [`OPEN`].
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct OpenFile {
    pub(super) path: PathUri,
    pub(super) mode: OpenMode,
}

/// Parameters of [`READ`].
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct ReadFile {
    pub(super) path: PathUri,
    pub(super) follow_symlinks: Option<bool>,
    pub(super) bytes_max: u64,
}

/// Parameters of [`CANCEL`].
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Cancelled {
    pub(super) id: i64,
}

/// Serves file calls on a socket to whoever has the other end, until that ends. Returns why it could
/// not. To be called by a process that is confined already and does nothing else.
pub fn serve_files(socket: OwnedFd) -> io::Result<()> {
    rustix::io::ioctl_fionbio(&socket, true)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let served = runtime.block_on(async {
        let mut channel = Channel::new(socket)?;
        greet(&mut channel).await?;
        Serving::new(channel).run().await
    });
    // A thread may still be at work on what nobody waits for any more.
    runtime.shutdown_background();
    served
}

/// Does what the first message asks for and answers with an empty one, or with what is wrong.
async fn greet(channel: &mut Channel) -> io::Result<()> {
    let hello = poll_fn(|cx| channel.poll_receive(cx)).await?;
    let hello = hello.ok_or(io::ErrorKind::UnexpectedEof)?;
    let hello: Hello = serde_json::from_slice(&hello.text)?;
    let answer = match prepare(&hello) {
        Ok(()) => String::new(),
        Err(why) => why,
    };
    channel.send(answer.clone().into_bytes(), None)?;
    poll_fn(|cx| channel.poll_flush(cx)).await?;
    if answer.is_empty() { Ok(()) } else { Err(io::Error::other(answer)) }
}

fn prepare(hello: &Hello) -> Result<(), String> {
    if hello.version != VERSION {
        return Err(format!("it is version {VERSION}, the server {}", hello.version));
    }
    let protected = hello.protected.iter().map(|path| Path::new(OsStr::from_bytes(path)));
    exec_fs::protected::protect(protected).map_err(|error| format!("cannot protect names: {error}"))
}

/// An answer, and the file that goes with it.
type Outcome = (Vec<u8>, Option<OwnedFd>);

type Working = Pin<Box<dyn Future<Output = Outcome> + Send>>;

struct Serving {
    channel: Channel,
    caller: FileCaller,
    notices: mpsc::Receiver<Vec<u8>>,
    working: FuturesUnordered<Pin<Box<dyn Future<Output = (i64, Option<Outcome>)> + Send>>>,
    /// By the number of the call.
    stops: HashMap<i64, AbortHandle>,
}

/// What can happen to a worker.
enum Event {
    Message(Message),
    Answer(i64, Option<Outcome>),
    Notice(Vec<u8>),
    Closed,
}

impl Serving {
    fn new(channel: Channel) -> Self {
        let (scope, notices) = Scope::new(MissingHub::new());
        let places = Arc::new(Semaphore::new(CONFINED_CALLS_MAX));
        let message_bytes_max = MESSAGE_BYTES_MAX as u64;
        let caller = FileCaller { scope, places, message_bytes_max };
        Self {
            channel,
            caller,
            notices,
            working: FuturesUnordered::new(),
            stops: HashMap::new(),
        }
    }

    async fn run(mut self) -> io::Result<()> {
        loop {
            match poll_fn(|cx| self.poll_event(cx)).await? {
                Event::Message(message) => self.message(&message.text)?,
                Event::Answer(id, outcome) => {
                    self.stops.remove(&id);
                    if let Some((text, descriptor)) = outcome {
                        self.channel.send(text, descriptor)?;
                    }
                }
                Event::Notice(text) => self.channel.send(text, None)?,
                Event::Closed => return Ok(()),
            }
        }
    }

    fn poll_event(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Event>> {
        if let Poll::Ready(Err(error)) = self.channel.poll_flush(cx) {
            return Poll::Ready(Err(error));
        }
        if let Poll::Ready(Some((id, outcome))) = Pin::new(&mut self.working).poll_next(cx) {
            return Poll::Ready(Ok(Event::Answer(id, outcome)));
        }
        // A server that does not take what it is told is told less.
        if self.channel.pending_output() == 0
            && let Poll::Ready(Some(text)) = self.notices.poll_recv(cx)
        {
            return Poll::Ready(Ok(Event::Notice(text)));
        }
        self.channel.poll_receive(cx).map_ok(|message| message.map_or(Event::Closed, Event::Message))
    }

    fn message(&mut self, text: &[u8]) -> io::Result<()> {
        let invalid = |text: &str| io::Error::new(io::ErrorKind::InvalidData, text);
        match jsonrpc::decode(text).map_err(|error| invalid(&error.to_string()))? {
            Rpc::Request(request) => {
                let RequestId::Number(id) = request.id else { return Err(invalid("no number")) };
                let (stop, stopped) = AbortHandle::new_pair();
                let work = Abortable::new(self.work(&request), stopped);
                self.stops.insert(id, stop);
                self.working.push(Box::pin(async move { (id, work.await.ok()) }));
                Ok(())
            }
            Rpc::Notification(Notification { method, params }) if method == CANCEL => {
                let Cancelled { id } = serde_json::from_str(params.unwrap_or_default())?;
                if let Some(stop) = self.stops.remove(&id) {
                    stop.abort();
                }
                Ok(())
            }
            Rpc::Notification(_) | Rpc::Response { .. } | Rpc::Error { .. } => {
                Err(invalid("neither a call nor the end of one"))
            }
        }
    }

    /// Begins a call.
    fn work(&self, request: &Request<'_>) -> Working {
        let (id, caller) = (request.id.clone(), self.caller.clone());
        match &*request.method {
            OPEN => decoded(&id, request.params, move |id, params| open(id, caller, params)),
            READ => decoded(&id, request.params, move |id, params| read(id, caller, params)),
            method => {
                let prepared = match file_routes().get(method) {
                    Some(route) => (route.prepare)(id.clone(), request.params),
                    None => Err(Error::NoSuchMethod(method.to_owned())),
                };
                match prepared {
                    Ok(ready) => {
                        let answer = ready(caller);
                        Box::pin(async move {
                            let text = answer.await.into_text();
                            (text.unwrap_or_else(|| refused(&id, Error::AnswerTooLarge)), None)
                        })
                    }
                    Err(error) => Box::pin(std::future::ready((refused(&id, error), None))),
                }
            }
        }
    }
}

fn decoded<P, F>(
    id: &RequestId,
    params: Option<&str>,
    work: impl FnOnce(RequestId, P) -> F,
) -> Working
where
    P: serde::de::DeserializeOwned,
    F: Future<Output = Outcome> + Send + 'static,
{
    match jsonrpc::decode_params(params) {
        Ok(params) => Box::pin(work(id.clone(), params)),
        Err(error) => Box::pin(std::future::ready((refused(id, Error::Params(error)), None))),
    }
}

fn refused(id: &RequestId, error: Error) -> Vec<u8> {
    encode::<()>(id, Err(error))
}

async fn open(id: RequestId, caller: FileCaller, params: OpenFile) -> Outcome {
    let OpenFile { path, mode } = params;
    let opened = blocking(&caller, move |_| {
        let file = exec_fs::open_file(&path.to_native()?, Links::Follow, mode)?;
        Ok(lend::lend(file, mode)?)
    });
    match opened.await {
        Ok(file) => (encode(&id, Ok(Empty {})), Some(file)),
        Err(error) => (refused(&id, error), None),
    }
}

async fn read(id: RequestId, caller: FileCaller, params: ReadFile) -> Outcome {
    let ReadFile { path, follow_symlinks, bytes_max } = params;
    let links = Links::from_wire(follow_symlinks);
    let read = blocking(&caller, move |_| {
        let file = FileReader::open(&path.to_native()?, links, bytes_max)?;
        let large = file.size() > CONFINED_ANSWER_BYTES as u64;
        if large && !lend::is_made_up(file.as_fd())? {
            return Ok(Contents::File(file.into_file()));
        }
        Ok(Contents::Bytes(file.read_to_end()?))
    });
    match read.await {
        Ok(Contents::File(file)) => (encode(&id, Ok(Empty {})), Some(file)),
        Ok(Contents::Bytes(content)) => {
            let result = RawResult::Content { member: "dataBase64", content, rest: "" };
            let text = Reply::Raw(id.clone(), result).into_text();
            (text.unwrap_or_else(|| refused(&id, Error::Internal)), None)
        }
        Err(error) => (refused(&id, error), None),
    }
}

/// What is in a file.
enum Contents {
    Bytes(Vec<u8>),
    File(OwnedFd),
}
