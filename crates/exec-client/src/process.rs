//! The handle of one process.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher as _, Hasher as _};
use std::sync::{Arc, Mutex, PoisonError};

use exec_protocol::bytes::Base64Bytes;
use exec_protocol::id::{ProcessId, WriteId};
use exec_protocol::methods::*;
use exec_protocol::process::{
    ProcessRef, ReadParams, ReadResult, ResizeParams, SandboxType, Signal, SignalParams,
    SnapshotResult, TerminalSize, TerminateMode, TerminateParams, WriteParams, WriteResult,
    WriteStatus,
};
use futures_util::Stream;
use futures_util::stream::unfold;
use tokio::sync::Mutex as AsyncMutex;

use crate::event::{LostReason, ProcessEvent};
use crate::limits::WRITE_BYTES_MAX;
use crate::queue::{EventQueue, Taker};
use crate::{ExecServerClient, ExecServerError};

/// A process on the executor.
///
/// Events wait here until they are taken: with [`Process::next_event`], or by [`Process::wait`],
/// [`Process::communicate`] and [`Process::collect_for`], which are made of it. All methods take
/// `&self`, so that a process can be written to while its events are taken.
///
/// # Back-pressure
/// The events of one process may fill 4 MiB (`queued_bytes_max`). Then the connection is no longer
/// read, so the server's queue fills, so the child blocks in its `write`: a slow consumer slows its
/// process down, and nothing is lost. Calls and other processes on the same connection wait
/// meanwhile: do not wait for a call while nobody takes the events. If they wait for longer than
/// `stall_limit`, the connection is read again and the output that does not fit is left to the
/// server; it is fetched when there is room, and what the server no longer retains by then comes as
/// [`ProcessEvent::Gap`].
///
/// # Dropping
/// Dropping the handle of a process that runs terminates the process; see [`Process::detach`].
///
/// ```no_run
/// use exec_client::{ExecServerClient, ProcessEvent};
/// use exec_protocol::process::StartParams;
///
/// # async fn example(client: ExecServerClient, params: StartParams)
/// #     -> Result<(), exec_client::ExecServerError> {
/// let process = client.start(params).await?;
/// while let Some(event) = process.next_event().await {
///     match event {
///         ProcessEvent::Output { stream, bytes, .. } => println!("{stream:?}: {bytes:?}"),
///         ProcessEvent::Exited { code, .. } => println!("exit {code}"),
///         ProcessEvent::Gap { bytes } => println!("{bytes:?} bytes are gone"),
///         ProcessEvent::Lost(reason) => println!("lost: {reason}"),
///         ProcessEvent::Closed => println!("all done"),
///     }
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Process {
    client: ExecServerClient,
    id: ProcessId,
    stdin: StdinKind,
    sandbox_type: Option<SandboxType>,
    queue: Arc<EventQueue>,
    on_drop: Taker,
    ending: Mutex<Ending>,
    /// One write at a time, so that their order is the callers', whatever the server's dispatch.
    writes: AsyncMutex<WriteIds>,
}

/// What a process's stdin is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StdinKind {
    Nothing,
    Pipe,
    Terminal,
    /// It was started by somebody else.
    Unknown,
}

/// How a process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ExitStatus {
    /// As exited, or 128 and the signal. −1 when the server could not tell.
    pub code: i32,
    /// The sandbox was probably the reason for the failure. `None` from servers that do not say.
    pub sandbox_denied: Option<bool>,
}

impl ExitStatus {
    /// The code is 0.
    pub fn success(&self) -> bool {
        self.code == 0
    }
}

/// What has been taken of a process's end.
#[derive(Debug, Default)]
struct Ending {
    exit: Option<ExitStatus>,
    lost: Option<LostReason>,
}

/// Names for writes that no other handle of the same process has used.
#[derive(Debug)]
struct WriteIds {
    lead: u64,
    count: u64,
}

impl WriteIds {
    fn next(&mut self) -> Option<WriteId> {
        self.count += 1;
        WriteId::try_from(format!("{:x}-{}", self.lead, self.count)).ok()
    }
}

impl Process {
    pub(crate) fn new(
        client: ExecServerClient,
        id: ProcessId,
        stdin: StdinKind,
        queue: Arc<EventQueue>,
    ) -> Self {
        // Each `RandomState` is seeded differently: random enough for a name.
        let lead = RandomState::new().build_hasher().finish();
        Self {
            client,
            id,
            stdin,
            sandbox_type: None,
            queue,
            on_drop: Taker::Dropped,
            ending: Mutex::default(),
            writes: AsyncMutex::new(WriteIds { lead, count: 0 }),
        }
    }

    pub(crate) fn queue(&self) -> Arc<EventQueue> {
        Arc::clone(&self.queue)
    }

    pub(crate) fn set_sandbox_type(&mut self, sandbox_type: Option<SandboxType>) {
        self.sandbox_type = sandbox_type;
    }

    pub(crate) fn stdin_kind(&self) -> StdinKind {
        self.stdin
    }

    /// The client's name for it.
    pub fn id(&self) -> &ProcessId {
        &self.id
    }

    /// The connection that it belongs to.
    pub fn client(&self) -> &ExecServerClient {
        &self.client
    }

    /// What confines it, where the server says.
    pub fn sandbox_type(&self) -> Option<SandboxType> {
        self.sandbox_type
    }

    /// Takes the next event; `None` after [`ProcessEvent::Closed`] or [`ProcessEvent::Lost`].
    /// Cancel-safe. Of several callers at once each event goes to one.
    pub async fn next_event(&self) -> Option<ProcessEvent> {
        let event = self.queue.next().await?;
        let mut ending = self.ending.lock().unwrap_or_else(PoisonError::into_inner);
        match &event {
            ProcessEvent::Exited { code, sandbox_denied } => {
                ending.exit = Some(ExitStatus { code: *code, sandbox_denied: *sandbox_denied });
            }
            ProcessEvent::Lost(reason) => ending.lost = Some(reason.clone()),
            ProcessEvent::Output { .. } | ProcessEvent::Closed | ProcessEvent::Gap { .. } => {}
        }
        Some(event)
    }

    /// The events, in order, as a stream.
    pub fn events(&self) -> impl Stream<Item = ProcessEvent> + Unpin + Send + '_ {
        Box::pin(unfold(
            self,
            |process| async move { Some((process.next_event().await?, process)) },
        ))
    }

    /// How it ended, once its `Exited` event was taken.
    pub fn exit_status(&self) -> Option<ExitStatus> {
        self.ending.lock().unwrap_or_else(PoisonError::into_inner).exit
    }

    /// Puts the rest of a piece of output back.
    pub(crate) fn put_back(&self, event: ProcessEvent) {
        self.queue.put_back(event);
    }

    /// How it ended, when there are no more events.
    pub(crate) fn outcome(&self) -> Result<ExitStatus, ExecServerError> {
        let ending = self.ending.lock().unwrap_or_else(PoisonError::into_inner);
        match (&ending.lost, ending.exit) {
            (Some(reason), _) => Err(reason.clone().into()),
            (None, Some(status)) => Ok(status),
            (None, None) => Err(ExecServerError::Protocol("closed without an exit".to_owned())),
        }
    }

    /// Writes to stdin or the terminal. Returns when the server has queued the bytes; that the
    /// child reads them is not known. Writes of several callers are made one after the other.
    ///
    /// Codex answers a write only when there is room in the process's queue (128 writes), and
    /// everything else on the connection waits behind it.
    ///
    /// # Errors
    /// [`ExecServerError::WriteRefused`] when there is no stdin or no such process any more.
    pub async fn write(&self, bytes: &[u8]) -> Result<(), ExecServerError> {
        let mut ids = self.writes.lock().await;
        let mut rest = bytes;
        loop {
            let (piece, later) = rest.split_at(rest.len().min(WRITE_BYTES_MAX));
            let params = WriteParams {
                process_id: self.id.clone(),
                chunk: Base64Bytes(piece.to_vec()),
                write_id: ids.next(),
            };
            accepted(self.client.call::<ProcessWrite>(params).await?)?;
            if later.is_empty() {
                return Ok(());
            }
            rest = later;
        }
    }

    /// Lets a piped child see the end of its stdin, after all writes before. Codex cannot.
    ///
    /// # Errors
    /// [`ExecServerError::Unsupported`] where the server has no `process/closeStdin`.
    pub async fn close_stdin(&self) -> Result<(), ExecServerError> {
        self.needs_process_control("process/closeStdin")?;
        let _after_writes = self.writes.lock().await;
        accepted(self.client.call::<ProcessCloseStdin>(self.reference()).await?)
    }

    /// SIGINT to the process group.
    ///
    /// # Errors
    /// As for [`ExecServerClient::call`]. When the answer is lost, so may be the signal: it is not
    /// sent twice.
    pub async fn interrupt(&self) -> Result<(), ExecServerError> {
        let params = SignalParams { process_id: self.id.clone(), signal: Signal::Interrupt };
        self.client.call::<ProcessSignal>(params).await.map(drop)
    }

    /// Ends the process and its descendants; false when there was nothing left to end. Codex kills
    /// at once in every mode.
    ///
    /// # Errors
    /// As for [`ExecServerClient::call`].
    pub async fn terminate(&self, mode: TerminateMode) -> Result<bool, ExecServerError> {
        // What every server does without being told is not said.
        let mode = (mode != TerminateMode::Force).then_some(mode);
        let params = TerminateParams { process_id: self.id.clone(), mode };
        Ok(self.client.call::<ProcessTerminate>(params).await?.running)
    }

    /// Changes the size of the terminal. Codex cannot.
    ///
    /// # Errors
    /// [`ExecServerError::Unsupported`] where the server has no `process/resize`.
    pub async fn resize(&self, size: TerminalSize) -> Result<(), ExecServerError> {
        self.needs_process_control("process/resize")?;
        let TerminalSize { rows, cols } = size;
        let params = ResizeParams { process_id: self.id.clone(), rows, cols };
        self.client.call::<ProcessResize>(params).await.map(drop)
    }

    /// Reads retained output after `after_seq`, without waiting and apart from the events: what is
    /// read here still comes as an event.
    ///
    /// # Errors
    /// As for [`ExecServerClient::call`].
    pub async fn read(
        &self,
        after_seq: u64,
        max_bytes: Option<u64>,
    ) -> Result<ReadResult, ExecServerError> {
        let params = ReadParams {
            process_id: self.id.clone(),
            after_seq: Some(after_seq),
            max_bytes,
            wait_ms: Some(0),
        };
        self.client.call::<ProcessRead>(params).await
    }

    /// The beginning and the end of each stream, apart from the events. Codex cannot.
    ///
    /// # Errors
    /// [`ExecServerError::Unsupported`] where the server has no `process/snapshot`.
    pub async fn snapshot(&self) -> Result<SnapshotResult, ExecServerError> {
        self.needs_process_control("process/snapshot")?;
        self.client.call::<ProcessSnapshot>(self.reference()).await
    }

    /// Gives the handle up and lets the process run, for as long as the server keeps the session:
    /// 30 s after the last connection. Its further events are discarded.
    pub fn detach(mut self) {
        self.on_drop = Taker::Detached;
    }

    pub(crate) fn needs_process_control(
        &self,
        method: &'static str,
    ) -> Result<(), ExecServerError> {
        if self.client.supports_process_control() {
            Ok(())
        } else {
            Err(ExecServerError::Unsupported(method))
        }
    }

    fn reference(&self) -> ProcessRef {
        ProcessRef { process_id: self.id.clone() }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.queue.leave(self.on_drop);
    }
}

fn accepted(result: WriteResult) -> Result<(), ExecServerError> {
    match result.status {
        WriteStatus::Accepted => Ok(()),
        refused @ (WriteStatus::UnknownProcess
        | WriteStatus::StdinClosed
        | WriteStatus::Starting) => Err(ExecServerError::WriteRefused(refused)),
    }
}
