//! One child and what it writes. Knows nothing of sandboxes, sessions or requests.
//!
//! Reading order: [`spec`] (what to run), [`sys`] (a child on pipes or a terminal, and the way to
//! find all its descendants), `actor` (the task that owns it), [`log`] (what it wrote, numbered),
//! [`process`] (the handle for everybody else).

pub mod env;
pub mod error;
pub mod limits;
pub mod spec;
pub mod sys;

mod actor;
mod deadline;
mod head_tail;
pub mod launch;
pub mod log;
pub mod process;
mod state;
mod stdin;

pub use error::Error;
pub use limits::Limits;
pub use process::{Process, Watcher};
pub use spec::{Spec, Stdio};
pub use state::Keep;
