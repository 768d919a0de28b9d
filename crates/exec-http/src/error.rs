//! What can go wrong with a request. The words are the reference's, which clients know.

use url::Url;

/// Why a request was not carried out.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The method is not a token.
    #[error("http/request method is invalid: invalid HTTP method")]
    Method,
    /// The URL does not parse.
    #[error("http/request url is invalid: {0}")]
    Url(#[from] url::ParseError),
    /// The URL is of another protocol.
    #[error("http/request only supports http and https URLs, got {0}")]
    Scheme(String),
    /// A header's name is not a token.
    #[error("http/request header name is invalid: invalid HTTP header name")]
    HeaderName,
    /// A header's value has a byte that would end or break the line.
    #[error("http/request header value is invalid for {0}: failed to parse header value")]
    HeaderValue(String),
    /// More headers than can be sent.
    #[error("http/request has too many headers")]
    TooManyHeaders,
    /// The variable is not set.
    #[error("http/request header {header} requires executor environment variable {variable}")]
    NoVariable {
        /// Whose value it should be part of.
        header: String,
        /// Which variable.
        variable: String,
    },
    /// The variable is set to nothing.
    #[error(
        "http/request header {header} requires a non-empty executor environment variable {variable}"
    )]
    EmptyVariable {
        /// Whose value it should be part of.
        header: String,
        /// Which variable.
        variable: String,
    },
    /// The variable holds a secret that is never sent.
    #[error("http/request header {header} cannot use executor environment variable {variable}")]
    RefusedVariable {
        /// Whose value it should be part of.
        header: String,
        /// Which variable.
        variable: String,
    },
    /// The id names a stream that has not ended.
    #[error("http/request streamResponse requestId `{0}` is already active")]
    StreamActive(String),
    /// The connection has as many streams as it may.
    #[error("http/request has too many active streams")]
    TooManyStreams,
    /// The time was over before it began.
    #[error("http/request failed: route-aware request timed out")]
    NoTime,
    /// No answer came: refused, unknown host, broken, or out of time.
    #[error("http/request failed: error sending request for url ({0})")]
    Send(Url),
    /// The redirects do not end.
    #[error("http/request failed: too many redirects")]
    TooManyRedirects,
    /// A redirect to another protocol.
    #[error("http/request failed: redirect target uses unsupported URL scheme: {0}")]
    RedirectScheme(String),
    /// The certificates that were asked for cannot be used.
    #[error("http/request failed: {0}")]
    Certificates(String),
    /// The body broke off, or the time was over.
    #[error("failed to read http/request response body: {BODY_BROKEN}")]
    Body,
    /// The body does not fit an answer.
    #[error("failed to read http/request response body: larger than {0} bytes; use streamResponse")]
    BodyTooLarge(usize),
}

/// How the end of a stream names a body that is not whole.
pub(crate) const BODY_BROKEN: &str = "error decoding response body";

/// What kind of failure it was, as the protocol tells them apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorKind {
    /// The request is wrong: invalid params.
    Params,
    /// The request failed: internal error.
    Failed,
}

impl Error {
    /// Which kind.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Error::Method
            | Error::Url(_)
            | Error::Scheme(_)
            | Error::HeaderName
            | Error::HeaderValue(_)
            | Error::TooManyHeaders
            | Error::NoVariable { .. }
            | Error::EmptyVariable { .. }
            | Error::RefusedVariable { .. }
            | Error::StreamActive(_)
            | Error::TooManyStreams => ErrorKind::Params,
            Error::NoTime
            | Error::Send(_)
            | Error::TooManyRedirects
            | Error::RedirectScheme(_)
            | Error::Certificates(_)
            | Error::Body
            | Error::BodyTooLarge(_) => ErrorKind::Failed,
        }
    }
}
