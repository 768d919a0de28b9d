//! What the tests against codex share: the server, a proxy that can be cut, short ways to start.

#![allow(dead_code, reason = "each test binary uses its own part")]

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use exec_client::{ExecServerClient, ExecServerClientConnectOptions};
use exec_protocol::path_uri::PathUri;
use exec_protocol::process::StartParams;
use exec_testkit::codex::{CodexHome, Skip, codex_binary};
use exec_testkit::server::ServerUnderTest;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// A running `codex exec-server`.
pub(crate) struct Codex {
    server: ServerUnderTest,
    _home: CodexHome,
}

impl Codex {
    pub(crate) fn start() -> Result<Self, Skip> {
        let binary = codex_binary()?;
        let home = CodexHome::new().map_err(|error| Skip(error.to_string()))?;
        let mut command = home.exec_server(&binary);
        command.args(["--listen", "ws://127.0.0.1:0"]);
        let server = ServerUnderTest::start(command).map_err(|error| Skip(error.to_string()))?;
        Ok(Self { server, _home: home })
    }

    pub(crate) fn url(&self) -> &str {
        self.server.url()
    }

    pub(crate) async fn client(&self) -> ExecServerClient {
        ExecServerClient::connect_websocket(self.url(), Default::default()).await.unwrap()
    }
}

/// Starts codex, or prints why not and leaves the test.
#[macro_export]
macro_rules! codex_or_skip {
    () => {
        match $crate::support::Codex::start() {
            Ok(codex) => codex,
            Err(skip) => return println!("{skip}"),
        }
    };
}

/// A shell script as a process, with the environment it needs and nothing else.
pub(crate) fn shell(id: &str, script: &str) -> StartParams {
    let path = ("PATH".to_owned(), "/usr/local/bin:/usr/bin:/bin".to_owned());
    StartParams {
        process_id: id.into(),
        argv: ["/bin/sh", "-c", script].map(str::to_owned).to_vec(),
        cwd: PathUri::from_native(Path::new("/")).unwrap(),
        env: BTreeMap::from([path]),
        tty: false,
        pipe_stdin: false,
        arg0: None,
        env_policy: None,
        metadata: None,
        shell_snapshot: None,
        sandbox: None,
        enforce_managed_network: false,
        managed_network: None,
        network_proxy: None,
        limits: None,
        size: None,
        mode: None,
    }
}

/// A TCP proxy in front of a server that can be cut, and made deaf.
pub(crate) struct Proxy {
    address: SocketAddr,
    cuts: watch::Sender<u64>,
    mute: Arc<AtomicBool>,
    refuse: Arc<AtomicBool>,
    task: JoinHandle<()>,
}

impl Proxy {
    /// Listens in front of `ws://host:port`.
    pub(crate) async fn start(url: &str) -> Self {
        let target = url.strip_prefix("ws://").unwrap().trim_end_matches('/').to_owned();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (cuts, watched) = watch::channel(0);
        let mute = Arc::new(AtomicBool::new(false));
        let refuse = Arc::new(AtomicBool::new(false));
        let (muted, refused) = (Arc::clone(&mute), Arc::clone(&refuse));
        let task = tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                if !refused.load(Ordering::SeqCst) {
                    let forward = forward(client, target.clone(), Arc::clone(&muted));
                    tokio::spawn(until_cut(forward, watched.clone()));
                }
            }
        });
        Self { address, cuts, mute, refuse, task }
    }

    pub(crate) async fn client(&self, options: ExecServerClientConnectOptions) -> ExecServerClient {
        let url = format!("ws://{}", self.address);
        ExecServerClient::connect_websocket(&url, options).await.unwrap()
    }

    /// Ends every connection, without a close frame.
    pub(crate) fn cut(&self) {
        self.cuts.send_modify(|count| *count += 1);
    }

    /// Lets nothing through from the server.
    pub(crate) fn mute(&self, mute: bool) {
        self.mute.store(mute, Ordering::SeqCst);
    }

    /// Closes new connections at once.
    pub(crate) fn refuse(&self, refuse: bool) {
        self.refuse.store(refuse, Ordering::SeqCst);
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn until_cut(forward: impl Future<Output = ()>, mut cuts: watch::Receiver<u64>) {
    cuts.mark_unchanged();
    tokio::select! {
        () = forward => {}
        _ = cuts.changed() => {}
    }
}

async fn forward(mut client: TcpStream, target: String, mute: Arc<AtomicBool>) {
    let Ok(mut server) = TcpStream::connect(target).await else { return };
    client.set_nodelay(true).unwrap();
    server.set_nodelay(true).unwrap();
    let (mut from_client, mut to_client) = client.split();
    let (mut from_server, mut to_server) = server.split();
    let back = async {
        let mut buffer = vec![0; 64 << 10];
        while let Ok(count @ 1..) = from_server.read(&mut buffer).await {
            if mute.load(Ordering::SeqCst) {
                continue;
            }
            if to_client.write_all(&buffer[..count]).await.is_err() {
                return;
            }
        }
    };
    tokio::select! {
        _ = tokio::io::copy(&mut from_client, &mut to_server) => {}
        () = back => {}
    }
}

/// No test waits longer than this for anything.
pub(crate) async fn soon<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(30), future).await.expect("took longer than 30 s")
}
