//! The protocol from the other side: typed calls, process handles, reconnection.
//!
//! Drives our executor and the unmodified `codex exec-server` 0.166 alike. Where codex lacks
//! something, the method's documentation says so.
//!
//! ```text
//! ExecServerClient, Process --commands--> Driver (one task) --> Router --> Requests   who waits
//!        ^                                  | connection          '------> Sequence   what is next
//!        '------------- EventQueue ---------'
//! ```
//!
//! `sequence.rs`, `requests.rs` and `recovery.rs` decide; they take values and return values, and
//! are tested with seeds. `router.rs` puts them together without waiting for anything. `driver.rs`
//! moves the bytes.

//!
//! # Example
//!
//! A client and an executor in one program; over a network only the connecting differs.
//!
//! ```
//! use exec_client::{ExecServerClient, ExecServerClientConnectOptions};
//! use exec_protocol::process::StartParams;
//! use exec_server::{ExecServerConfig, Server};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let server = Server::new(ExecServerConfig::default());
//! let (ours, theirs) = exec_transport::memory_pair(1 << 16);
//! let serving = tokio::spawn({
//!     let server = server.clone();
//!     async move { server.serve_connection(theirs).await }
//! });
//!
//! let client =
//!     ExecServerClient::connect_in_memory(ours, ExecServerClientConnectOptions::default()).await?;
//! let params: StartParams = serde_json::from_str(
//!     r#"{"processId":"sort","argv":["/usr/bin/sort"],"cwd":"file:///","env":{},
//!         "tty":false,"pipeStdin":true}"#,
//! )?;
//! let process = client.start(params).await?;
//! let output = process.communicate(b"b\na\n").await?;
//! assert_eq!(output.stdout, b"a\nb\n");
//! assert_eq!(output.code, 0);
//!
//! client.close().await;
//! server.shut_down().await;
//! serving.await?;
//! # Ok(())
//! # }
//! ```

mod error;
mod event;
mod limits;
mod options;

mod client;
mod collect;
pub mod files;
mod http;
mod process;

mod driver;
mod link;
mod pace;

mod notices;
mod queue;
mod recovery;
mod requests;
mod router;
mod sequence;

pub use client::ExecServerClient;
pub use collect::{Output, Yielded};
pub use error::ExecServerError;
pub use event::{LostReason, ProcessEvent};
pub use files::Files;
pub use http::HttpBody;
pub use options::ExecServerClientConnectOptions;
pub use process::{ExitStatus, Process};
