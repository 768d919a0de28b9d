//! Sessions and handlers: the executor behind the protocol.
//!
//! Reading order: [`listen`] (accept), `connection` (one loop for each), `dispatch` (route),
//! `process`, `fs`, `environment` (the handlers, named like the methods), `session` (what outlives
//! a connection), [`server`] (what they all share).

//!
//! # Embedding
//!
//! ```
//! use exec_server::{ExecServerConfig, listen};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), listen::ListenError> {
//! let (told, url) = tokio::sync::oneshot::channel();
//! let announce = |url: &str| Ok(drop(told.send(url.to_owned())));
//! // Serves until the future at the end is done; here as soon as it listens.
//! let stop = async { assert!(url.await.is_ok_and(|url| url.starts_with("ws://127.0.0.1:"))) };
//! listen::serve(listen::ListenOptions::default(), ExecServerConfig::default(), announce, stop).await
//! # }
//! ```

pub mod config;
pub mod limits;

pub mod listen;
pub mod server;

mod blocking;
mod confined;
mod connection;
mod discovery;
mod dispatch;
mod environment;
mod error;
mod fs;
mod http;
mod outbox;
mod process;
mod process_limits;
mod reply;
mod sandbox;
mod scope;
mod session;
mod table;

pub use config::{ConfigError, ExecServerConfig};
pub use confined::{WORKER_ARGUMENT, serve_files};
pub use sandbox::Confinement;
pub use server::Server;
