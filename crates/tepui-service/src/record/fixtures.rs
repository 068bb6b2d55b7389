//! Literal bytes of every kind of record, as builds have written them. A fixture is never changed: every later build
//! decodes it to the same value. When a kind gets a new version, its fixtures of older versions stay, for decoding only.

use super::*;
use crate::blob::lease::Lease;
use crate::keyspace::ContentId;
use std::fmt::Debug;
use std::time::Duration;
use tepui_model::blob::{
    AccessTier, BlobServiceProperties, BlobState, BlockId, ContainerEncryption, ContentMd5, CopyState,
    CopyStatus, CustomerKey, DeleteRetention, Encryption, HttpProperties, ImmutabilityMode,
    ImmutabilityPolicy, IncrementalCopy, LeaseDuration, LeaseId, OfType, PublicAccess, RehydratePriority,
    StaticWebsite, Tags,
};
use tepui_model::table::{PropertiesBuilder, ValueRef};
use tepui_storage::{Extent, StoreId};

const LEASE: LeaseId = LeaseId(0x0123_4567_89AB_CDEF_0123_4567_89AB_CDEF);
const EXTENT: Extent = Extent { store: StoreId::LOCAL, volume: 1, offset: 4096, bytes: 3 };

/// The value is encoded as the fixture, and the fixture is decoded to the value. Another version is not decoded.
fn check<T: PartialEq + Debug>(
    kind: Kind,
    fixture: &str,
    value: T,
    encode: impl Fn(&T) -> Bytes,
    decode: impl Fn(&Bytes) -> Result<T, ServiceError>,
) {
    assert_eq!(hex(&encode(&value)), fixture.replace(char::is_whitespace, ""), "{kind:?}");
    let mut bytes = unhex(fixture);
    assert_eq!(decode(&bytes.clone().into()), Ok(value), "{kind:?}");
    bytes[0] = kind.version() + 1;
    assert!(decode(&bytes.into()).is_err(), "{kind:?}");
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.bytes().filter(|byte| !byte.is_ascii_whitespace()).collect();
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
    digits.chunks(2).map(byte).collect()
}

fn time() -> Timestamp {
    Timestamp::parse_iso("2026-03-10T08:15:30.1234567Z").unwrap()
}

fn day() -> Timestamp {
    Timestamp::parse_iso("2026-03-09").unwrap()
}

fn metadata() -> Metadata {
    Metadata::new(pairs()).unwrap()
}

fn pairs() -> Vec<(String, String)> {
    vec![("Team".to_owned(), "core".to_owned()), ("empty".to_owned(), String::new())]
}

fn acl() -> Vec<SignedIdentifier> {
    let policy =
        AccessPolicy { start: Some(day()), expiry: Some(time()), permission: Some("raud".to_owned()) };
    vec![
        SignedIdentifier { id: "reader".to_owned(), policy: Some(policy) },
        SignedIdentifier { id: "empty".to_owned(), policy: None },
    ]
}

fn shared_properties() -> ServiceProperties {
    let mut properties = ServiceProperties::default();
    properties.logging.read = true;
    properties.logging.retention_days = Some(7);
    properties.hour_metrics.include_apis = Some(true);
    properties.cors.push(CorsRule {
        allowed_origins: vec!["*".to_owned()],
        allowed_methods: vec!["GET".to_owned(), "PUT".to_owned()],
        max_age_seconds: 500,
        ..CorsRule::default()
    });
    properties
}

#[test]
fn numbers() {
    check(Kind::Number, NUMBER, 9, |number| encode_number(*number), |bytes| decode_number(bytes));
    assert_eq!(index_entry(), unhex("01"));
}

#[test]
fn tables_and_entities() {
    let table =
        StoredTable { incarnation: Incarnation(42), name: "People".to_owned(), created: time(), acl: acl() };
    check(Kind::Table, TABLE, table, StoredTable::encode, |bytes| StoredTable::decode(bytes));
    let mut properties = PropertiesBuilder::new();
    properties.push("Age", ValueRef::Int32(42)).unwrap();
    let entity = StoredEntity { timestamp: time(), properties: properties.finish() };
    let encode = |entity: &StoredEntity| StoredEntity::encode(entity.timestamp, &entity.properties);
    check(Kind::Entity, ENTITY, entity, encode, StoredEntity::decode);
}

#[test]
fn service_properties() {
    let (encode, decode) = (encode_service_properties, |bytes: &Bytes| decode_service_properties(bytes));
    check(Kind::ServiceProperties, SERVICE_PROPERTIES, shared_properties(), encode, decode);
    let properties = BlobServiceProperties {
        shared: shared_properties(),
        default_version: Some("2021-08-06".to_owned()),
        delete_retention: DeleteRetention { days: Some(7), allow_permanent_delete: true },
        static_website: StaticWebsite {
            enabled: true,
            error_document: Some("404.html".to_owned()),
            ..Default::default()
        },
    };
    let (encode, decode) = (encode_blob_settings, |bytes: &Bytes| decode_blob_settings(bytes));
    check(Kind::BlobServiceProperties, BLOB_SERVICE_PROPERTIES, properties, encode, decode);
}

#[test]
fn queues_and_messages() {
    let queue =
        StoredQueue { incarnation: Incarnation(42), created: time(), metadata: metadata(), acl: acl() };
    check(Kind::Queue, QUEUE, queue, StoredQueue::encode, |bytes| StoredQueue::decode(bytes));
    let state = QueueState {
        messages: Incarnation(2),
        count: 3,
        next_sequence: 4,
        head: (5, 6),
        last_visible: 7,
        swept: 8,
        last_expiry: 9,
        stamp: 10,
    };
    check(Kind::QueueState, QUEUE_STATE, state, QueueState::encode, |bytes| QueueState::decode(bytes));
    let message =
        StoredMessage { inserted: time(), expires: Timestamp::MAX, dequeue_count: 7, changes: u32::MAX };
    check(Kind::Message, MESSAGE, message, StoredMessage::encode, |bytes| StoredMessage::decode(bytes));
    let text = Bytes::from_static(b"text");
    check(Kind::MessageText, MESSAGE_TEXT, text, |text| encode_text(text), decode_text);
}

#[test]
fn containers() {
    let container = StoredContainer {
        incarnation: Incarnation(42),
        stamp: time(),
        changed: day(),
        metadata: metadata(),
        public_access: Some(PublicAccess::Container),
        acl: acl(),
        lease: Lease::Breaking { id: LEASE, until: time() },
        encryption: ContainerEncryption::default(),
        deleted: Some(SoftDelete { at: day(), until: time() }),
        protection: Protection::Possible,
    };
    let decode = |bytes: &Bytes| StoredContainer::decode(bytes);
    // Written by builds without protection, which is read as possible.
    let earlier = unhex(CONTAINER);
    assert_eq!(StoredContainer::decode(&earlier[..earlier.len() - 8]), Ok(container.clone()));
    check(Kind::Container, CONTAINER, container, StoredContainer::encode, decode);
}

#[test]
fn blobs() {
    let state = BlobState {
        changed: day(),
        created: day(),
        bytes: 5,
        of_type: OfType::Append { committed_blocks: 7, sealed: true },
        http: HttpProperties {
            content_type: Some("text/plain".to_owned()),
            content_md5: Some(ContentMd5::from_bytes(&[9; 16])),
            ..HttpProperties::default()
        },
        metadata: metadata(),
        tags: Tags::new(pairs()).unwrap(),
        copy: Some(Box::new(CopyState {
            id: "id".to_owned(),
            source: "http://source".to_owned(),
            status: CopyStatus::Success,
            progress: (4, 5),
            completed: Some(time()),
            description: Some("done".to_owned()),
            incremental: Some(IncrementalCopy { destination_snapshot: Some(time()) }),
        })),
        encryption: Encryption {
            key: Some(CustomerKey { sha256: [8; 32] }),
            secret: None,
            scope: Some("scope".to_owned()),
        },
        immutability: Some(ImmutabilityPolicy { until: time(), mode: ImmutabilityMode::Locked }),
        legal_hold: Some(true),
    };
    let fixed = LeaseDuration::Fixed(Duration::from_secs(15));
    let full = StoredBlob {
        stamp: time(),
        state,
        tier: Some(StoredTier {
            tier: AccessTier::Archive,
            changed: day(),
            rehydrating: Some((AccessTier::Cool, RehydratePriority::High, time())),
        }),
        lease: Lease::Leased { id: LEASE, duration: fixed, until: time() },
        version: Some(time()),
        last_snapshot: Some(day()),
        deleted: Some(SoftDelete { at: day(), until: time() }),
        content: Content::Inline(Bytes::from_static(b"Hello")),
    };
    check(Kind::Blob, FULL_BLOB, full, StoredBlob::encode, StoredBlob::decode);
    let plain = BlobState { changed: day(), created: day(), bytes: 3, ..BlobState::default() };
    for (fixture, content) in [
        (BLOB_IN_EXTENT, Content::Extent(EXTENT)),
        (BLOB_OF_PIECES, Content::Listed(ContentId(7))),
        (SMALL_BLOB, Content::Small(ContentId(8))),
    ] {
        let blob = StoredBlob { stamp: time(), state: plain.clone(), content, ..StoredBlob::default() };
        check(Kind::Blob, fixture, blob, StoredBlob::encode, StoredBlob::decode);
    }
}

#[test]
fn accounts_and_roles() {
    use crate::identity::{
        AccountOrigin, AccountRecord, AccountStage, DelegationSecret, StoredAssignment, StoredKey, Switch,
    };
    use tepui_model::account::AccountKey;
    use tepui_model::role::{Role, RoleAssignment};
    let decode = |bytes: &Bytes| AccountRecord::decode(bytes);
    let secret = |byte| AccountKey::new(vec![byte; 3]);
    let full = AccountRecord {
        stage: AccountStage::Live,
        origin: AccountOrigin::Created,
        created: day(),
        changed: time(),
        keys: [
            Some(StoredKey { key: secret(1), created: time(), replaces: Some([8; 32]) }),
            Some(StoredKey { key: secret(2), created: time(), replaces: None }),
        ],
        disabled: Some(Switch { value: true, configured: false }),
        allow_shared_keys: Some(Switch { value: false, configured: true }),
        delegation: Some(DelegationSecret { secret: secret(3), since: time() }),
    };
    check(Kind::Account, ACCOUNT, full, AccountRecord::encode, decode);
    let deleted = AccountRecord { stage: AccountStage::Deleted, ..AccountRecord::configured(day()) };
    check(Kind::Account, DELETED_ACCOUNT, deleted, AccountRecord::encode, decode);
    for (fixture, issuer) in [(ROLE_ASSIGNMENT, None), (ROLE_ASSIGNMENT_OF_ISSUER, Some("https://i"))] {
        let assignment = RoleAssignment {
            principal: "group:team".parse().unwrap(),
            issuer: issuer.map(str::to_owned),
            role: Role::TableDataReader,
            scope: "/a/table/T".parse().unwrap(),
        };
        let stored = StoredAssignment { id: 7, assignment, created: time() };
        let decode = |bytes: &Bytes| StoredAssignment::decode(7, bytes);
        check(Kind::RoleAssignment, fixture, stored, StoredAssignment::encode, decode);
    }
    check(Kind::Secret, SECRET, secret(4), encode_secret, |bytes| decode_secret(bytes));
}

#[test]
fn contents_of_blobs() {
    let key = Some(CustomerKey { sha256: [8; 32] });
    for (fixture, key, content) in [
        (BLOCK, None, BlockContent::Extent(EXTENT)),
        (BLOCK_OF_ZEROS, None, BlockContent::Zeros(7)),
        (BLOCK_WITH_KEY, key, BlockContent::Extent(EXTENT)),
        (ENCRYPTED_BLOCK, key, BlockContent::Encrypted(EXTENT)),
        (BLOCK_IN_STORE, None, BlockContent::Extent(Extent { store: StoreId(9), ..EXTENT })),
    ] {
        let block = StoredBlock { put: time(), content, key };
        check(Kind::Block, fixture, block, StoredBlock::encode, |bytes| StoredBlock::decode(bytes));
    }
    let copy = PendingCopy { container: Incarnation(42), name: "a/b".to_owned(), until: time() };
    let copy_1 = PendingCopy { until: Timestamp::MIN, ..copy.clone() };
    check(Kind::PendingCopy, PENDING_COPY, copy, PendingCopy::encode, |bytes| PendingCopy::decode(bytes));
    assert_eq!(PendingCopy::decode(&unhex(PENDING_COPY_1)), Ok(copy_1));
    let lease = WorkLease { owner: 7, until: time() };
    check(Kind::WorkLease, WORK_LEASE, lease, WorkLease::encode, |bytes| WorkLease::decode(bytes));
    let extent = Extent { store: StoreId(9), ..EXTENT };
    let copied = CopiedExtent { extent, sha256: [8; 32] };
    let decode = |bytes: &Bytes| CopiedExtent::decode(bytes);
    check(Kind::CopiedExtent, COPIED_EXTENT, copied, CopiedExtent::encode, decode);
    let state = StorageCopy {
        source: [8; 32],
        run: 7,
        commits: 1,
        phase: StorageCopyPhase::Verify,
        next: Bytes::from_static(b"key"),
        rows: 3,
        row_bytes: 4,
        extents: 5,
        extent_bytes: 6,
    };
    check(Kind::StorageCopy, STORAGE_COPY, state, StorageCopy::encode, |bytes| StorageCopy::decode(bytes));
    let extent = StoredExtent { bytes: 3, references: 4 };
    check(Kind::Extent, STORED_EXTENT, extent, StoredExtent::encode, |bytes| StoredExtent::decode(bytes));
    let small = SmallContent { references: 2, bytes: Bytes::from_static(b"Hello") };
    check(Kind::SmallContent, SMALL_CONTENT, small, SmallContent::encode, SmallContent::decode);
    let head = ContentHead { references: 1, end: 2, parent: Some((ContentId(3), 4)) };
    check(Kind::ContentHead, CONTENT_HEAD, head, ContentHead::encode, |bytes| ContentHead::decode(bytes));
    let piece = |source| StoredPiece { id: None, source };
    let pieces = PieceRow {
        start: 9,
        pieces: vec![
            StoredPiece { id: BlockId::from_bytes(b"one".to_vec()), source: PieceSource::Extent(EXTENT) },
            piece(PieceSource::Inline(Bytes::from_static(b"bytes"))),
            piece(PieceSource::Slice(EXTENT, 1..3)),
            piece(PieceSource::Zeros(512)),
            piece(PieceSource::EncryptedInline(Bytes::from_static(b"secret"), 3..4)),
            piece(PieceSource::EncryptedExtent(EXTENT, 1..2)),
        ],
    };
    check(Kind::Pieces, PIECES, pieces, PieceRow::encode, |bytes| PieceRow::decode(bytes));
}

// The first byte is the version.
const NUMBER: &str = "01 0900000000000000";
const TABLE: &str = "
    01 2a00000000000000 87d397317d7ede08 0600000000000000 50656f706c650200 0000000000000600
    0000000000007265 6164657201010040 a5ce6e7dde080187 d397317d7ede0801 0400000000000000
    7261756405000000 00000000656d7074 7900
";
const ENTITY: &str = "01 87d397317d7ede08 03416765032a0000 00";
const SERVICE_PROPERTIES: &str = "
    01 0300000000000000 312e300100000107 0000000000000003 0000000000000031 2e30000101000300
    000000000000312e 3000000001000000 0000000001000000 0000000001000000 000000002a020000
    0000000000030000 0000000000474554 0300000000000000 5055540000000000 0000000000000000
    000000f401000000 000000
";
const BLOB_SERVICE_PROPERTIES: &str = "
    01 0300000000000000 312e300100000107 0000000000000003 0000000000000031 2e30000101000300
    000000000000312e 3000000001000000 0000000001000000 0000000001000000 000000002a020000
    0000000000030000 0000000000474554 0300000000000000 5055540000000000 0000000000000000
    000000f401000000 000000010a000000 0000000032303231 2d30382d30360107 0000000000000001
    0100010800000000 0000003430342e68 746d6c00
";
const QUEUE: &str = "
    01 2a00000000000000 87d397317d7ede08 0200000000000000 0400000000000000 5465616d04000000
    00000000636f7265 0500000000000000 656d707479000000 0000000000020000 0000000000060000
    0000000000726561 64657201010040a5 ce6e7dde080187d3 97317d7ede080104 0000000000000072
    6175640500000000 000000656d707479 00
";
const QUEUE_STATE: &str = "
    01 0200000000000000 0300000000000000 0400000000000000 0500000000000000 0600000000000000
    0700000000000000 0800000000000000 0900000000000000 0a00000000000000
";
const MESSAGE: &str = "01 87d397317d7ede08 ff3f37f47528ca2b 0700000000000000 ffffffff00000000";
const MESSAGE_TEXT: &str = "01 74657874";
const CONTAINER: &str = "
    01 2a00000000000000 87d397317d7ede08 0040a5ce6e7dde08 0200000000000000 0400000000000000
    5465616d04000000 00000000636f7265 0500000000000000 656d707479000000 0000000000010900
    000000000000636f 6e7461696e657202 0000000000000006 0000000000000072 6561646572010100
    40a5ce6e7dde0801 87d397317d7ede08 0104000000000000 0072617564050000 0000000000656d70
    7479000200000000 000000efcdab8967 452301efcdab8967 45230187d397317d 7ede081700000000
    000000246163636f 756e742d656e6372 797074696f6e2d6b 657900010040a5ce 6e7dde0887d39731
    7d7ede0801000000 00000000
";
const FULL_BLOB: &str = "
    01 87d397317d7ede08 0040a5ce6e7dde08 0040a5ce6e7dde08 0500000000000000 0100000000000000
    0700000000000000 01010a0000000000 0000746578742f70 6c61696e00000000 0110000000000000
    0009090909090909 0909090909090909 0902000000000000 0004000000000000 005465616d040000
    0000000000636f72 6505000000000000 00656d7074790000 0000000000000200 0000000000000400
    0000000000005465 616d040000000000 0000636f72650500 000000000000656d 7074790000000000
    0000000107000000 0000000041726368 6976650040a5ce6e 7dde080104000000 00000000436f6f6c
    0400000000000000 4869676887d39731 7d7ede0801000000 00000000efcdab89 67452301efcdab89
    67452301010f0000 000000000087d397 317d7ede08010200 0000000000006964 0d00000000000000
    687474703a2f2f73 6f75726365070000 0000000000737563 6365737304000000 0000000005000000
    000000000187d397 317d7ede08010400 000000000000646f 6e65010187d39731 7d7ede0801200000
    0000000000080808 0808080808080808 0808080808080808 0808080808080808 0808080808010500
    0000000000007363 6f70650187d39731 7d7ede0806000000 000000006c6f636b 656401010187d397
    317d7ede08010040 a5ce6e7dde080100 40a5ce6e7dde0887 d397317d7ede0800 0000000000000048 656c6c6f
";
const BLOB_IN_EXTENT: &str = "
    01 87d397317d7ede08 0040a5ce6e7dde08 0040a5ce6e7dde08 0300000000000000 0000000000000000
    0000000000000000 0000000000000000 0000000000000000 0000000000000000 0000000000000001
    0000000000000001 0000000000000000 1000000000000003 00000000000000
";
const BLOB_OF_PIECES: &str = "
    01 87d397317d7ede08 0040a5ce6e7dde08 0040a5ce6e7dde08 0300000000000000 0000000000000000
    0000000000000000 0000000000000000 0000000000000000 0000000000000000 0000000000000002
    0000000000000007 0000000000000000 00000000000000
";
const SMALL_BLOB: &str = "
    01 87d397317d7ede08 0040a5ce6e7dde08 0040a5ce6e7dde08 0300000000000000 0000000000000000
    0000000000000000 0000000000000000 0000000000000000 0000000000000000 0000000000000003
    0000000000000008 0000000000000000 00000000000000
";
const BLOCK: &str = "01 87d397317d7ede08 0100000000000000 0010000000000000 0300000000000000";
const BLOCK_OF_ZEROS: &str = "01 87d397317d7ede08 ffffffffffffffff 0000000000000000 0700000000000000";
const BLOCK_WITH_KEY: &str = "
    01 87d397317d7ede08 0100000000000000 0010000000000000 0300000000000000 2000000000000000
    0808080808080808 0808080808080808 0808080808080808 0808080808080808
";
const ENCRYPTED_BLOCK: &str = "
    01 87d397317d7ede08 0100000000000000 0010000000000000 0300000000000000 2000000000000000
    0808080808080808 0808080808080808 0808080808080808 0808080808080808 01
";
const BLOCK_IN_STORE: &str = "01 87d397317d7ede08 feffffffffffffff 0900000000000000 0100000000000000
    0010000000000000 0300000000000000";
const PENDING_COPY: &str = "02 2a00000000000000 0300000000000000 612f62 87d397317d7ede08";
/// Version 1, without the end of its lease.
const PENDING_COPY_1: &str = "01 2a00000000000000 0300000000000000 612f62";
const WORK_LEASE: &str = "01 07000000000000000000000000000000 87d397317d7ede08";
const COPIED_EXTENT: &str = "
    01 0900000000000000 0100000000000000 0010000000000000 0300000000000000 2000000000000000
    0808080808080808 0808080808080808 0808080808080808 0808080808080808
";
const STORAGE_COPY: &str = "
    01 2000000000000000 0808080808080808 0808080808080808 0808080808080808 0808080808080808
    07000000000000000000000000000000 0100000000000000 0200000000000000 0300000000000000 6b6579
    0300000000000000 0400000000000000 0500000000000000 0600000000000000
";
const STORED_EXTENT: &str = "01 0300000000000000 0400000000000000";
const SMALL_CONTENT: &str = "01 0200000000000000 48656c6c6f";
const CONTENT_HEAD: &str =
    "01 0100000000000000 0200000000000000 0103000000000000 0000000000000000 0004000000000000 00";
const PIECES: &str = "
    01 0900000000000000 0600000000000000 0103000000000000 006f6e6501000000 0000000001000000
    0000000000100000 0000000003000000 0000000000000000 0000000000050000 0000000000627974
    6573000200000000 0000000100000000 0000000010000000 0000000300000000 0000000100000000
    0000000300000000 0000000003000000 0000000000020000 0000000000040000 0000000000060000
    0000000000736563 7265740300000000 0000000400000000 0000000005000000 0000000001000000
    0000000000100000 0000000003000000 0000000001000000 0000000002000000 00000000
";
const ACCOUNT: &str = "
    01 0000000000000000 010040a5ce6e7dde 0887d397317d7ede 0801030000000000
    000001010187d397 317d7ede08012000 0000000000000808 0808080808080808 0808080808080808
    0808080808080808 0808080808080103 0000000000000002 020287d397317d7e de08000101000100
    0101030000000000 000003030387d397 317d7ede08
";
const DELETED_ACCOUNT: &str = "
    01 0200000000000000 000040a5ce6e7dde 080040a5ce6e7dde 080000000000
";
const ROLE_ASSIGNMENT: &str = "
    01 87d397317d7ede08 0a00000000000000 67726f75703a7465 616d240000000000
    0000373631393936 39382d396565612d 346331392d626337 352d636563323133 3534633662360a00
    0000000000002f61 2f7461626c652f54 00
";
const ROLE_ASSIGNMENT_OF_ISSUER: &str = "
    01 87d397317d7ede08 0a00000000000000 67726f75703a7465 616d240000000000
    0000373631393936 39382d396565612d 346331392d626337 352d636563323133 3534633662360a00
    0000000000002f61 2f7461626c652f54 0109000000000000 0068747470733a2f 2f69
";
const SECRET: &str = "
    01 0300000000000000 040404
";
