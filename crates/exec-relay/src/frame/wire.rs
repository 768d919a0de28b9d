//! The schema (proto3, package `codex.exec_server.relay.v1`), as it is on the wire.

#![allow(clippy::module_name_repetitions, reason = "the names of the schema")]

use prost::{Message, Oneof};

#[derive(Clone, PartialEq, Message)]
pub(super) struct RelayMessageFrame {
    #[prost(uint32, tag = "1")]
    pub(super) version: u32,
    #[prost(string, tag = "2")]
    pub(super) stream_id: String,
    #[prost(uint32, tag = "3")]
    pub(super) ack: u32,
    #[prost(uint32, tag = "4")]
    pub(super) ack_bits: u32,
    #[prost(oneof = "Body", tags = "5, 6, 7, 8, 9, 10")]
    pub(super) body: Option<Body>,
    #[prost(string, optional, tag = "11")]
    pub(super) traceparent: Option<String>,
    #[prost(string, optional, tag = "12")]
    pub(super) tracestate: Option<String>,
    /// Ours, far from the numbers that the reference may use next. Who does not know it ignores it.
    #[prost(message, optional, tag = "1600")]
    pub(super) reliable: Option<RelayReliable>,
}

#[derive(Clone, PartialEq, Oneof)]
pub(super) enum Body {
    #[prost(message, tag = "5")]
    Data(RelayData),
    #[prost(message, tag = "6")]
    AckFrame(RelayAck),
    #[prost(message, tag = "7")]
    Resume(RelayResume),
    #[prost(message, tag = "8")]
    Reset(RelayReset),
    #[prost(message, tag = "9")]
    Heartbeat(RelayHeartbeat),
    #[prost(message, tag = "10")]
    Handshake(RelayHandshake),
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct RelayData {
    #[prost(uint32, tag = "1")]
    pub(super) seq: u32,
    #[prost(uint32, tag = "2")]
    pub(super) segment_index: u32,
    #[prost(uint32, tag = "3")]
    pub(super) segment_count: u32,
    #[prost(bytes = "vec", tag = "4")]
    pub(super) payload: Vec<u8>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct RelayAck {}

#[derive(Clone, PartialEq, Message)]
pub(super) struct RelayResume {
    #[prost(uint32, tag = "1")]
    pub(super) next_seq: u32,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct RelayReset {
    #[prost(string, tag = "1")]
    pub(super) reason: String,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct RelayHeartbeat {}

#[derive(Clone, PartialEq, Message)]
pub(super) struct RelayHandshake {
    #[prost(bytes = "vec", tag = "1")]
    pub(super) payload: Vec<u8>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct RelayReliable {
    #[prost(uint32, tag = "1")]
    pub(super) version: u32,
    #[prost(uint32, tag = "2")]
    pub(super) limit: u32,
}
