//! From a method's name to its handler. Parameters are decoded and results encoded here, in no
//! handler.

use std::collections::HashMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};

use exec_protocol::jsonrpc::{self, RequestId, RpcError};
use exec_protocol::methods::{self, Method, MethodInfo};

use crate::blocking::{Place, Places};
use crate::confined::{self, Confinable};
use crate::error::Error;
use crate::reply::{RawResult, Reply};
use crate::scope::Scope;
use crate::server::Server;
use crate::session::Session;
use crate::{discovery, environment, fs, http, process};

/// Whom a handler works for.
#[derive(Clone)]
pub(crate) struct Caller {
    pub(crate) server: Arc<Server>,
    pub(crate) session: Arc<Session>,
    /// What ends with the connection.
    pub(crate) scope: Arc<Scope>,
    /// Whether this connection is pushed the session's notifications.
    pub(crate) owner: bool,
    /// Whether the client asked for `process/started` and `process/failed`.
    pub(crate) lifecycle: bool,
    /// Largest message the client takes.
    pub(crate) message_bytes_max: u64,
}

impl Caller {
    /// The same for handlers that only touch files.
    pub(crate) fn files(&self) -> FileCaller {
        FileCaller {
            scope: self.scope.clone(),
            places: self.server.file_calls.clone(),
            message_bytes_max: self.message_bytes_max,
        }
    }
}

impl Places for Caller {
    fn places(&self) -> &Place {
        &self.server.file_calls
    }
}

/// Whom a file handler works for: a client's connection, or the server that confines this process.
#[derive(Clone)]
pub(crate) struct FileCaller {
    /// What ends with the connection.
    pub(crate) scope: Arc<Scope>,
    /// Where its calls are made.
    pub(crate) places: Place,
    /// Largest message the client takes.
    pub(crate) message_bytes_max: u64,
}

impl Places for FileCaller {
    fn places(&self) -> &Place {
        &self.places
    }
}

/// A request being worked on.
pub(crate) type Answer = Pin<Box<dyn Future<Output = Reply> + Send>>;

type Prepare<C> = Box<dyn Fn(RequestId, Option<&str>) -> Result<Ready<C>, Error> + Send + Sync>;

/// A request whose parameters are decoded and that only lacks its caller.
pub(crate) type Ready<C = Caller> = Box<dyn FnOnce(C) -> Answer + Send>;

/// What is known of one method.
pub(crate) struct Route<C = Caller> {
    pub(crate) info: &'static MethodInfo,
    pub(crate) prepare: Prepare<C>,
}

/// All routes, by name.
pub(crate) struct Routes<C = Caller>(HashMap<&'static str, Route<C>>);

impl<C> Default for Routes<C> {
    fn default() -> Self {
        Self(HashMap::new())
    }
}

impl<C: Send + 'static> Routes<C> {
    fn on<M, F>(self, handler: fn(C, M::Params) -> F) -> Self
    where
        M: Method,
        F: Future<Output = Result<M::Result, Error>> + Send + 'static,
    {
        self.route::<M, _, _>(handler, |id, result| Reply::Text(encode(&id, result)))
    }

    fn on_raw<M, F>(self, handler: fn(C, M::Params) -> F) -> Self
    where
        M: Method,
        F: Future<Output = Result<RawResult, Error>> + Send + 'static,
    {
        self.route::<M, _, _>(handler, encode_raw)
    }

    fn route<M, R, F>(
        mut self,
        handler: impl Fn(C, M::Params) -> F + Copy + Send + Sync + 'static,
        encode: fn(RequestId, Result<R, Error>) -> Reply,
    ) -> Self
    where
        M: Method,
        R: 'static,
        F: Future<Output = Result<R, Error>> + Send + 'static,
    {
        let prepare: Prepare<C> = Box::new(move |id, params| {
            let params = jsonrpc::decode_params::<M::Params>(params).map_err(Error::Params)?;
            Ok(Box::new(move |caller| {
                Box::pin(async move {
                    let result = handler(caller, params).await;
                    encode(id, result)
                })
            }))
        });
        self.0.insert(M::NAME, Route { info: M::INFO, prepare });
        self
    }

    pub(crate) fn get(&self, method: &str) -> Option<&Route<C>> {
        self.0.get(method)
    }
}

impl Routes<Caller> {
    /// A method that only touches files: here, or inside a sandbox if its context asks for one.
    fn on_files<M, F>(self, handler: fn(FileCaller, M::Params) -> F) -> Self
    where
        M: Method,
        M::Params: Confinable,
        F: Future<Output = Result<M::Result, Error>> + Send + 'static,
    {
        let handler = move |caller: Caller, mut params: M::Params| async move {
            match confined::call::<M>(&caller, &mut params).await? {
                Some(answer) => Ok(Either::Inside(answer)),
                None => handler(caller.files(), params).await.map(Either::Here),
            }
        };
        self.route::<M, _, _>(handler, |id, result| match result {
            Ok(Either::Inside(answer)) => Reply::Raw(id, RawResult::Json(answer)),
            Ok(Either::Here(result)) => Reply::Text(encode(&id, Ok(result))),
            Err(error) => Reply::Text(encode::<()>(&id, Err(error))),
        })
    }

    /// The same for a handler that writes its result itself.
    fn on_raw_files<M, F>(self, handler: fn(FileCaller, M::Params) -> F) -> Self
    where
        M: Method,
        M::Params: Confinable,
        F: Future<Output = Result<RawResult, Error>> + Send + 'static,
    {
        let handler = move |caller: Caller, mut params: M::Params| async move {
            match confined::call::<M>(&caller, &mut params).await? {
                Some(answer) => Ok(RawResult::Json(answer)),
                None => handler(caller.files(), params).await,
            }
        };
        self.route::<M, _, _>(handler, encode_raw)
    }
}

/// Where a call was made.
enum Either<R> {
    Inside(Vec<u8>),
    Here(R),
}

fn encode_raw(id: RequestId, result: Result<RawResult, Error>) -> Reply {
    match result {
        Ok(result) => Reply::Raw(id, result),
        Err(error) => Reply::Text(encode::<()>(&id, Err(error))),
    }
}

/// The answer to a request, as text.
pub(crate) fn encode<R: serde::Serialize>(id: &RequestId, result: Result<R, Error>) -> Vec<u8> {
    let mut text = Vec::with_capacity(128);
    let error = match result {
        Ok(result) => match jsonrpc::encode_response(&mut text, id, &result) {
            Ok(()) => return text,
            Err(error) => {
                tracing::error!(%error, "cannot encode a result");
                Error::Internal
            }
        },
        Err(error) => error,
    };
    text.clear();
    jsonrpc::encode_error(&mut text, id, &RpcError::from(&error));
    text
}

/// The server's routes. `initialize` is not among them: it changes the connection itself.
pub(crate) fn routes() -> &'static Routes {
    static ROUTES: OnceLock<Routes> = OnceLock::new();
    ROUTES.get_or_init(|| {
        Routes::default()
            .on::<methods::EnvironmentInfoGet, _>(environment::info)
            .on::<methods::EnvironmentStatusGet, _>(environment::status)
            .on::<methods::ProcessStart, _>(process::start)
            .on::<methods::ProcessRead, _>(process::read)
            .on::<methods::ProcessWrite, _>(process::write)
            .on::<methods::ProcessSignal, _>(process::signal)
            .on::<methods::ProcessTerminate, _>(process::terminate)
            .on::<methods::ProcessCloseStdin, _>(process::close_stdin)
            .on::<methods::ProcessResize, _>(process::resize)
            .on::<methods::ProcessWait, _>(process::wait)
            .on::<methods::ProcessSnapshot, _>(process::snapshot)
            .on::<methods::ProcessList, _>(process::list)
            .on::<methods::EnvironmentConfigRead, _>(discovery::read_config)
            .on::<methods::CapabilityRootsDiscover, _>(discovery::discover_roots)
            .on::<methods::CapabilitiesDiscover, _>(discovery::discover_installed)
            .on::<methods::HttpRequest, _>(http::request)
            .on_raw::<methods::FsReadFile, _>(confined::read_file)
            .on::<methods::FsOpen, _>(confined::open)
            .on_raw::<methods::FsReadBlock, _>(fs::read_block)
            .on::<methods::FsWriteBlock, _>(fs::write_block)
            .on::<methods::FsClose, _>(fs::close)
            .on_files::<methods::FsWriteFile, _>(fs::write_file)
            .on_files::<methods::FsCreateDirectory, _>(fs::create_directory)
            .on_files::<methods::FsGetMetadata, _>(fs::get_metadata)
            .on_files::<methods::FsCanonicalize, _>(fs::canonicalize)
            .on_raw_files::<methods::FsReadDirectory, _>(fs::read_directory)
            .on_raw_files::<methods::FsWalk, _>(fs::walk)
            .on_files::<methods::FsRemove, _>(fs::remove)
            .on_files::<methods::FsCopy, _>(fs::copy)
            .on_files::<methods::FsRename, _>(fs::rename)
            .on_files::<methods::FsSearch, _>(fs::search)
            .on::<methods::FsWatch, _>(confined::watch)
            .on::<methods::FsUnwatch, _>(confined::unwatch)
            .on::<methods::FsWatchMissing, _>(fs::watch_missing)
    })
}

/// What a confined worker serves, for the server alone. What hands out descriptors is not among
/// them: see `confined/serve.rs`.
pub(crate) fn file_routes() -> &'static Routes<FileCaller> {
    static ROUTES: OnceLock<Routes<FileCaller>> = OnceLock::new();
    ROUTES.get_or_init(|| {
        Routes::default()
            .on::<methods::CapabilityRootsDiscover, _>(discovery::look_through)
            .on::<methods::FsWriteFile, _>(fs::write_file)
            .on::<methods::FsCreateDirectory, _>(fs::create_directory)
            .on::<methods::FsGetMetadata, _>(fs::get_metadata)
            .on::<methods::FsCanonicalize, _>(fs::canonicalize)
            .on_raw::<methods::FsReadDirectory, _>(fs::read_directory)
            .on_raw::<methods::FsWalk, _>(fs::walk)
            .on::<methods::FsRemove, _>(fs::remove)
            .on::<methods::FsCopy, _>(fs::copy)
            .on::<methods::FsRename, _>(fs::rename)
            .on::<methods::FsSearch, _>(fs::search)
            .on::<methods::FsWatch, _>(fs::watch)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use exec_protocol::methods::Family;

    #[test]
    fn every_method_is_routed() {
        let mut routed: Vec<&str> = routes().0.keys().copied().collect();
        let mut declared: Vec<&str> = methods::REQUESTS
            .iter()
            .filter(|info| info.family != Family::Handshake)
            .map(|info| info.name)
            .collect();
        routed.sort_unstable();
        declared.sort_unstable();
        assert_eq!(routed, declared);
    }
}
