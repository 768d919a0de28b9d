//! What must hold for any bytes that a peer may send. Each function panics when it does not.

#![allow(unreachable_pub, reason = "public to the fuzz targets, private to the tests")]

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use exec_protocol::bytes::{self, Base64Error};
use exec_protocol::jsonrpc::{self, Message};
use exec_protocol::methods::{NOTICES, REQUESTS};
use exec_protocol::path_uri::PathUri;
use serde_json::value::RawValue;

/// A message that can be read can be written, and then reads the same.
pub fn envelope(data: &[u8]) {
    let message = match jsonrpc::decode(data) {
        Ok(message) => message,
        Err(error) => {
            assert!(!error.to_string().is_empty(), "a refusal says why");
            return;
        }
    };
    let mut text = Vec::new();
    let raw = |text| serde_json::from_str::<&RawValue>(text).expect("what was read is JSON");
    let written = match &message {
        Message::Request(it) => {
            jsonrpc::encode_request(&mut text, &it.id, &it.method, &it.params.map(raw))
        }
        Message::Notification(it) => {
            jsonrpc::encode_notification(&mut text, &it.method, &it.params.map(raw))
        }
        Message::Response { id, result } => jsonrpc::encode_response(&mut text, id, &raw(result)),
        Message::Error { id, error } => {
            jsonrpc::encode_error(&mut text, id, error);
            Ok(())
        }
    };
    written.expect("what was read can be written");
    let again = jsonrpc::decode(&text).expect("what was written can be read");
    assert_eq!(describe(&message), describe(&again));
}

/// All that a message says.
fn describe(message: &Message<'_>) -> String {
    let raw = |raw: Option<&str>| raw.unwrap_or("null").to_owned();
    match message {
        Message::Request(it) => format!("{:?} {:?} {}", it.id, it.method, raw(it.params)),
        Message::Notification(it) => format!("{:?} {}", it.method, raw(it.params)),
        Message::Response { id, result } => format!("{id:?} {result}"),
        Message::Error { id, error } => format!("{id:?} {error:?}"),
    }
}

/// Parameters decode or are refused, whatever they are. The first line names the method; where it
/// names none, its first byte picks one.
pub fn params(data: &[u8]) {
    let (name, text) = match data.iter().position(|&byte| byte == b'\n') {
        Some(end) => (&data[..end], &data[end + 1..]),
        None => data.split_at(data.len().min(1)),
    };
    let requests = REQUESTS.iter().map(|info| (info.name, info.decode_params));
    let notices = NOTICES.iter().map(|info| (info.name, info.decode_params));
    let methods: Vec<_> = requests.chain(notices).collect();
    let picked = usize::from(name.first().copied().unwrap_or_default()) % methods.len();
    let named = methods.iter().find(|(known, _)| known.as_bytes() == name);
    let (_, decode) = named.unwrap_or(&methods[picked]);
    let outcome = if text.is_empty() {
        decode(None)
    } else {
        // What is not JSON is refused with the envelope.
        let Ok(raw) = serde_json::from_slice::<&RawValue>(text) else { return };
        decode(Some(raw.get()))
    };
    if let Err(refusal) = outcome {
        assert!(!refusal.is_empty(), "a refusal says why");
    }
}

/// A path that was accepted means the same when it is sent on, and a native one survives the wire.
pub fn path_uri(data: &[u8]) {
    if data.first() == Some(&b'/') && !data.contains(&0) {
        survives(Path::new(OsStr::from_bytes(data)));
    }
    let Ok(text) = std::str::from_utf8(data) else { return };
    let Ok(uri) = PathUri::try_from(text.to_owned()) else { return };
    assert!(uri.as_str().starts_with("file:"), "{uri}");
    let again = PathUri::try_from(uri.as_str().to_owned()).expect("it was accepted before");
    // Above all, what is foreign here must not become a path of ours.
    assert_eq!(again.to_native().ok(), uri.to_native().ok(), "{again} and {uri}");
    if let Ok(path) = uri.to_native() {
        assert!(path.is_absolute(), "{path:?}");
        assert!(!path.as_os_str().as_bytes().contains(&0), "{path:?}");
        survives(&path);
    }
}

fn survives(path: &Path) {
    let uri = PathUri::from_native(path).expect("every absolute path has a URI");
    assert_eq!(uri.to_native().as_deref(), Ok(path), "by way of {uri}");
}

/// What decodes encodes to the same text, and the other way round; a fault is inside the text.
pub fn base64(data: &[u8]) {
    let mut text = Vec::new();
    bytes::encode_into(&mut text, data);
    assert_eq!(text.len(), bytes::encoded_len(data.len()));
    let text = String::from_utf8(text).expect("base64 is ASCII");
    assert_eq!(bytes::decode(&text).as_deref(), Ok(data));

    let Ok(text) = std::str::from_utf8(data) else { return };
    match bytes::decode(text) {
        Ok(decoded) => {
            let mut back = Vec::new();
            bytes::encode_into(&mut back, &decoded);
            assert_eq!(back, data);
        }
        Err(Base64Error::Symbol { byte, offset } | Base64Error::LastSymbol { byte, offset }) => {
            assert_eq!(data.get(offset), Some(&byte));
        }
        Err(Base64Error::Padding) => {}
    }
}
