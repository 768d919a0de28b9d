//! The envelope: one message, its kind and its id. JSON-RPC 2.0 without the `jsonrpc` member.
//!
//! [`decode`] checks the limits first (see `scan.rs`), then classifies by the members present.
//! Parameters stay raw text until the method is known.

use std::fmt;

use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Serialize};

use crate::{scan, split};

/// One decoded message, borrowing from its text.
#[derive(Debug)]
pub enum Message<'a> {
    /// Wants exactly one answer with the same id.
    Request(Request<'a>),
    /// Wants none.
    Notification(Notification<'a>),
    /// A good answer.
    Response {
        /// The id of the request.
        id: RequestId,
        /// Any JSON value.
        result: &'a str,
    },
    /// A bad answer.
    Error {
        /// The id of the request, or −1 for a message that could not be read.
        id: RequestId,
        /// What went wrong.
        error: RpcError,
    },
}

/// A call.
#[derive(Debug)]
pub struct Request<'a> {
    /// To be echoed unchanged, with its JSON type.
    pub id: RequestId,
    /// Which method.
    pub method: String,
    /// Its parameters; absent is the same as `null`.
    pub params: Option<&'a str>,
}

/// A message without an answer.
#[derive(Debug)]
pub struct Notification<'a> {
    /// What is notified.
    pub method: String,
    /// Its parameters.
    pub params: Option<&'a str>,
}

/// A request's id: a string or a signed 64-bit integer.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(untagged)]
pub enum RequestId {
    /// An integer, also negative.
    Number(i64),
    /// A string, also empty.
    Text(String),
}

impl RequestId {
    /// The id of an answer to a message whose own id could not be read.
    pub const UNREADABLE: RequestId = RequestId::Number(-1);
}

impl fmt::Display for RequestId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RequestId::Number(number) => number.fmt(formatter),
            RequestId::Text(text) => text.fmt(formatter),
        }
    }
}

/// The `error` member. Clients decide on `code`; `message` is for people.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RpcError {
    /// One of the codes in [`code`].
    pub code: i64,
    /// What failed, in words.
    pub message: String,
}

/// Every error code of the protocol.
pub mod code {
    crate::listed! { i64:
        /// Malformed message, wrong state, duplicate or unknown handle, permission denied.
        INVALID_REQUEST = -32600;
        /// No such method.
        METHOD_NOT_FOUND = -32601;
        /// Parameters that do not decode, or decode to something unacceptable.
        INVALID_PARAMS = -32602;
        /// Spawn failures and other errors of the operating system.
        INTERNAL = -32603;
        /// No such file, no such file handle.
        NOT_FOUND = -32004;
        /// The session to resume has a live connection.
        SESSION_ATTACHED = -32010;
    }
}

/// W3C trace context, accepted and not interpreted.
#[derive(Deserialize)]
struct W3cTraceContext {
    #[serde(rename = "traceparent")]
    _traceparent: Option<String>,
    #[serde(rename = "tracestate")]
    _tracestate: Option<String>,
}

/// The members that matter, whatever else is there.
#[derive(Default)]
struct Members<'a> {
    id: Option<RequestId>,
    method: Option<String>,
    params: Option<&'a str>,
    result: Option<&'a str>,
    error: Option<RpcError>,
}

impl<'a> Members<'a> {
    fn read(text: &'a str) -> Result<Self, serde_json::Error> {
        let mut read = Members::default();
        for (key, value) in split::members(text) {
            match &*key {
                // A present `null` is a bad id and not an absent one.
                "id" => read.id = Some(serde_json::from_str(value)?),
                "method" => read.method = Some(serde_json::from_str(value)?),
                "params" => read.params = (value != "null").then_some(value),
                // `null` is a result like any other.
                "result" => read.result = Some(value),
                "error" => read.error = serde_json::from_str(value)?,
                "trace" => drop(serde_json::from_str::<Option<W3cTraceContext>>(value)?),
                _ => {}
            }
        }
        Ok(read)
    }
}

/// Reads one message. The error text is what the peer is told.
pub fn decode(text: &[u8]) -> Result<Message<'_>, DecodeError> {
    let text = scan::check(text).map_err(DecodeError::at)?;
    if !text.trim_ascii_start().starts_with('{') {
        return Err(DecodeError("expected a JSON-RPC object".to_owned()));
    }
    let members = Members::read(text).map_err(DecodeError::plain)?;
    let missing = |name| DecodeError::plain(serde_json::Error::missing_field(name));
    match (members.method, members.id) {
        (Some(method), Some(id)) => {
            Ok(Message::Request(Request { id, method, params: members.params }))
        }
        (Some(method), None) => {
            Ok(Message::Notification(Notification { method, params: members.params }))
        }
        (None, id) => match (members.result, members.error) {
            (Some(result), _) => Ok(Message::Response { id: id.ok_or(missing("id"))?, result }),
            (None, Some(error)) => Ok(Message::Error { id: id.ok_or(missing("id"))?, error }),
            (None, None) => Err(missing("error")),
        },
    }
}

/// Why a text is not a message.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("{0}")]
pub struct DecodeError(String);

impl DecodeError {
    fn at(error: serde_json::Error) -> Self {
        Self(error.to_string())
    }
    fn plain(error: serde_json::Error) -> Self {
        Self(explain(&error))
    }
}

/// Decodes the parameters of one method. Absent parameters are `null`.
pub fn decode_params<P: DeserializeOwned>(params: Option<&str>) -> Result<P, String> {
    let text = params.unwrap_or("null");
    serde_json::from_str(text).map_err(|error| match explain(&error) {
        plain if plain == "expected value" => no_enum(text, &error),
        plain => plain,
    })
}

/// Valid JSON that is no enum at all: the parser only says where, so we look at what is there.
fn no_enum(text: &str, error: &serde_json::Error) -> String {
    let line = text.split('\n').nth(error.line().saturating_sub(1)).unwrap_or_default();
    let found = match line.as_bytes().get(error.column().saturating_sub(1)) {
        Some(b'n') => "null",
        Some(b't') => "boolean `true`",
        Some(b'f') => "boolean `false`",
        Some(b'[') => "sequence",
        Some(_) | None => "number",
    };
    format!("invalid type: {found}, expected string or map")
}

/// A decoding error in the words clients know: without a position, numbers not repeated.
fn explain(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let text = match text.rfind(" at line ") {
        Some(end) => &text[..end],
        None => &text,
    };
    let number = |lead| {
        let rest = text.strip_prefix(lead)?;
        let rest = rest.strip_prefix("integer `").or(rest.strip_prefix("floating point `"))?;
        rest.split_once('`').map(|(_, expected)| expected)
    };
    let misfit = number("invalid type: ").or(number("invalid value: "));
    let wants = |expected: &str| {
        let names = ["u8", "u16", "u32", "u64", "i32", "i64", "usize"];
        expected.strip_prefix(", expected ").is_some_and(|name| names.contains(&name))
    };
    if misfit.is_some_and(wants) {
        return "invalid number".to_owned();
    }
    if let Some(expected) = number("invalid type: ") {
        return format!("invalid type: number{expected}");
    }
    text.to_owned()
}

/// Appends `{"id":…,"result":…}`.
pub fn encode_response<R: Serialize>(
    out: &mut Vec<u8>,
    id: &RequestId,
    result: &R,
) -> Result<(), serde_json::Error> {
    #[derive(Serialize)]
    struct Response<'a, R> {
        id: &'a RequestId,
        result: &'a R,
    }
    serde_json::to_writer(out, &Response { id, result })
}

/// `{"id":…,"result":…}` around a result that is JSON already.
pub fn response_head(id: &RequestId) -> Vec<u8> {
    let mut head = Vec::with_capacity(64);
    head.extend_from_slice(br#"{"id":"#);
    serde_json::to_writer(&mut head, id).expect("an id always encodes into memory");
    head.extend_from_slice(br#","result":"#);
    head
}

/// Appends `{"error":…,"id":…}`.
pub fn encode_error(out: &mut Vec<u8>, id: &RequestId, error: &RpcError) {
    #[derive(Serialize)]
    struct Response<'a> {
        error: &'a RpcError,
        id: &'a RequestId,
    }
    serde_json::to_writer(out, &Response { error, id })
        .expect("strings and integers always encode into memory");
}

/// Appends `{"method":…,"params":…}`.
pub fn encode_notification<P: Serialize>(
    out: &mut Vec<u8>,
    method: &str,
    params: &P,
) -> Result<(), serde_json::Error> {
    #[derive(Serialize)]
    struct Notification<'a, P> {
        method: &'a str,
        params: &'a P,
    }
    serde_json::to_writer(out, &Notification { method, params })
}

/// Appends `{"id":…,"method":…,"params":…}`.
pub fn encode_request<P: Serialize>(
    out: &mut Vec<u8>,
    id: &RequestId,
    method: &str,
    params: &P,
) -> Result<(), serde_json::Error> {
    #[derive(Serialize)]
    struct Request<'a, P> {
        id: &'a RequestId,
        method: &'a str,
        params: &'a P,
    }
    serde_json::to_writer(out, &Request { id, method, params })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &str) {
        let got = match decode(text.as_bytes()) {
            Ok(Message::Request(request)) => format!("request {} {}", request.id, request.method),
            Ok(Message::Notification(notification)) => {
                format!("notification {}", notification.method)
            }
            Ok(Message::Response { id, result }) => format!("response {id} {result}"),
            Ok(Message::Error { id, error }) => format!("error {id} {}", error.code),
            Err(error) => error.to_string(),
        };
        assert_eq!(got, expected, "for {text}");
    }

    #[test]
    fn messages_are_classified_by_their_members() {
        check(r#"{"id":1,"method":"m","result":5}"#, "request 1 m");
        check(r#"{"jsonrpc":"2.0","id":"","method":"m","params":null}"#, "request  m");
        check(r#"{"method":"m","error":{"code":1,"message":""}}"#, "notification m");
        check(r#"{"id":-9223372036854775808,"result":null}"#, "response -9223372036854775808 null");
        check(r#"{"id":"x","error":{"code":-32600,"message":"no","data":1}}"#, "error x -32600");
        check(r#"{"id":1,"method":"m","trace":{"traceparent":"junk"}} "#, "request 1 m");
    }

    #[test]
    fn malformed_messages_say_what_is_wrong() {
        let bad_id = "data did not match any variant of untagged enum RequestId";
        for text in ["[]", "5", "null", "\"x\"", "[{\"id\":1,\"method\":\"m\"}]"] {
            check(text, "expected a JSON-RPC object");
        }
        check("{}", "missing field `error`");
        check(r#"{"result":{}}"#, "missing field `id`");
        check(r#"{"error":{"code":1,"message":"m"}}"#, "missing field `id`");
        for id in ["1.5", "null", "true", "{}", "9223372036854775808"] {
            check(&format!(r#"{{"id":{id},"method":"m"}}"#), bad_id);
        }
        check(r#"{"id":1,"method":5}"#, "invalid type: number, expected a string");
        check(
            r#"{"id":1,"method":"m","trace":5}"#,
            "invalid type: number, expected struct W3cTraceContext",
        );
        check(r#"{"id":1,"id":1}"#, "duplicate JSON object key `id` at line 1 column 12");
        check("", "EOF while parsing a value at line 1 column 0");
        check("\u{feff}{}", "expected value at line 1 column 1");
        check(r#"{"id":1,"method":"m"} x"#, "trailing characters at line 1 column 23");
    }

    #[test]
    fn numbers_out_of_range_are_invalid_numbers() {
        let number = |text: &str| decode_params::<u64>(Some(text)).unwrap_err();
        assert_eq!(number("-1"), "invalid number");
        assert_eq!(number("1.5"), "invalid number");
        assert_eq!(number("18446744073709551616"), "invalid number");
        assert_eq!(number("\"1\""), "invalid type: string \"1\", expected u64");
        assert_eq!(decode_params::<()>(None), Ok(()));
        check(r#"{"id":1,"method":null}"#, "invalid type: null, expected a string");
    }
}
