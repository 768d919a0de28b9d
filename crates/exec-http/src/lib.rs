//! HTTP requests made on behalf of a client, from the executor's network.
//!
//! Everything is checked before a byte is sent (`request.rs`), each hop of a redirect is decided by a
//! pure function (`redirect.rs`), and the client moves the bytes. Nothing is cached, decoded or
//! remembered between requests but idle connections, and a server that never makes a request has
//! none of it.

mod error;
pub mod limits;

mod request;

mod fuzz;

mod redirect;

mod proxy;

mod tls;

mod connect;

mod client;

mod body;

mod stream;

pub use body::{Body, BodyStream};
pub use client::{HttpClient, Response};
pub use error::{Error, ErrorKind};
#[doc(hidden)]
pub use fuzz::fuzz_prepare;
pub use stream::{ActiveStream, ActiveStreams, Deltas};
