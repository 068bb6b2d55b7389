//! Servers with TLS, clients of them, and certificates made for a test.

use rcgen::{CertificateParams, KeyPair};
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;
use tepui_server::config::{ServiceName, TlsMode};
use tepui_server::{Config, Server, Tls};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::crypto::ring::default_provider;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::version::{TLS12, TLS13};
use tokio_rustls::rustls::{ClientConfig, RootCertStore, SupportedProtocolVersion};

/// Nothing in these tests takes this long unless it hangs.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// A server in memory, on free ports.
pub(crate) struct Running {
    pub(crate) tls: Option<Arc<Tls>>,
    addresses: Vec<(ServiceName, SocketAddr)>,
    pub(crate) admin: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    task: tokio::task::JoinHandle<()>,
    pub(crate) directory: TempDir,
}

/// The settings of a test: a server in memory that has made its certificate in a directory.
pub(crate) fn config(directory: &Path) -> Config {
    Config {
        in_memory: true,
        blob_port: 0,
        queue_port: 0,
        table_port: 0,
        admin_port: Some(0),
        admin_token: "0123456789abcdef".parse().ok(),
        tls: TlsMode::Auto,
        tls_dir: Some(directory.join("tls")),
        ..Config::default()
    }
}

pub(crate) async fn start(change: impl FnOnce(&mut Config, &Path)) -> Running {
    let directory = tempfile::tempdir().unwrap();
    let mut config = config(directory.path());
    change(&mut config, directory.path());
    let server = Server::start(config).await.unwrap();
    let (stop, stopped) = oneshot::channel();
    Running {
        tls: server.tls().cloned(),
        addresses: server.addresses(),
        admin: server.admin_address().unwrap(),
        stop: Some(stop),
        task: tokio::spawn(server.run(async {
            let _ = stopped.await;
        })),
        directory,
    }
}

impl Running {
    pub(crate) fn table(&self) -> SocketAddr {
        self.ports()[2]
    }

    /// Those of the services.
    pub(crate) fn ports(&self) -> Vec<SocketAddr> {
        self.addresses.iter().map(|(_, address)| *address).collect()
    }

    pub(crate) fn ca(&self) -> PathBuf {
        self.tls.as_ref().unwrap().ca_file().unwrap()
    }

    pub(crate) async fn stop(mut self) {
        let _ = self.stop.take().unwrap().send(());
        tokio::time::timeout(PATIENCE, self.task).await.unwrap().unwrap();
    }

    /// The metrics, by TLS or plain.
    pub(crate) async fn metrics(&self) -> String {
        let mut stream = TcpStream::connect(self.admin).await.unwrap();
        exchange(&mut stream, "GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").await
    }
}

pub(crate) const BOTH: [&SupportedProtocolVersion; 2] = [&TLS13, &TLS12];

/// A client that trusts the authority of a file.
pub(crate) fn client(ca: &Path) -> ClientConfig {
    client_of(ca, &BOTH)
}

pub(crate) fn client_of(ca: &Path, versions: &[&'static SupportedProtocolVersion]) -> ClientConfig {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(ca).unwrap()).unwrap();
    ClientConfig::builder_with_provider(Arc::new(default_provider()))
        .with_protocol_versions(versions)
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth()
}

pub(crate) async fn connect(
    config: &Arc<ClientConfig>,
    address: SocketAddr,
    name: &str,
) -> std::io::Result<TlsStream<TcpStream>> {
    let stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    let name = ServerName::try_from(name.to_owned()).unwrap();
    TlsConnector::from(Arc::clone(config)).connect(name, stream).await
}

/// Sends a request and returns the reply, whose head says how long it is.
pub(crate) async fn exchange(
    stream: &mut (impl AsyncRead + AsyncWrite + Unpin),
    request: impl AsRef<[u8]>,
) -> String {
    let reply = async {
        stream.write_all(request.as_ref()).await?;
        let mut read = Vec::new();
        loop {
            let text = String::from_utf8_lossy(&read);
            if let Some(head) = text.find("\r\n\r\n") {
                let length = text[..head].to_ascii_lowercase().lines().find_map(|line| {
                    line.strip_prefix("content-length: ")
                        .map(|length| length.trim().parse::<usize>().unwrap())
                });
                if read.len() >= head + 4 + length.unwrap_or(0) {
                    return Ok(text.into_owned());
                }
            }
            if stream.read_buf(&mut read).await? == 0 {
                return Err(std::io::ErrorKind::UnexpectedEof.into());
            }
        }
    };
    let reply: std::io::Result<String> = tokio::time::timeout(PATIENCE, reply).await.expect("no reply");
    reply.unwrap_or_else(|error| format!("failed: {error}"))
}

pub(crate) const HEALTH: &str = "GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n";
/// Refused, as it has no credentials; but by the service.
pub(crate) const TABLES: &str =
    "GET /devstoreaccount1/Tables HTTP/1.1\r\nHost: localhost\r\nx-ms-version: 2019-02-02\r\n\r\n";

/// A certificate that signed itself, with its key in PKCS#8, as `NAME.pem` and `NAME-key.pem`.
pub(crate) struct SelfSigned {
    pub(crate) cert: PathBuf,
    pub(crate) key: PathBuf,
}

impl SelfSigned {
    pub(crate) fn make(directory: &Path, name: &str) -> Self {
        let made = Self {
            cert: directory.join(format!("{name}.pem")),
            key: directory.join(format!("{name}-key.pem")),
        };
        made.replace();
        made
    }

    /// Another certificate in the same files. Returns it.
    pub(crate) fn replace(&self) -> CertificateDer<'static> {
        let key = KeyPair::generate().unwrap();
        let names = vec!["localhost".to_owned(), "127.0.0.1".to_owned()];
        let certificate = CertificateParams::new(names).unwrap().self_signed(&key).unwrap();
        fs::write(&self.cert, pem("CERTIFICATE", certificate.der())).unwrap();
        fs::write(&self.key, pem("PRIVATE KEY", key.serialized_der())).unwrap();
        certificate.into()
    }
}

fn pem(label: &str, der: &[u8]) -> String {
    use base64::Engine as _;
    let text = base64::engine::general_purpose::STANDARD.encode(der);
    let lines: Vec<&str> =
        text.as_bytes().chunks(64).map(|line| std::str::from_utf8(line).unwrap()).collect();
    format!("-----BEGIN {label}-----\n{}\n-----END {label}-----\n", lines.join("\n"))
}

/// Runs openssl, which makes what rcgen does not.
pub(crate) fn openssl(directory: &Path, arguments: &str) {
    let output = Command::new("openssl")
        .args(arguments.split_whitespace())
        .current_dir(directory)
        .output()
        .unwrap_or_else(|error| panic!("this test needs the program openssl: {error}"));
    assert!(output.status.success(), "{arguments}: {}", String::from_utf8_lossy(&output.stderr));
}
