//! `http/request`: an HTTP request made by the executor, from its network.

use serde::{Deserialize, Serialize};

use crate::bytes::Base64Bytes;

/// Parameters of `http/request`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct HttpRequestParams {
    /// Sent as it is: `get` stays lower-case.
    pub method: String,
    /// Absolute, `http:` or `https:`.
    pub url: String,
    /// The caller's name for the request. Unique among the connection's active streams.
    pub request_id: String,
    /// In this order; a name may repeat.
    #[serde(default)]
    pub headers: Vec<RequestHeader>,
    /// What is sent after the headers.
    #[serde(default)]
    pub body_base64: Option<Base64Bytes>,
    /// Ends everything, the body included. Zero ends it before it begins.
    #[serde(default)]
    pub timeout_ms: Option<u64>,
    /// What to do with a redirect.
    #[serde(default)]
    pub redirect_policy: RedirectPolicy,
    /// Whether the body follows as `http/request/bodyDelta`.
    #[serde(default)]
    pub stream_response: bool,
}

/// A header to send.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RequestHeader {
    /// Sent in lower case.
    pub name: String,
    /// Its value, or the beginning of it.
    pub value: String,
    /// A variable of the executor's environment that is added to the value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value_env_var: Option<String>,
}

/// What to do with a redirect.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum RedirectPolicy {
    /// Go where it points, a bounded number of times.
    #[default]
    Follow,
    /// Answer with the redirect itself.
    Stop,
}

/// Result of `http/request`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct HttpRequestResult {
    /// Of the last hop. 400 and more is a result like any other.
    pub status: u16,
    /// As received; what is not visible ASCII is left out.
    pub headers: Vec<ResponseHeader>,
    /// The body as received, never decompressed; empty when it is streamed.
    pub body_base64: Base64Bytes,
}

/// A header that came back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ResponseHeader {
    /// In lower case.
    pub name: String,
    /// Its value.
    pub value: String,
}

/// Parameters of `http/request/bodyDelta`: a piece of a streamed body, or its end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct BodyDeltaParams {
    /// Which request.
    pub request_id: String,
    /// From 1, without gaps.
    pub seq: u64,
    /// At most 1 MiB; empty at the end.
    pub delta_base64: Base64Bytes,
    /// Whether nothing follows.
    pub done: bool,
    /// Why the body is not whole, at its end.
    #[serde(default)]
    pub error: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_three_members_are_required() {
        let text = r#"{"method":"GET","url":"http://x","requestId":"r"}"#;
        let params: HttpRequestParams = serde_json::from_str(text).unwrap();
        assert_eq!(params.redirect_policy, RedirectPolicy::Follow);
        assert!(params.headers.is_empty() && params.body_base64.is_none());
        assert!(params.timeout_ms.is_none() && !params.stream_response);
    }

    #[test]
    fn null_is_no_default() {
        for member in ["headers", "redirectPolicy", "streamResponse"] {
            let text =
                format!(r#"{{"method":"GET","url":"http://x","requestId":"r","{member}":null}}"#);
            assert!(serde_json::from_str::<HttpRequestParams>(&text).is_err(), "{member}");
        }
    }
}
