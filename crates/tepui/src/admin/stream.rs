//! The connection to an admin port, plain or with TLS.

use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio_rustls::rustls::crypto::ring::default_provider;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

pub(super) enum Stream {
    Plain(TcpStream),
    Encrypted(Box<StreamOwned<ClientConnection, TcpStream>>),
}

impl Stream {
    /// `host`: as whom the server has to show itself.
    pub(super) fn encrypted(socket: TcpStream, host: &str, trust: &Arc<ClientConfig>) -> io::Result<Self> {
        let address = socket.peer_addr()?;
        let connection = ClientConnection::new(Arc::clone(trust), server_name(host, address)?);
        let connection = connection.map_err(io::Error::other)?;
        Ok(Self::Encrypted(Box::new(StreamOwned::new(connection, socket))))
    }

    pub(super) fn socket(&self) -> &TcpStream {
        match self {
            Self::Plain(socket) => socket,
            Self::Encrypted(stream) => stream.get_ref(),
        }
    }
}

/// Nobody is called "all addresses": then it is the one that was connected to.
fn server_name(host: &str, address: SocketAddr) -> io::Result<ServerName<'static>> {
    match host.parse::<IpAddr>() {
        Ok(ip) if ip.is_unspecified() => Ok(address.ip().into()),
        _ => ServerName::try_from(host.to_owned()).map_err(io::Error::other),
    }
}

impl Read for Stream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Plain(stream) => stream.read(buffer),
            Self::Encrypted(stream) => stream.read(buffer),
        }
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Plain(stream) => stream.write(bytes),
            Self::Encrypted(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Plain(stream) => stream.flush(),
            Self::Encrypted(stream) => stream.flush(),
        }
    }
}

/// Where systems keep the authorities that they trust: Debian, Red Hat, SUSE, Alpine and macOS.
const SYSTEM_FILES: &[&str] = &[
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
];

/// Whom to trust: the authorities of a file, or those of the system. The error is for people.
pub(super) fn trust(ca_file: Option<&Path>) -> Result<Arc<ClientConfig>, String> {
    let file = match ca_file {
        Some(file) => file.to_owned(),
        None => system_file()
            .ok_or("no certificate authorities are known here: name their file with --ca-file")?,
    };
    let unreadable = |why: &dyn std::fmt::Display| {
        format!("cannot read certificate authorities ({why}): {}", file.display())
    };
    let bytes = std::fs::read(&file).map_err(|error| unreadable(&error))?;
    let certificates: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&bytes).collect();
    let mut roots = RootCertStore::empty();
    let (added, _) =
        roots.add_parsable_certificates(certificates.map_err(|_| unreadable(&"it is no proper PEM"))?);
    if added == 0 {
        return Err(unreadable(&"there is no certificate in PEM in it"));
    }
    let config = ClientConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?;
    Ok(Arc::new(config.with_root_certificates(roots).with_no_client_auth()))
}

fn system_file() -> Option<PathBuf> {
    let named = std::env::var_os("SSL_CERT_FILE").filter(|file| !file.is_empty()).map(PathBuf::from);
    named.or_else(|| SYSTEM_FILES.iter().map(PathBuf::from).find(|file| file.exists()))
}
