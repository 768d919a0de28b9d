//! From `--url` to a client. Without one, an executor in this very program, over memory: the same
//! path, only shorter.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context;
use exec_client::{ExecServerClient, ExecServerClientConnectOptions};
use exec_protocol::path_uri::PathUri;
use exec_protocol::session::Attach;
use exec_server::Server;
use exec_transport::memory_pair;
use tokio::task::JoinHandle;

use crate::args::{SessionTarget, Target};
use crate::serve::load_config;

/// Bytes in flight between the two ends in one program.
const MEMORY_BYTES: usize = 256 << 10;

/// Largest token file.
const TOKEN_BYTES_MAX: u64 = 64 << 10;

/// A client, and the executor behind it if that is ours.
pub(crate) struct Connected {
    pub(crate) client: ExecServerClient,
    local: Option<Local>,
}

struct Local {
    server: Arc<Server>,
    serving: JoinHandle<()>,
}

impl Connected {
    /// Whether the executor is in this program.
    fn is_local(&self) -> bool {
        self.local.is_some()
    }

    /// A path of the executor. A relative one begins in this directory here, and in the
    /// executor's own there.
    pub(crate) fn resolve(&self, given: &Path) -> anyhow::Result<PathUri> {
        let path = if given.is_absolute() {
            given.to_owned()
        } else if self.is_local() {
            std::env::current_dir().context("cannot tell the working directory")?.join(given)
        } else {
            let cwd = self.client.environment().and_then(|info| info.cwd.as_ref());
            let cwd = cwd.context("the executor does not tell its directory; use a full path")?;
            cwd.to_native()?.join(given)
        };
        // `.` and empty parts are nothing; what `..` means is the executor's to say.
        let path: PathBuf = path.components().collect();
        PathUri::from_native(&path).with_context(|| format!("cannot use {}", path.display()))
    }

    /// Ends what was begun; nothing that a local executor started is left after it.
    pub(crate) async fn close(self) {
        self.client.close().await;
        if let Some(local) = self.local {
            local.server.shut_down().await;
            // It ended with the connection, or does so now.
            local.serving.abort();
        }
    }
}

/// Connects to an executor, with a session of its own.
pub(crate) async fn connect(target: &Target) -> anyhow::Result<Connected> {
    let options = options(target)?;
    match &target.url {
        Some(url) => {
            let client = ExecServerClient::connect_websocket(url, options).await?;
            Ok(Connected { client, local: None })
        }
        None => here(Server::new(load_config()?), options).await,
    }
}

/// Connects to an executor in this program.
pub(crate) async fn here(
    server: Arc<Server>,
    options: ExecServerClientConnectOptions,
) -> anyhow::Result<Connected> {
    let (ours, theirs) = memory_pair(MEMORY_BYTES);
    let serving = tokio::spawn({
        let server = server.clone();
        async move { server.serve_connection(theirs).await }
    });
    let client = ExecServerClient::connect_in_memory(ours, options).await?;
    Ok(Connected { client, local: Some(Local { server, serving }) })
}

/// Looks into a session without disturbing its owner.
pub(crate) async fn observe(target: &SessionTarget) -> anyhow::Result<ExecServerClient> {
    let url = target.target.url.as_deref().context("--url is required to reach a session")?;
    let options = ExecServerClientConnectOptions {
        resume_session_id: Some(target.session.clone()),
        attach: Attach::Observer,
        ..options(&target.target)?
    };
    Ok(ExecServerClient::connect_websocket(url, options).await?)
}

fn options(target: &Target) -> anyhow::Result<ExecServerClientConnectOptions> {
    let bearer_token = target.token_file.as_ref().map(|path| {
        let shown = path.display();
        let size = std::fs::metadata(path).with_context(|| format!("cannot read {shown}"))?.len();
        anyhow::ensure!(size <= TOKEN_BYTES_MAX, "{shown} is too large for a token");
        let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {shown}"))?;
        Ok(text.trim().to_owned())
    });
    Ok(ExecServerClientConnectOptions {
        client_name: concat!("exec-server/", env!("CARGO_PKG_VERSION")).to_owned(),
        bearer_token: bearer_token.transpose()?,
        tls_roots_file: target.tls_roots.clone(),
        ..Default::default()
    })
}
