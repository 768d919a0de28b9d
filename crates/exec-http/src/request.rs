//! From parameters to a request that can be sent. Everything wrong is found here, before anything
//! leaves the machine.

use exec_protocol::bytes::encode_into;
use exec_protocol::http::{HttpRequestParams, RequestHeader};
use hyper::Method;
use hyper::body::Bytes;
use hyper::header::{AUTHORIZATION, HeaderMap, HeaderName, HeaderValue};
use url::Url;

use crate::error::Error;
use crate::limits::HEADERS_MAX;

/// Variables that name or hold the executor's own credentials; no client gets them sent anywhere.
pub(crate) const REFUSED_VARIABLES: &[&str] = &[
    "CODEX_EXEC_SERVER_NOISE_AUTH_TOKEN",
    "OPENAI_FEDERATION_RULE_ID",
    "OPENAI_IDENTITY_TOKEN_FILE",
    "OPENAI_WORKLOAD_IDENTITY_CONTEXT",
    "OPENAI_API_KEY",
    "CODEX_API_KEY",
    "CODEX_ACCESS_TOKEN",
    "CODEX_CONNECTORS_TOKEN",
    "AWS_ACCESS_KEY_ID",
    "AWS_SECRET_ACCESS_KEY",
    "AWS_SESSION_TOKEN",
    "AZURE_CLIENT_SECRET",
    "AZURE_FEDERATED_TOKEN_FILE",
    "GOOGLE_APPLICATION_CREDENTIALS",
];

/// One request to one URL.
#[derive(Debug, Clone)]
pub(crate) struct Hop {
    pub(crate) method: Method,
    /// Without user and password, which are in the headers.
    pub(crate) url: Url,
    /// Without what every hop gets: accept, host, length, proxy.
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

/// Checks the parameters, in the order in which the reference does.
pub(crate) fn prepare(
    params: HttpRequestParams,
    variable: &impl Fn(&str) -> Option<String>,
) -> Result<Hop, Error> {
    let method = Method::from_bytes(params.method.as_bytes()).map_err(|_| Error::Method)?;
    let mut url = Url::parse(&params.url)?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(Error::Scheme(url.scheme().to_owned()));
    }
    if params.headers.len() > HEADERS_MAX {
        return Err(Error::TooManyHeaders);
    }
    let mut headers = HeaderMap::new();
    for header in &params.headers {
        add(&mut headers, header, variable)?;
    }
    if let Some(credentials) = take_credentials(&mut url)
        && !headers.contains_key(AUTHORIZATION)
    {
        headers.insert(AUTHORIZATION, credentials);
    }
    let body = params.body_base64.map(|body| Bytes::from(body.0)).unwrap_or_default();
    Ok(Hop { method, url, headers, body })
}

fn add(
    headers: &mut HeaderMap,
    header: &RequestHeader,
    variable: &impl Fn(&str) -> Option<String>,
) -> Result<(), Error> {
    let name = HeaderName::from_bytes(header.name.as_bytes()).map_err(|_| Error::HeaderName)?;
    let mut value = header.value.clone();
    if let Some(name) = &header.value_env_var {
        value.push_str(&from_variable(&header.name, name, variable)?);
    }
    let mut value =
        HeaderValue::from_str(&value).map_err(|_| Error::HeaderValue(header.name.clone()))?;
    // Keeps it out of every debug print on the way.
    value.set_sensitive(header.value_env_var.is_some());
    headers.append(name, value);
    Ok(())
}

fn from_variable(
    header: &str,
    name: &str,
    variable: &impl Fn(&str) -> Option<String>,
) -> Result<String, Error> {
    let (header, named) = (header.to_owned(), name.to_owned());
    if REFUSED_VARIABLES.iter().any(|refused| refused.eq_ignore_ascii_case(name)) {
        return Err(Error::RefusedVariable { header, variable: named });
    }
    match variable(name) {
        None => Err(Error::NoVariable { header, variable: named }),
        Some(value) if value.is_empty() => Err(Error::EmptyVariable { header, variable: named }),
        Some(value) => Ok(value),
    }
}

/// Moves user and password out of the URL: they are sent, never shown.
fn take_credentials(url: &mut Url) -> Option<HeaderValue> {
    let (user, password) = (decoded(url.username()), url.password().map(decoded));
    // An `http:` URL always has a host, so these cannot fail.
    url.set_username("").ok()?;
    url.set_password(None).ok()?;
    if user.is_empty() && password.is_none() {
        return None;
    }
    let plain = [user, b":".to_vec(), password.unwrap_or_default()].concat();
    let mut text = b"Basic ".to_vec();
    encode_into(&mut text, &plain);
    let mut value = HeaderValue::from_bytes(&text).ok()?;
    value.set_sensitive(true);
    Some(value)
}

fn decoded(text: &str) -> Vec<u8> {
    let mut bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    while let Some((&first, rest)) = bytes.split_first() {
        let digit = |at: usize| rest.get(at).and_then(|&byte| char::from(byte).to_digit(16));
        match (first, digit(0), digit(1)) {
            (b'%', Some(high), Some(low)) => {
                out.push(u8::try_from(high * 16 + low).expect("two hex digits make a byte"));
                bytes = &rest[2..];
            }
            _ => {
                out.push(first);
                bytes = rest;
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use exec_protocol::http::RedirectPolicy;

    fn params(
        method: &str,
        url: &str,
        headers: &[(&str, &str, Option<&str>)],
    ) -> HttpRequestParams {
        HttpRequestParams {
            method: method.to_owned(),
            url: url.to_owned(),
            request_id: "r".to_owned(),
            headers: headers
                .iter()
                .map(|(name, value, variable)| RequestHeader {
                    name: (*name).to_owned(),
                    value: (*value).to_owned(),
                    value_env_var: variable.map(str::to_owned),
                })
                .collect(),
            body_base64: None,
            timeout_ms: None,
            redirect_policy: RedirectPolicy::Follow,
            stream_response: false,
        }
    }

    fn variable(name: &str) -> Option<String> {
        match name {
            "SETV" => Some("sek".to_owned()),
            "EMPTYV" => Some(String::new()),
            "BADV" => Some("a\nb".to_owned()),
            _ => None,
        }
    }

    #[test]
    fn every_mistake_has_its_words() {
        let refused = |method: &str, url: &str, headers: &[(&str, &str, Option<&str>)]| {
            let error = prepare(params(method, url, headers), &variable).unwrap_err();
            assert_eq!(error.kind(), crate::ErrorKind::Params);
            error.to_string().trim_start_matches("http/request ").to_owned()
        };
        let method = "method is invalid: invalid HTTP method";
        for text in ["", "G T", "é", "A\r\nB"] {
            assert_eq!(refused(text, "ftp://x", &[]), method);
        }
        let urls = [
            ("", "url is invalid: relative URL without a base"),
            ("/x", "url is invalid: relative URL without a base"),
            ("http://", "url is invalid: empty host"),
            ("http://[", "url is invalid: invalid IPv6 address"),
            ("http://h:99999/", "url is invalid: invalid port number"),
            ("ftp://h/", "only supports http and https URLs, got ftp"),
            ("file:///etc/passwd", "only supports http and https URLs, got file"),
        ];
        for (url, expected) in urls {
            assert_eq!(refused("GET", url, &[("a b", "", None)]), expected);
        }
        let name = "header name is invalid: invalid HTTP header name";
        let value = "header value is invalid for A: failed to parse header value";
        let headers = [
            ("", "x", None, name),
            ("a b", "x", Some("OPENAI_API_KEY"), name),
            ("A", "x\r\ny", None, value),
            ("A", "x\0", None, value),
            ("A", "x\u{7f}", None, value),
            ("A", "x", Some("BADV"), value),
            ("A", "", Some("NOPE"), "header A requires executor environment variable NOPE"),
            ("A", "", Some(""), "header A requires executor environment variable "),
            (
                "A",
                "",
                Some("EMPTYV"),
                "header A requires a non-empty executor environment variable EMPTYV",
            ),
            (
                "A",
                "",
                Some("openai_api_key"),
                "header A cannot use executor environment variable openai_api_key",
            ),
        ];
        for (header, text, variable, expected) in headers {
            assert_eq!(refused("GET", "http://x", &[(header, text, variable)]), expected);
        }
    }

    #[test]
    fn every_credential_is_refused_in_any_case() {
        for name in REFUSED_VARIABLES {
            for name in [(*name).to_owned(), name.to_ascii_lowercase()] {
                let params = params("GET", "http://x", &[("a", "", Some(&name))]);
                let everything = |_: &str| Some("secret".to_owned());
                let error = prepare(params, &everything).unwrap_err();
                assert!(matches!(error, Error::RefusedVariable { .. }), "{name}");
            }
        }
    }

    #[test]
    fn headers_keep_their_order_and_repeats() {
        let headers = [("X-Q", "1", None), ("x-q", "2", None), ("b", "Bearer ", Some("SETV"))];
        let hop = prepare(params("get", "http://u:p%20w@h/a b", &headers), &variable).unwrap();
        assert_eq!(hop.method.as_str(), "get");
        assert_eq!(hop.url.as_str(), "http://h/a%20b");
        let sent: Vec<_> = hop.headers.iter().map(|(n, v)| (n.as_str(), v.as_bytes())).collect();
        let expected: [(&str, &[u8]); 4] = [
            ("x-q", b"1"),
            ("x-q", b"2"),
            ("b", b"Bearer sek"),
            ("authorization", b"Basic dTpwIHc="),
        ];
        assert_eq!(sent, expected);
    }

    #[test]
    fn what_the_caller_sets_is_kept() {
        let headers = [("Authorization", "mine", None)];
        let hop = prepare(params("GET", "http://u@h", &headers), &variable).unwrap();
        assert_eq!(hop.headers[AUTHORIZATION], "mine");
        assert_eq!(hop.headers.len(), 1);
    }

    #[test]
    fn more_headers_than_fit_are_refused() {
        let sent =
            |count| prepare(params("GET", "http://u@x", &vec![("a", "", None); count]), &variable);
        assert!(sent(HEADERS_MAX).is_ok());
        assert!(sent(HEADERS_MAX + 1).is_err_and(|error| matches!(error, Error::TooManyHeaders)));
    }
}
