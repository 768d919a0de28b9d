//! Streamed bodies: which ones a connection has, and how their pieces are numbered.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};

use exec_protocol::bytes::Base64Bytes;
use exec_protocol::http::BodyDeltaParams;

use crate::body::BodyStream;
use crate::error::{BODY_BROKEN, Error};

/// The ids of a connection's streams that have not ended.
#[derive(Debug, Clone)]
pub struct ActiveStreams {
    ids: Arc<Mutex<HashSet<String>>>,
    streams_max: usize,
}

/// An id in use. Dropped after the last delta is sent, it is free again.
#[derive(Debug)]
pub struct ActiveStream {
    id: String,
    streams: ActiveStreams,
}

impl ActiveStreams {
    /// None yet, and at most so many.
    pub fn new(streams_max: usize) -> Self {
        Self { ids: Arc::default(), streams_max }
    }

    /// Takes an id, before anything else of its request is looked at.
    pub fn claim(&self, id: &str) -> Result<ActiveStream, Error> {
        let mut ids = self.ids.lock().unwrap_or_else(PoisonError::into_inner);
        if ids.contains(id) {
            return Err(Error::StreamActive(id.to_owned()));
        }
        if ids.len() >= self.streams_max {
            return Err(Error::TooManyStreams);
        }
        ids.insert(id.to_owned());
        Ok(ActiveStream { id: id.to_owned(), streams: self.clone() })
    }
}

impl Drop for ActiveStream {
    fn drop(&mut self) {
        let mut ids = self.streams.ids.lock().unwrap_or_else(PoisonError::into_inner);
        ids.remove(&self.id);
    }
}

/// A streamed body as the notifications that carry it: pieces, then one empty end.
#[derive(Debug)]
pub struct Deltas {
    request_id: String,
    seq: u64,
    /// None once the end was given.
    body: Option<BodyStream>,
}

impl Deltas {
    pub(crate) fn new(request_id: String, body: BodyStream) -> Self {
        Self { request_id, seq: 0, body: Some(body) }
    }

    /// The next one; none after the end. Nothing is lost when dropped while waiting.
    pub async fn next(&mut self) -> Option<BodyDeltaParams> {
        let (delta, done, error) = match self.body.as_mut()?.next().await {
            Some(Ok(piece)) => (piece, false, None),
            Some(Err(_)) => (Vec::new(), true, Some(BODY_BROKEN.to_owned())),
            None => (Vec::new(), true, None),
        };
        if done {
            self.body = None;
        }
        self.seq += 1;
        Some(BodyDeltaParams {
            request_id: self.request_id.clone(),
            seq: self.seq,
            delta_base64: Base64Bytes(delta),
            done,
            error,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_free_again_when_its_stream_has_ended() {
        let streams = ActiveStreams::new(2);
        let first = streams.claim("a").unwrap();
        let again = streams.claim("a").unwrap_err();
        let expected = "http/request streamResponse requestId `a` is already active";
        assert_eq!(again.to_string(), expected);
        let second = streams.claim("").unwrap();
        assert!(matches!(streams.claim("c"), Err(Error::TooManyStreams)));
        drop(first);
        drop(streams.claim("a").unwrap());
        drop(second);
        drop(streams.claim("c").unwrap());
    }
}
