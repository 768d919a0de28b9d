//! The worker: this program again, inside a sandbox, serving the file calls of one policy to the
//! server that started it.
//!
//! It is greeted with the names that it must not make, and says that it serves. From then on it
//! answers calls until its socket ends. Nothing but files can be reached by its calls, and nothing of
//! its own environment is in it.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::SyncSender;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use exec_fs::{FileReader, Links, MissingHub, lend};
use exec_process::sys;
use exec_protocol::fs::OpenMode;
use exec_protocol::jsonrpc::{self, Message as Rpc, Notification, Request, RequestId, RpcError};
use exec_protocol::limits::MESSAGE_BYTES_MAX;
use exec_protocol::path_uri::PathUri;
use exec_protocol::process::Empty;
use futures_util::FutureExt;
use rustix::event::{PollFd, PollFlags, Timespec};
use serde::{Deserialize, Serialize};
use tokio::sync::mpsc;

use super::channel::{self, Frames};
use crate::blocking::{Place, Stop};
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

/// The code of an answer that means: what was mounted here is no longer so, ask another worker. When a
/// mount point is removed by somebody outside, its mount goes with it.
pub(super) const STALE: i64 = -1;

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
    // Nothing is run on it; a connection's scope wants to know one.
    let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    let _entered = runtime.enter();
    let mounts = Mounts::watch()?;
    let mut frames = Frames::default();
    greet(&socket, &mut frames)?;
    let (scope, notices) = Scope::new(MissingHub::new());
    let (ended, end) = std::sync::mpsc::sync_channel(1);
    let serving = Arc::new(Serving {
        socket,
        frames: Mutex::new(frames),
        mounts,
        sending: Mutex::new(()),
        scope,
        stops: Mutex::default(),
        waiting: AtomicUsize::new(0),
        threads: AtomicUsize::new(0),
        ended,
    });
    serving.clone().tell(notices)?;
    serving.clone().begin()?;
    // The threads that are still at work end with the process.
    end.recv().unwrap_or(Ok(()))
}

/// Does what the first message asks for and answers with an empty one, or with what is wrong.
fn greet(socket: &OwnedFd, frames: &mut Frames) -> io::Result<()> {
    let hello = frames.receive(socket)?.ok_or(io::ErrorKind::UnexpectedEof)?;
    let hello: Hello = serde_json::from_slice(&hello.text)?;
    let answer = match prepare(&hello) {
        Ok(()) => String::new(),
        Err(why) => why,
    };
    channel::send(socket, answer.clone().into_bytes(), None)?;
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

/// What the threads share. One of them waits for the next call, and works on it itself when it comes,
/// while another takes its place: so a call wakes one thread and no more.
struct Serving {
    socket: OwnedFd,
    frames: Mutex<Frames>,
    mounts: Mounts,
    /// Held while a message is sent.
    sending: Mutex<()>,
    scope: Arc<Scope>,
    /// By the number of the call.
    stops: Mutex<HashMap<i64, Stop>>,
    /// Threads that wait for a call, or for their turn to.
    waiting: AtomicUsize,
    threads: AtomicUsize,
    ended: SyncSender<io::Result<()>>,
}

/// The mounts around this process, and whether they are what they were.
struct Mounts {
    /// Polled, it tells of changes, but only once.
    table: File,
    changed: Mutex<bool>,
}

impl Mounts {
    fn watch() -> io::Result<Self> {
        let table = File::open("/proc/self/mounts")?;
        Ok(Self { table, changed: Mutex::new(false) })
    }

    fn have_changed(&self) -> io::Result<bool> {
        // Held, so that nobody asks between the telling and the noting of it.
        let mut changed = lock(&self.changed);
        let mut table = [PollFd::new(&self.table, PollFlags::PRI)];
        rustix::event::poll(&mut table, Some(&Timespec::default()))?;
        *changed |= table[0].revents().intersects(PollFlags::PRI | PollFlags::ERR);
        Ok(*changed)
    }
}

/// A call that was read, and how it is stopped.
struct Call {
    id: i64,
    text: Vec<u8>,
    stop: Stop,
}

impl Serving {
    /// Starts another thread that takes calls.
    fn begin(self: Arc<Self>) -> io::Result<()> {
        self.threads.fetch_add(1, Ordering::Relaxed);
        std::thread::Builder::new().name("file call".to_owned()).spawn(move || {
            // Without it, it only takes longer on a busy machine.
            sys::shorten_time_slice().ok();
            let served = self.work();
            // Nobody is there: then the process is ending already.
            self.ended.try_send(served).ok();
        })?;
        Ok(())
    }

    /// Starts the thread that passes on what watches tell, as fast as the server takes it.
    fn tell(self: Arc<Self>, mut notices: mpsc::Receiver<Vec<u8>>) -> io::Result<()> {
        std::thread::Builder::new().name("file notices".to_owned()).spawn(move || {
            while let Some(text) = notices.blocking_recv() {
                if let Err(error) = self.send(text, None) {
                    return drop(self.ended.try_send(Err(error)));
                }
            }
        })?;
        Ok(())
    }

    fn work(self: &Arc<Self>) -> io::Result<()> {
        while let Some(call) = self.next_call()? {
            if self.mounts.have_changed()? {
                lock(&self.stops).remove(&call.id);
                self.send(stale(call.id), None)?;
                continue;
            }
            let answer = catch_unwind(AssertUnwindSafe(|| self.answer(&call)));
            lock(&self.stops).remove(&call.id);
            if call.stop.load(Ordering::Relaxed) {
                continue;
            }
            let (text, descriptor) = answer
                .unwrap_or_else(|_| (refused(&RequestId::Number(call.id), Error::Internal), None));
            self.send(text, descriptor)?;
        }
        Ok(())
    }

    fn send(&self, text: Vec<u8>, descriptor: Option<OwnedFd>) -> io::Result<()> {
        let _sending = lock(&self.sending);
        channel::send(&self.socket, text, descriptor)
    }

    /// Waits for a call, and sees to it that somebody waits for the one after it.
    fn next_call(self: &Arc<Self>) -> io::Result<Option<Call>> {
        self.waiting.fetch_add(1, Ordering::Relaxed);
        let mut frames = lock(&self.frames);
        loop {
            let Some(message) = frames.receive(&self.socket)? else { return Ok(None) };
            if let Some((id, stop)) = self.register(&message.text)? {
                let others = self.waiting.fetch_sub(1, Ordering::Relaxed) - 1;
                if others == 0 && self.threads.load(Ordering::Relaxed) <= CONFINED_CALLS_MAX {
                    self.clone().begin()?;
                }
                return Ok(Some(Call { id, text: message.text, stop }));
            }
        }
    }

    /// Notes a call, before anybody can read that it is cancelled; nothing if it is no call.
    fn register(&self, text: &[u8]) -> io::Result<Option<(i64, Stop)>> {
        let invalid = |text: &str| io::Error::new(io::ErrorKind::InvalidData, text);
        match jsonrpc::decode(text).map_err(|error| invalid(&error.to_string()))? {
            Rpc::Request(Request { id: RequestId::Number(id), .. }) => {
                let stop = Stop::default();
                lock(&self.stops).insert(id, stop.clone());
                Ok(Some((id, stop)))
            }
            Rpc::Notification(Notification { method, params }) if method == CANCEL => {
                let Cancelled { id } = serde_json::from_str(params.unwrap_or_default())?;
                if let Some(stop) = lock(&self.stops).get(&id) {
                    stop.store(true, Ordering::Relaxed);
                }
                Ok(None)
            }
            Rpc::Request(_) | Rpc::Notification(_) | Rpc::Response { .. } | Rpc::Error { .. } => {
                Err(invalid("neither a call nor the end of one"))
            }
        }
    }

    fn answer(&self, call: &Call) -> Outcome {
        let id = RequestId::Number(call.id);
        let Ok(Rpc::Request(request)) = jsonrpc::decode(&call.text) else {
            return (refused(&id, Error::Internal), None);
        };
        let answer = match &*request.method {
            OPEN => jsonrpc::decode_params(request.params).map_err(Error::Params).and_then(open),
            READ => jsonrpc::decode_params(request.params).map_err(Error::Params).and_then(read),
            _ => self.handle(&request, &call.stop).map(Answered::Text),
        };
        match answer {
            Ok(Answered::Text(text)) => (text, None),
            Ok(Answered::File(file)) => (encode(&id, Ok(Empty {})), Some(file)),
            Ok(Answered::Content(content)) => {
                let result = RawResult::Content { member: "dataBase64", content, rest: "" };
                let text = Reply::Raw(id.clone(), result).into_text();
                (text.unwrap_or_else(|| refused(&id, Error::Internal)), None)
            }
            Err(error) => (refused(&id, error), None),
        }
    }

    /// Calls the same handler as without a sandbox.
    fn handle(&self, request: &Request<'_>, stop: &Stop) -> Result<Vec<u8>, Error> {
        let route = file_routes().get(&request.method);
        let route = route.ok_or_else(|| Error::NoSuchMethod(request.method.clone()))?;
        let caller = FileCaller {
            scope: self.scope.clone(),
            places: Place::Here(stop.clone()),
            message_bytes_max: MESSAGE_BYTES_MAX as u64,
        };
        let answer = (route.prepare)(request.id.clone(), request.params)?(caller);
        // It does its work here and waits for nothing.
        let reply = answer.now_or_never().ok_or(Error::Internal)?;
        reply.into_text().ok_or(Error::AnswerTooLarge)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn stale(id: i64) -> Vec<u8> {
    let mut text = Vec::new();
    let error = RpcError { code: STALE, message: "mounts have changed".to_owned() };
    jsonrpc::encode_error(&mut text, &RequestId::Number(id), &error);
    text
}

fn refused(id: &RequestId, error: Error) -> Vec<u8> {
    encode::<()>(id, Err(error))
}

/// What an answer consists of.
enum Answered {
    Text(Vec<u8>),
    Content(Vec<u8>),
    File(OwnedFd),
}

fn open(params: OpenFile) -> Result<Answered, Error> {
    let OpenFile { path, mode } = params;
    let file = exec_fs::open_file(&path.to_native()?, Links::Follow, mode)?;
    Ok(Answered::File(lend::lend(file, mode)?))
}

fn read(params: ReadFile) -> Result<Answered, Error> {
    let ReadFile { path, follow_symlinks, bytes_max } = params;
    let links = Links::from_wire(follow_symlinks);
    let file = FileReader::open(&path.to_native()?, links, bytes_max)?;
    let large = file.size() > CONFINED_ANSWER_BYTES as u64;
    if large && !lend::is_made_up(file.as_fd())? {
        return Ok(Answered::File(file.into_file()));
    }
    Ok(Answered::Content(file.read_to_end()?))
}
