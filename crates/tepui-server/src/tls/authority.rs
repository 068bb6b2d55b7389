//! `--tls auto`: a certificate authority of this server alone, and the certificate that it signs for the server.
//!
//! | In the directory | |
//! | --- | --- |
//! | `ca.pem` | for clients to trust; made once |
//! | `ca-key.pem` | its key |
//! | `server.pem`, `server-key.pem` | the certificate of the server and its key; made anew when a third of its life is left, or when the names have changed |
//! | `lock` | held while the others are written |
//!
//! The directory is for everybody to find `ca.pem` in. The lock and keys are readable for their owner only, and every file is replaced whole.

use super::TlsError;
use super::certificate::{Certificate, chain_from_pem, key_from_pem};
use super::x509::{Facts, Name};
use crate::new_file::{Readers, create_new};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer,
    KeyPair, KeyUsagePurpose, PublicKeyData as _, SanType,
};
use std::collections::BTreeSet;
use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tepui_model::Timestamp;
use tokio_rustls::rustls::RootCertStore;
use tokio_rustls::rustls::client::WebPkiServerVerifier;
use tokio_rustls::rustls::client::danger::ServerCertVerifier as _;
use tokio_rustls::rustls::crypto::CryptoProvider;
use tokio_rustls::rustls::pki_types::{
    CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, ServerName, UnixTime,
};

const DAY: Duration = Duration::from_secs(24 * 60 * 60);
const AUTHORITY_LIFE: Duration = Duration::from_secs(3650 * DAY.as_secs());
/// Some clients take no certificate that is good for longer.
const SERVER_LIFE: Duration = Duration::from_secs(397 * DAY.as_secs());
/// Clocks differ.
const BACKDATED: Duration = Duration::from_secs(60 * 60);

/// Where the files are, and what the server is called.
#[derive(Debug)]
pub(super) struct Authority {
    directory: PathBuf,
    names: BTreeSet<Name>,
}

/// The authority as it is in its files.
struct Signer {
    certificate: CertificateDer<'static>,
    not_after: Timestamp,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    pub(super) fn new(directory: PathBuf, names: BTreeSet<Name>) -> Self {
        Self { directory, names }
    }

    /// The certificate of the authority, for those who are to trust it.
    pub(super) fn ca_file(&self) -> PathBuf {
        self.directory.join("ca.pem")
    }

    /// The files that another process or a person may have changed.
    pub(super) fn files(&self) -> Vec<PathBuf> {
        vec![self.ca_file(), self.cert_file(), self.key_file()]
    }

    fn ca_key_file(&self) -> PathBuf {
        self.directory.join("ca-key.pem")
    }

    fn cert_file(&self) -> PathBuf {
        self.directory.join("server.pem")
    }

    fn key_file(&self) -> PathBuf {
        self.directory.join("server-key.pem")
    }

    /// The certificate of the server, which is made if there is none that will do.
    pub(super) fn certificate(
        &self,
        now: Timestamp,
        provider: &Arc<CryptoProvider>,
    ) -> Result<Certificate, TlsError> {
        self.make_directory().map_err(|error| cannot_write(&self.directory, &error))?;
        // Servers on shared storage may share the directory, too.
        let lock = self.directory.join("lock");
        let locked = open_lock(&lock).and_then(|file| file.lock().map(|()| file));
        let _locked = locked.map_err(|error| cannot_write(&lock, &error))?;
        let signer = self.signer(now)?;
        if let Some(certificate) = self.current(&signer, now, provider) {
            return Ok(certificate);
        }
        self.make_certificate(&signer, now, provider)
    }

    /// Makes the directory, if it is not there: everybody may look for `ca.pem` in it, whatever the umask, and nobody else may
    /// replace that.
    fn make_directory(&self) -> io::Result<()> {
        let mut builder = fs::DirBuilder::new();
        builder.recursive(true);
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o755);
        builder.create(&self.directory)
    }

    /// The authority of the files, or a new one.
    fn signer(&self, now: Timestamp) -> Result<Signer, TlsError> {
        let (cert, key) = (self.ca_file(), self.ca_key_file());
        match (cert.exists(), key.exists()) {
            (true, true) => {}
            (false, false) => return self.make_authority(now),
            (true, false) | (false, true) => {
                let (there, gone) = if key.exists() { (&key, &cert) } else { (&cert, &key) };
                return Err(TlsError(format!(
                    "half of the certificate authority is gone: {} is there, but not {}; without both, a new one is made, \
                     which clients have to trust anew",
                    there.display(),
                    gone.display()
                )));
            }
        }
        let certificate = chain_from_pem(&cert)?.swap_remove(0);
        let PrivateKeyDer::Pkcs8(secret) = key_from_pem(&key)? else {
            return Err(unusable(&key, "it is not in PKCS#8"));
        };
        let pair = KeyPair::try_from(&secret).map_err(|error| unusable(&key, error))?;
        let facts = Facts::read(&certificate).ok_or_else(|| unusable(&cert, "it is no certificate"))?;
        let not_after = facts.not_after;
        if not_after <= now {
            tracing::warn!(file = %cert.display(), "the certificate authority has expired: a new one is made");
            return self.make_authority(now);
        }
        let issuer = Issuer::new(authority_params(&pair), pair);
        Ok(Signer { certificate, not_after, issuer })
    }

    fn make_authority(&self, now: Timestamp) -> Result<Signer, TlsError> {
        let pair = KeyPair::generate().map_err(cannot_make)?;
        let mut params = authority_params(&pair);
        let not_after = now.saturating_add(AUTHORITY_LIFE);
        set_life(&mut params, now.saturating_sub(BACKDATED), not_after);
        let certificate = params.self_signed(&pair).map_err(cannot_make)?;
        // The key first: a certificate without one is of no use.
        write(&self.ca_key_file(), "PRIVATE KEY", pair.serialized_der(), Readers::Owner)?;
        write(&self.ca_file(), "CERTIFICATE", certificate.der(), Readers::Everybody)?;
        tracing::info!(file = %self.ca_file().display(), "a certificate authority was made, for clients to trust");
        Ok(Signer { certificate: certificate.der().clone(), not_after, issuer: Issuer::new(params, pair) })
    }

    /// The certificate of the files, if it is good for a while and for all names.
    fn current(
        &self,
        signer: &Signer,
        now: Timestamp,
        provider: &Arc<CryptoProvider>,
    ) -> Option<Certificate> {
        let chain = chain_from_pem(&self.cert_file()).ok()?;
        let key = key_from_pem(&self.key_file()).ok()?;
        let leaf = chain.first()?.clone();
        let facts = Facts::read(&leaf)?;
        if facts.names != self.names || renewal_due(&facts, now) {
            return None;
        }
        let mut roots = RootCertStore::empty();
        roots.add(signer.certificate.clone()).ok()?;
        let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::clone(provider))
            .build()
            .ok()?;
        let name = ServerName::try_from("localhost").ok()?;
        let at = UnixTime::since_unix_epoch(Duration::from_secs(now.unix_seconds()));
        verifier.verify_server_cert(&leaf, &[], &name, &[], at).ok()?;
        Certificate::new(chain, key, provider).ok()
    }

    fn make_certificate(
        &self,
        signer: &Signer,
        now: Timestamp,
        provider: &CryptoProvider,
    ) -> Result<Certificate, TlsError> {
        let pair = KeyPair::generate().map_err(cannot_make)?;
        let mut params = CertificateParams::default();
        params.distinguished_name = named("Tepui");
        for name in &self.names {
            params.subject_alt_names.push(match name {
                Name::Dns(name) => SanType::DnsName(name.as_str().try_into().map_err(cannot_make)?),
                Name::Ip(address) => SanType::IpAddress(*address),
            });
        }
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        params.use_authority_key_identifier_extension = true;
        let not_before = now.saturating_sub(BACKDATED);
        set_life(&mut params, not_before, not_before.saturating_add(SERVER_LIFE).min(signer.not_after));
        let certificate = params.signed_by(&pair, &signer.issuer).map_err(cannot_make)?;
        write(&self.key_file(), "PRIVATE KEY", pair.serialized_der(), Readers::Owner)?;
        write(&self.cert_file(), "CERTIFICATE", certificate.der(), Readers::Everybody)?;
        tracing::info!(file = %self.cert_file().display(), "a certificate was made for this server");
        let key = PrivatePkcs8KeyDer::from(pair.serialized_der().to_vec()).into();
        Certificate::new(vec![certificate.into()], key, provider).map_err(cannot_make)
    }
}

/// Whether less than a third of the life of a certificate is left.
fn renewal_due(facts: &Facts<'_>, now: Timestamp) -> bool {
    now < facts.not_before || is_late(facts.not_before, facts.not_after, now)
}

/// Whether less than a third of the time between two is left.
pub(super) fn is_late(from: Timestamp, to: Timestamp, now: Timestamp) -> bool {
    to.since(now) < to.since(from) / 3
}

/// All that is said about the authority when it signs. Its name follows from its key, so that two are never taken for each other.
fn authority_params(pair: &KeyPair) -> CertificateParams {
    let digest = ring::digest::digest(&ring::digest::SHA256, pair.der_bytes());
    let number: String = digest.as_ref()[..4].iter().map(|byte| format!("{byte:02x}")).collect();
    let mut params = CertificateParams::default();
    params.distinguished_name = named(&format!("Tepui local CA {number}"));
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    params
}

fn set_life(params: &mut CertificateParams, from: Timestamp, to: Timestamp) {
    let epoch = rcgen::date_time_ymd(1970, 1, 1);
    params.not_before = epoch + Duration::from_secs(from.unix_seconds());
    params.not_after = epoch + Duration::from_secs(to.unix_seconds());
}

fn named(name: &str) -> DistinguishedName {
    let mut names = DistinguishedName::new();
    names.push(DnType::CommonName, name);
    names
}

fn cannot_make(error: impl fmt::Display) -> TlsError {
    TlsError(format!("cannot make a certificate: {error}"))
}

fn cannot_write(path: &Path, error: &io::Error) -> TlsError {
    TlsError(format!("cannot keep certificates here ({error}): {}", path.display()))
}

fn unusable(path: &Path, why: impl fmt::Display) -> TlsError {
    TlsError(format!("the certificate authority cannot be used ({why}): {}", path.display()))
}

/// Opens the file that is locked while others are written. It is its owner's only: whoever can open it can lock it for good.
fn open_lock(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(false);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let file = options.open(path)?;
    #[cfg(unix)]
    {
        // Earlier versions left one that all can open. Where rights cannot be changed, they mean nothing.
        let _ = file.set_permissions(std::os::unix::fs::PermissionsExt::from_mode(0o600));
    }
    Ok(file)
}

fn write(path: &Path, label: &str, der: &[u8], readers: Readers) -> Result<(), TlsError> {
    let mut text = format!("-----BEGIN {label}-----\n");
    let encoded = STANDARD.encode(der);
    for line in encoded.as_bytes().chunks(64) {
        text.push_str(&String::from_utf8_lossy(line));
        text.push('\n');
    }
    text.push_str(&format!("-----END {label}-----\n"));
    write_whole(path, text.as_bytes(), readers).map_err(|error| cannot_write(path, &error))
}

/// Replaces a file, so that no reader sees half of it, and nobody else sees a key, at any time.
fn write_whole(path: &Path, bytes: &[u8], readers: Readers) -> io::Result<()> {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".new");
    let new = path.with_file_name(name);
    let mut file = create_new(&new, readers)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    fs::rename(&new, path)
}
