//! An answer on its way out, in the form that costs the fewest copies.

use exec_protocol::bytes;
use exec_protocol::jsonrpc::{self, RequestId};
use exec_transport::Connection;
use tokio::sync::mpsc;

use crate::dispatch::encode;
use crate::error::Error;

/// The answer to a request.
pub(crate) enum Reply {
    /// As text.
    Text(Vec<u8>),
    /// A result that is put into its envelope as it is sent.
    Raw(RequestId, RawResult),
}

/// A result that no serializer writes: large ones go straight from what was read into the frame.
pub(crate) enum RawResult {
    /// JSON already.
    Json(Vec<u8>),
    /// `{"<member>":"<content in base64>"<rest>}`.
    Content {
        /// Its name.
        member: &'static str,
        /// The bytes.
        content: Vec<u8>,
        /// What follows it, from the comma on.
        rest: &'static str,
    },
    /// The same with a content that comes in pieces and is never held as a whole.
    Pieces {
        /// Its name.
        member: &'static str,
        /// The bytes.
        pieces: Pieces,
    },
}

/// A content in pieces. If it ends without a last one, it could not be read to its end.
pub(crate) type Pieces = mpsc::Receiver<Piece>;

/// A part of a content. All but the last are a multiple of three bytes long, so that their texts
/// can stand behind each other.
pub(crate) struct Piece {
    pub(crate) content: Vec<u8>,
    pub(crate) last: bool,
}

impl Reply {
    /// All of it as text, for who sends no pieces; nothing if it is in pieces.
    pub(crate) fn into_text(self) -> Option<Vec<u8>> {
        let (id, result) = match self {
            Reply::Text(text) => return Some(text),
            Reply::Raw(id, result) => (id, result),
        };
        let mut text = jsonrpc::response_head(&id);
        match result {
            RawResult::Json(result) => text.extend_from_slice(&result),
            RawResult::Content { member, content, rest } => {
                text.reserve(bytes::encoded_len(content.len()) + rest.len() + 64);
                open_member(&mut text, member);
                bytes::encode_into(&mut text, &content);
                text.push(b'"');
                text.extend_from_slice(rest.as_bytes());
                text.push(b'}');
            }
            RawResult::Pieces { .. } => return None,
        }
        text.push(b'}');
        Some(text)
    }

    /// Queues the answer. What is left of it, if anything, has to be sent with [`send_piece`] before
    /// any other message.
    pub(crate) fn send(
        self,
        transport: &mut Connection,
    ) -> Result<Option<Pieces>, exec_transport::Error> {
        let (id, result) = match self {
            Reply::Text(text) => return transport.send(&text).map(|()| None),
            Reply::Raw(id, result) => (id, result),
        };
        let mut head = jsonrpc::response_head(&id);
        let sent = match result {
            RawResult::Json(result) => transport.send_with(head.len() + result.len() + 1, |out| {
                out.extend_from_slice(&head);
                out.extend_from_slice(&result);
                out.push(b'}');
            }),
            RawResult::Content { member, content, rest } => {
                open_member(&mut head, member);
                let len = head.len() + bytes::encoded_len(content.len()) + rest.len() + 3;
                transport.send_with(len, |out| {
                    out.extend_from_slice(&head);
                    bytes::encode_into(out, &content);
                    out.push(b'"');
                    out.extend_from_slice(rest.as_bytes());
                    out.extend_from_slice(b"}}");
                })
            }
            RawResult::Pieces { member, pieces } => {
                open_member(&mut head, member);
                transport.begin_parts(&head)?;
                return Ok(Some(pieces));
            }
        };
        match sent {
            Err(exec_transport::Error::MessageTooLarge { .. }) => {
                transport.send(&encode::<()>(&id, Err(Error::AnswerTooLarge)))?;
            }
            other => other?,
        }
        Ok(None)
    }
}

fn open_member(head: &mut Vec<u8>, member: &str) {
    head.extend_from_slice(format!("{{\"{member}\":\"").as_bytes());
}

/// Queues the next piece of an answer that was begun.
pub(crate) fn send_piece(
    transport: &mut Connection,
    piece: &Piece,
) -> Result<(), exec_transport::Error> {
    const END: &[u8] = b"\"}}";
    let end = if piece.last { END } else { &[] };
    let len = bytes::encoded_len(piece.content.len()) + end.len();
    transport.send_part(len, piece.last, |out| {
        bytes::encode_into(out, &piece.content);
        out.extend_from_slice(end);
    })
}
