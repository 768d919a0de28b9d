//! TLS below a WebSocket: the server's certificate, the roots a client trusts.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::{ClientConfig, RootCertStore, ServerConfig};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio_rustls::{TlsAcceptor, TlsConnector, client, server};

use crate::accept::within;
use crate::connection::Io;
use crate::error::Error;
use crate::limits::TLS_TIMEOUT;

/// How a client verifies `wss://` servers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ClientTls {
    /// Whom it trusts.
    pub roots: TlsRoots,
}

/// Certificate authorities, loaded when a `wss://` connection needs them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum TlsRoots {
    /// Those of the operating system.
    #[default]
    System,
    /// Those of the operating system, and those in this PEM file.
    SystemAndFile(PathBuf),
    /// Only those in this PEM file.
    File(PathBuf),
}

/// A server's configuration from a certificate chain and its key, both PEM.
///
/// # Errors
/// When a file cannot be read, or the two do not belong together.
pub fn server_tls(cert_pem_path: &Path, key_pem_path: &Path) -> Result<Arc<ServerConfig>, Error> {
    let chain = load_certificates(cert_pem_path)?;
    let key = PrivateKeyDer::from_pem_file(key_pem_path).map_err(|source| Error::Pem {
        what: "private key",
        path: key_pem_path.to_owned(),
        source,
    })?;
    let config = ServerConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(chain, key)?;
    Ok(Arc::new(config))
}

/// The server's side of a TLS handshake, under a deadline. The result goes to [`crate::accept`].
///
/// # Errors
/// When the client does not speak TLS, refuses the certificate or takes too long.
pub async fn accept_tls<S: Io + Unpin>(
    stream: S,
    config: &Arc<ServerConfig>,
) -> Result<server::TlsStream<S>, Error> {
    let handshake = TlsAcceptor::from(Arc::clone(config)).accept(stream);
    within("tls handshake", TLS_TIMEOUT, async {
        handshake.await.map_err(Error::io("complete the tls handshake"))
    })
    .await
}

/// The client's side. The caller's deadline applies.
pub(crate) async fn connect_tls<S: Io + Unpin>(
    stream: S,
    host: &str,
    tls: &ClientTls,
) -> Result<client::TlsStream<S>, Error> {
    let name = ServerName::try_from(host.to_owned())
        .map_err(|_| Error::Handshake("host is not a name that a certificate can have"))?;
    let roots = tls.roots.clone();
    // Reads many files.
    let loaded = tokio::task::spawn_blocking(move || load_roots(&roots)).await;
    let roots = loaded
        .map_err(|error| Error::Io { action: "load root certificates", source: error.into() })??;
    let config = ClientConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_no_client_auth();
    let connector = TlsConnector::from(Arc::new(config));
    connector.connect(name, stream).await.map_err(Error::io("complete the tls handshake"))
}

fn load_roots(roots: &TlsRoots) -> Result<RootCertStore, Error> {
    let mut store = RootCertStore::empty();
    match roots {
        TlsRoots::System => add_system(&mut store)?,
        TlsRoots::File(path) => add_file(&mut store, path)?,
        TlsRoots::SystemAndFile(path) => {
            add_file(&mut store, path)?;
            match add_system(&mut store) {
                // A host without any is served by the file alone.
                Err(Error::NoSystemRoots { .. }) | Ok(()) => {}
                Err(error) => return Err(error),
            }
        }
    }
    Ok(store)
}

fn add_system(store: &mut RootCertStore) -> Result<(), Error> {
    let found = rustls_native_certs::load_native_certs();
    let (added, _unusable) = store.add_parsable_certificates(found.certs);
    if added > 0 {
        return Ok(());
    }
    let detail = found.errors.first().map(|error| format!(": {error}")).unwrap_or_default();
    Err(Error::NoSystemRoots { detail })
}

fn add_file(store: &mut RootCertStore, path: &Path) -> Result<(), Error> {
    for certificate in load_certificates(path)? {
        store.add(certificate)?;
    }
    Ok(())
}

/// All certificates in a PEM file, at least one.
fn load_certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, Error> {
    let failed = |source| Error::Pem { what: "certificates", path: path.to_owned(), source };
    let certificates = CertificateDer::pem_file_iter(path)
        .map_err(failed)?
        .collect::<Result<Vec<_>, _>>()
        .map_err(failed)?;
    match certificates.is_empty() {
        true => Err(Error::NoCertificate { path: path.to_owned() }),
        false => Ok(certificates),
    }
}

/// Named, not the process's default: a library must not depend on who installed one.
fn provider() -> Arc<rustls::crypto::CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}
