//! `http/request`: a request from the executor's network, its body whole or in pieces.

use exec_http::Body;
use exec_protocol::bytes::Base64Bytes;
use exec_protocol::http::{HttpRequestParams, HttpRequestResult};
use exec_protocol::methods::HttpRequestBodyDelta;

use crate::dispatch::Caller;
use crate::error::Error;

pub(crate) async fn request(
    caller: Caller,
    params: HttpRequestParams,
) -> Result<HttpRequestResult, Error> {
    let request_id = params.request_id.clone();
    let active = match params.stream_response {
        true => Some(caller.scope.streams.claim(&request_id)?),
        false => None,
    };
    let variable = |name: &str| std::env::var(name).ok();
    let response = caller.server.http.request(params, variable).await?;
    let body = match response.body {
        Body::Whole(body) => body,
        Body::Stream(body) => {
            let (notifier, mut deltas) = (caller.scope.notifier(), body.into_deltas(request_id));
            // The answer is sent before the connection looks for notifications again, so it always
            // comes first. A slow client makes the server on the other side wait.
            caller.scope.spawn(async move {
                while let Some(delta) = deltas.next().await {
                    if !notifier.send::<HttpRequestBodyDelta>(&delta).await {
                        return;
                    }
                }
                drop(active);
            });
            Vec::new()
        }
    };
    Ok(HttpRequestResult {
        status: response.status,
        headers: response.headers,
        body_base64: Base64Bytes(body),
    })
}
