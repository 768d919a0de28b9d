//! Which certificates a server is believed by: the system's, and one file that the environment may
//! name.

use std::fs::File;
use std::io::Read as _;
use std::sync::Arc;

use rustls::{ClientConfig, RootCertStore};
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject as _;

use crate::limits::CERTIFICATES_BYTES_MAX;

/// Names a file of certificates that are believed too; the first that is set counts.
const VARIABLES: [&str; 2] = ["CODEX_CA_CERTIFICATE", "SSL_CERT_FILE"];

/// Where certificates come from, besides the system.
pub(crate) struct Roots {
    /// The variable, and the file it names.
    named: Option<(&'static str, String)>,
}

impl Roots {
    pub(crate) fn from_variables(variable: &impl Fn(&str) -> Option<String>) -> Self {
        let named = VARIABLES.iter().find_map(|name| {
            variable(name).filter(|path| !path.is_empty()).map(|path| (*name, path))
        });
        Self { named }
    }

    /// Reads the certificates. Blocks, and they are megabytes: only for the first `https:` request.
    pub(crate) fn load(&self) -> Result<Arc<ClientConfig>, String> {
        let mut roots = RootCertStore::empty();
        let native = rustls_native_certs::load_native_certs();
        for error in &native.errors {
            tracing::debug!(%error, "a system certificate cannot be used");
        }
        roots.add_parsable_certificates(native.certs);
        if let Some((name, path)) = &self.named {
            let extra = read(path).map_err(|error| {
                format!("cannot use the certificates in {path}, named by {name}: {error}")
            })?;
            roots.add_parsable_certificates(extra);
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| error.to_string())?
            .with_root_certificates(roots)
            .with_no_client_auth();
        Ok(Arc::new(config))
    }
}

fn read(path: &str) -> Result<Vec<CertificateDer<'static>>, String> {
    let mut text = Vec::new();
    File::open(path)
        .and_then(|file| file.take(CERTIFICATES_BYTES_MAX).read_to_end(&mut text))
        .map_err(|error| error.to_string())?;
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&text).collect();
    match found {
        Ok(found) if !found.is_empty() => Ok(found),
        Ok(_) => Err("it holds none".to_owned()),
        Err(error) => Err(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_named_has_to_hold_certificates() {
        let dir = tempfile::tempdir().unwrap();
        let check = |contents: Option<&str>, expected: Option<&str>| {
            let path = dir.path().join("ca.pem");
            match contents {
                Some(contents) => std::fs::write(&path, contents).unwrap(),
                None => drop(std::fs::remove_file(&path)),
            }
            let variable = |name: &str| {
                (name == "CODEX_CA_CERTIFICATE").then(|| path.to_str().unwrap().to_owned())
            };
            let error = Roots::from_variables(&variable).load().err();
            assert_eq!(error.is_some(), expected.is_some(), "{error:?}");
            if let Some(expected) = expected {
                assert!(error.unwrap().ends_with(expected));
            }
        };
        let key = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        check(None, Some("(os error 2)"));
        check(Some("no certificate"), Some("it holds none"));
        check(Some(&key.cert.pem()), None);
    }
}
