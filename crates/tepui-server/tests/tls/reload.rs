//! Certificates that are replaced while the server runs.

use crate::support::{HEALTH, SelfSigned, client, connect, exchange, start};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;
use tepui_server::config::TlsMode;
use tokio_rustls::rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use tokio_rustls::rustls::crypto::{
    CryptoProvider, ring::default_provider, verify_tls12_signature, verify_tls13_signature,
};
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use tokio_rustls::rustls::{ClientConfig, DigitallySignedStruct, Error, SignatureScheme};

/// Takes any certificate, but only signatures that are its own.
#[derive(Debug)]
struct AnyCertificate(CryptoProvider);

impl ServerCertVerifier for AnyCertificate {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, certificate, signature, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signature, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

fn trusting() -> Arc<ClientConfig> {
    let mut config = ClientConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(AnyCertificate(default_provider())))
        .with_no_client_auth();
    // Each handshake shows the certificate.
    config.resumption = tokio_rustls::rustls::client::Resumption::disabled();
    Arc::new(config)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_request_fails_while_certificates_are_replaced() {
    const SWAPS: usize = 20;
    let mut made = None;
    let server = start(|config, directory| {
        let files = SelfSigned::make(directory, "server");
        config.tls = TlsMode::Off;
        config.tls_dir = None;
        config.cert = Some(files.cert.clone());
        config.key = Some(files.key.clone());
        made = Some(files);
    })
    .await;
    let files = made.unwrap();
    let (config, port, tls) = (trusting(), server.table(), server.tls.clone().unwrap());
    let (done, requests) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let mut clients = Vec::new();
    for keeps_alive in [true, true, false, false] {
        let (config, done, requests) = (Arc::clone(&config), Arc::clone(&done), Arc::clone(&requests));
        clients.push(tokio::spawn(async move {
            let mut stream = connect(&config, port, "localhost").await.unwrap();
            while !done.load(Ordering::Relaxed) {
                if !keeps_alive {
                    stream = connect(&config, port, "localhost").await.unwrap();
                }
                let reply = exchange(&mut stream, HEALTH).await;
                assert!(reply.starts_with("HTTP/1.1 200 "), "{reply}");
                requests.fetch_add(1, Ordering::Relaxed);
            }
        }));
    }
    for swap in 0..SWAPS {
        let expected = files.replace();
        assert!(tls.reload().await, "{swap}");
        let stream = connect(&config, port, "localhost").await.unwrap();
        assert_eq!(stream.get_ref().1.peer_certificates().unwrap(), [expected], "{swap}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    done.store(true, Ordering::Relaxed);
    for client in clients {
        client.await.unwrap();
    }
    assert!(requests.load(Ordering::Relaxed) > SWAPS);
    server.stop().await;
}

#[tokio::test]
async fn a_bad_new_file_keeps_the_old_certificate() {
    let server = start(|_, _| {}).await;
    let config = Arc::new(client(&server.ca()));
    let tls = server.tls.clone().unwrap();
    let key = server.directory.path().join("tls/ca-key.pem");
    let good = std::fs::read(&key).unwrap();
    std::fs::write(&key, "nonsense").unwrap();
    assert!(!tls.reload().await);
    let mut stream = connect(&config, server.table(), "localhost").await.unwrap();
    assert!(exchange(&mut stream, HEALTH).await.starts_with("HTTP/1.1 200 "));
    std::fs::write(&key, good).unwrap();
    assert!(tls.reload().await);
    assert!(exchange(&mut stream, HEALTH).await.starts_with("HTTP/1.1 200 "), "open connections stay");
    server.stop().await;
}
