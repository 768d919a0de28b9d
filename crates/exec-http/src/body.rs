//! The body of a response: in one piece, or piece by piece.

use http_body_util::BodyExt as _;
use hyper::body::{Body as _, Bytes, Incoming};
use tokio::time::Instant;

use crate::client::within;
use crate::error::Error;
use crate::limits::PIECE_BYTES_MAX;
use crate::stream::Deltas;

/// The body of a response.
#[derive(Debug)]
pub enum Body {
    /// All of it.
    Whole(Vec<u8>),
    /// Still to come.
    Stream(BodyStream),
}

/// A body that is read as it arrives. Dropped, it closes its connection.
#[derive(Debug)]
pub struct BodyStream {
    /// None once it has ended.
    incoming: Option<Incoming>,
    deadline: Option<Instant>,
    /// Read, but larger than one piece.
    rest: Bytes,
}

impl BodyStream {
    pub(crate) fn new(incoming: Incoming, deadline: Option<Instant>) -> Self {
        Self { incoming: Some(incoming), deadline, rest: Bytes::new() }
    }

    /// The next piece, at most 1 MiB; none at the end. Nothing is lost when dropped while waiting.
    pub async fn next(&mut self) -> Option<Result<Vec<u8>, Error>> {
        while self.rest.is_empty() {
            let incoming = self.incoming.as_mut()?;
            match within(self.deadline, incoming.frame()).await {
                // Trailers are no part of the body.
                Some(Some(Ok(frame))) => self.rest = frame.into_data().unwrap_or_default(),
                Some(None) => self.incoming = None,
                Some(Some(Err(_))) | None => {
                    self.incoming = None;
                    return Some(Err(Error::Body));
                }
            }
        }
        let piece = self.rest.split_to(self.rest.len().min(PIECE_BYTES_MAX));
        Some(Ok(piece.into()))
    }

    /// The numbered pieces that a client gets.
    pub fn into_deltas(self, request_id: String) -> Deltas {
        Deltas::new(request_id, self)
    }

    pub(crate) async fn collect(mut self, bytes_max: usize) -> Result<Vec<u8>, Error> {
        let announced = self.incoming.as_ref().map_or(0, |incoming| incoming.size_hint().lower());
        let mut body = match usize::try_from(announced) {
            Ok(bytes) if bytes <= bytes_max => Vec::with_capacity(bytes.min(PIECE_BYTES_MAX)),
            Ok(_) | Err(_) => return Err(Error::BodyTooLarge(bytes_max)),
        };
        while let Some(piece) = self.next().await {
            let piece = piece?;
            if body.len() + piece.len() > bytes_max {
                return Err(Error::BodyTooLarge(bytes_max));
            }
            body.extend_from_slice(&piece);
        }
        Ok(body)
    }
}
