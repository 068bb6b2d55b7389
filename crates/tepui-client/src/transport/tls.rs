//! TLS to one host, with the certificate authorities that browsers trust, and those that the caller adds.

use std::error::Error as StdError;
use std::io;
use std::sync::Arc;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls;
use tokio_rustls::rustls::crypto::ring::default_provider;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

/// Whom an account trusts. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Trust(Arc<ClientConfig>);

impl Trust {
    /// `added`: certificates of authorities in PEM. The error is for people.
    pub(crate) fn new(added: &[Vec<u8>]) -> Result<Self, &'static str> {
        let mut roots = RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() };
        for pem in added {
            let known = roots.len();
            for certificate in CertificateDer::pem_slice_iter(pem) {
                let certificate = certificate.map_err(|_| "what is to be trusted is not PEM")?;
                roots.add(certificate).map_err(|_| "what is to be trusted is not a certificate")?;
            }
            if roots.len() == known {
                return Err("there is no certificate in what is to be trusted");
            }
        }
        // Not the default of the process: what the client needs does not depend on what the program around it does.
        let config = ClientConfig::builder_with_provider(Arc::new(default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(|_| "TLS cannot be set up")?
            .with_root_certificates(roots)
            .with_no_client_auth();
        Ok(Self(Arc::new(config)))
    }
}

pub(super) struct Tls {
    connector: TlsConnector,
    server: ServerName<'static>,
}

impl Tls {
    /// `None` if no certificate can be for such a host.
    pub(super) fn new(host: &str, trust: &Trust) -> Option<Self> {
        let server = ServerName::try_from(host.to_owned()).ok()?;
        Some(Self { connector: TlsConnector::from(Arc::clone(&trust.0)), server })
    }

    pub(super) async fn connect(&self, stream: TcpStream) -> io::Result<TlsStream<TcpStream>> {
        self.connector.connect(self.server.clone(), stream).await
    }
}

/// Whether a connection failed because of the certificate of the service. It will not be better the next time.
pub(super) fn is_certificate_error(error: &(dyn StdError + Send + Sync + 'static)) -> bool {
    let cause = error.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
    let error = cause.and_then(|cause| cause.downcast_ref::<rustls::Error>());
    matches!(error, Some(rustls::Error::InvalidCertificate(_)))
}
