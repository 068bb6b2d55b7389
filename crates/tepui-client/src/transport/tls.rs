//! TLS to one host, with the certificate authorities that browsers trust.

use std::io;
use std::sync::Arc;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::crypto::ring::default_provider;
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

pub(super) struct Tls {
    connector: TlsConnector,
    server: ServerName<'static>,
}

impl Tls {
    /// `None` if no certificate can be for such a host.
    pub(super) fn new(host: &str) -> Option<Self> {
        let roots = RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() };
        // Not the default of the process: what the client needs does not depend on what the program around it does.
        let config = ClientConfig::builder_with_provider(Arc::new(default_provider()))
            .with_safe_default_protocol_versions()
            .ok()?
            .with_root_certificates(roots)
            .with_no_client_auth();
        let server = ServerName::try_from(host.to_owned()).ok()?;
        Some(Self { connector: TlsConnector::from(Arc::new(config)), server })
    }

    pub(super) async fn connect(&self, stream: TcpStream) -> io::Result<TlsStream<TcpStream>> {
        self.connector.connect(self.server.clone(), stream).await
    }
}
