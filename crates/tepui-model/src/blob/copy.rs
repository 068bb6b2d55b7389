//! Copies of whole blobs, and where the bytes of copies come from.

use super::checksum::Checksums;
use super::condition::{Conditions, Preconditions};
use super::name::{BlobPath, Revision};
use super::operation::{Call, NewBlob, Operation, UploadOperation};
use super::properties::{Encryption, HttpProperties, ImmutabilityPolicy};
use super::tags::Tags;
use super::tier::{AccessTier, RehydratePriority};
use crate::metadata::Metadata;

/// Where bytes come from that a request does not bring along.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CopySource {
    /// As the caller wrote it, with its signature. Not for the log.
    pub url: String,
    pub place: SourcePlace,
    /// A token for the source. Not for the log.
    pub authorization: Option<String>,
    pub conditions: Conditions,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SourcePlace {
    /// Addressed as this service is.
    Here(SourceBlob),
    /// Has to be fetched.
    Elsewhere,
    /// Is being fetched: its server has begun to answer.
    Fetched(Box<SourceHead>),
}

/// A blob of this service that is copied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceBlob {
    pub account: String,
    pub blob: BlobPath,
    pub revision: Revision,
}

/// What the server of a source says before the bytes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SourceHead {
    pub http: HttpProperties,
    pub metadata: Metadata,
    /// `None`: it does not say.
    pub bytes: Option<u64>,
}

/// Whose tags a copy has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CopyTags {
    Source,
    These(Tags),
}

#[derive(Debug, Clone, PartialEq)]
pub struct PutBlobFromUrl {
    pub blob: BlobPath,
    pub source: CopySource,
    pub checksums: Checksums,
    /// Whether properties that are not given are the source's.
    pub copy_properties: bool,
    pub new: NewBlob,
    pub tags: CopyTags,
    pub preconditions: Preconditions,
}

#[derive(Debug, Clone, PartialEq)]
pub struct CopyBlob {
    pub blob: BlobPath,
    pub source: CopySource,
    pub pace: CopyPace,
    /// Empty: that of the source.
    pub metadata: Metadata,
    pub tags: CopyTags,
    pub tier: Option<AccessTier>,
    pub priority: Option<RehydratePriority>,
    /// `None`: as the source is.
    pub seal: Option<bool>,
    pub immutability: Option<ImmutabilityPolicy>,
    pub legal_hold: Option<bool>,
    pub encryption: Encryption,
    pub preconditions: Preconditions,
}

impl CopyBlob {
    /// Whether the copy goes on after the answer: it was asked for that, and the source is on another server.
    pub fn goes_on(&self) -> bool {
        self.pace == CopyPace::Background && !matches!(self.source.place, SourcePlace::Here(_))
    }
}

/// Whether the caller waits for a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CopyPace {
    /// Copy Blob.
    Background,
    /// Copy Blob From URL, with what the caller says of the bytes.
    Waiting(Checksums),
}

/// A copy that shares the content of its source, because nobody has to read its bytes: the source is here, the caller
/// says nothing of them that would have to be compared, and has no key to encrypt them with. Made from a copy by
/// [`Call::from`].
#[derive(Debug, Clone, PartialEq)]
pub struct SharedCopy<C> {
    copy: C,
    source: SourceBlob,
}

impl<C> SharedCopy<C> {
    pub fn copy(&self) -> &C {
        &self.copy
    }

    pub fn source(&self) -> &SourceBlob {
        &self.source
    }
}

/// The blob whose content a copy can share.
fn shared(source: &CopySource, declared: &Checksums, encryption: &Encryption) -> Option<SourceBlob> {
    let unread = *declared == Checksums::default() && encryption.secret.is_none();
    match &source.place {
        SourcePlace::Here(blob) if unread => Some(blob.clone()),
        SourcePlace::Here(_) | SourcePlace::Elsewhere | SourcePlace::Fetched(_) => None,
    }
}

impl From<CopyBlob> for Call {
    fn from(copy: CopyBlob) -> Self {
        let declared = match copy.pace {
            CopyPace::Background => Checksums::default(),
            CopyPace::Waiting(declared) => declared,
        };
        match shared(&copy.source, &declared, &copy.encryption) {
            Some(source) => Operation::CopyBlob(SharedCopy { copy, source }).into(),
            None => UploadOperation::CopyBlob(copy).into(),
        }
    }
}

impl From<PutBlobFromUrl> for Call {
    fn from(copy: PutBlobFromUrl) -> Self {
        match shared(&copy.source, &copy.checksums, &copy.new.encryption) {
            Some(source) => Operation::PutBlobFromUrl(SharedCopy { copy, source }).into(),
            None => UploadOperation::PutBlobFromUrl(copy).into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::blob::{BlobName, ContainerName, CustomerSecret, Md5Sum};

    fn path(name: &str) -> BlobPath {
        let container = ContainerName::parse("pictures").expect("a name");
        BlobPath { container, blob: BlobName::parse(name).expect("a name") }
    }

    fn copy(place: SourcePlace, pace: CopyPace, secret: Option<CustomerSecret>) -> CopyBlob {
        let url = "http://127.0.0.1:10000/account/pictures/a".to_owned();
        CopyBlob {
            blob: path("b"),
            source: CopySource { url, place, authorization: None, conditions: Conditions::default() },
            pace,
            metadata: Metadata::default(),
            tags: CopyTags::Source,
            tier: None,
            priority: None,
            seal: None,
            immutability: None,
            legal_hold: None,
            encryption: Encryption { secret, ..Encryption::default() },
            preconditions: Preconditions::default(),
        }
    }

    #[test]
    fn copies_share_what_nobody_has_to_read() {
        let source = SourceBlob { account: "account".to_owned(), blob: path("a"), revision: Revision::Base };
        let here = || SourcePlace::Here(source.clone());
        let fetched = SourcePlace::Fetched(Box::default());
        let md5 = Checksums { md5: Some(Md5Sum([0; 16])), crc64: None };
        let waiting = CopyPace::Waiting(Checksums::default());
        let secret = Some(CustomerSecret([1; 32]));
        for (case, copy, is_shared, goes_on) in [
            ("here", copy(here(), CopyPace::Background, None), true, false),
            ("here, waiting", copy(here(), waiting, None), true, false),
            ("here, with a checksum", copy(here(), CopyPace::Waiting(md5), None), false, false),
            ("here, with a key", copy(here(), CopyPace::Background, secret), false, false),
            ("elsewhere", copy(SourcePlace::Elsewhere, CopyPace::Background, None), false, true),
            ("elsewhere, waiting", copy(SourcePlace::Elsewhere, waiting, None), false, false),
            ("fetched", copy(fetched, CopyPace::Background, None), false, true),
        ] {
            assert_eq!(copy.goes_on(), goes_on, "{case}");
            match Call::from(copy.clone()) {
                Call::Operation(Operation::CopyBlob(shared)) => {
                    assert!(is_shared, "{case}");
                    assert_eq!((shared.copy(), shared.source()), (&copy, &source), "{case}");
                }
                Call::Upload(UploadOperation::CopyBlob(same)) => {
                    assert!(!is_shared, "{case}");
                    assert_eq!(same, copy, "{case}");
                }
                other => panic!("{case}: {other:?}"),
            }
        }
    }
}
