use super::*;
use proptest::prelude::*;
use tepui_model::blob::Encryption;

const LEASE: LeaseId = LeaseId(0x0123_4567_89AB_CDEF_0123_4567_89AB_CDEF);
const EXTENT: Extent = Extent { store: StoreId(7), volume: 1, offset: 2, bytes: 3 };

fn at(text: &str) -> Timestamp {
    Timestamp::parse_iso(text).unwrap()
}

fn pairs(name: &str) -> Vec<(String, String)> {
    vec![(name.to_owned(), "core".to_owned()), ("empty".to_owned(), String::new())]
}

/// A blob with everything that a blob can have.
fn full() -> StoredBlob {
    let timestamp = at("2026-03-10T08:15:30.1234567Z");
    StoredBlob {
        stamp: timestamp,
        state: state(timestamp),
        tier: Some(StoredTier {
            tier: AccessTier::Archive,
            changed: timestamp,
            rehydrating: Some((AccessTier::Cool, RehydratePriority::High, timestamp)),
        }),
        lease: Lease::Leased { id: LEASE, duration: LeaseDuration::Infinite, until: Timestamp::MAX },
        version: Some(timestamp),
        last_snapshot: Some(timestamp),
        deleted: Some(SoftDelete { at: timestamp, until: Timestamp::MAX }),
        content: Content::Inline(Bytes::from_static(b"Hello")),
    }
}

fn state(timestamp: Timestamp) -> BlobState {
    BlobState {
        changed: at("2026-03-10"),
        created: at("2026-03-09"),
        bytes: 5,
        of_type: OfType::Append { committed_blocks: 7, sealed: true },
        http: HttpProperties {
            content_type: Some("text/plain".to_owned()),
            content_md5: Some(ContentMd5::from_bytes(&[9; 16])),
            ..HttpProperties::default()
        },
        metadata: Metadata::new(pairs("Team")).unwrap(),
        tags: Tags::new(pairs("env")).unwrap(),
        copy: Some(Box::new(CopyState {
            id: "id".to_owned(),
            source: "http://source".to_owned(),
            status: CopyStatus::Success,
            progress: (5, 5),
            completed: Some(timestamp),
            description: None,
            incremental: Some(IncrementalCopy { destination_snapshot: Some(timestamp) }),
        })),
        encryption: Encryption {
            key: Some(CustomerKey { sha256: [8; 32] }),
            secret: None,
            scope: Some("scope".to_owned()),
        },
        immutability: Some(ImmutabilityPolicy { until: timestamp, mode: ImmutabilityMode::Locked }),
        legal_hold: Some(true),
    }
}

#[test]
fn blobs_are_read_back() {
    let fixed = Lease::Leased {
        id: LEASE,
        duration: LeaseDuration::Fixed(Duration::from_secs(15)),
        until: at("2026-03-10"),
    };
    for blob in [
        full(),
        StoredBlob { content: Content::Inline(Bytes::new()), lease: fixed, ..full() },
        StoredBlob { content: Content::Extent(EXTENT), lease: Lease::Available, ..full() },
        StoredBlob {
            content: Content::Listed(ContentId(u128::MAX)),
            lease: Lease::Breaking { id: LEASE, until: at("2026-03-10") },
            state: BlobState {
                of_type: OfType::Page { sequence_number: 4 },
                copy: None,
                encryption: Encryption::default(),
                ..full().state
            },
            tier: None,
            ..full()
        },
    ] {
        assert_eq!(StoredBlob::decode(&blob.encode()), Ok(blob));
    }
}

#[test]
fn containers_are_read_back() {
    let container = StoredContainer {
        incarnation: Incarnation(42),
        stamp: at("2026-03-10"),
        changed: at("2026-03-09"),
        metadata: Metadata::new(pairs("Team")).unwrap(),
        public_access: Some(PublicAccess::Container),
        acl: vec![SignedIdentifier { id: "reader".to_owned(), policy: None }],
        lease: Lease::Available,
        encryption: ContainerEncryption::default(),
        deleted: None,
        protection: Protection::BeingChecked,
    };
    let encoded = container.encode();
    // As it was written before protection was kept.
    let earlier = StoredContainer { protection: Protection::Possible, ..container.clone() };
    assert_eq!(StoredContainer::decode(&encoded[..encoded.len() - 8]), Ok(earlier));
    assert_eq!(StoredContainer::decode(&encoded), Ok(container));
}

#[test]
fn what_blobs_are_made_of_is_read_back() {
    let key = Some(CustomerKey { sha256: [8; 32] });
    for (key, content) in [
        (None, BlockContent::Extent(EXTENT)),
        (None, BlockContent::Zeros(7)),
        (key, BlockContent::Extent(EXTENT)),
        (key, BlockContent::Zeros(7)),
        (key, BlockContent::Encrypted(EXTENT)),
    ] {
        let block = StoredBlock { put: at("2026-03-10"), content, key };
        assert_eq!(StoredBlock::decode(&block.encode()), Ok(block));
    }
    let extent = StoredExtent { bytes: 3, references: 4 };
    assert_eq!(StoredExtent::decode(&extent.encode()), Ok(extent));
    let head = ContentHead { references: 1, end: 2, parent: Some((ContentId(3), 4)) };
    assert_eq!(ContentHead::decode(&head.encode()), Ok(head));
    let pieces = PieceRow {
        start: 9,
        pieces: vec![
            StoredPiece { id: BlockId::from_bytes(b"one".to_vec()), source: PieceSource::Extent(EXTENT) },
            StoredPiece { id: None, source: PieceSource::Inline(Bytes::from_static(b"bytes")) },
            StoredPiece { id: None, source: PieceSource::Slice(EXTENT, 1..3) },
            StoredPiece { id: None, source: PieceSource::Zeros(512) },
            StoredPiece {
                id: None,
                source: PieceSource::EncryptedInline(Bytes::from_static(b"secret"), 3..4),
            },
            StoredPiece { id: None, source: PieceSource::EncryptedExtent(EXTENT, 1..2) },
        ],
    };
    assert_eq!(PieceRow::decode(&pieces.encode()), Ok(pieces));
}

proptest! {
    #[test]
    fn foreign_records_are_refused_or_read(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = (StoredContainer::decode(&bytes), StoredBlock::decode(&bytes), StoredExtent::decode(&bytes));
        let _ = (ContentHead::decode(&bytes), PieceRow::decode(&bytes));
        let _ = ListedState::default().read_listed(&bytes);
        let _ = StoredBlob::decode(&bytes.into());
    }
}
