//! Values on disk. Every value that a service writes is encoded and decoded here. Its first byte is the format version of
//! its kind of record. `docs/disk-format.md` describes them.

mod blob;
mod blob_settings;
mod copy;
#[cfg(test)]
mod fixtures;
mod identity;
mod lease;
mod queue;
mod volume;

pub(crate) use blob::{
    BlockContent, Content, ContentHead, ListedState, PendingCopy, PieceRow, PieceSource, Protection,
    SmallContent, SoftDelete, StoredBlob, StoredBlock, StoredContainer, StoredExtent, StoredPiece,
    StoredTier,
};
pub(crate) use blob_settings::{decode_blob_settings, encode_blob_settings};
pub(crate) use copy::{CopiedExtent, StorageCopy, StorageCopyPhase};
pub(crate) use identity::{account_stage, decode_secret, encode_secret};
pub(crate) use lease::WorkLease;
pub(crate) use queue::{QueueState, StoredMessage, StoredQueue, decode_text, encode_text};
pub(crate) use volume::VolumeState;

use crate::keyspace::Incarnation;
use bytes::Bytes;
use tepui_model::access_policy::{AccessPolicy, SignedIdentifier};
use tepui_model::metadata::Metadata;
use tepui_model::service_properties::{CorsRule, Logging, Metrics, ServiceProperties};
use tepui_model::table::Properties;
use tepui_model::{ErrorCode, ServiceError, Timestamp};

/// A kind of record. Each has a format version of its own, so that one can change without the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Entity,
    Table,
    Queue,
    QueueState,
    Message,
    MessageText,
    Container,
    Blob,
    Block,
    PendingCopy,
    WorkLease,
    StorageCopy,
    CopiedExtent,
    Extent,
    SmallContent,
    ContentHead,
    Pieces,
    ServiceProperties,
    BlobServiceProperties,
    Account,
    RoleAssignment,
    /// The secret of a server.
    Secret,
    /// Counters, times and GC records.
    Number,
    /// Keys that say everything: entries of the index of tags, ends of retention.
    IndexEntry,
}

impl Kind {
    /// The version that is written, and the first byte of the value. To change the encoding of a kind: raise its number
    /// here, let its decoder read the versions before, too, and keep their fixtures.
    #[inline(always)]
    const fn version(self) -> u8 {
        match self {
            Self::Entity => 1,
            Self::Table => 1,
            Self::Queue => 1,
            Self::QueueState => 1,
            Self::Message => 1,
            Self::MessageText => 1,
            Self::Container => 1,
            Self::Blob => 1,
            Self::Block => 1,
            Self::PendingCopy => 2,
            Self::WorkLease => 1,
            Self::StorageCopy => 1,
            Self::CopiedExtent => 1,
            Self::Extent => 1,
            Self::SmallContent => 1,
            Self::ContentHead => 1,
            Self::Pieces => 1,
            Self::ServiceProperties => 1,
            Self::BlobServiceProperties => 1,
            Self::Account => 1,
            Self::RoleAssignment => 1,
            Self::Secret => 1,
            Self::Number => 1,
            Self::IndexEntry => 1,
        }
    }
}

/// The version byte and the timestamp before an entity's packed properties.
const ENTITY_HEADER_BYTES: usize = 9;

/// An entity as it is stored; its keys are in its key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct StoredEntity {
    pub(crate) timestamp: Timestamp,
    pub(crate) properties: Properties,
}

impl StoredEntity {
    pub(crate) fn encode(timestamp: Timestamp, properties: &Properties) -> Bytes {
        let packed = properties.bytes();
        let mut bytes = Vec::with_capacity(ENTITY_HEADER_BYTES + packed.len());
        bytes.push(Kind::Entity.version());
        bytes.extend_from_slice(&timestamp.ticks().to_le_bytes());
        bytes.extend_from_slice(packed);
        bytes.into()
    }

    pub(crate) fn decode(bytes: &Bytes) -> Result<Self, ServiceError> {
        let (timestamp, _) = entity_parts(bytes).ok_or_else(|| corrupt(Kind::Entity))?;
        Ok(Self { timestamp, properties: Properties::from_stored(bytes.slice(ENTITY_HEADER_BYTES..)) })
    }
}

/// The timestamp and the packed properties of a stored entity, without copying.
pub(crate) fn entity_parts(bytes: &[u8]) -> Option<(Timestamp, &[u8])> {
    let (version, rest) = bytes.split_first()?;
    let (ticks, packed) = rest.split_first_chunk::<8>()?;
    let timestamp = Timestamp::from_ticks(u64::from_le_bytes(*ticks))?;
    (*version == Kind::Entity.version()).then_some((timestamp, packed))
}

/// The catalogue row of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct StoredTable {
    pub(crate) incarnation: Incarnation,
    /// In the spelling of Create Table.
    pub(crate) name: String,
    pub(crate) created: Timestamp,
    pub(crate) acl: Vec<SignedIdentifier>,
}

impl StoredTable {
    pub(crate) fn encode(&self) -> Bytes {
        let mut out = Writer::new(Kind::Table);
        out.number(self.incarnation.0);
        out.number(self.created.ticks());
        out.text(&self.name);
        out.acl(&self.acl);
        out.finish()
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, ServiceError> {
        Self::read(bytes).ok_or_else(|| corrupt(Kind::Table))
    }

    fn read(bytes: &[u8]) -> Option<Self> {
        let mut from = Reader::new(bytes, Kind::Table)?;
        let incarnation = Incarnation(from.number()?);
        let created = from.timestamp()?;
        let name = from.text()?;
        let acl = from.acl()?;
        Some(Self { incarnation, name, created, acl })
    }

    /// Only the incarnation, which is all that most operations need.
    pub(crate) fn incarnation_of(bytes: &[u8]) -> Result<Incarnation, ServiceError> {
        let number = Reader::new(bytes, Kind::Table).and_then(|mut from| from.number());
        number.map(Incarnation).ok_or_else(|| corrupt(Kind::Table))
    }
}

/// One number, for counters and for times.
pub(crate) fn encode_number(number: u64) -> Bytes {
    Writer::of_numbers(Kind::Number, [number]).finish()
}

pub(crate) fn decode_number(bytes: &[u8]) -> Result<u64, ServiceError> {
    Reader::new(bytes, Kind::Number).and_then(|mut from| from.number()).ok_or_else(|| corrupt(Kind::Number))
}

pub(crate) fn encode_service_properties(properties: &ServiceProperties) -> Bytes {
    let mut out = Writer::new(Kind::ServiceProperties);
    write_service_properties(&mut out, properties);
    out.finish()
}

fn write_service_properties(out: &mut Writer, properties: &ServiceProperties) {
    let ServiceProperties { logging, hour_metrics, minute_metrics, cors } = properties;
    out.text(&logging.version);
    for flag in [logging.read, logging.write, logging.delete] {
        out.flag(flag);
    }
    out.optional(logging.retention_days, |out, days| out.number(days.into()));
    for metrics in [hour_metrics, minute_metrics] {
        out.text(&metrics.version);
        out.flag(metrics.enabled);
        out.optional(metrics.include_apis, Writer::flag);
        out.optional(metrics.retention_days, |out, days| out.number(days.into()));
    }
    out.number(cors.len() as u64);
    for rule in cors {
        for list in
            [&rule.allowed_origins, &rule.allowed_methods, &rule.allowed_headers, &rule.exposed_headers]
        {
            out.number(list.len() as u64);
            list.iter().for_each(|text| out.text(text));
        }
        out.number(rule.max_age_seconds.into());
    }
}

pub(crate) fn decode_service_properties(bytes: &[u8]) -> Result<ServiceProperties, ServiceError> {
    let read =
        Reader::new(bytes, Kind::ServiceProperties).and_then(|mut from| read_service_properties(&mut from));
    read.ok_or_else(|| corrupt(Kind::ServiceProperties))
}

fn read_service_properties(from: &mut Reader<'_>) -> Option<ServiceProperties> {
    let days = |from: &mut Reader<'_>| u32::try_from(from.number()?).ok();
    let logging = Logging {
        version: from.text()?,
        read: from.flag()?,
        write: from.flag()?,
        delete: from.flag()?,
        retention_days: from.optional(days)?,
    };
    let mut metrics = || {
        Some(Metrics {
            version: from.text()?,
            enabled: from.flag()?,
            include_apis: from.optional(Reader::flag)?,
            retention_days: from.optional(days)?,
        })
    };
    let (hour_metrics, minute_metrics) = (metrics()?, metrics()?);
    let cors = from.list(|from| {
        Some(CorsRule {
            allowed_origins: from.list(Reader::text)?,
            allowed_methods: from.list(Reader::text)?,
            allowed_headers: from.list(Reader::text)?,
            exposed_headers: from.list(Reader::text)?,
            max_age_seconds: u32::try_from(from.number()?).ok()?,
        })
    })?;
    Some(ServiceProperties { logging, hour_metrics, minute_metrics, cors })
}

/// The value of keys that say everything.
pub(crate) fn index_entry() -> Bytes {
    Bytes::from_static(const { &[Kind::IndexEntry.version()] })
}

fn corrupt(kind: Kind) -> ServiceError {
    ServiceError::new(ErrorCode::InternalError)
        .with_cause(format!("a stored record cannot be decoded: {kind:?}"))
}

/// Encodes fields: numbers in 8 bytes, texts and lists with their length before them.
struct Writer(Vec<u8>);

impl Writer {
    fn new(kind: Kind) -> Self {
        Self(vec![kind.version()])
    }

    /// For a record of nothing but numbers.
    fn of_numbers<const N: usize>(kind: Kind, numbers: [u64; N]) -> Self {
        let mut out = Vec::with_capacity(1 + N * 8);
        out.push(kind.version());
        out.extend_from_slice(numbers.map(u64::to_le_bytes).as_flattened());
        Self(out)
    }

    fn number(&mut self, number: u64) {
        self.0.extend_from_slice(&number.to_le_bytes());
    }

    fn wide_number(&mut self, number: u128) {
        self.0.extend_from_slice(&number.to_le_bytes());
    }

    fn flag(&mut self, flag: bool) {
        self.0.push(flag.into());
    }

    fn text(&mut self, text: &str) {
        self.number(text.len() as u64);
        self.0.extend_from_slice(text.as_bytes());
    }

    fn bytes(&mut self, bytes: &[u8]) {
        self.number(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
    }

    fn timestamp(&mut self, timestamp: Timestamp) {
        self.number(timestamp.ticks());
    }

    fn pairs<'a>(&mut self, pairs: impl ExactSizeIterator<Item = (&'a str, &'a str)>) {
        self.number(pairs.len() as u64);
        for (name, value) in pairs {
            self.text(name);
            self.text(value);
        }
    }

    fn optional<T>(&mut self, value: Option<T>, write: impl FnOnce(&mut Self, T)) {
        self.flag(value.is_some());
        if let Some(value) = value {
            write(self, value);
        }
    }

    fn acl(&mut self, acl: &[SignedIdentifier]) {
        self.number(acl.len() as u64);
        for SignedIdentifier { id, policy } in acl {
            self.text(id);
            self.optional(policy.as_ref(), |out, policy| {
                out.optional(policy.start, |out, timestamp| out.number(timestamp.ticks()));
                out.optional(policy.expiry, |out, timestamp| out.number(timestamp.ticks()));
                out.optional(policy.permission.as_deref(), Writer::text);
            });
        }
    }

    fn finish(self) -> Bytes {
        self.0.into()
    }
}

struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    /// `None` for a version that this build does not know.
    #[inline(always)]
    fn new(bytes: &'a [u8], kind: Kind) -> Option<Self> {
        let (version, rest) = bytes.split_first()?;
        (*version == kind.version()).then_some(Self(rest))
    }

    /// For a kind that had other versions before: the version, and the rest.
    fn of_any_version(bytes: &'a [u8], kind: Kind) -> Option<(u8, Self)> {
        let (version, rest) = bytes.split_first()?;
        (1..=kind.version()).contains(version).then_some((*version, Self(rest)))
    }

    #[inline(always)]
    fn number(&mut self) -> Option<u64> {
        let (number, rest) = self.0.split_first_chunk::<8>()?;
        self.0 = rest;
        Some(u64::from_le_bytes(*number))
    }

    fn wide_number(&mut self) -> Option<u128> {
        let (number, rest) = self.0.split_first_chunk::<16>()?;
        self.0 = rest;
        Some(u128::from_le_bytes(*number))
    }

    #[inline(always)]
    fn timestamp(&mut self) -> Option<Timestamp> {
        Timestamp::from_ticks(self.number()?)
    }

    #[inline(always)]
    fn flag(&mut self) -> Option<bool> {
        let (flag, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*flag != 0)
    }

    #[inline(always)]
    fn bytes(&mut self) -> Option<&'a [u8]> {
        let length = usize::try_from(self.number()?).ok()?;
        let (bytes, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(bytes)
    }

    #[inline(always)]
    fn str(&mut self) -> Option<&'a str> {
        std::str::from_utf8(self.bytes()?).ok()
    }

    fn text(&mut self) -> Option<String> {
        self.str().map(str::to_owned)
    }

    fn pairs(&mut self) -> Option<Vec<(String, String)>> {
        self.list(|from| Some((from.text()?, from.text()?)))
    }

    fn metadata(&mut self) -> Option<Metadata> {
        self.pairs().map(Metadata::from_stored)
    }

    #[inline(always)]
    fn optional<T>(&mut self, read: impl FnOnce(&mut Self) -> Option<T>) -> Option<Option<T>> {
        if self.flag()? { read(self).map(Some) } else { Some(None) }
    }

    fn acl(&mut self) -> Option<Vec<SignedIdentifier>> {
        self.list(|from| {
            let id = from.text()?;
            let policy = from.optional(|from| {
                let start = from.optional(Reader::timestamp)?;
                let expiry = from.optional(Reader::timestamp)?;
                let permission = from.optional(Reader::text)?;
                Some(AccessPolicy { start, expiry, permission })
            })?;
            Some(SignedIdentifier { id, policy })
        })
    }

    fn list<T>(&mut self, mut read: impl FnMut(&mut Self) -> Option<T>) -> Option<Vec<T>> {
        let count = self.number()?;
        (0..count).map(|_| read(self)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn at(text: &str) -> Timestamp {
        Timestamp::parse_iso(text).unwrap()
    }

    #[test]
    fn records_are_read_back() {
        let policy =
            AccessPolicy { start: Some(at("2026-01-01")), expiry: None, permission: Some("raud".to_owned()) };
        let table = StoredTable {
            incarnation: Incarnation(42),
            name: "People".to_owned(),
            created: at("2026-03-10T08:15:30.1234567Z"),
            acl: vec![
                SignedIdentifier { id: "reader".to_owned(), policy: Some(policy) },
                SignedIdentifier { id: "empty".to_owned(), policy: None },
            ],
        };
        assert_eq!(StoredTable::decode(&table.encode()), Ok(table.clone()));
        assert_eq!(StoredTable::incarnation_of(&table.encode()), Ok(Incarnation(42)));

        let mut properties = ServiceProperties::default();
        properties.hour_metrics.include_apis = Some(true);
        properties.logging.retention_days = Some(7);
        properties.cors.push(CorsRule {
            allowed_origins: vec!["*".to_owned()],
            allowed_methods: vec!["GET".to_owned(), "PUT".to_owned()],
            max_age_seconds: 500,
            ..CorsRule::default()
        });
        assert_eq!(decode_service_properties(&encode_service_properties(&properties)), Ok(properties));
        assert_eq!(decode_number(&encode_number(9)), Ok(9));
    }

    proptest! {
        #[test]
        fn foreign_records_are_refused_or_read(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
            let _ = (StoredTable::decode(&bytes), decode_service_properties(&bytes), decode_number(&bytes));
            let _ = StoredEntity::decode(&bytes.into());
        }
    }
}
