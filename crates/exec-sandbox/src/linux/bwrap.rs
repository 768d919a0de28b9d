//! bubblewrap, where namespaces are made by it: which one, and what it is told.

mod arguments;
mod empty_file;
mod find;
mod launch;

pub use arguments::{Surroundings, Unexpressible, arguments};
pub use empty_file::empty_file;
pub use find::{Bwrap, Places, Rejected, Rejection, find};
pub use launch::{Tools, launch};
