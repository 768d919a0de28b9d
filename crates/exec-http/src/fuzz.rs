//! What a fuzz target calls. Panics when a request is prepared that must not be.

use std::cell::RefCell;

use exec_protocol::http::HttpRequestParams;

use crate::request::{REFUSED_VARIABLES, prepare};

/// Prepares arbitrary parameters. No secret of the executor is ever asked for, and no credentials
/// stay in the URL, which is shown.
#[doc(hidden)]
pub fn fuzz_prepare(params: HttpRequestParams) {
    let asked = RefCell::new(Vec::new());
    let variable = |name: &str| {
        asked.borrow_mut().push(name.to_ascii_uppercase());
        Some(name.repeat(2))
    };
    let headers = params.headers.len();
    match prepare(params, &variable) {
        Ok(hop) => {
            assert!(hop.url.username().is_empty() && hop.url.password().is_none(), "{}", hop.url);
            assert!(matches!(hop.url.scheme(), "http" | "https"), "{}", hop.url);
            assert!(hop.headers.len() <= headers + 1, "a header came from nowhere");
        }
        Err(error) => assert!(!error.to_string().is_empty(), "a refusal says why"),
    }
    for name in asked.borrow().iter() {
        assert!(!REFUSED_VARIABLES.contains(&name.as_str()), "{name} was read");
    }
}
