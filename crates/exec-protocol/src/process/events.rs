//! What a server tells of a process without being asked.

use serde::{Deserialize, Serialize};

use super::io::Stream;
use crate::bytes::{self, Base64Bytes};
use crate::id::ProcessId;

/// `process/output`: a piece of output, as it comes.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct OutputParams {
    /// Whose.
    pub process_id: ProcessId,
    /// Its number.
    pub seq: u64,
    /// Where it was written.
    pub stream: Stream,
    /// The bytes.
    pub chunk: Base64Bytes,
}

/// `process/exited`: output may still follow.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ExitedParams {
    /// Whose.
    pub process_id: ProcessId,
    /// Its number.
    pub seq: u64,
    /// As exited, or 128 and the signal.
    pub exit_code: i32,
    /// The sandbox was probably the reason for the failure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sandbox_denied: Option<bool>,
    /// What the sandbox refused, where that is recorded.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub denials: Vec<Denial>,
    /// What was used, if the start had `limits`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
    /// The limit that ended it, by its name in `limits`, where that is known: `deadlineMs`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit_reached: Option<String>,
}

/// Something that the sandbox refused.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Denial {
    /// What was tried, such as `write`, `connect` or the name of a system call.
    pub operation: String,
    /// On which path or address, where that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
    /// Which rule decided.
    pub rule: String,
    /// How often, if more than once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub times: Option<u64>,
}

/// What a process and the descendants it waited for have used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Usage {
    /// Processor time.
    pub cpu_ms: u64,
    /// Most memory at once.
    pub memory_bytes_max: u64,
}

/// `process/closed`: the last event of a process.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ClosedParams {
    /// Whose.
    pub process_id: ProcessId,
    /// The highest number of this process.
    pub seq: u64,
}

/// `process/failed`: a start that did not succeed.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FailedParams {
    /// The name it would have had.
    pub process_id: ProcessId,
    /// Why.
    pub message: String,
}

/// `process/output` without an intermediate tree: its exact length, then its bytes. Output is most
/// of what crosses the wire, and goes from the log straight into the outgoing frame.
#[derive(Debug)]
pub struct OutputEncoder<'a> {
    head: String,
    data: &'a [u8],
}

const OUTPUT_TAIL: &[u8] = b"\"}}";

impl<'a> OutputEncoder<'a> {
    /// `id_json` is the process id as a JSON string, quotes included.
    pub fn new(id_json: &str, seq: u64, stream: Stream, data: &'a [u8]) -> Self {
        let head = format!(
            r#"{{"method":"process/output","params":{{"processId":{id_json},"seq":{seq},"stream":"{}","chunk":""#,
            stream.as_str()
        );
        Self { head, data }
    }

    /// Length of the message.
    pub fn encoded_len(&self) -> usize {
        self.head.len() + bytes::encoded_len(self.data.len()) + OUTPUT_TAIL.len()
    }

    /// Appends the message.
    pub fn encode_into(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.head.as_bytes());
        bytes::encode_into(out, self.data);
        out.extend_from_slice(OUTPUT_TAIL);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::jsonrpc;

    #[test]
    fn output_is_encoded_as_serde_would() {
        for (id, data) in [("p", &b"hi\n"[..]), ("quote\" \u{1} é", b""), ("", &[0xff; 100])] {
            let id = ProcessId::from(id);
            let id_json = serde_json::to_string(&id).unwrap();
            let encoder = OutputEncoder::new(&id_json, 7, Stream::Pty, data);
            let mut direct = Vec::new();
            encoder.encode_into(&mut direct);
            let params = OutputParams {
                process_id: id,
                seq: 7,
                stream: Stream::Pty,
                chunk: Base64Bytes(data.to_vec()),
            };
            let mut derived = Vec::new();
            jsonrpc::encode_notification(&mut derived, "process/output", &params).unwrap();
            assert_eq!(String::from_utf8(direct), String::from_utf8(derived.clone()));
            assert_eq!(encoder.encoded_len(), derived.len());
        }
    }
}
