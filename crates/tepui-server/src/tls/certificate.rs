//! Certificates with their keys, as they are read from files.

use super::TlsError;
use super::pfx::Pfx;
use super::x509::Facts;
use crate::config::PfxPassword;
use std::path::Path;
use std::sync::Arc;
use tepui_model::Timestamp;
use tokio_rustls::rustls::crypto::CryptoProvider;
use tokio_rustls::rustls::pki_types::pem::{Error as PemError, PemObject as _};
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::sign::CertifiedKey;
use tokio_rustls::rustls::{Error, InconsistentKeys};

/// A certificate that belongs to its key.
#[derive(Debug, Clone)]
pub(super) struct Certificate {
    pub(super) key: Arc<CertifiedKey>,
    pub(super) not_before: Timestamp,
    pub(super) not_after: Timestamp,
}

impl Certificate {
    pub(super) fn new(
        chain: Vec<CertificateDer<'static>>,
        key: PrivateKeyDer<'static>,
        provider: &CryptoProvider,
    ) -> Result<Self, String> {
        let facts = chain.first().and_then(|leaf| Facts::read(leaf));
        let (not_before, not_after) =
            facts.map(|facts| (facts.not_before, facts.not_after)).ok_or("it is no certificate")?;
        let key = CertifiedKey::from_der(chain, key, provider).map_err(|error| match error {
            Error::InconsistentKeys(InconsistentKeys::KeyMismatch) => {
                "the key is not that of the certificate".to_owned()
            }
            other => other.to_string(),
        })?;
        Ok(Self { key: Arc::new(key), not_before, not_after })
    }

    /// A chain and a key in PEM.
    pub(super) fn from_pem(cert: &Path, key: &Path, provider: &CryptoProvider) -> Result<Self, TlsError> {
        let chain = chain_from_pem(cert)?;
        let secret = key_from_pem(key)?;
        Self::new(chain, secret, provider).map_err(|error| {
            TlsError(format!(
                "the certificate cannot be used ({error}): {}, {}",
                cert.display(),
                key.display()
            ))
        })
    }

    /// A PFX file with one key.
    pub(super) fn from_pfx(
        file: &Path,
        password: &PfxPassword,
        provider: &CryptoProvider,
    ) -> Result<Self, TlsError> {
        let failed = |why: &dyn std::fmt::Display| {
            TlsError(format!("cannot read the certificate ({why}): {}", file.display()))
        };
        let bytes = std::fs::read(file).map_err(|error| failed(&error))?;
        if bytes.starts_with(b"-----BEGIN") {
            return Err(failed(&"it is PEM, which has no password: give its key instead, --key FILE"));
        }
        let Pfx { mut keys, certificates } =
            Pfx::open(&bytes, password.reveal()).map_err(|error| failed(&error))?;
        let key = match keys.len() {
            1 => keys.remove(0),
            0 => return Err(failed(&"there is no key in it")),
            _ => return Err(failed(&"there are several keys in it")),
        };
        if certificates.is_empty() {
            return Err(failed(&"there is no certificate in it"));
        }
        let mut last = String::new();
        for leaf in &certificates {
            let chain = chain_of(leaf, &certificates);
            match Self::new(chain, key.clone_key(), provider) {
                Ok(certificate) => return Ok(certificate),
                Err(error) => last = error,
            }
        }
        Err(failed(&last))
    }
}

/// A certificate and those that it was signed by, as far as they are there. The last one, which signed itself, is for clients to
/// have.
fn chain_of(leaf: &CertificateDer<'static>, all: &[CertificateDer<'static>]) -> Vec<CertificateDer<'static>> {
    let mut chain = vec![leaf.clone()];
    while let Some(last) = chain.last().and_then(|last| Facts::read(last)) {
        let issuer = all.iter().find(|other| {
            Facts::read(other)
                .is_some_and(|other| other.subject == last.issuer && other.issuer != other.subject)
        });
        match issuer {
            Some(issuer) if !chain.contains(issuer) => chain.push(issuer.clone()),
            _ => break,
        }
    }
    chain
}

pub(super) fn chain_from_pem(file: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let failed = |why: &dyn std::fmt::Display| {
        TlsError(format!("cannot read the certificate ({why}): {}", file.display()))
    };
    let bytes = std::fs::read(file).map_err(|error| failed(&error))?;
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&bytes).collect();
    match chain {
        Ok(chain) if chain.is_empty() && bytes.first() == Some(&0x30) => {
            Err(failed(&"it is not PEM; a PFX file needs its password, --pwd PASSWORD"))
        }
        Ok(chain) if chain.is_empty() => Err(failed(&"there is no certificate in PEM in it")),
        Ok(chain) => Ok(chain),
        Err(_) => Err(failed(&"it is no proper PEM")),
    }
}

/// The first key of a file. What is wrong with it is said without any of its bytes.
pub(super) fn key_from_pem(file: &Path) -> Result<PrivateKeyDer<'static>, TlsError> {
    let failed =
        |why: &dyn std::fmt::Display| TlsError(format!("cannot read the key ({why}): {}", file.display()));
    let bytes = std::fs::read(file).map_err(|error| failed(&error))?;
    PrivateKeyDer::from_pem_slice(&bytes).map_err(|error| match error {
        PemError::NoItemsFound if is_encrypted(&bytes) => failed(
            &"it is encrypted; `openssl pkey -in FILE -out FILE` decrypts it, and `openssl pkcs12 -export` makes a PFX file",
        ),
        PemError::NoItemsFound => failed(&"there is no key in PEM in it"),
        _ => failed(&"it is no proper PEM"),
    })
}

fn is_encrypted(pem: &[u8]) -> bool {
    let text = String::from_utf8_lossy(pem);
    text.contains("BEGIN ENCRYPTED PRIVATE KEY") || text.contains("Proc-Type: 4,ENCRYPTED")
}
