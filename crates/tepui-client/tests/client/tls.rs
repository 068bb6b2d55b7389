//! TLS: which certificates are trusted. Tepui speaks no TLS itself; something in front of it does.

use crate::support::{entity, key};
use std::error::Error as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use tepui_client::{AccountBuilder, ErrorKind, Retry};
use tepui_client_testing::TestServer;
use tepui_model::account::{DEVELOPMENT_ACCOUNT, DEVELOPMENT_KEY_BASE64};
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring::default_provider;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};

/// `certificates/make` makes them.
fn file(name: &str) -> Vec<u8> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/client/certificates");
    std::fs::read(folder.join(name)).unwrap()
}

/// A server behind TLS with a certificate.
struct SecureServer {
    port: u16,
    /// How many connections were secured.
    secured: Arc<AtomicUsize>,
    _tepui: TestServer,
}

impl SecureServer {
    async fn start(certificate: &str) -> Self {
        let tepui = TestServer::start().await;
        let chain = vec![CertificateDer::from_pem_slice(&file(certificate)).unwrap()];
        let key = PrivateKeyDer::from_pem_slice(&file("server.key")).unwrap();
        let config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(chain, key)
            .unwrap();
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let (secured, plain) = (Arc::new(AtomicUsize::new(0)), tepui.table_address());
        let count = Arc::clone(&secured);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (acceptor, count) = (acceptor.clone(), Arc::clone(&count));
                tokio::spawn(async move {
                    let Ok(mut secure) = acceptor.accept(stream).await else { return };
                    count.fetch_add(1, Ordering::Relaxed);
                    let mut server = TcpStream::connect(plain).await.unwrap();
                    let _ = copy_bidirectional(&mut secure, &mut server).await;
                });
            }
        });
        Self { port, secured, _tepui: tepui }
    }

    fn account(&self, host: &str) -> AccountBuilder {
        AccountBuilder::default()
            .tables_at(format!("https://{host}:{}/{DEVELOPMENT_ACCOUNT}", self.port))
            .shared_key(DEVELOPMENT_ACCOUNT, DEVELOPMENT_KEY_BASE64)
            .retry(Retry::guide())
    }
}

#[tokio::test]
async fn a_service_with_a_certificate_of_a_trusted_authority() {
    let server = SecureServer::start("server.pem").await;
    for (number, host) in ["localhost", "127.0.0.1"].into_iter().enumerate() {
        let both = [file("stranger.pem"), file("authority.pem")].concat();
        let account = server.account(host).trust(both).build().unwrap();
        let table = account.table(&format!("Secure{number}")).unwrap();
        table.create().await.unwrap();
        for row in 0..20 {
            table.insert(&entity(&row.to_string(), row)).await.unwrap();
        }
        assert!(table.get(&key("7")).await.unwrap().is_some());
        assert_eq!(table.scan().all().await.unwrap().len(), 20);
        assert_eq!(server.secured.load(Ordering::Relaxed), number + 1, "the connection is used again");
    }
}

#[tokio::test]
async fn certificates_that_are_not_good_are_refused_at_once() {
    for (certificate, host, trusted, reason) in [
        ("server.pem", "localhost", None, "UnknownIssuer"),
        ("server.pem", "localhost", Some("stranger.pem"), "UnknownIssuer"),
        ("other-name.pem", "localhost", Some("authority.pem"), "not valid for name"),
        ("other-name.pem", "127.0.0.1", Some("authority.pem"), "not valid for name"),
        ("expired.pem", "localhost", Some("authority.pem"), "expired"),
    ] {
        let case = format!("{certificate} {host} {trusted:?}");
        let server = SecureServer::start(certificate).await;
        let mut builder = server.account(host);
        if let Some(trusted) = trusted {
            builder = builder.trust(file(trusted));
        }
        let started = Instant::now();
        // A write, too, has certainly not been carried out: it is not unknown.
        let error =
            builder.build().unwrap().table("Secure").unwrap().insert(&entity("1", 1)).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Transport, "{case}");
        let cause = error.source().unwrap().to_string();
        assert!(cause.contains(reason), "{case}: {cause}");
        assert!(started.elapsed() < Duration::from_millis(1500), "{case}: it is not tried again");
        assert_eq!(server.secured.load(Ordering::Relaxed), 0, "{case}: nothing was sent");
    }
}

#[test]
fn what_is_trusted_must_be_certificates() {
    let https = || AccountBuilder::default().tables_at("https://localhost/acct");
    let damaged = String::from_utf8(file("authority.pem")).unwrap().replacen("MII", "MIJ", 1);
    for pem in [b"".to_vec(), b"no PEM".to_vec(), file("server.key"), damaged.into_bytes()] {
        let error = https().trust(pem.clone()).build().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Configuration, "{}", String::from_utf8_lossy(&pem));
    }
}
