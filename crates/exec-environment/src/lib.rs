//! What the executor has of its own: configuration files, plugins and skills.
//!
//! The rules are pure functions over texts; around them files are read, with a bound on every size
//! and every walk. Blocking: callers run it where that is allowed.

mod error;
pub mod limits;

mod file;
mod places;

pub mod config;

mod walk;

mod bundle;

pub mod roots;

mod skill;

pub mod installed;

pub use error::{Error, ErrorKind, HomeError};
pub use places::Places;
