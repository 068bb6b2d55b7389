//! TLS on every port, beside plain HTTP.
//!
//! | | |
//! | --- | --- |
//! | `certificate.rs` | certificates and keys from PEM and PFX files |
//! | `pfx.rs` | what is in PFX files |
//! | `authority.rs` | `--tls auto`: an authority of this server's own, and certificates that are renewed |
//! | `names.rs` | the names in those certificates |
//! | `x509.rs`, `der.rs` | what certificates say about themselves |
//!
//! The certificate can be replaced while the server runs: each handshake takes the one that is there. Connections that are open
//! are not touched.

mod authority;
mod certificate;
mod der;
mod names;
mod pfx;
mod x509;

use crate::config::{Config, ConfigError, PfxPassword, TlsSetting};
use authority::Authority;
use certificate::Certificate;
use parking_lot::{Mutex, RwLock};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use tepui_model::time::SystemClock;
use tepui_model::{Clock, Timestamp};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::oneshot;
use tokio::time::Instant;
use tokio_rustls::rustls::crypto::CryptoProvider;
use tokio_rustls::rustls::crypto::ring::{Ticketer, default_provider};
use tokio_rustls::rustls::server::{ClientHello, ResolvesServerCert};
use tokio_rustls::rustls::sign::CertifiedKey;
use tokio_rustls::rustls::{Error, ServerConfig};
use tokio_rustls::{Accept, TlsAcceptor};

/// The first byte of every TLS connection, and of no HTTP request: a record of the handshake.
pub(crate) const FIRST_BYTE: u8 = 0x16;

/// How often the files are looked at.
const WATCH_PERIOD: Duration = Duration::from_secs(2);

/// How long a renewal that has failed is left alone. There are months left.
const RENEWAL_PAUSE: Duration = Duration::from_secs(10 * 60);

/// What is wrong with certificates, for people to read. It never shows a key or a password.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsError(String);

impl fmt::Display for TlsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for TlsError {}

/// TLS of a server: its certificate, and where that comes from.
pub struct Tls {
    acceptor: TlsAcceptor,
    current: Arc<Current>,
    source: Source,
    provider: Arc<CryptoProvider>,
    clock: Arc<dyn Clock>,
    /// The files as they were when they were last read, whether or not they were good.
    seen: Mutex<Vec<Option<Stamp>>>,
}

/// Where the certificate comes from.
#[derive(Debug)]
enum Source {
    Pem { cert: PathBuf, key: PathBuf },
    Pfx { file: PathBuf, password: PfxPassword },
    Auto(Authority),
}

/// What tells one state of a file from another.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Stamp {
    modified: Option<SystemTime>,
    bytes: u64,
    /// Files that are replaced within one tick of the clock of the file system differ in it.
    #[cfg(unix)]
    inode: u64,
    /// Seconds and nanoseconds. Rights and owners change nothing else: a file that could not be read may be readable now.
    #[cfg(unix)]
    changed: (i64, i64),
}

/// The certificate for the next handshake.
struct Current(RwLock<Certificate>);

impl fmt::Debug for Current {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Current")
    }
}

impl ResolvesServerCert for Current {
    /// Whatever name the client asks for: those who use an address ask for none.
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(Arc::clone(&self.0.read().key))
    }
}

impl Tls {
    /// `None` if the configuration wants none.
    pub fn open(config: &Config) -> Result<Option<Arc<Self>>, TlsError> {
        let setting = config.tls_setting().map_err(|ConfigError(message)| TlsError(message))?;
        let source = match setting {
            TlsSetting::Off => return Ok(None),
            TlsSetting::Pem { cert, key } => Source::Pem { cert, key },
            TlsSetting::Pfx { file, password } => Source::Pfx { file, password },
            TlsSetting::Auto { directory } => {
                let machine = names::of_machine();
                Source::Auto(Authority::new(directory, names::names(config, machine.as_deref())))
            }
        };
        Self::new(source, Arc::new(SystemClock::new())).map(Arc::new).map(Some)
    }

    fn new(source: Source, clock: Arc<dyn Clock>) -> Result<Self, TlsError> {
        let provider = Arc::new(default_provider());
        let now = clock.now();
        let certificate = source.read(now, &provider)?;
        certificate.warn_if_expired(now);
        let seen = source.stamps();
        let current = Arc::new(Current(RwLock::new(certificate)));
        let failed = |error: Error| TlsError(format!("TLS cannot be set up: {error}"));
        // TLS 1.2 and 1.3 are all that rustls has.
        let mut config = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(failed)?
            .with_no_client_auth()
            .with_cert_resolver(Arc::<Current>::clone(&current));
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        config.ticketer = Ticketer::new().map_err(failed)?;
        let acceptor = TlsAcceptor::from(Arc::new(config));
        Ok(Self { acceptor, current, source, provider, clock, seen: Mutex::new(seen) })
    }

    /// The handshake with a client.
    pub(crate) fn accept<IO: AsyncRead + AsyncWrite + Unpin>(&self, socket: IO) -> Accept<IO> {
        self.acceptor.accept(socket)
    }

    /// When the certificate ends.
    pub(crate) fn expiry(&self) -> Timestamp {
        self.current.0.read().not_after
    }

    /// The certificate of the authority that clients have to trust, if the server made one.
    pub fn ca_file(&self) -> Option<PathBuf> {
        match &self.source {
            Source::Auto(authority) => Some(authority.ca_file()),
            Source::Pem { .. } | Source::Pfx { .. } => None,
        }
    }

    /// Reads the certificate again, now. If it is no good the old one stays, and the log says why. Returns whether it was.
    pub async fn reload(self: &Arc<Self>) -> bool {
        let tls = Arc::clone(self);
        let (done, outcome) = oneshot::channel();
        // Reads files, and derives keys from passwords. Files may hang, and a process waits for the threads of its runtime when
        // it ends, but not for one like this.
        let work = move || _ = done.send(tls.read_again());
        let started = std::thread::Builder::new().name("certificate".to_owned()).spawn(work);
        started.is_ok() && outcome.await.unwrap_or(false)
    }

    /// Follows the files, and renews what this server has made itself. Never ends.
    pub(crate) async fn watch(self: Arc<Self>) {
        let mut before = self.seen.lock().clone();
        let mut next_renewal = Instant::now();
        loop {
            tokio::time::sleep(WATCH_PERIOD).await;
            let stamps = self.source.stamps();
            // Two files are not replaced at once: they must have been left alone for a while.
            let has_settled = stamps == before;
            let has_changed = has_settled && stamps != *self.seen.lock();
            before = stamps;
            let is_due = self.is_renewal_due() && Instant::now() >= next_renewal;
            if (has_changed || is_due) && !self.reload().await {
                next_renewal = Instant::now() + RENEWAL_PAUSE;
            }
        }
    }

    /// Whether the certificate is one that this server renews, and it is time.
    fn is_renewal_due(&self) -> bool {
        let Source::Auto(_) = &self.source else { return false };
        let current = self.current.0.read();
        authority::is_late(current.not_before, current.not_after, self.clock.now())
    }

    fn read_again(&self) -> bool {
        // Before they are read: what changes meanwhile is read again.
        let stamps = self.source.stamps();
        let now = self.clock.now();
        match self.source.read(now, &self.provider) {
            Ok(certificate) => {
                certificate.warn_if_expired(now);
                let not_after = certificate.not_after.to_iso_7();
                *self.current.0.write() = certificate;
                // What was made just now is not to be read again.
                let is_own = matches!(self.source, Source::Auto(_));
                *self.seen.lock() = if is_own { self.source.stamps() } else { stamps };
                tracing::info!(not_after, "the certificate was read again");
                true
            }
            Err(error) => {
                *self.seen.lock() = stamps;
                tracing::error!(%error, "the certificate cannot be read again: the one before stays");
                false
            }
        }
    }
}

impl Certificate {
    fn warn_if_expired(&self, now: Timestamp) {
        if self.not_after <= now {
            tracing::warn!(not_after = self.not_after.to_iso_7(), "the certificate has expired");
        } else if self.not_before > now {
            tracing::warn!(not_before = self.not_before.to_iso_7(), "the certificate is not good yet");
        }
    }
}

impl Source {
    fn read(&self, now: Timestamp, provider: &Arc<CryptoProvider>) -> Result<Certificate, TlsError> {
        match self {
            Self::Pem { cert, key } => Certificate::from_pem(cert, key, provider),
            Self::Pfx { file, password } => Certificate::from_pfx(file, password, provider),
            Self::Auto(authority) => authority.certificate(now, provider),
        }
    }

    /// The files as they are now. `None`: one that cannot be found.
    fn stamps(&self) -> Vec<Option<Stamp>> {
        let files = match self {
            Self::Pem { cert, key } => vec![cert.clone(), key.clone()],
            Self::Pfx { file, .. } => vec![file.clone()],
            Self::Auto(authority) => authority.files(),
        };
        files.iter().map(|file| Stamp::of(file)).collect()
    }
}

impl Stamp {
    fn of(file: &Path) -> Option<Self> {
        #[cfg(unix)]
        use std::os::unix::fs::MetadataExt as _;
        let metadata = std::fs::metadata(file).ok()?;
        Some(Self {
            modified: metadata.modified().ok(),
            bytes: metadata.len(),
            #[cfg(unix)]
            inode: metadata.ino(),
            #[cfg(unix)]
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        })
    }
}

#[cfg(test)]
mod tests;
