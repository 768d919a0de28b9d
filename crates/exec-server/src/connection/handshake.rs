//! How a connection gets its session.
//!
//! ```text
//!   fresh ──initialize──► opening ──ok──► initialized ──"initialized"──► confirmed
//!     ▲                      │
//!     └────── error ─────────┘
//! ```

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use exec_protocol::environment::EnvironmentInfo;
use exec_protocol::jsonrpc::{Request, RequestId, decode_params};
use exec_protocol::methods::{Family, Initialize, Method};
use exec_protocol::session::{
    Attach, EXTENSION_PROCESS_LIFECYCLE, InitializeParams, InitializeResult,
};
use tokio::sync::mpsc;

use crate::dispatch::{Caller, encode};
use crate::error::Error;
use crate::limits::CLIENT_MESSAGE_BYTES_MIN;
use crate::scope::Scope;
use crate::server::Server;
use crate::session::{Hold, Session, ToConnection};

pub(super) struct Handshake {
    server: Arc<Server>,
    to_me: mpsc::Sender<ToConnection>,
    scope: Arc<Scope>,
    state: State,
}

enum State {
    Fresh,
    /// A session is being looked for, which may take a moment if somebody else has it.
    Opening(Pin<Box<dyn Future<Output = Outcome> + Send>>),
    Open(Open),
}

struct Open {
    attached: Attached,
    lifecycle: bool,
    message_bytes_max: u64,
    /// For the answer, and gone with it.
    environment: Option<Box<EnvironmentInfo>>,
    confirmed: bool,
}

/// What the connection has of its session.
enum Attached {
    Owner(Hold),
    Observer(Arc<Session>),
}

/// What became of an `initialize`.
pub(super) struct Outcome {
    id: RequestId,
    result: Result<Open, Error>,
}

impl Handshake {
    pub(super) fn new(
        server: Arc<Server>,
        to_me: mpsc::Sender<ToConnection>,
        scope: Arc<Scope>,
    ) -> Self {
        Self { server, to_me, scope, state: State::Fresh }
    }

    pub(super) fn is_initialize(&self, method: &str) -> bool {
        method == Initialize::NAME
    }

    /// While a session is being opened, requests wait.
    pub(super) fn is_busy(&self) -> bool {
        matches!(self.state, State::Opening(_))
    }

    /// The session this connection is pushed the events of.
    pub(super) fn owned(&self) -> Option<&Arc<Session>> {
        match &self.state {
            State::Open(Open { attached: Attached::Owner(hold), .. }) => Some(hold.session()),
            State::Open(_) | State::Opening(_) | State::Fresh => None,
        }
    }

    /// Starts to open a session.
    pub(super) fn begin(&mut self, request: &Request<'_>) -> Result<(), Error> {
        let params: InitializeParams = decode_params(request.params).map_err(Error::Params)?;
        if !matches!(self.state, State::Fresh) {
            return Err(Error::InitializedTwice);
        }
        let (server, to_me, id) = (self.server.clone(), self.to_me.clone(), request.id.clone());
        self.state = State::Opening(Box::pin(async move {
            Outcome { id, result: open(&server, to_me, params).await }
        }));
        Ok(())
    }

    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Outcome> {
        match &mut self.state {
            State::Opening(opening) => opening.as_mut().poll(cx),
            State::Fresh | State::Open(_) => Poll::Pending,
        }
    }

    /// Takes over what was opened; returns the answer.
    pub(super) fn conclude(&mut self, outcome: Outcome) -> Vec<u8> {
        let result = outcome.result.map(|mut open| {
            let result = InitializeResult {
                session_id: open.session().id().to_owned(),
                environment_info: open.environment.take().map(|environment| *environment),
            };
            self.state = State::Open(open);
            result
        });
        if result.is_err() {
            self.state = State::Fresh;
        }
        encode(&outcome.id, result)
    }

    /// Largest message the client takes.
    pub(super) fn message_bytes_max(&self) -> u64 {
        match &self.state {
            State::Open(open) => open.message_bytes_max,
            State::Fresh | State::Opening(_) => u64::MAX,
        }
    }

    /// The client has its session.
    pub(super) fn confirm(&mut self) -> Result<(), &'static str> {
        match &mut self.state {
            State::Open(open) => {
                open.confirmed = true;
                Ok(())
            }
            State::Fresh | State::Opening(_) => Err("initialized before initialize"),
        }
    }

    /// Whom a request of this family works for, if it may be made now.
    pub(super) fn caller(&self, family: Family) -> Result<Caller, Error> {
        let State::Open(open) = &self.state else {
            return Err(Error::NotInitialized(family.as_str()));
        };
        if !open.confirmed {
            return Err(Error::NotConfirmed(family.as_str()));
        }
        Ok(Caller {
            server: self.server.clone(),
            session: open.session().clone(),
            scope: self.scope.clone(),
            owner: matches!(open.attached, Attached::Owner(_)),
            lifecycle: open.lifecycle,
            message_bytes_max: open.message_bytes_max,
        })
    }
}

impl Open {
    fn session(&self) -> &Arc<Session> {
        match &self.attached {
            Attached::Owner(hold) => hold.session(),
            Attached::Observer(session) => session,
        }
    }
}

async fn open(
    server: &Arc<Server>,
    to_me: mpsc::Sender<ToConnection>,
    params: InitializeParams,
) -> Result<Open, Error> {
    let message_bytes_max = params.message_bytes_max();
    if message_bytes_max < CLIENT_MESSAGE_BYTES_MIN {
        let least = format!("`maxMessageBytes` must be at least {CLIENT_MESSAGE_BYTES_MIN}");
        return Err(Error::Params(least));
    }
    let session = match (&params.resume_session_id, params.attach) {
        (Some(id), Attach::Owner | Attach::Observer) => server.session(id)?,
        (None, Attach::Owner) => server.new_session()?,
        // Nobody would own it, so nobody's leaving would end it.
        (None, Attach::Observer) => {
            return Err(Error::Params("an observer needs a `resumeSessionId`".to_owned()));
        }
    };
    let attached = match params.attach {
        Attach::Owner => Attached::Owner(session.attach(to_me).await?),
        Attach::Observer => Attached::Observer(session),
    };
    let lifecycle = params.extensions.iter().any(|name| name == EXTENSION_PROCESS_LIFECYCLE);
    let environment = Some(Box::new(server.environment().await));
    Ok(Open { attached, lifecycle, message_bytes_max, environment, confirmed: false })
}
