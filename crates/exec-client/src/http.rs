//! HTTP requests that the executor makes, and bodies that come in pieces.

use std::sync::Arc;

use exec_protocol::http::{HttpRequestParams, HttpRequestResult};
use exec_protocol::methods::HttpRequest;

use crate::notices::{Notice, NoticeQueue, Topic};
use crate::{ExecServerClient, ExecServerError};

/// The body of an answer, in order.
#[derive(Debug)]
pub struct HttpBody {
    queue: Arc<NoticeQueue>,
    /// The number that comes next.
    next_seq: u64,
    ended: bool,
}

impl ExecServerClient {
    /// Lets the executor make a request and read the whole answer. It is not repeated after a lost
    /// connection.
    ///
    /// # Errors
    /// As for [`ExecServerClient::call`].
    pub async fn http_request(
        &self,
        params: HttpRequestParams,
    ) -> Result<HttpRequestResult, ExecServerError> {
        let params = HttpRequestParams { stream_response: false, ..params };
        self.call::<HttpRequest>(params).await
    }

    /// The same with a body that comes as it arrives; `request_id` is chosen here.
    ///
    /// A body that is not read holds up the connection, and is given up after `stall_limit`.
    ///
    /// # Errors
    /// As for [`ExecServerClient::call`].
    pub async fn http_request_streamed(
        &self,
        params: HttpRequestParams,
    ) -> Result<(HttpRequestResult, HttpBody), ExecServerError> {
        let request_id = format!("r{}", self.next_number());
        let queue = self.listen(Topic::Body(request_id.clone())).await?;
        let body = HttpBody { queue, next_seq: 1, ended: false };
        let params = HttpRequestParams { request_id, stream_response: true, ..params };
        Ok((self.call::<HttpRequest>(params).await?, body))
    }
}

impl HttpBody {
    /// The next piece; `None` after the last. Cancel-safe.
    ///
    /// # Errors
    /// [`ExecServerError::Body`] when the body is not whole. Nothing comes after it.
    pub async fn next(&mut self) -> Result<Option<Vec<u8>>, ExecServerError> {
        while !self.ended {
            let failure = match self.queue.next().await {
                Notice::Body(delta) if delta.seq != self.next_seq => {
                    format!("piece {} came instead of {}", delta.seq, self.next_seq)
                }
                Notice::Body(delta) => {
                    self.next_seq += 1;
                    self.ended = delta.done;
                    match delta.error {
                        Some(error) => error,
                        None if delta.delta_base64.0.is_empty() => continue,
                        None => return Ok(Some(delta.delta_base64.0)),
                    }
                }
                Notice::Cut(reason) => reason,
                Notice::Overflow => "it was not read for too long".to_owned(),
                Notice::Changes { .. } | Notice::Appeared => continue,
            };
            self.ended = true;
            return Err(ExecServerError::Body(failure));
        }
        Ok(None)
    }
}

impl Drop for HttpBody {
    fn drop(&mut self) {
        self.queue.leave();
    }
}
