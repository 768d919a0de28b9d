//! The client: connecting, typed calls, and handles to processes.

use std::process::Stdio;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use exec_protocol::environment::{EnvironmentInfo, EnvironmentStatus};
use exec_protocol::id::ProcessId;
use exec_protocol::jsonrpc::code;
use exec_protocol::methods::{
    EnvironmentInfoGet, EnvironmentStatusGet, Method, NoParams, ProcessList,
};
use exec_protocol::process::{ListResult, StartParams, StartResult};
use exec_transport::{Connection, stdio};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::value::{RawValue, to_raw_value};
use tokio::process::{Child, Command as Program};
use tokio::sync::{Notify, mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};

use crate::driver::{Driver, initialize_params};
use crate::limits::{COMMANDS_MAX, QUEUED_EVENTS_MAX};
use crate::link::{self, Link};
use crate::notices::{NoticeQueue, Topic};
use crate::process::{Process, StdinKind};
use crate::queue::{EventQueue, QueueBounds};
use crate::router::{Command, Router};
use crate::{ExecServerClientConnectOptions, ExecServerError};

/// A connection to an executor: ours, or codex 0.166.
///
/// Clones share the connection, which one task owns. It ends when the last clone and the last
/// [`Process`] are dropped, or with [`ExecServerClient::close`]. A WebSocket that is cut is
/// connected again and the session resumed, without a sign to the callers but the delay; what
/// cannot be repeated without harm fails with [`ExecServerError::ConnectionLost`].
///
/// One connection carries all processes, so their handles have to take their events: see
/// [`Process`].
///
/// ```no_run
/// use exec_client::{ExecServerClient, ExecServerClientConnectOptions};
/// use exec_protocol::methods::{EnvironmentInfoGet, NoParams};
///
/// # async fn example() -> Result<(), exec_client::ExecServerError> {
/// let options = ExecServerClientConnectOptions::default();
/// let client = ExecServerClient::connect_websocket("ws://127.0.0.1:8080", options).await?;
/// let info = client.call::<EnvironmentInfoGet>(NoParams {}).await?;
/// println!("{} on {:?}", info.shell.name, info.platform_os);
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct ExecServerClient {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    commands: mpsc::Sender<Command>,
    wake: Arc<Notify>,
    obituary: Arc<OnceLock<String>>,
    session_id: String,
    environment: OnceLock<EnvironmentInfo>,
    queue_bounds: QueueBounds,
    collect_bytes_max: usize,
    /// Names for handles, watches and streamed requests.
    numbers: AtomicU64,
    /// Owned here and awaited by `close`. Not aborted on drop: the task ends by itself, after it
    /// has told the server which processes to end.
    task: Mutex<Option<JoinHandle<()>>>,
}

impl ExecServerClient {
    /// Connects to `ws://` or `wss://`.
    ///
    /// # Errors
    /// When there is no server, it refuses, or it does not answer `initialize` in time. This is
    /// tried once, unless the session to resume still has another connection: that one may just
    /// have ended, so the time for `initialize` is used up before it counts.
    pub async fn connect_websocket(
        url: &str,
        options: ExecServerClientConnectOptions,
    ) -> Result<Self, ExecServerError> {
        let options = options.bounded();
        let connect = link::connect_options(&options);
        let link = Link::WebSocket { url: url.to_owned(), connect: connect.clone() };
        let step = options.recovery_step;
        let deadline = Instant::now() + options.initialize_timeout;
        loop {
            let connection = link::connect(url, &connect).await?;
            let opened = Self::open(connection, link.clone(), None, options.clone()).await;
            let attached = |error: &ExecServerError| error.code() == Some(code::SESSION_ATTACHED);
            if !opened.as_ref().is_err_and(attached) || Instant::now() + step >= deadline {
                return opened;
            }
            sleep(step).await;
        }
    }

    /// Starts a server program and speaks over its stdin and stdout. There is nothing to reconnect
    /// to: when it ends, everything on it is lost. The program is killed, and reaped, with the
    /// client.
    ///
    /// # Errors
    /// When the program cannot be started, or does not answer `initialize` in time.
    pub async fn connect_stdio(
        mut program: Program,
        options: ExecServerClientConnectOptions,
    ) -> Result<Self, ExecServerError> {
        let name = program.as_std().get_program().to_string_lossy().into_owned();
        let cannot = |reason: String| ExecServerError::SpawnProgram { program: name, reason };
        program.stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true);
        let mut child = match program.spawn() {
            Ok(child) => child,
            Err(error) => return Err(cannot(error.to_string())),
        };
        let (Some(stdin), Some(stdout)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(cannot("it has no stdin and stdout".to_owned()));
        };
        Self::open(stdio(stdout, stdin), Link::Once, Some(child), options).await
    }

    /// Speaks over a connection that exists already, above all one end of
    /// [`exec_transport::memory_pair`]. It cannot be made again.
    ///
    /// # Errors
    /// When the other end does not answer `initialize` in time.
    pub async fn connect_in_memory(
        connection: Connection,
        options: ExecServerClientConnectOptions,
    ) -> Result<Self, ExecServerError> {
        Self::open(connection, Link::Once, None, options).await
    }

    async fn open(
        connection: Connection,
        link: Link,
        program: Option<Child>,
        options: ExecServerClientConnectOptions,
    ) -> Result<Self, ExecServerError> {
        let options = options.bounded();
        let params = initialize_params(&options, options.resume_session_id.clone());
        let opened = link::initialize(connection, &params, options.initialize_timeout).await?;
        let (commands, receiver) = mpsc::channel(COMMANDS_MAX);
        let wake = Arc::new(Notify::new());
        let obituary = Arc::new(OnceLock::new());
        let queue_bounds =
            QueueBounds { events: QUEUED_EVENTS_MAX, bytes: options.queued_bytes_max };
        let environment = OnceLock::new();
        let told = opened.result.environment_info.clone();
        if let Some(info) = told.clone() {
            environment.get_or_init(|| info);
        }
        let session_id = opened.result.session_id.clone();
        let collect_bytes_max = options.collect_bytes_max;
        let driver = Driver {
            link,
            program,
            options,
            router: Router::new(),
            commands: receiver,
            wake: Arc::clone(&wake),
            obituary: Arc::clone(&obituary),
        };
        let task = Mutex::new(Some(tokio::spawn(driver.run(opened))));
        let client = Self {
            inner: Arc::new(Inner {
                commands,
                wake,
                obituary,
                session_id,
                environment,
                queue_bounds,
                collect_bytes_max,
                numbers: AtomicU64::new(1),
                task,
            }),
        };
        // Servers may leave it out of the answer to `initialize`.
        if told.is_none() {
            let info = client.environment_info().await?;
            client.inner.environment.get_or_init(|| info);
        }
        Ok(client)
    }

    /// Makes any call of the protocol. It has no time limit of its own: a call whose answer may
    /// take long, such as `process/read` with `waitMs`, blocks everything behind it on a server
    /// with sequential dispatch, as codex's is by default.
    ///
    /// To start a process, use [`ExecServerClient::start`]: events of a process that no handle
    /// follows are discarded, and a start whose answer is lost is not undone.
    ///
    /// # Errors
    /// [`ExecServerError::Rpc`] is the server's answer; everything else is ours.
    pub async fn call<M: Method>(&self, params: M::Params) -> Result<M::Result, ExecServerError> {
        let (reply, answer) = oneshot::channel();
        let command = Command::Call { method: M::NAME, params: encode(&params)?, reply };
        self.send(command).await?;
        decode(&self.answer(answer).await??)
    }

    /// Tells what kind of machine the executor is, as it is now.
    ///
    /// # Errors
    /// As for [`ExecServerClient::call`].
    pub async fn environment_info(&self) -> Result<EnvironmentInfo, ExecServerError> {
        self.call::<EnvironmentInfoGet>(NoParams {}).await
    }

    /// Shows that the executor lives.
    ///
    /// # Errors
    /// As for [`ExecServerClient::call`].
    pub async fn environment_status(&self) -> Result<EnvironmentStatus, ExecServerError> {
        self.call::<EnvironmentStatusGet>(NoParams {}).await
    }

    /// Lists the processes of the session. Codex cannot.
    ///
    /// # Errors
    /// As for [`ExecServerClient::call`].
    pub async fn list(&self) -> Result<ListResult, ExecServerError> {
        self.call::<ProcessList>(NoParams {}).await
    }

    /// Starts a process. Its events are kept for the handle from the very first on.
    ///
    /// A start whose answer is lost with the connection is not repeated; the process is ended as
    /// soon as the session is resumed, should it have been started.
    ///
    /// # Errors
    /// As for [`ExecServerClient::call`]; and when this client follows a process of that id.
    pub async fn start(&self, params: StartParams) -> Result<Process, ExecServerError> {
        let stdin = match (params.tty, params.pipe_stdin) {
            (true, _) => StdinKind::Terminal,
            (false, true) => StdinKind::Pipe,
            (false, false) => StdinKind::Nothing,
        };
        let (reply, answer) = oneshot::channel();
        // Made first: if this future is dropped on the way, the process is ended with it.
        let mut process = self.handle(params.process_id.clone(), stdin);
        let command = Command::Start {
            params: encode(&params)?,
            id: params.process_id,
            queue: process.queue(),
            reply,
        };
        self.send(command).await?;
        let started: StartResult = decode(&self.answer(answer).await??)?;
        process.set_sandbox_type(started.sandbox_type);
        Ok(process)
    }

    /// Follows a process that runs already, in a session that was resumed with
    /// [`ExecServerClientConnectOptions::resume_session_id`]. Its events begin with what the server
    /// still retains; what it does not comes as a gap.
    ///
    /// # Errors
    /// When this client follows a process of that id. One that the server does not know shows as
    /// [`crate::ProcessEvent::Lost`].
    pub async fn attach(&self, id: ProcessId) -> Result<Process, ExecServerError> {
        let (reply, answer) = oneshot::channel();
        let process = self.handle(id.clone(), StdinKind::Unknown);
        self.send(Command::Follow { id, queue: process.queue(), reply }).await?;
        self.answer(answer).await??;
        Ok(process)
    }

    fn handle(&self, id: ProcessId, stdin: StdinKind) -> Process {
        let queue = EventQueue::new(self.inner.queue_bounds, Arc::clone(&self.inner.wake));
        Process::new(self.clone(), id, stdin, Arc::new(queue))
    }

    /// The session, for a later client's `resume_session_id`.
    pub fn session_id(&self) -> &str {
        &self.inner.session_id
    }

    /// What the executor said of itself when this client connected.
    pub fn environment(&self) -> Option<&EnvironmentInfo> {
        self.inner.environment.get()
    }

    /// Whether the server has `process/closeStdin`, `resize`, `wait`, `snapshot`, `list` and ways
    /// to terminate. Codex has not.
    pub fn supports_process_control(&self) -> bool {
        self.environment().is_some_and(|info| info.capabilities.process_control_v1)
    }

    /// The connection is gone for good, or the client was closed. A connection that is being
    /// recovered is not.
    pub fn is_closed(&self) -> bool {
        self.inner.commands.is_closed()
    }

    /// Ends the client for all its clones and waits until its task, and a server program that it
    /// started, are gone. Processes whose handles still exist are lost to them; they run on until
    /// the server ends the session.
    pub async fn close(self) {
        // When it is closed already, there is nobody left to tell.
        self.inner.commands.send(Command::Close).await.ok();
        let task = self.inner.task.lock().unwrap_or_else(PoisonError::into_inner).take();
        match task {
            // It fails only when the runtime goes down, which ends it as well.
            Some(task) => drop(task.await),
            None => self.inner.commands.closed().await,
        }
    }

    pub(crate) fn collect_bytes_max(&self) -> usize {
        self.inner.collect_bytes_max
    }

    /// A number that this client has not used before.
    pub(crate) fn next_number(&self) -> u64 {
        self.inner.numbers.fetch_add(1, Ordering::Relaxed)
    }

    /// Keeps what is said of the topic. What is asked for afterwards cannot be missed.
    pub(crate) async fn listen(&self, topic: Topic) -> Result<Arc<NoticeQueue>, ExecServerError> {
        let queue = Arc::new(NoticeQueue::new(Arc::clone(&self.inner.wake)));
        self.send(Command::Listen { topic, queue: Arc::clone(&queue) }).await?;
        Ok(queue)
    }

    async fn send(&self, command: Command) -> Result<(), ExecServerError> {
        self.inner.commands.send(command).await.map_err(|_| self.dead())
    }

    async fn answer<T>(&self, answer: oneshot::Receiver<T>) -> Result<T, ExecServerError> {
        answer.await.map_err(|_| self.dead())
    }

    fn dead(&self) -> ExecServerError {
        let reason = self.inner.obituary.get().map_or("client is closed", String::as_str);
        ExecServerError::ConnectionLost(reason.to_owned())
    }
}

fn encode<P: Serialize>(params: &P) -> Result<Box<RawValue>, ExecServerError> {
    to_raw_value(params).map_err(|error| ExecServerError::Protocol(error.to_string()))
}

fn decode<R: DeserializeOwned>(result: &str) -> Result<R, ExecServerError> {
    serde_json::from_str(result)
        .map_err(|error| ExecServerError::Protocol(format!("unexpected result: {error}")))
}
