//! Every request and notification, declared once. The server's routing, the client's calls, the
//! reference document and the fuzz targets all come from these lists.

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::capability::{
    Capabilities, DiscoverCapabilitiesParams, DiscoverRootsParams, DiscoverRootsResult,
};
use crate::environment::{EnvironmentInfo, EnvironmentStatus};
use crate::environment_config::{EnvironmentConfig, EnvironmentConfigReadParams};
use crate::fs::*;
use crate::http::{BodyDeltaParams, HttpRequestParams, HttpRequestResult};
use crate::jsonrpc::decode_params;
use crate::process::*;
use crate::session::{InitializeParams, InitializeResult, InitializedParams};

/// A request: its name, what it takes and what it gives.
pub trait Method {
    /// On the wire.
    const NAME: &'static str;
    /// Everything else that is known of it.
    const INFO: &'static MethodInfo;
    /// What the caller sends.
    type Params: Serialize + DeserializeOwned + Send + 'static;
    /// What the caller gets.
    type Result: Serialize + DeserializeOwned + Send + 'static;
}

/// A message without an answer.
pub trait Notice {
    /// On the wire.
    const NAME: &'static str;
    /// What it carries.
    type Params: Serialize + DeserializeOwned + Send + 'static;
}

/// What the lists say of one request.
#[derive(Debug)]
pub struct MethodInfo {
    /// On the wire.
    pub name: &'static str,
    /// What it does.
    pub doc: &'static str,
    /// How the state machine's errors call its kind.
    pub family: Family,
    /// Which slots it takes.
    pub pool: Pool,
    /// Where it comes from.
    pub origin: Origin,
    /// Tries to decode its parameters: the entry of the fuzz target.
    pub decode_params: fn(Option<&str>) -> Result<(), String>,
    /// Describes its parameters and its result.
    #[cfg(feature = "schema")]
    pub schemas: fn(&mut schemars::SchemaGenerator) -> (schemars::Schema, schemars::Schema),
}

/// What the lists say of one notification.
#[derive(Debug)]
pub struct NoticeInfo {
    /// On the wire.
    pub name: &'static str,
    /// What it tells.
    pub doc: &'static str,
    /// Who sends it.
    pub sender: Sender,
    /// Where it comes from.
    pub origin: Origin,
    /// Tries to decode its parameters.
    pub decode_params: fn(Option<&str>) -> Result<(), String>,
    /// Describes its parameters.
    #[cfg(feature = "schema")]
    pub schema: fn(&mut schemars::SchemaGenerator) -> schemars::Schema,
}

/// How "client must call initialize before using … methods" names a method's kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Family {
    /// `initialize` itself, which is bound by other rules.
    Handshake,
    /// `environment/info`.
    EnvironmentInfo,
    /// `environment/status`.
    EnvironmentStatus,
    /// `process/*`.
    Exec,
    /// `fs/*`.
    Filesystem,
    /// `environmentConfig/read`.
    EnvironmentConfig,
    /// `capabilityRoots/*` and `capabilities/*`.
    CapabilityDiscovery,
    /// `http/request`.
    Http,
}

impl Family {
    /// As the error texts have it.
    pub fn as_str(self) -> &'static str {
        match self {
            Family::Handshake => "handshake",
            Family::EnvironmentInfo => "environment info",
            Family::EnvironmentStatus => "environment status",
            Family::Exec => "exec",
            Family::Filesystem => "filesystem",
            Family::EnvironmentConfig => "environment config",
            Family::CapabilityDiscovery => "capability discovery",
            Family::Http => "http",
        }
    }
}

/// The parameters of a method that has none: absent, `null` or an empty object.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct NoParams {}

impl Serialize for NoParams {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_unit()
    }
}

impl<'de> serde::Deserialize<'de> for NoParams {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Nothing;
        impl<'de> serde::de::Visitor<'de> for Nothing {
            type Value = NoParams;
            fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                formatter.write_str("unit")
            }
            fn visit_unit<E>(self) -> Result<NoParams, E> {
                Ok(NoParams {})
            }
            fn visit_map<A: serde::de::MapAccess<'de>>(
                self,
                mut members: A,
            ) -> Result<NoParams, A::Error> {
                match members.next_key::<serde::de::IgnoredAny>()? {
                    None => Ok(NoParams {}),
                    Some(_) => {
                        Err(serde::de::Error::invalid_type(serde::de::Unexpected::Map, &self))
                    }
                }
            }
        }
        deserializer.deserialize_any(Nothing)
    }
}

/// Which of a connection's two sets of slots a request takes. Control requests are short, and are
/// what ends the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pool {
    /// Short, never behind ordinary ones.
    Control,
    /// Everything else.
    Ordinary,
}

/// Where a method comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// Codex 0.166 has it too.
    Codex,
    /// Ours.
    Ours,
}

/// Who sends a notification.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sender {
    /// The client.
    Client,
    /// The server.
    Server,
}

macro_rules! methods {
    ($($(#[doc = $doc:literal])+ $type:ident = $name:literal :
        $params:ty => $result:ty, $family:ident, $pool:ident, $origin:ident;)+) => {
        $(
            $(#[doc = $doc])+
            #[derive(Debug)]
            pub enum $type {}

            impl Method for $type {
                const NAME: &'static str = $name;
                const INFO: &'static MethodInfo = &MethodInfo {
                    name: $name,
                    doc: concat!($($doc, "\n"),+),
                    family: Family::$family,
                    pool: Pool::$pool,
                    origin: Origin::$origin,
                    decode_params: |raw| decode_params::<$params>(raw).map(drop),
                    #[cfg(feature = "schema")]
                    schemas: |generator| (
                        generator.subschema_for::<$params>(),
                        generator.subschema_for::<$result>(),
                    ),
                };
                type Params = $params;
                type Result = $result;
            }
        )+

        /// Every request.
        pub const REQUESTS: &[&MethodInfo] = &[$($type::INFO),+];
    };
}

macro_rules! notices {
    ($($(#[doc = $doc:literal])+ $type:ident = $name:literal : $params:ty,
        $sender:ident, $origin:ident;)+) => {
        $(
            $(#[doc = $doc])+
            #[derive(Debug)]
            pub enum $type {}

            impl Notice for $type {
                const NAME: &'static str = $name;
                type Params = $params;
            }
        )+

        /// Every notification.
        pub const NOTICES: &[&NoticeInfo] = &[$(&NoticeInfo {
            name: $name,
            doc: concat!($($doc, "\n"),+),
            sender: Sender::$sender,
            origin: Origin::$origin,
            decode_params: |raw| decode_params::<$params>(raw).map(drop),
            #[cfg(feature = "schema")]
            schema: |generator| generator.subschema_for::<$params>(),
        }),+];
    };
}

methods! {
    /// Opens a session, or continues one. The first request of every connection.
    Initialize = "initialize":
        InitializeParams => InitializeResult, Handshake, Ordinary, Codex;
    /// Tells what kind of machine the executor is and what it can do.
    EnvironmentInfoGet = "environment/info":
        NoParams => EnvironmentInfo, EnvironmentInfo, Control, Codex;
    /// Answers, and so shows that the executor lives.
    EnvironmentStatusGet = "environment/status":
        NoParams => EnvironmentStatus, EnvironmentStatus, Control, Codex;
    /// Starts a process. Its output follows as `process/output`, its end as `process/exited` and
    /// `process/closed`, all numbered by one counter without gaps.
    ProcessStart = "process/start":
        StartParams => StartResult, Exec, Ordinary, Codex;
    /// Reads retained output from any point on, and can wait for more.
    ProcessRead = "process/read":
        ReadParams => ReadResult, Exec, Ordinary, Codex;
    /// Writes to the process's stdin or terminal. Waits while its queue is full.
    ProcessWrite = "process/write":
        WriteParams => WriteResult, Exec, Ordinary, Codex;
    /// Signals the process group. Does nothing for a process that is unknown or has exited.
    ProcessSignal = "process/signal":
        SignalParams => Empty, Exec, Control, Codex;
    /// Kills the process and every descendant. `running` is false when it had exited or is unknown;
    /// then nothing is done.
    ProcessTerminate = "process/terminate":
        TerminateParams => TerminateResult, Exec, Control, Codex;
    /// Lets a piped child see the end of its stdin once everything queued is written. Repeating it
    /// is harmless.
    ProcessCloseStdin = "process/closeStdin":
        ProcessRef => WriteResult, Exec, Ordinary, Ours;
    /// Changes the size of the process's terminal.
    ProcessResize = "process/resize":
        ResizeParams => Empty, Exec, Control, Ours;
    /// Waits until the process has closed.
    ProcessWait = "process/wait":
        WaitParams => WaitResult, Exec, Ordinary, Ours;
    /// Gives the beginning and the end of each stream in one answer.
    ProcessSnapshot = "process/snapshot":
        ProcessRef => SnapshotResult, Exec, Ordinary, Ours;
    /// Lists the processes of the session.
    ProcessList = "process/list":
        NoParams => ListResult, Exec, Control, Ours;
    /// Gives the chosen keys of the executor's own configuration files, layer by layer.
    EnvironmentConfigRead = "environmentConfig/read":
        EnvironmentConfigReadParams => EnvironmentConfig, EnvironmentConfig, Ordinary, Codex;
    /// Finds plugins and skills below the given directories.
    CapabilityRootsDiscover = "capabilityRoots/discoverV1":
        DiscoverRootsParams => DiscoverRootsResult, CapabilityDiscovery, Ordinary, Codex;
    /// Lists the plugins and skills that are installed on the executor.
    CapabilitiesDiscover = "capabilities/discoverV2":
        DiscoverCapabilitiesParams => Capabilities, CapabilityDiscovery, Ordinary, Codex;
    /// Makes an HTTP request from the executor's network. A streamed body follows as
    /// `http/request/bodyDelta`.
    HttpRequest = "http/request":
        HttpRequestParams => HttpRequestResult, Http, Ordinary, Codex;
    /// Gives the whole content of a regular file, as far as one message can carry it.
    FsReadFile = "fs/readFile":
        ReadFileParams => ReadFileResult, Filesystem, Ordinary, Codex;
    /// Creates a file or replaces its content; in one step where `atomic` is set.
    FsWriteFile = "fs/writeFile":
        WriteFileParams => Empty, Filesystem, Ordinary, Codex;
    /// Opens a file under a name of the client's. It is closed with the connection.
    FsOpen = "fs/open":
        OpenParams => HandleRef, Filesystem, Ordinary, Codex;
    /// Reads a block of an open file. It is full unless the file ends.
    FsReadBlock = "fs/readBlock":
        ReadBlockParams => ReadBlockResult, Filesystem, Ordinary, Codex;
    /// Writes a block of an open file.
    FsWriteBlock = "fs/writeBlock":
        WriteBlockParams => Empty, Filesystem, Ordinary, Codex;
    /// Closes an open file. One that is unknown is closed already.
    FsClose = "fs/close":
        HandleRef => Empty, Filesystem, Control, Codex;
    /// Creates a directory, with those above it unless told otherwise.
    FsCreateDirectory = "fs/createDirectory":
        CreateDirectoryParams => Empty, Filesystem, Ordinary, Codex;
    /// Tells what a path names.
    FsGetMetadata = "fs/getMetadata":
        GetMetadataParams => Metadata, Filesystem, Ordinary, Codex;
    /// Gives the same path without any link.
    FsCanonicalize = "fs/canonicalize":
        CanonicalizeParams => CanonicalizeResult, Filesystem, Ordinary, Codex;
    /// Lists a directory, in no order.
    FsReadDirectory = "fs/readDirectory":
        ReadDirectoryParams => ReadDirectoryResult, Filesystem, Ordinary, Codex;
    /// Lists files and directories below a directory, breadth first and sorted.
    FsWalk = "fs/walk":
        WalkParams => WalkResult, Filesystem, Ordinary, Codex;
    /// Removes a file or a directory; with everything below it unless told otherwise.
    FsRemove = "fs/remove":
        RemoveParams => Empty, Filesystem, Ordinary, Codex;
    /// Copies a file, a link or a directory.
    FsCopy = "fs/copy":
        CopyParams => Empty, Filesystem, Ordinary, Codex;
    /// Gives a file or a directory another name.
    FsRename = "fs/rename":
        RenameParams => Empty, Filesystem, Ordinary, Ours;
    /// Looks for a text or a regular expression in the files below a directory.
    FsSearch = "fs/search":
        SearchParams => SearchResult, Filesystem, Ordinary, Ours;
    /// Begins to tell of changes below a path as `fs/changed`. Ends with the connection.
    FsWatch = "fs/watch":
        WatchParams => Empty, Filesystem, Ordinary, Ours;
    /// Ends a watch.
    FsUnwatch = "fs/unwatch":
        UnwatchParams => Empty, Filesystem, Control, Ours;
    /// Asks to be told once, as `fs/missingChanged`, when any of these missing paths may have
    /// appeared. One watch a connection; a greater number replaces it.
    FsWatchMissing = "fs/watchMissing":
        WatchMissingParams => WatchMissingResult, Filesystem, Ordinary, Codex;
}

notices! {
    /// The client has its session and may be sent to. Its parameters are ignored.
    Initialized = "initialized": InitializedParams, Client, Codex;
    /// A process wrote something.
    ProcessOutput = "process/output": OutputParams, Server, Codex;
    /// A process ended. What it left behind may still write.
    ProcessExited = "process/exited": ExitedParams, Server, Codex;
    /// A process ended and nothing can write to its streams any more.
    ProcessClosed = "process/closed": ClosedParams, Server, Codex;
    /// A piece of a streamed body, or its end.
    HttpRequestBodyDelta = "http/request/bodyDelta": BodyDeltaParams, Server, Codex;
    /// A missing path may have appeared, or the present one has changed. The watch has ended.
    FsMissingChanged = "fs/missingChanged": MissingChangedParams, Server, Codex;
    /// Something below a watched path has changed.
    FsChanged = "fs/changed": ChangedParams, Server, Ours;
    /// A process was started. Only for clients that asked for `processLifecycle`; has no number.
    ProcessStarted = "process/started": ProcessRef, Server, Ours;
    /// A process could not be started. Only for clients that asked for `processLifecycle`.
    ProcessFailed = "process/failed": FailedParams, Server, Ours;
}

/// Everything there is to know of a request, by its name.
pub fn find(name: &str) -> Option<&'static MethodInfo> {
    REQUESTS.iter().find(|info| info.name == name).copied()
}
