//! Every `fs/*` call, made on behalf of a client.
//!
//! The functions block, and callers run them where that is allowed; those of [`cached`] never do,
//! and answer only what needs no waiting. A path becomes a descriptor in [`resolve`], and from
//! there on the descriptor is what is looked at, read or written, so that nobody can exchange a
//! component in between. Nothing here knows of JSON-RPC, connections or sandboxes.
//!
//! Reading order: [`error`], [`limits`], [`resolve`], then one module per method.

pub mod cancel;
pub mod error;
pub mod limits;
pub mod protected;
pub mod resolve;

mod atomic;
mod read;
mod stat;
mod write;

pub mod cached;
pub mod handles;
pub mod lend;

mod directory;
mod entries;
mod uri;
mod walk;

mod copy;
mod copy_data;
mod descent;
mod remove;
mod rename;

pub mod missing;
mod search;
pub mod watch;

pub use cached::{metadata_cached, read_file_cached};
pub use cancel::Cancel;
pub use copy::{Recursion, copy};
pub use directory::{Parents, create_directory, read_directory, read_directory_json};
pub use error::{Error, ErrorKind};
pub use handles::{Handles, open_file};
pub use missing::{MissingHub, MissingWatch};
pub use read::{FileReader, read_file};
pub use remove::{Missing, remove};
pub use rename::{Existing, rename};
pub use resolve::Links;
pub use search::search;
pub use stat::{canonicalize, get_metadata, metadata};
pub use walk::{walk, walk_json};
pub use watch::Watches;
pub use write::{Replacement, decode_data, write_file};
