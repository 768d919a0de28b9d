//! Sessions and handlers: the executor behind the protocol.
//!
//! Reading order: [`listen`] (accept), `connection` (one loop for each), `dispatch` (route),
//! `process`, `fs`, `environment` (the handlers, named like the methods), `session` (what outlives
//! a connection), [`server`] (what they all share).

pub mod config;
pub mod limits;

pub mod listen;
pub mod server;

mod connection;
mod dispatch;
mod environment;
mod error;
mod fs;
mod outbox;
mod process;
mod session;
mod table;

pub use config::{ConfigError, ExecServerConfig};
pub use server::Server;
