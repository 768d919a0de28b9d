//! The task that owns the connection: moves bytes between it and the [`Router`], reconnects, and
//! tells everybody when there is nothing left to reconnect to.
//!
//! ```text
//!  connect -> serving --cut--> recovering --resumed--> serving
//!                |                 '--window passed, refused--> lost
//!                '--last handle dropped, Close--> closed
//! ```

use std::future::{Future, poll_fn};
use std::sync::{Arc, OnceLock};
use std::task::Poll;
use std::time::Duration;

use exec_protocol::jsonrpc::{self, RequestId};
use exec_protocol::limits::MESSAGE_BYTES_MAX;
use exec_protocol::session::InitializeParams;
use exec_transport::Connection;
use tokio::process::Child;
use tokio::sync::{Notify, mpsc};
use tokio::time::{Instant, sleep, sleep_until, timeout};

use crate::limits::{CLOSE_TIMEOUT, OUTPUT_BYTES_HIGH, PROGRAM_EXIT_TIMEOUT, REQUEST_BYTES_MAX};
use crate::link::{self, Link, Opened};
use crate::pace::Pace;
use crate::recovery::Recovery;
use crate::router::{Command, Router};
use crate::{ExecServerClientConnectOptions, ExecServerError};

pub(crate) struct Driver {
    pub(crate) link: Link,
    /// The program at the other end, if it is ours.
    pub(crate) program: Option<Child>,
    pub(crate) options: ExecServerClientConnectOptions,
    pub(crate) router: Router,
    pub(crate) commands: mpsc::Receiver<Command>,
    /// A handle took events, or is gone.
    pub(crate) wake: Arc<Notify>,
    /// Why the client is dead, for calls that come too late.
    pub(crate) obituary: Arc<OnceLock<String>>,
}

/// Why a connection is no longer served.
enum End {
    /// Nobody needs it any more.
    Closed,
    /// It broke.
    Cut(String),
}

enum Event {
    Message(Vec<u8>),
    /// Output went out, so commands are taken again.
    Writable,
    Cut(String),
    Command(Option<Command>),
    Wake,
    Tick,
}

impl Driver {
    pub(crate) async fn run(mut self, opened: Opened) {
        let session = opened.result.session_id.clone();
        let mut opened = opened;
        let reason = loop {
            let since = Instant::now();
            let reason = match self.serve(opened).await {
                End::Closed => break "client was closed".to_owned(),
                End::Cut(reason) => reason,
            };
            tracing::debug!(reason, "connection lost");
            self.router.handle_cut(&reason);
            match self.recover(&session, &reason, since.elapsed()).await {
                Ok(again) => opened = again,
                Err(reason) => break reason,
            }
        };
        // In this order: whoever is told finds the client closed and the reason in place.
        self.obituary.set(reason.clone()).ok();
        self.commands.close();
        self.router.handle_loss(&reason);
        if let Some(program) = self.program.take() {
            end_program(program).await;
        }
    }

    async fn serve(&mut self, opened: Opened) -> End {
        let Opened { mut connection, greeting, .. } = opened;
        for message in greeting {
            if let Err(reason) = self.handle_message(&mut connection, &message) {
                return End::Cut(reason);
            }
        }
        let mut pace = Pace::new(&self.options, &connection);
        loop {
            self.transmit(&mut connection);
            let tick = pace.next_tick(&self.router, Instant::now());
            let readable = !self.router.is_stalled();
            let writable = connection.pending_output() < OUTPUT_BYTES_HIGH;
            let event = tokio::select! {
                event = pump(&mut connection, readable) => event,
                command = self.commands.recv(), if writable => Event::Command(command),
                () = self.wake.notified() => Event::Wake,
                () = sleep_until(tick) => Event::Tick,
            };
            let handled = match event {
                Event::Message(message) => self.handle_message(&mut connection, &message),
                Event::Writable => Ok(()),
                Event::Cut(reason) => Err(reason),
                Event::Command(None | Some(Command::Close)) => {
                    self.close(connection).await;
                    return End::Closed;
                }
                Event::Command(Some(command)) => {
                    self.router.handle_command(command);
                    Ok(())
                }
                Event::Wake => {
                    self.router.handle_wake();
                    Ok(())
                }
                Event::Tick => pace.handle_tick(&mut self.router, &mut connection, Instant::now()),
            };
            if let Err(reason) = handled {
                return End::Cut(reason);
            }
        }
    }

    fn handle_message(&mut self, connection: &mut Connection, text: &[u8]) -> Result<(), String> {
        if let Some(reply) = self.router.handle_message(text)? {
            if connection.pending_output() > 2 * OUTPUT_BYTES_HIGH {
                return Err("server asks but does not read the answers".to_owned());
            }
            connection.send(&reply).map_err(|error| error.to_string())?;
        }
        Ok(())
    }

    /// Queues requests as long as the connection takes them.
    fn transmit(&mut self, connection: &mut Connection) {
        while connection.pending_output() < OUTPUT_BYTES_HIGH {
            let Some(request) = self.router.poll_transmit() else { return };
            let len = request.params.get().len();
            if len > REQUEST_BYTES_MAX {
                let reason = format!("request of {len} bytes is over {REQUEST_BYTES_MAX}");
                self.router.refuse(request.id, &reason);
                continue;
            }
            let mut text = Vec::with_capacity(len + 96);
            let id = RequestId::Number(request.id);
            let sent = jsonrpc::encode_request(&mut text, &id, request.method, &request.params)
                .map_err(|error| error.to_string())
                .and_then(|()| connection.send(&text).map_err(|error| error.to_string()));
            if let Err(reason) = sent {
                self.router.refuse(request.id, &reason);
            }
        }
    }

    /// Tries until a connection continues the session. Commands are taken meanwhile and wait.
    async fn recover(
        &mut self,
        session: &str,
        reason: &str,
        lived: Duration,
    ) -> Result<Opened, String> {
        let Link::WebSocket { url, connect } = self.link.clone() else {
            return Err(reason.to_owned());
        };
        let params = initialize_params(&self.options, Some(session.to_owned()));
        let (window, step) = (self.options.recovery_window, self.options.recovery_step);
        let recovery = Recovery::new(Instant::now().into_std(), window, step);
        let mut delay = recovery.first_delay(lived);
        loop {
            let remaining = recovery.remaining(Instant::now().into_std());
            let initialize_limit = self.options.initialize_timeout;
            let attempt = async {
                sleep(delay).await;
                let connection = link::connect(&url, &connect).await?;
                link::initialize(connection, &params, initialize_limit).await
            };
            let outcome = self.attend(timeout(remaining, attempt)).await?;
            let timed_out = ExecServerError::Timeout { what: "recovery", limit: window };
            let failure = match outcome.unwrap_or(Err(timed_out)) {
                Ok(opened) if opened.result.session_id == session => return Ok(opened),
                Ok(_) => ExecServerError::Protocol("server gave us another session".to_owned()),
                Err(failure) => failure,
            };
            tracing::debug!(%failure, "cannot resume yet");
            match recovery.next_delay(&failure, Instant::now().into_std()) {
                Some(again) => delay = again,
                None => return Err(format!("{reason}; not resumed: {failure}")),
            }
        }
    }

    /// Waits for `attempt` and takes commands meanwhile.
    async fn attend<T>(&mut self, attempt: impl Future<Output = T>) -> Result<T, String> {
        tokio::pin!(attempt);
        loop {
            tokio::select! {
                outcome = &mut attempt => return Ok(outcome),
                command = self.commands.recv() => match command {
                    None | Some(Command::Close) => return Err("client was closed".to_owned()),
                    Some(command) => self.router.handle_command(command),
                },
                () = self.wake.notified() => self.router.handle_wake(),
            }
        }
    }

    /// Sends what has to be sent last, above all the ends of processes whose handles are gone.
    async fn close(&mut self, mut connection: Connection) {
        self.router.handle_wake();
        self.transmit(&mut connection);
        connection.start_close();
        if timeout(CLOSE_TIMEOUT, connection.flush()).await.is_err() {
            tracing::debug!("server did not take the last messages");
        }
        connection.close().await;
    }
}

/// The parameters of `initialize`, the first and every later one.
pub(crate) fn initialize_params(
    options: &ExecServerClientConnectOptions,
    resume_session_id: Option<String>,
) -> InitializeParams {
    InitializeParams {
        client_name: options.client_name.clone(),
        resume_session_id,
        extensions: options.extensions.clone(),
        attach: options.attach,
        max_message_bytes: Some(MESSAGE_BYTES_MAX as u64),
    }
}

/// Writes, and reads if that is wanted, until something happened. Cancel-safe.
async fn pump(connection: &mut Connection, readable: bool) -> Event {
    poll_fn(|cx| {
        let was_high = connection.pending_output() >= OUTPUT_BYTES_HIGH;
        let flushed = connection.poll_flush(cx);
        // What the server said before it went away comes first.
        if readable && let Poll::Ready(read) = connection.poll_message(cx) {
            return Poll::Ready(match read {
                Ok(Some(message)) => Event::Message(message),
                Ok(None) => Event::Cut("server closed the connection".to_owned()),
                Err(error) => Event::Cut(error.to_string()),
            });
        }
        match flushed {
            Poll::Ready(Err(error)) => Poll::Ready(Event::Cut(error.to_string())),
            _ if was_high && connection.pending_output() < OUTPUT_BYTES_HIGH => {
                Poll::Ready(Event::Writable)
            }
            Poll::Ready(Ok(())) | Poll::Pending => Poll::Pending,
        }
    })
    .await
}

/// Our end of its stdin is closed, which is its sign to go.
async fn end_program(mut program: Child) {
    if timeout(PROGRAM_EXIT_TIMEOUT, program.wait()).await.is_err()
        && let Err(error) = program.kill().await
    {
        tracing::debug!(%error, "cannot kill the server program");
    }
}
