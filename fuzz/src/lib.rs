//! What holds for every input, and the corpora that show it. The fuzz targets call the properties; so
//! do the tests that replay the corpora with a stable compiler, which include these files.

mod properties;
mod rules;

pub use properties::{base64, envelope, params, path_uri};
pub use rules::rules;
