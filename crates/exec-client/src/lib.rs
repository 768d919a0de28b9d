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

mod error;
mod event;
mod limits;
mod options;

mod client;
mod collect;
mod process;

mod driver;
mod link;
mod pace;

mod queue;
mod recovery;
mod requests;
mod router;
mod sequence;

pub use client::ExecServerClient;
pub use collect::{Output, Yielded};
pub use error::ExecServerError;
pub use event::{LostReason, ProcessEvent};
pub use options::ExecServerClientConnectOptions;
pub use process::{ExitStatus, Process};
