//! A started process, as the rest of the server sees it: its log, its stdin, and the ways to end
//! it. The child itself belongs to the task in `actor.rs`.

use std::ops::ControlFlow;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use exec_protocol::id::{ProcessId, WriteId};
use exec_protocol::limits::WRITE_IDS_MAX;
use exec_protocol::process::{Stream, TerminalSize, WriteStatus};
use exec_sandbox::launch::Launch;
use futures_util::task::AtomicWaker;
use tokio::sync::{Notify, Semaphore};

use crate::actor;
use crate::deadline;
use crate::env::Environment;
use crate::error::Error;
use crate::launch;
use crate::limits::Counted;
use crate::log::{Event, LogLimits, LogState, OutputLog, ReadPage};
use crate::spec::{Spec, Stdio};
use crate::state::{Confined, Ending, Keep, State, Stdin};
use crate::stdin::{StdinQueue, WriteIds};
use crate::sys::{self, ContainedGroup, Containment, Spawned};

/// Places in the queue to one child's stdin.
pub(crate) const STDIN_PLACES: u32 = 128;

/// Who is told that a process has something new.
pub trait Watcher: Send + Sync {
    /// The log has grown. Called without any lock held, possibly often.
    fn changed(&self, process: &Arc<Process>);
    /// The last entry has been written.
    fn closed(&self, process: &Arc<Process>);
}

/// A process and everything it has written.
pub struct Process {
    id: ProcessId,
    id_json: Box<str>,
    spec: Spec,
    pid: i32,
    state: Mutex<State>,
    /// Set while the watcher knows of news it has not looked at yet.
    announced: AtomicBool,
    watcher: Arc<dyn Watcher>,
    /// Wakes those who wait for the log to grow.
    grown: Notify,
    /// Free places in the stdin queue, in the order in which writes came.
    pub(crate) stdin_places: Semaphore,
    /// Held by the write whose turn it is: places alone would let a later one pass an earlier one
    /// that has been given its places but has not run since.
    stdin_turn: tokio::sync::Mutex<()>,
    /// Wakes the task that owns the child.
    pub(crate) actor: AtomicWaker,
}

impl std::fmt::Debug for Process {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Process").field("id", &self.id).field("pid", &self.pid).finish()
    }
}

impl Process {
    /// Starts a child and the task that owns it, followed from its first event. Must be called on a thread that lives as long as
    /// the server does, within a runtime: the kernel kills the child when that thread ends.
    pub fn start(
        id: ProcessId,
        mut spec: Spec,
        limits: LogLimits,
        containment: &Containment,
        watcher: Arc<dyn Watcher>,
    ) -> Result<Arc<Self>, Error> {
        let strings = spec.exec_strings()?;
        let controllers = containment.controllers();
        let each = spec.limits.of_each(controllers, Counted::User)?;
        // Nobody asks for it again, and it may be large.
        spec.env = Environment::new();
        let spawned = sys::spawn(&sys::SpawnRequest {
            argv: &strings.argv,
            program: &strings.candidates,
            env: &strings.env,
            cwd: &strings.cwd,
            stdio: spec.stdio.for_child(),
            containment,
            limits: &each,
            group_limits: spec.limits.of_group(controllers),
            launch: None,
        })
        .map_err(Error::Spawn)?;
        Self::adopt(id, spec, limits, watcher, spawned, None, None)
    }

    /// As [`start`](Self::start), for a command that is confined by what was made ready in `launch`,
    /// out of the same specification; `keep` is dropped when nothing of it is left. Returns once the command runs; if it does not come to that,
    /// nothing is left of it, also when nobody waits for the answer any more.
    pub async fn launch(
        id: ProcessId,
        mut spec: Spec,
        launch: Launch,
        limits: LogLimits,
        containment: &Containment,
        watcher: Arc<dyn Watcher>,
        keep: Keep,
    ) -> Result<Arc<Self>, Error> {
        spec.env = Environment::new();
        let (spawned, signals) = launch::start(launch, &spec, containment).await?;
        let confined = Some(Confined::new(keep));
        Self::adopt(id, spec, limits, watcher, spawned, signals, confined)
    }

    fn adopt(
        id: ProcessId,
        spec: Spec,
        limits: LogLimits,
        watcher: Arc<dyn Watcher>,
        spawned: Spawned,
        signals: Option<OwnedFd>,
        confined: Option<Confined>,
    ) -> Result<Arc<Self>, Error> {
        let terminal = matches!(spec.stdio, Stdio::Terminal(_));
        let stdout = spawned.stdout.map(Arc::new);
        let stdin = match (terminal, spawned.stdin, &stdout) {
            (true, _, Some(master)) => Stdin::Open(master.clone()),
            (false, Some(pipe), _) => Stdin::Open(Arc::new(pipe)),
            _ => Stdin::Never,
        };
        let mut log = OutputLog::new(limits);
        log.attach();
        let process = Arc::new(Self {
            id_json: json_string(id.as_str()),
            id,
            pid: spawned.pid,
            state: Mutex::new(State {
                signals,
                log,
                stdin,
                stdin_queue: StdinQueue::default(),
                group: Some(Arc::new(spawned.group)),
                ending: Ending::No,
                reaped: false,
                write_ids: WriteIds::default(),
                deadline_passed: false,
                confined,
            }),
            announced: AtomicBool::new(false),
            watcher,
            grown: Notify::new(),
            stdin_places: Semaphore::new(STDIN_PLACES as usize),
            stdin_turn: tokio::sync::Mutex::new(()),
            actor: AtomicWaker::new(),
            spec,
        });
        actor::start(&process, spawned.pidfd, stdout, spawned.stderr.map(Arc::new), terminal)
            .map_err(Error::Spawn)?;
        if let Some(deadline) = process.spec.limits.deadline {
            tokio::spawn(deadline::enforce(process.clone(), deadline));
        }
        Ok(process)
    }

    /// The client's name for it.
    pub fn id(&self) -> &ProcessId {
        &self.id
    }

    /// The same as a JSON string, quotes included.
    pub fn id_json(&self) -> &str {
        &self.id_json
    }

    /// The operating system's number.
    pub fn pid(&self) -> i32 {
        self.pid
    }

    /// What was started.
    pub fn spec(&self) -> &Spec {
        &self.spec
    }

    /// Whether it runs on a terminal.
    pub fn is_terminal(&self) -> bool {
        matches!(self.spec.stdio, Stdio::Terminal(_))
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        // A panic while the lock is held would be our own bug; the log is still consistent enough
        // to be read, and refusing to serve would lose output.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Where its life stands.
    pub fn state(&self) -> LogState {
        self.lock().log.state()
    }

    /// Changes whenever the log does.
    pub(crate) fn progress(&self) -> (u64, u64) {
        let state = self.lock();
        (state.log.state().next_seq, state.log.written())
    }

    /// Tells everybody who waits that the log has grown.
    pub(crate) fn announce(self: &Arc<Self>) {
        self.grown.notify_waiters();
        if !self.announced.swap(true, Ordering::AcqRel) {
            self.watcher.changed(self);
        }
    }

    pub(crate) fn announce_closed(self: &Arc<Self>) {
        self.watcher.closed(self);
    }

    /// Begins or ends pushing events to the watcher.
    pub fn set_following(&self, following: bool) {
        let mut state = self.lock();
        if following {
            state.log.attach();
        } else {
            state.log.detach();
        }
        drop(state);
        self.actor.wake();
    }

    /// Hands the watcher's connection its next events, until `take` breaks. What is left is
    /// announced again, behind what others have.
    pub fn follow(self: &Arc<Self>, take: impl FnMut(Event<'_>) -> ControlFlow<()>) {
        self.announced.store(false, Ordering::Release);
        let mut state = self.lock();
        let had_room = state.log.has_room();
        let more = state.log.follow(take);
        let has_room = state.log.has_room();
        drop(state);
        if has_room && !had_room {
            self.actor.wake();
        }
        if more && !self.announced.swap(true, Ordering::AcqRel) {
            self.watcher.changed(self);
        }
    }

    /// Reads retained output; waits up to `wait` while there is nothing to say.
    pub async fn read<T>(
        &self,
        after_seq: u64,
        bytes_max: Option<u64>,
        wait: Duration,
        mut take: impl FnMut(u64, Stream, &[u8]) -> T,
    ) -> (Vec<T>, ReadPage, LogState) {
        self.wait_until(wait, |log| log.readable(after_seq)).await;
        let mut state = self.lock();
        let mut chunks = Vec::new();
        let page = state.log.read(after_seq, bytes_max, |seq, stream, data| {
            chunks.push(take(seq, stream, data));
        });
        (chunks, page, state.log.state())
    }

    /// Waits until the process has closed; false when the time ran out before.
    pub async fn wait_closed(&self, wait: Option<Duration>) -> bool {
        self.wait_until(wait.unwrap_or(Duration::MAX), |log| log.state().closed).await
    }

    async fn wait_until(&self, wait: Duration, done: impl Fn(&OutputLog) -> bool) -> bool {
        let grown = self.grown.notified();
        tokio::pin!(grown);
        // Listening begins before the first look, so that no growth falls between the two.
        grown.as_mut().enable();
        if done(&self.lock().log) {
            return true;
        }
        if wait.is_zero() {
            return false;
        }
        // A wait that does not fit the clock is for ever.
        let until = tokio::time::Instant::now().checked_add(wait);
        loop {
            match until {
                Some(until) => {
                    if tokio::time::timeout_at(until, grown.as_mut()).await.is_err() {
                        return done(&self.lock().log);
                    }
                }
                None => grown.as_mut().await,
            }
            grown.set(self.grown.notified());
            grown.as_mut().enable();
            if done(&self.lock().log) {
                return true;
            }
        }
    }

    /// Beginning and end of one stream, and how many bytes are missing between them.
    pub fn snapshot(&self, stream: Stream) -> (Vec<u8>, u64) {
        self.lock().log.snapshot(stream)
    }

    /// Queues bytes for the child, in the order of the calls; waits while the queue is full.
    pub async fn write(
        &self,
        data: Vec<u8>,
        write_id: Option<WriteId>,
    ) -> Result<WriteStatus, Error> {
        if let Some(status) = self.settled_write(write_id.as_ref())? {
            return Ok(status);
        }
        // Unconstrained, so that it queues up when it is first polled and not some other time.
        let _turn = tokio::task::unconstrained(self.stdin_turn.lock()).await;
        let places = StdinQueue::places(data.len(), STDIN_PLACES);
        let Ok(permit) = self.stdin_places.acquire_many(places).await else {
            return Ok(WriteStatus::Accepted);
        };
        if let Some(status) = self.settled_write(write_id.as_ref())? {
            return Ok(status);
        }
        permit.forget();
        let mut state = self.lock();
        if let Some(id) = write_id {
            state.write_ids.insert(id, WRITE_IDS_MAX);
        }
        state.stdin_queue.push(data, places);
        let (freed, blocked) = state.write_queued();
        drop(state);
        self.stdin_places.add_permits(freed as usize);
        if blocked {
            self.actor.wake();
        }
        Ok(WriteStatus::Accepted)
    }

    /// The answer to a write that need not be queued.
    fn settled_write(&self, write_id: Option<&WriteId>) -> Result<Option<WriteStatus>, Error> {
        let state = self.lock();
        if matches!(state.stdin, Stdin::Never) {
            return Ok(Some(WriteStatus::StdinClosed));
        }
        let repeated = write_id.is_some_and(|id| state.write_ids.contains(id));
        if repeated {
            return Ok(Some(WriteStatus::Accepted));
        }
        if state.stdin_queue.is_closing() {
            return Ok(Some(WriteStatus::StdinClosed));
        }
        if state.ending == Ending::Killed {
            return Err(Error::WriteAfterTerminate);
        }
        Ok(None)
    }

    /// Lets a piped child see the end of its input once every earlier write is written.
    pub async fn close_stdin(&self) -> WriteStatus {
        let _turn = tokio::task::unconstrained(self.stdin_turn.lock()).await;
        let mut state = self.lock();
        if matches!(state.stdin, Stdin::Never) {
            return WriteStatus::StdinClosed;
        }
        state.stdin_queue.close_when_empty();
        let (freed, blocked) = state.write_queued();
        drop(state);
        self.stdin_places.add_permits(freed as usize);
        if blocked {
            self.actor.wake();
        }
        WriteStatus::Accepted
    }

    /// Changes the terminal's size.
    pub fn resize(&self, size: TerminalSize) -> Result<(), Error> {
        let state = self.lock();
        match (&state.stdin, self.is_terminal()) {
            (Stdin::Open(master), true) => {
                sys::set_window_size(master.as_fd(), size.rows, size.cols).map_err(Error::Signal)
            }
            _ => Err(Error::NoTerminal),
        }
    }

    /// SIGINT to the process group, if the process runs.
    pub fn interrupt(&self) -> Result<(), Error> {
        let state = self.lock();
        if state.reaped {
            return Ok(());
        }
        self.signal(&state, libc::SIGINT).map_err(Error::Signal)
    }

    /// For a child that has not been waited for.
    fn signal(&self, state: &State, signal: i32) -> std::io::Result<()> {
        match &state.signals {
            Some(passes_on) => sys::signal_process(passes_on.as_fd(), signal),
            None => sys::signal_group(self.pid, signal),
        }
    }

    /// Kills every descendant at once. False when the process has exited; then nothing is done.
    pub fn terminate(&self) -> bool {
        let mut state = self.lock();
        if state.log.state().exit.is_some() {
            return false;
        }
        state.kill(self.pid);
        drop(state);
        self.actor.wake();
        true
    }

    /// SIGTERM to the group, and SIGKILL to every descendant when the process has exited or the
    /// time is up.
    pub fn terminate_gracefully(&self, grace: Duration) -> bool {
        let mut state = self.lock();
        if state.log.state().exit.is_some() {
            return false;
        }
        if state.ending == Ending::No && !state.reaped {
            state.ending = Ending::Graceful(grace);
            // Nobody in the group left to signal: the exit is about to be seen.
            self.signal(&state, libc::SIGTERM).ok();
        }
        drop(state);
        self.actor.wake();
        true
    }

    /// Kills what is left of the process, also what outlived its exit.
    pub fn kill_remains(&self) {
        let mut state = self.lock();
        if state.group.is_some() {
            state.kill(self.pid);
        }
        drop(state);
        self.actor.wake();
    }

    /// Its time is up: kills it and what it left.
    pub(crate) fn pass_deadline(&self) {
        let mut state = self.lock();
        state.deadline_passed = state.log.state().exit.is_none();
        drop(state);
        self.kill_remains();
    }

    /// Those of its descendants that may be alive; `None` when surely nobody is.
    pub(crate) fn group(&self) -> Option<Arc<ContainedGroup>> {
        let group = self.lock().group.clone();
        // Looking is instant, or else not worth it.
        group.filter(|group| !group.mechanism().is_instant() || !group.is_empty())
    }

    /// Gives the group back if no descendant is alive; false if one is. Looking may block for a
    /// moment, see [`Process::releases_at_once`].
    pub fn release_group(&self) -> bool {
        let group = self.lock().group.clone();
        let empty = group.is_none_or(|group| group.is_empty());
        if empty {
            self.lock().group = None;
        }
        empty
    }

    /// Whether there is nothing to give back, or it can be done without delaying anybody.
    pub fn releases_at_once(&self) -> bool {
        self.lock().group.as_ref().is_none_or(|group| group.mechanism().is_instant())
    }
}

fn json_string(text: &str) -> Box<str> {
    serde_json::to_string(text).expect("a string always encodes").into()
}
