//! `process/*`: parameters, results and notifications.

mod control;
mod events;
mod io;
mod start;

pub use control::*;
pub use events::*;
pub use io::*;
pub use start::*;
