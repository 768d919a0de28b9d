//! What holds for every input, and the corpora that show it. The fuzz targets call the properties; so
//! do the tests that replay the corpora with a stable compiler, which include these files.

mod environment;
mod http;
mod properties;
mod search;
mod sandbox;
mod rules;

pub use environment::{config_toml, plugin_manifest, skill};
pub use http::http_request;
pub use properties::{base64, envelope, params, path_uri};
pub use search::search;
pub use sandbox::sandbox;
pub use rules::rules;
