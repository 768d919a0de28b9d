//! All that crosses the wire, and nothing else: the envelope, every method with its parameters and
//! results, and the values that are checked where they enter. Pure: no runtime, no clock, no
//! platform code.
//!
//! Reading order: [`jsonrpc`] (one message), [`methods`] (what may be asked), then the parameters
//! by area.

/// Declares constants of one type, and the list `ALL` of their names, values and meanings.
macro_rules! listed {
    ($type:ty: $($(#[doc = $doc:literal])+ $name:ident = $value:expr;)+) => {
        $($(#[doc = $doc])+ pub const $name: $type = $value;)+

        /// Each of them: its name, its value, and what it means.
        pub const ALL: &[(&str, $type, &str)] =
            &[$((stringify!($name), $name, concat!($($doc, "\n"),+))),+];
    };
}
pub(crate) use listed;

pub mod limits;

pub mod jsonrpc;
mod scan;
mod split;

pub mod methods;

pub mod capability;
pub mod environment;
pub mod environment_config;
pub mod fs;
pub mod http;
pub mod process;
pub mod sandbox;
pub mod session;

pub mod bytes;
pub mod id;
pub mod path_uri;
