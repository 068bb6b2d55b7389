//! Keys on disk. Every key that a service writes is encoded and decoded here.
//!
//! The first byte is the key space. Texts are encoded so that the order of the bytes is the order of the texts by UTF-16
//! code units, whatever follows them.

mod blob;
mod copy;
mod identity;
mod queue;

pub(crate) use blob::*;
pub(crate) use copy::*;
pub(crate) use identity::*;
pub(crate) use queue::*;

use crate::record;
use bytes::Bytes;
use std::borrow::Cow;
use tepui_model::table::{Continuation, EntityKey};
use tepui_model::text::{utf8_of_rank, utf16_rank};
use tepui_model::time::NodeNumber;
use tepui_storage::{Key, KeyRange, Write};

pub(crate) mod space {
    /// Counters; one key each.
    pub(crate) const COUNTER: u8 = 0x10;
    /// Versions of the catalogue: bucket.
    pub(crate) const CATALOGUE_VERSION: u8 = 0x11;
    /// The catalogue of tables: account, name in lower case.
    pub(crate) const TABLE: u8 = 0x20;
    /// Names that are reserved after a table was deleted: account, name in lower case.
    pub(crate) const RESERVED_NAME: u8 = 0x21;
    /// The catalogue of queues: account, name.
    pub(crate) const QUEUE: u8 = 0x22;
    /// Names that are reserved after a queue was deleted: account, name.
    pub(crate) const RESERVED_QUEUE_NAME: u8 = 0x23;
    /// The catalogue of containers: account, name; for soft-deleted ones followed by their incarnation.
    pub(crate) const CONTAINER: u8 = 0x24;
    /// Names that are reserved after a container was deleted: account, name.
    pub(crate) const RESERVED_CONTAINER_NAME: u8 = 0x25;
    /// Accounts that were made or changed by the admin API: name.
    pub(crate) const ACCOUNT: u8 = 0x26;
    /// Role assignments that were made by the admin API: id.
    pub(crate) const ROLE_ASSIGNMENT: u8 = 0x27;
    /// The secret of all accounts that have none of their own; one key.
    pub(crate) const SERVER_SECRET: u8 = 0x28;
    /// Service properties: account, service.
    pub(crate) const SERVICE_PROPERTIES: u8 = 0x30;
    /// GC records of dropped tables and messages: their incarnation.
    pub(crate) const DROPPED: u8 = 0x40;
    /// GC records of dropped containers: incarnation.
    pub(crate) const DROPPED_CONTAINER: u8 = 0x41;
    /// GC records of unreferenced contents: content.
    pub(crate) const DROPPED_CONTENT: u8 = 0x42;
    /// GC records of unreferenced extents in the local store: volume, offset.
    pub(crate) const FREE_EXTENT: u8 = 0x43;
    /// GC records of unreferenced extents in other stores than the local one: store, volume, offset.
    pub(crate) const FREE_EXTENT_IN_STORE: u8 = 0x44;
    /// Leases on background work: its name.
    pub(crate) const WORK_LEASE: u8 = 0x45;
    /// Leases on the numbers of nodes: number.
    pub(crate) const NODE: u8 = 0x46;
    /// Volumes of stores that several nodes share, while they are written and after they were swept: store, volume.
    pub(crate) const VOLUME: u8 = 0x47;
    /// The state of a copy of everything to this storage, until it is finished.
    pub(crate) const STORAGE_COPY: u8 = 0x48;
    /// The number of the installation; one key.
    pub(crate) const INSTALLATION: u8 = 0x49;
    /// States of queues, which change with every message: incarnation of the queue.
    pub(crate) const QUEUE_STATE: u8 = 0x50;
    /// What each of several nodes adds to the state of a queue: incarnation of the queue, node.
    pub(crate) const QUEUE_NODE_STATE: u8 = 0x51;
    /// Entities: incarnation of their table, PartitionKey, RowKey.
    pub(crate) const ENTITY: u8 = 0x80;
    /// Messages by the time at which they are visible: incarnation of the messages, ticks, sequence.
    pub(crate) const MESSAGE: u8 = 0x90;
    /// Texts of messages: incarnation of the messages, sequence.
    pub(crate) const MESSAGE_TEXT: u8 = 0x91;
    /// Messages by the time at which they expire: incarnation of the messages, ticks, sequence.
    pub(crate) const MESSAGE_EXPIRY: u8 = 0x92;
    /// Blobs: incarnation of their container, name, revision.
    pub(crate) const BLOB: u8 = 0xA0;
    /// Uncommitted blocks: incarnation of the container, name of the blob, id of the block.
    pub(crate) const BLOCK: u8 = 0xA1;
    /// Contents that are lists of pieces: content.
    pub(crate) const CONTENT: u8 = 0xA2;
    /// Pieces of contents: content, offset of their end.
    pub(crate) const PIECES: u8 = 0xA3;
    /// Blobs by their tags: incarnation of the container, key, value, name, revision.
    pub(crate) const TAG: u8 = 0xA4;
    /// Reference counts of extents in the local store: volume, offset.
    pub(crate) const EXTENT: u8 = 0xA5;
    /// GC records of soft-deleted blobs, by the end of their retention: ticks, incarnation of the container, name, revision.
    pub(crate) const RETAINED: u8 = 0xA6;
    /// Pending copies: id of the copy.
    pub(crate) const PENDING_COPY: u8 = 0xA7;
    /// GC records of blocks that a block list has consumed: incarnation of the container, name of the blob.
    pub(crate) const CONSUMED_BLOCKS: u8 = 0xA8;
    /// Small contents: id of the content.
    pub(crate) const SMALL_CONTENT: u8 = 0xA9;
    /// Markers of blobs that may have uncommitted blocks: incarnation of the container, name of the blob.
    pub(crate) const STAGED: u8 = 0xAA;
    /// Reference counts of extents in other stores than the local one: store, volume, offset.
    pub(crate) const EXTENT_IN_STORE: u8 = 0xAB;
}

/// The longest key that is written: of an entity whose PartitionKey and RowKey have 1,024 UTF-16 code units each, of three bytes
/// in UTF-8. An engine whose limit is lower cannot store everything.
pub const MAX_KEY_BYTES: usize = 1 + 8 + 2 * 3 * tepui_model::table::MAX_KEY_UNITS + END_MARK.len();

/// The number of a table, queue or container. Never used twice, so a table that is created again shares no key with the
/// deleted one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Incarnation(pub(crate) u64);

/// Encodes a key part by part.
struct KeyWriter(Vec<u8>);

impl KeyWriter {
    fn new(space: u8) -> Self {
        Self::with_capacity(space, 64)
    }

    fn with_capacity(space: u8, bytes: usize) -> Self {
        let mut key = Vec::with_capacity(bytes);
        key.push(space);
        Self(key)
    }

    fn number(mut self, number: u64) -> Self {
        self.0.extend_from_slice(&number.to_be_bytes());
        self
    }

    fn byte(mut self, byte: u8) -> Self {
        self.0.push(byte);
        self
    }

    /// Appends text so that byte order is text order, whatever follows.
    fn text(self, part: &str) -> Self {
        let mut written = self.last_text(part);
        written.0.extend_from_slice(&END_MARK);
        written
    }

    /// Appends text that nothing follows.
    fn last_text(mut self, part: &str) -> Self {
        for byte in part.bytes() {
            self.0.push(utf16_rank(byte));
            if byte == 0x00 {
                self.0.push(0xFF); // An escaped zero sorts after the end mark.
            }
        }
        self
    }

    fn finish(self) -> Key {
        Bytes::from(self.0)
    }

    /// The first key after all keys with this prefix.
    fn after_all(mut self) -> Key {
        while self.0.last() == Some(&0xFF) {
            self.0.pop();
        }
        if let Some(last) = self.0.last_mut() {
            *last += 1;
        }
        Bytes::from(self.0)
    }
}

const END_MARK: [u8; 2] = [0x00, 0x01];

/// The counter that numbers incarnations.
pub(crate) fn incarnation_counter() -> Key {
    KeyWriter::new(space::COUNTER).last_text("incarnation").finish()
}

/// The number of the installation, which is never changed.
pub(crate) fn installation() -> Key {
    KeyWriter::new(space::INSTALLATION).finish()
}

/// The buckets of catalogue rows that have a version each: as many as a byte can number.
pub(crate) const CATALOGUE_BUCKETS: usize = 256;

/// The bucket of a catalogue row.
pub(crate) fn catalogue_bucket(key: &[u8]) -> u8 {
    // All nodes must agree, and versions of the program. Eight bytes at a time, because every request needs it.
    let mut hash: u64 = 0;
    let (words, rest) = key.as_chunks::<8>();
    let mut last = [0; 8];
    last[..rest.len()].copy_from_slice(rest);
    for word in words.iter().chain([&last]) {
        hash = (hash.rotate_left(29) ^ u64::from_le_bytes(*word)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    }
    (hash >> 56) as u8
}

/// The keys of all versions of the catalogue. Every request needs one, so they are made once.
static CATALOGUE_VERSION_KEYS: [[u8; 2]; CATALOGUE_BUCKETS] = {
    let mut keys = [[space::CATALOGUE_VERSION, 0]; CATALOGUE_BUCKETS];
    let mut bucket = 0;
    while bucket < CATALOGUE_BUCKETS {
        keys[bucket][1] = bucket as u8;
        bucket += 1;
    }
    keys
};

/// The version of a bucket of catalogue rows.
pub(crate) fn catalogue_version(bucket: u8) -> &'static [u8] {
    &CATALOGUE_VERSION_KEYS[usize::from(bucket)]
}

/// All versions of the catalogue.
pub(crate) fn catalogue_versions() -> KeyRange {
    let space = || KeyWriter::new(space::CATALOGUE_VERSION);
    KeyRange { start: space().finish(), end: space().after_all() }
}

/// The spaces of the rows of tables, queues and containers, and of service properties.
const CATALOGUE_ROWS: [u8; 4] = [space::TABLE, space::QUEUE, space::CONTAINER, space::SERVICE_PROPERTIES];

/// Whether a key is the row of a table, queue or container, or of service properties.
pub(crate) fn is_catalogue_row(key: &[u8]) -> bool {
    key.first().is_some_and(|space| CATALOGUE_ROWS.contains(space))
}

/// The spaces of the other rows that many commits have as a shared guard: states of queues, volumes, and markers of blobs that may
/// have uncommitted blocks.
const OTHERS_THAT_MANY_GUARD: [u8; 3] = [space::QUEUE_STATE, space::VOLUME, space::STAGED];

/// The rows that many commits have as a shared guard.
pub(crate) fn rows_that_many_guard() -> Vec<KeyRange> {
    let all_of = |space: &u8| KeyRange {
        start: KeyWriter::new(*space).finish(),
        end: KeyWriter::new(*space).after_all(),
    };
    CATALOGUE_ROWS.iter().chain(&OTHERS_THAT_MANY_GUARD).map(all_of).collect()
}

/// Whether a key is that of a row that many commits have as a shared guard.
pub(crate) fn is_guarded_by_many(key: &[u8]) -> bool {
    is_catalogue_row(key) || key.first().is_some_and(|space| OTHERS_THAT_MANY_GUARD.contains(space))
}

/// The most rows that many commits guard that one commit writes. An engine without shared locks keeps copies of them, 128 on TiKV,
/// and a write of such a row locks them all while others come and go. Hundreds of rows would take longer than a commit may, each
/// time that it is tried.
pub(crate) const MAX_SHARED_WRITES: usize = 16;

/// Whether these are not more rows that many commits guard than one commit may write.
pub(crate) fn may_be_one_commit(writes: &[Write]) -> bool {
    writes.iter().filter(|write| is_guarded_by_many(write.key())).count() <= MAX_SHARED_WRITES
}

/// Whether a row that has this value proves the commit that wrote it: no other commit writes the same value under the same key, because
/// one of them has a timestamp or a number of its own; or it may, and then both do the same.
///
/// It is not so for what several commits may do to what they share. Of two that release the last reference to an extent, one by deleting its blob
/// and one by replacing it, only one succeeds, and the row that is left could be of either. The same holds for counts, tags and versions.
pub(crate) fn is_proof(key: &[u8], value: &[u8]) -> bool {
    match key.first().copied().unwrap_or_default() {
        space::TABLE
        | space::RESERVED_NAME
        | space::QUEUE
        | space::RESERVED_QUEUE_NAME
        | space::CONTAINER
        | space::RESERVED_CONTAINER_NAME
        | space::ACCOUNT
        | space::ROLE_ASSIGNMENT
        | space::SERVER_SECRET
        | space::SERVICE_PROPERTIES
        | space::DROPPED
        | space::DROPPED_CONTAINER
        | space::WORK_LEASE
        | space::NODE
        | space::INSTALLATION
        | space::QUEUE_STATE
        | space::QUEUE_NODE_STATE
        | space::ENTITY
        | space::MESSAGE
        | space::MESSAGE_EXPIRY
        | space::BLOB
        | space::BLOCK => true,
        // Of a content that is being made: until when it is kept. One that was released has 0.
        space::DROPPED_CONTENT => record::decode_number(value).is_ok_and(|kept_until| kept_until != 0),
        _ => false,
    }
}

/// The catalogue row of a table. The name is in lower case.
pub(crate) fn table(account: &str, lower_name: &str) -> Key {
    KeyWriter::new(space::TABLE).text(account).last_text(lower_name).finish()
}

/// All catalogue rows of an account's tables.
pub(crate) fn tables(account: &str) -> KeyRange {
    let prefix = || KeyWriter::new(space::TABLE).text(account);
    KeyRange { start: prefix().finish(), end: prefix().after_all() }
}

/// The catalogue rows of an account's tables that are in lists: not those of metrics tables, whose names begin with `$`.
pub(crate) fn listed_tables(account: &str) -> KeyRange {
    KeyRange { start: KeyWriter::new(space::TABLE).text(account).last_text("%").finish(), ..tables(account) }
}

/// The service properties of all services of all accounts.
pub(crate) fn all_service_properties() -> KeyRange {
    let space = || KeyWriter::new(space::SERVICE_PROPERTIES);
    KeyRange { start: space().finish(), end: space().after_all() }
}

/// The account and the service inside a key of [`all_service_properties`].
pub(crate) fn account_and_service(key: &[u8]) -> Option<(Cow<'_, str>, Cow<'_, str>)> {
    two_texts(key.get(1..)?)
}

/// A name that is reserved after its table was deleted.
pub(crate) fn reserved_name(account: &str, lower_name: &str) -> Key {
    KeyWriter::new(space::RESERVED_NAME).text(account).last_text(lower_name).finish()
}

/// The rows of an account, or of all accounts, in a space whose keys begin with the account.
pub(crate) fn rows_of_account(space: u8, account: Option<&str>) -> KeyRange {
    let prefix = || match account {
        Some(account) => KeyWriter::new(space).text(account),
        None => KeyWriter::new(space),
    };
    KeyRange { start: prefix().finish(), end: prefix().after_all() }
}

/// The account and the service inside a key of service properties.
pub(crate) fn service_properties_of(key: &[u8]) -> Option<(Cow<'_, str>, Cow<'_, str>)> {
    two_texts(key.get(1..)?)
}

/// The service properties of one of an account's services.
pub(crate) fn service_properties(account: &str, service: &str) -> Key {
    KeyWriter::new(space::SERVICE_PROPERTIES).text(account).last_text(service).finish()
}

/// The GC record of a dropped table, or of dropped messages.
pub(crate) fn dropped(incarnation: Incarnation) -> Key {
    KeyWriter::new(space::DROPPED).number(incarnation.0).finish()
}

/// The lease on a piece of background work.
pub(crate) fn work_lease(work: &str) -> Key {
    KeyWriter::new(space::WORK_LEASE).last_text(work).finish()
}

/// The lease on the number of a node.
pub(crate) fn node(number: NodeNumber) -> Key {
    KeyWriter::new(space::NODE).number(number.get()).finish()
}

/// All keys.
pub(crate) fn everything() -> KeyRange {
    KeyRange { start: Key::new(), end: Key::from_static(&[0xFF]) }
}

/// All GC records of dropped tables and messages.
pub(crate) fn all_dropped() -> KeyRange {
    let space = || KeyWriter::new(space::DROPPED);
    KeyRange { start: space().finish(), end: space().after_all() }
}

/// The incarnation inside a key of [`all_dropped`].
pub(crate) fn dropped_incarnation(key: &[u8]) -> Option<Incarnation> {
    let number = key.get(1..)?.try_into().ok()?;
    Some(Incarnation(u64::from_be_bytes(number)))
}

pub(crate) fn entity(table: Incarnation, partition_key: &str, row_key: &str) -> Key {
    // The exact length unless NULs are escaped: these keys fill the engine's memory.
    let bytes = 1 + size_of_val(&table) + partition_key.len() + END_MARK.len() + row_key.len();
    let key = KeyWriter::with_capacity(space::ENTITY, bytes).number(table.0);
    key.text(partition_key).last_text(row_key).finish()
}

/// All entities of a table.
pub(crate) fn entities(table: Incarnation) -> KeyRange {
    let prefix = || KeyWriter::new(space::ENTITY).number(table.0);
    KeyRange { start: prefix().finish(), end: prefix().after_all() }
}

fn partition(table: Incarnation, partition_key: &str) -> KeyWriter {
    KeyWriter::new(space::ENTITY).number(table.0).text(partition_key)
}

/// A side of a text in a key, for bounds of ranges.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Edge {
    /// Before the text itself.
    Before,
    /// After all keys with the text in its part of the key.
    After,
}

/// The boundary before or after all entities of a partition.
pub(crate) fn partition_edge(table: Incarnation, partition_key: &str, edge: Edge) -> Key {
    match edge {
        Edge::Before => partition(table, partition_key).finish(),
        Edge::After => partition(table, partition_key).after_all(),
    }
}

/// The boundary before or after one entity.
pub(crate) fn entity_edge(table: Incarnation, partition_key: &str, row_key: &str, edge: Edge) -> Key {
    let mut key = partition(table, partition_key).last_text(row_key);
    if edge == Edge::After {
        key.0.push(0x00);
    }
    key.finish()
}

/// The boundary before or after a catalogue row.
pub(crate) fn table_edge(account: &str, lower_name: &str, edge: Edge) -> Key {
    let mut key = KeyWriter::new(space::TABLE).text(account).last_text(lower_name);
    if edge == Edge::After {
        key.0.push(0x00);
    }
    key.finish()
}

/// PartitionKey and RowKey inside the key of an entity, copied only if they are escaped.
pub(crate) fn entity_keys(key: &[u8]) -> Option<(Cow<'_, str>, Cow<'_, str>)> {
    two_texts(key.get(9..)?)
}

/// A text and a last text.
fn two_texts(texts: &[u8]) -> Option<(Cow<'_, str>, Cow<'_, str>)> {
    let mut from = 0;
    let end = loop {
        let zero = from + memchr::memchr(0x00, &texts[from..])?;
        match texts.get(zero + 1)? {
            0x01 => break zero,
            _ => from = zero + 2,
        }
    };
    Some((read_text(&texts[..end])?, read_text(&texts[end + 2..])?))
}

/// The table name inside a key of the catalogue.
pub(crate) fn table_name<'a>(account: &str, key: &'a [u8]) -> Option<Cow<'a, str>> {
    let prefix = tables(account).start;
    read_text(key.strip_prefix(prefix.as_ref())?)
}

fn read_text(written: &[u8]) -> Option<Cow<'_, str>> {
    if written.iter().all(|&byte| byte != 0x00 && byte < 0xF5) {
        return std::str::from_utf8(written).ok().map(Cow::Borrowed);
    }
    let mut text = Vec::with_capacity(written.len());
    let mut bytes = written.iter();
    while let Some(&byte) = bytes.next() {
        text.push(utf8_of_rank(byte));
        if byte == 0x00 {
            bytes.next()?; // The escape of the zero.
        }
    }
    String::from_utf8(text).ok().map(Cow::Owned)
}

/// The continuation of a page whose next one starts at this key.
pub(crate) fn continuation(key: &[u8]) -> Option<Continuation> {
    let (partition_key, row_key) = entity_keys(key)?;
    Some(Continuation { partition_key: partition_key.into_owned(), row_key: row_key.into_owned() })
}

/// The key at which a query continues.
pub(crate) fn continued_at(table: Incarnation, from: &Continuation) -> Key {
    entity(table, &from.partition_key, &from.row_key)
}

/// The key of an entity.
pub(crate) fn of(table: Incarnation, key: &EntityKey) -> Key {
    entity(table, &key.partition_key, &key.row_key)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use proptest::prelude::*;
    use tepui_model::Timestamp;
    use tepui_model::blob::Revision;
    use tepui_model::time::NodeNumber;
    use tepui_storage::{Extent, StoreId};

    const TABLE: Incarnation = Incarnation(7);

    pub(crate) fn any_text() -> impl Strategy<Value = String> {
        // Zeros, ends of the planes and surrogates are where orders go wrong.
        prop::collection::vec(
            prop::sample::select(vec![
                '\0',
                '\u{1}',
                'a',
                'b',
                '\u{7F}',
                'é',
                '\u{D7FF}',
                '\u{E000}',
                '\u{FFFD}',
                '😀',
                '\u{10FFFF}',
            ]),
            0..5,
        )
        .prop_map(|characters| characters.into_iter().collect())
    }

    pub(crate) fn utf16(text: &str) -> Vec<u16> {
        text.encode_utf16().collect()
    }

    /// Text of as many UTF-16 code units as a name may have: of one to three bytes each, or an escaped NUL.
    fn longest(units: usize) -> impl Strategy<Value = String> {
        prop::collection::vec(prop_oneof![Just('\0'), Just('a'), Just('é'), Just('\u{FFFD}')], units)
            .prop_map(|chars| chars.into_iter().collect())
    }

    proptest! {
        #[test]
        fn no_key_is_longer_than_said(
            partition in longest(1024),
            row in longest(1024),
            name in longest(1024),
            ticks: u64,
        ) {
            let all = Incarnation(u64::MAX);
            // They are ASCII.
            let (tag, value) = ("k".repeat(128), "v".repeat(256));
            let account = "a".repeat(63);
            let short = "n".repeat(63);
            let content = ContentId(u128::MAX);
            let id = tepui_model::blob::BlockId::from_bytes(vec![0; 64]).expect("a block id");
            let timestamp = Timestamp::from_ticks(ticks % Timestamp::MAX.ticks()).expect("a time");
            let extent = Extent { store: StoreId(u64::MAX), volume: u64::MAX, offset: u64::MAX, bytes: 1 };
            let mut keys = vec![
                incarnation_counter(),
                table(&account, &short),
                reserved_name(&account, &short),
                queue(&account, &short),
                reserved_queue_name(&account, &short),
                container(&account, &short),
                deleted_container(&account, &short, all),
                reserved_container_name(&account, &short),
                service_properties(&account, "table"),
                dropped(all),
                dropped_container(all),
                dropped_content(content),
                work_lease("measure-capacity"),
                super::account(&account),
                role_assignment(u128::MAX),
                queue_state(all),
                queue_node_state(all, NodeNumber::new(63).expect("a node")),
                message(all, (u64::MAX, u64::MAX)),
                message_text(all, u64::MAX),
                message_expiry(all, (u64::MAX, u64::MAX)),
                entity(all, &partition, &row),
                entity(all, &"\u{FFFD}".repeat(1024), &"\u{FFFD}".repeat(1024)),
                block(all, &name, &id),
                super::content(content),
                small_content(content),
                pieces(content, u64::MAX),
                free_extent(extent),
                super::extent(extent),
                pending_copy(&"f".repeat(36)),
                consumed_blocks(all, &name),
                staged(all, &name),
            ];
            for revision in [Revision::Base, Revision::Snapshot(timestamp), Revision::Version(timestamp)] {
                keys.push(blob(all, &name, revision));
                keys.push(super::tag(all, (&tag, &value), &name, revision));
                keys.push(retained(timestamp, all, &name, revision));
            }
            let longest = keys.iter().map(|key| key.len()).max();
            prop_assert_eq!(longest, Some(MAX_KEY_BYTES));
        }
    }

    proptest! {
        #[test]
        fn order_of_keys_is_order_of_tuples(a in (any_text(), any_text()), b in (any_text(), any_text())) {
            let expected = (utf16(&a.0), utf16(&a.1)).cmp(&(utf16(&b.0), utf16(&b.1)));
            prop_assert_eq!(entity(TABLE, &a.0, &a.1).cmp(&entity(TABLE, &b.0, &b.1)), expected);
        }

        #[test]
        fn keys_are_read_back(a in (any_text(), any_text())) {
            let key = entity(TABLE, &a.0, &a.1);
            let (partition_key, row_key) = entity_keys(&key).unwrap();
            prop_assert_eq!((partition_key.as_ref(), row_key.as_ref()), (a.0.as_str(), a.1.as_str()));
        }

        #[test]
        fn edges_enclose_what_they_name(pk in any_text(), rk in any_text(), other in (any_text(), any_text())) {
            let key = entity(TABLE, &other.0, &other.1);
            let in_partition = partition_edge(TABLE, &pk, Edge::Before) <= key && key < partition_edge(TABLE, &pk, Edge::After);
            prop_assert_eq!(in_partition, other.0 == pk);
            let is_entity = entity_edge(TABLE, &pk, &rk, Edge::Before) <= key && key < entity_edge(TABLE, &pk, &rk, Edge::After);
            prop_assert_eq!(is_entity, (&other.0, &other.1) == (&pk, &rk));
            let range = entities(TABLE);
            prop_assert!(range.start <= key && key < range.end);
        }

        #[test]
        fn foreign_keys_do_no_harm(bytes in prop::collection::vec(any::<u8>(), 0..40)) {
            let _ = (entity_keys(&bytes), dropped_incarnation(&bytes), table_name("acct", &bytes));
        }
    }

    #[test]
    fn tables_do_not_overlap() {
        assert!(entities(Incarnation(7)).end <= entities(Incarnation(8)).start);
        let (range, key) = (tables("acct"), table("acct", "people"));
        assert!(range.start <= key && key < range.end);
        assert!(!(range.start <= table("acct2", "people") && table("acct2", "people") < range.end));
        assert_eq!(table_name("acct", &key).as_deref(), Some("people"));
        assert_eq!(dropped_incarnation(&dropped(TABLE)), Some(TABLE));
    }
}
