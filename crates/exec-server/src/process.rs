//! The `process/*` handlers. `start` is the only code that composes: environment, restrictions,
//! spawn, table.

use std::time::Duration;

use exec_process::{Keep, Process, Spec, Stdio, env};
use exec_protocol::bytes::Base64Bytes;
use exec_protocol::id::ProcessId;
use exec_protocol::methods::{self, NoParams, Notice};
use exec_protocol::path_uri::PathUri;
use exec_protocol::process::*;
use exec_protocol::sandbox::SandboxContext;
use exec_sandbox::launch::Launch;
use std::sync::Arc;

use crate::blocking::blocking;
use crate::config::ExecServerConfig;
use crate::dispatch::Caller;
use crate::error::Error;
use crate::limits::log_limits;
use crate::process_limits;
use crate::sandbox::{Confinement, refuse_foreign};
use crate::scope::encode_notice;
use crate::server::Server;
use crate::session::{Session, SessionWatch};

pub(crate) async fn start(caller: Caller, params: StartParams) -> Result<StartResult, Error> {
    let process_id = params.process_id.clone();
    let result = launch(&caller, params).await;
    if caller.lifecycle && caller.owner {
        match &result {
            Ok(_) => notice::<methods::ProcessStarted>(&caller, &ProcessRef { process_id }),
            Err(error) => notice::<methods::ProcessFailed>(
                &caller,
                &FailedParams { process_id, message: error.to_string() },
            ),
        }
    }
    result
}

fn notice<N: Notice>(caller: &Caller, params: &N::Params) {
    if let Some(message) = encode_notice::<N>(params) {
        caller.session.outbox.notice(message);
    }
}

/// Checks first, then claims the name, then starts; nothing is left behind by a failure.
async fn launch(caller: &Caller, mut params: StartParams) -> Result<StartResult, Error> {
    let server = &caller.server;
    refuse_weaker(&server.config, &params)?;
    let process_id = params.process_id.clone();
    let context = params.sandbox.take();
    let spec = spec(&server.config, params)?;
    let claim = Claim::new(caller, &process_id)?;
    let (spec, launch) = match context {
        Some(context) => confine(caller, context, spec).await?,
        None => (spec, None),
    };
    let limits = log_limits(server.config.retained_output_bytes);
    let watcher = Arc::new(SessionWatch(Arc::downgrade(&caller.session)));
    let sandbox_type = match launch {
        Some(_) => SandboxType::LinuxSeccomp,
        None => SandboxType::None,
    };
    let id = process_id.clone();
    let process = match launch {
        Some((launch, keep)) => {
            Process::launch(id, spec, launch, limits, &server.containment, watcher, keep).await?
        }
        None => Process::start(id, spec, limits, &server.containment, watcher)?,
    };
    claim.keep();
    caller.session.adopt(&process)?;
    Ok(StartResult { process_id, sandbox_type: Some(sandbox_type) })
}

/// What would be enforced for such a start, if anything. Looks at the disk, and starts nothing.
pub(crate) fn confinement(
    server: &Server,
    mut params: StartParams,
) -> Result<Option<Confinement>, Error> {
    refuse_weaker(&server.config, &params)?;
    let Some(context) = params.sandbox.take().filter(SandboxContext::restricts) else {
        return Ok(None);
    };
    let spec = spec(&server.config, params)?;
    server.sandbox.confinement(&context, &server.sandbox.facts_of(&spec))
}

/// The command, complete.
fn spec(config: &ExecServerConfig, params: StartParams) -> Result<Spec, Error> {
    if params.argv.is_empty() {
        return Err(Error::EmptyArgv);
    }
    let foreign = |source| Error::ForeignCwd { uri: params.cwd.as_str().to_owned(), source };
    Ok(Spec {
        cwd: params.cwd.to_native().map_err(foreign)?,
        env: environment(&params),
        stdio: stdio(&params)?,
        limits: process_limits::effective(params.limits, config.limits)?,
        tells_usage: params.limits.is_some(),
        argv: params.argv,
        arg0: params.arg0,
    })
}

/// Binds the intent to this host, where looking at the disk delays nobody.
async fn confine(
    caller: &Caller,
    context: SandboxContext,
    spec: Spec,
) -> Result<(Spec, Option<(Launch, Keep)>), Error> {
    if !context.restricts() {
        return Ok((spec, None));
    }
    let sandbox = caller.server.sandbox.clone();
    blocking(caller, move |_| {
        let ready = sandbox.ready(&context, &spec)?;
        Ok((spec, ready.map(|(launch, held)| (launch, Box::new(held) as Keep))))
    })
    .await
}

/// A name in the session's table; given back unless a process got it.
struct Claim<'a> {
    session: &'a Session,
    id: &'a ProcessId,
    kept: bool,
}

impl<'a> Claim<'a> {
    fn new(caller: &'a Caller, id: &'a ProcessId) -> Result<Self, Error> {
        caller.session.table().claim(id, caller.server.config.processes_max)?;
        Ok(Self { session: &caller.session, id, kept: false })
    }

    fn keep(mut self) {
        self.kept = true;
    }
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        if !self.kept {
            self.session.table().release(self.id);
        }
    }
}

/// Never a weaker run: what cannot be enforced is refused before anything starts.
fn refuse_weaker(config: &ExecServerConfig, params: &StartParams) -> Result<(), Error> {
    if let Some(sandbox) = &params.sandbox {
        refuse_foreign(sandbox)?;
        if params.enforce_managed_network {
            return Err(Error::NoManagedNetwork);
        }
    }
    if params.network_proxy.is_some() {
        return Err(Error::CannotProxy);
    }
    match params.mode {
        Some(StartMode::Direct) if !config.allow_direct_exec => {
            Err(Error::ModeNotAllowed("direct"))
        }
        Some(StartMode::Prepared) if !config.allow_prepared_exec => {
            Err(Error::ModeNotAllowed("prepared"))
        }
        // Without a mark a command counts as what it looks like.
        None if !config.allow_direct_exec && params.env_policy.is_some() => {
            Err(Error::ModeNotAllowed("direct"))
        }
        Some(StartMode::Direct | StartMode::Prepared) | None => Ok(()),
    }
}

fn environment(params: &StartParams) -> env::Environment {
    let metadata = params.metadata.as_ref();
    // With metadata, only it says whose process this is; a call id never comes from elsewhere.
    let thread =
        metadata.map(|known| ("CODEX_THREAD_ID", known.thread_id.map(|id| id.to_string())));
    let call = metadata.and_then(|known| known.tool_call_id.clone());
    let late = thread.into_iter().chain([("CODEX_TOOL_CALL_ID", call)]);
    let mut environment = env::compute(env::own(), params.env_policy.as_ref(), &params.env, late);
    if params.tty {
        environment
            .entry("SHELL".into())
            .or_insert_with(|| std::env::var_os("SHELL").unwrap_or_else(|| "/bin/sh".into()));
    }
    environment
}

fn stdio(params: &StartParams) -> Result<Stdio, Error> {
    if !params.tty {
        return Ok(Stdio::Pipes { stdin: params.pipe_stdin });
    }
    Ok(Stdio::Terminal(checked_size(params.size.unwrap_or_default())?))
}

fn checked_size(size: TerminalSize) -> Result<TerminalSize, Error> {
    if size.rows == 0 || size.cols == 0 { Err(Error::NoSize) } else { Ok(size) }
}

fn known(caller: &Caller, id: &ProcessId) -> Result<Arc<Process>, Error> {
    caller.session.process(id).ok_or_else(|| Error::UnknownProcess(id.clone()))
}

pub(crate) async fn read(caller: Caller, params: ReadParams) -> Result<ReadResult, Error> {
    let process = known(&caller, &params.process_id)?;
    let wait = Duration::from_millis(params.wait_ms.unwrap_or(0));
    let after_seq = params.after_seq.unwrap_or(0);
    let (chunks, page, state) = process
        .read(after_seq, params.max_bytes, wait, |seq, stream, data| Chunk {
            seq,
            stream,
            chunk: Base64Bytes(data.to_vec()),
        })
        .await;
    Ok(ReadResult {
        chunks,
        next_seq: page.next_seq,
        exited: state.exit.is_some(),
        exit_code: state.exit.map(|exit| exit.code),
        closed: state.closed,
        failure: None,
        sandbox_denied: state.exit.is_some_and(|exit| exit.sandbox_denied),
        output_offset: Some(page.output_offset),
        denials: Vec::new(),
        usage: state.exit.and_then(|exit| process_limits::usage(&process, &exit)),
        limit_reached: state.exit.as_ref().and_then(process_limits::limit_reached),
    })
}

pub(crate) async fn write(caller: Caller, params: WriteParams) -> Result<WriteResult, Error> {
    let Some(process) = caller.session.process(&params.process_id) else {
        return Ok(WriteResult { status: WriteStatus::UnknownProcess });
    };
    Ok(WriteResult { status: process.write(params.chunk.0, params.write_id).await? })
}

pub(crate) async fn close_stdin(caller: Caller, params: ProcessRef) -> Result<WriteResult, Error> {
    let Some(process) = caller.session.process(&params.process_id) else {
        return Ok(WriteResult { status: WriteStatus::UnknownProcess });
    };
    if process.is_terminal() {
        return Err(Error::TerminalHasNoEof(params.process_id));
    }
    Ok(WriteResult { status: process.close_stdin().await })
}

pub(crate) async fn signal(caller: Caller, params: SignalParams) -> Result<Empty, Error> {
    let Signal::Interrupt = params.signal;
    if let Some(process) = caller.session.process(&params.process_id) {
        process.interrupt()?;
    }
    Ok(Empty {})
}

pub(crate) async fn terminate(
    caller: Caller,
    params: TerminateParams,
) -> Result<TerminateResult, Error> {
    let process = caller.session.process(&params.process_id);
    let running = process.is_some_and(|process| match params.mode {
        Some(TerminateMode::Graceful { timeout_ms }) => {
            process.terminate_gracefully(Duration::from_millis(timeout_ms))
        }
        Some(TerminateMode::Force) | None => process.terminate(),
    });
    Ok(TerminateResult { running })
}

pub(crate) async fn resize(caller: Caller, params: ResizeParams) -> Result<Empty, Error> {
    let process = known(&caller, &params.process_id)?;
    let size = checked_size(TerminalSize { rows: params.rows, cols: params.cols })?;
    match process.resize(size) {
        Err(exec_process::Error::NoTerminal) => Err(Error::NoTerminal(params.process_id)),
        other => Ok(other.map(|()| Empty {})?),
    }
}

pub(crate) async fn wait(caller: Caller, params: WaitParams) -> Result<WaitResult, Error> {
    let process = known(&caller, &params.process_id)?;
    let closed = process.wait_closed(params.timeout_ms.map(Duration::from_millis)).await;
    let state = process.state();
    Ok(WaitResult {
        exited: state.exit.is_some(),
        exit_code: state.exit.map(|exit| exit.code),
        closed: state.closed,
        timed_out: !closed,
    })
}

pub(crate) async fn snapshot(caller: Caller, params: ProcessRef) -> Result<SnapshotResult, Error> {
    let process = known(&caller, &params.process_id)?;
    let (stdout, stdout_omitted) = process.snapshot(Stream::Stdout);
    let (stderr, stderr_omitted) = process.snapshot(Stream::Stderr);
    let (terminal, terminal_omitted) = process.snapshot(Stream::Pty);
    let omitted_bytes = stdout_omitted + stderr_omitted + terminal_omitted;
    let exit = process.state().exit;
    Ok(SnapshotResult {
        stdout_base64: Base64Bytes(stdout),
        stderr_base64: Base64Bytes(stderr),
        terminal_base64: Base64Bytes(terminal),
        truncated: omitted_bytes > 0,
        omitted_bytes,
        exit_code: exit.map(|exit| exit.code),
        running: exit.is_none(),
    })
}

/// Arguments that `process/list` shows of each process, so that a thousand processes with long
/// command lines still make a message the peer may parse.
const LISTED_ARGS_MAX: usize = 16;

/// Processes that `process/list` shows: each is about ten values besides its arguments.
const LISTED_MAX: usize = 8192;
const _: () = assert!(LISTED_MAX * (LISTED_ARGS_MAX + 12) < exec_protocol::limits::JSON_VALUES_MAX);

pub(crate) async fn list(caller: Caller, _: NoParams) -> Result<ListResult, Error> {
    let mut all = caller.session.table().all();
    all.sort_by(|a, b| a.id().cmp(b.id()));
    let processes = all.iter().take(LISTED_MAX).filter_map(|process| listed(process)).collect();
    Ok(ListResult { processes })
}

fn listed(process: &Process) -> Option<ListedProcess> {
    let state = process.state();
    Some(ListedProcess {
        process_id: process.id().clone(),
        argv: process.spec().argv.iter().take(LISTED_ARGS_MAX).cloned().collect(),
        // It came from a URI, so it has one.
        cwd: PathUri::from_native(&process.spec().cwd).ok()?,
        tty: process.is_terminal(),
        pid: process.pid(),
        running: state.exit.is_none(),
        exit_code: state.exit.map(|exit| exit.code),
        closed: state.closed,
        next_seq: state.next_seq,
    })
}
