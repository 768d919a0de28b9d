//! Sends requests, hop by hop, and answers with what the last one gave.

use std::sync::OnceLock;
use std::time::Duration;

use exec_protocol::http::{HttpRequestParams, RedirectPolicy, ResponseHeader};
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{ACCEPT, HeaderMap, HeaderValue, PROXY_AUTHORIZATION};
use hyper::{Request, Uri};
use hyper_util::client::legacy::Client;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use tokio::time::{Instant, timeout_at};
use url::Position;

use crate::body::{Body, BodyStream};
use crate::connect::Connector;
use crate::error::Error;
use crate::limits::{BODY_BYTES_MAX, IDLE_MAX, IDLE_PER_HOST_MAX, REDIRECTS_MAX};
use crate::redirect;
use crate::request::{self, Hop};

/// Makes HTTP requests. One serves a whole server; it costs nothing before its first request, which
/// fixes the proxies and certificates that the environment names.
#[derive(Default)]
pub struct HttpClient {
    sender: OnceLock<Sender>,
    body_bytes_max: Option<usize>,
}

/// What came back.
#[derive(Debug)]
pub struct Response {
    /// Of the last hop.
    pub status: u16,
    /// Names in lower case, repeats kept; what is not visible ASCII is left out.
    pub headers: Vec<ResponseHeader>,
    /// Whole, or still to come.
    pub body: Body,
}

impl HttpClient {
    /// A client that answers with bodies of at most so many bytes, unless they are streamed.
    pub fn with_body_max(body_bytes_max: usize) -> Self {
        Self { sender: OnceLock::new(), body_bytes_max: Some(body_bytes_max) }
    }

    /// Makes a request. Ends early when dropped.
    pub async fn request(
        &self,
        params: HttpRequestParams,
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<Response, Error> {
        let (policy, streamed) = (params.redirect_policy, params.stream_response);
        let deadline = deadline(params.timeout_ms);
        let no_time = params.timeout_ms == Some(0);
        let hop = request::prepare(params, &variable)?;
        if no_time {
            return Err(Error::NoTime);
        }
        let sender = self.sender.get_or_init(|| Sender::new(&variable));
        // A closure is seldom `Sync`; without it the future can move between threads.
        drop(variable);
        let (head, incoming) = sender.send(hop, policy, deadline).await?.into_parts();
        let body = BodyStream::new(incoming, deadline);
        let body = if streamed {
            Body::Stream(body)
        } else {
            let bytes_max = self.body_bytes_max.unwrap_or(BODY_BYTES_MAX);
            Body::Whole(body.collect(bytes_max).await?)
        };
        Ok(Response { status: head.status.as_u16(), headers: visible(&head.headers), body })
    }
}

/// None where there is no limit, or one that no clock reaches.
fn deadline(timeout_ms: Option<u64>) -> Option<Instant> {
    Instant::now().checked_add(Duration::from_millis(timeout_ms?))
}

fn visible(headers: &HeaderMap) -> Vec<ResponseHeader> {
    let visible = headers.iter().filter_map(|(name, value)| {
        let value = value.to_str().ok()?.to_owned();
        Some(ResponseHeader { name: name.as_str().to_owned(), value })
    });
    visible.collect()
}

/// Connections, and what is known of the way out.
struct Sender {
    client: Client<Connector, Full<Bytes>>,
    connector: Connector,
}

impl Sender {
    fn new(variable: &impl Fn(&str) -> Option<String>) -> Self {
        let connector = Connector::new(variable);
        let client = Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(IDLE_MAX)
            .pool_max_idle_per_host(IDLE_PER_HOST_MAX)
            .build(connector.clone());
        Self { client, connector }
    }

    async fn send(
        &self,
        mut hop: Hop,
        policy: RedirectPolicy,
        deadline: Option<Instant>,
    ) -> Result<hyper::Response<Incoming>, Error> {
        let mut followed = 0;
        loop {
            if hop.url.scheme() == "https" {
                self.connector.tls().await.map_err(Error::Certificates)?;
            }
            let sent = within(deadline, self.send_one(&hop)).await;
            let Some(response) = sent.flatten() else {
                return Err(Error::Send(hop.url));
            };
            if policy == RedirectPolicy::Stop
                || !redirect::follow(&mut hop, response.status(), response.headers())?
            {
                return Ok(response);
            }
            followed += 1;
            if followed > REDIRECTS_MAX {
                return Err(Error::TooManyRedirects);
            }
        }
    }

    /// None when no answer came; why not is for the log, since it may tell of the network.
    async fn send_one(&self, hop: &Hop) -> Option<hyper::Response<Incoming>> {
        let uri: Uri = hop.url[..Position::AfterQuery].parse().ok()?;
        let mut headers = hop.headers.clone();
        if !headers.contains_key(ACCEPT) {
            headers.insert(ACCEPT, HeaderValue::from_static("*/*"));
        }
        // A tunnel is opened with its own; a request in the clear carries it itself.
        if hop.url.scheme() == "http"
            && let Some(authorization) = self.connector.proxy(&uri).and_then(|p| p.authorization)
            && !headers.contains_key(PROXY_AUTHORIZATION)
        {
            headers.insert(PROXY_AUTHORIZATION, authorization);
        }
        let mut request = Request::new(Full::new(hop.body.clone()));
        *request.method_mut() = hop.method.clone();
        *request.uri_mut() = uri;
        *request.headers_mut() = headers;
        match self.client.request(request).await {
            Ok(response) => Some(response),
            Err(error) => {
                tracing::debug!(error = ?error, "an HTTP request failed");
                None
            }
        }
    }
}

/// None when the deadline came first.
pub(crate) async fn within<T>(
    deadline: Option<Instant>,
    work: impl Future<Output = T>,
) -> Option<T> {
    match deadline {
        Some(deadline) => timeout_at(deadline, work).await.ok(),
        None => Some(work.await),
    }
}
