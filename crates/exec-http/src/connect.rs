//! From a URL to a byte stream: directly or through a proxy, in the clear or in TLS.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use hyper::Uri;
use hyper::http::uri::Scheme;
use hyper::rt::{Read, ReadBufCursor, Write};
use hyper_util::client::legacy::connect::proxy::Tunnel;
use hyper_util::client::legacy::connect::{Connected, Connection, HttpConnector};
use hyper_util::rt::TokioIo;
use rustls_pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::OnceCell;
use tokio_rustls::TlsConnector;
use tower_service::Service;

use crate::limits::CONNECT_MAX;
use crate::proxy::{Proxies, Proxy};
use crate::tls::Roots;

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Connects to whatever a URL names.
#[derive(Clone)]
pub(crate) struct Connector {
    tcp: HttpConnector,
    shared: Arc<Shared>,
}

struct Shared {
    proxies: Proxies,
    roots: Arc<Roots>,
    tls: OnceCell<TlsConnector>,
}

impl Connector {
    pub(crate) fn new(variable: &impl Fn(&str) -> Option<String>) -> Self {
        let mut tcp = HttpConnector::new();
        tcp.enforce_http(false);
        tcp.set_nodelay(true);
        tcp.set_connect_timeout(Some(CONNECT_MAX));
        let proxies = Proxies::from_variables(variable);
        let roots = Arc::new(Roots::from_variables(variable));
        Self { tcp, shared: Arc::new(Shared { proxies, roots, tls: OnceCell::new() }) }
    }

    /// The proxy for a request.
    pub(crate) fn proxy(&self, target: &Uri) -> Option<Proxy> {
        self.shared.proxies.find(target)
    }

    /// What speaks TLS, made when it is first needed.
    pub(crate) async fn tls(&self) -> Result<&TlsConnector, String> {
        let load = async || {
            let roots = Arc::clone(&self.shared.roots);
            let config = tokio::task::spawn_blocking(move || roots.load()).await;
            config.map_err(|error| error.to_string())?.map(TlsConnector::from)
        };
        self.shared.tls.get_or_try_init(load).await
    }

    async fn connect(mut self, target: Uri) -> Result<Stream, BoxError> {
        let secure = target.scheme() == Some(&Scheme::HTTPS);
        let proxy = self.proxy(&target);
        let tcp: TokioIo<TcpStream> = match &proxy {
            None => self.tcp.call(target.clone()).await?,
            // To speak to the target without the proxy would be to ignore what was asked for.
            Some(proxy) if proxy.uri.scheme() != Some(&Scheme::HTTP) => {
                return Err("only http proxies are supported".into());
            }
            Some(proxy) if secure => self.tunnel(proxy, target.clone()).await?,
            Some(proxy) => self.tcp.call(proxy.uri.clone()).await?,
        };
        if !secure {
            let io: Box<dyn Duplex> = Box::new(tcp.into_inner());
            return Ok(Stream { io: TokioIo::new(io), proxied: proxy.is_some() });
        }
        let host = target.host().ok_or("no host")?;
        let name = ServerName::try_from(host.trim_matches(['[', ']']).to_owned())?;
        let io = self.tls().await?.connect(name, tcp.into_inner()).await?;
        let io: Box<dyn Duplex> = Box::new(io);
        Ok(Stream { io: TokioIo::new(io), proxied: false })
    }

    async fn tunnel(&self, proxy: &Proxy, target: Uri) -> Result<TokioIo<TcpStream>, BoxError> {
        let mut tunnel = Tunnel::new(proxy.uri.clone(), self.tcp.clone());
        if let Some(authorization) = &proxy.authorization {
            tunnel = tunnel.with_auth(authorization.clone());
        }
        Ok(tunnel.call(target).await?)
    }
}

impl Service<Uri> for Connector {
    type Response = Stream;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Stream, BoxError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, target: Uri) -> Self::Future {
        Box::pin(self.clone().connect(target))
    }
}

/// Anything that bytes go through both ways.
trait Duplex: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Duplex for T {}

/// A connection, to the target or to a proxy for it.
pub(crate) struct Stream {
    io: TokioIo<Box<dyn Duplex>>,
    /// Whether requests have to name their host, because the peer is a proxy.
    proxied: bool,
}

impl Connection for Stream {
    fn connected(&self) -> Connected {
        Connected::new().proxy(self.proxied)
    }
}

impl Read for Stream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: ReadBufCursor<'_>,
    ) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.io).poll_read(context, buffer)
    }
}

impl Write for Stream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<std::io::Result<usize>> {
        Pin::new(&mut self.io).poll_write(context, bytes)
    }

    fn poll_flush(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(context)
    }

    fn poll_shutdown(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(context)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[std::io::IoSlice<'_>],
    ) -> Poll<std::io::Result<usize>> {
        Pin::new(&mut self.io).poll_write_vectored(context, slices)
    }
}
