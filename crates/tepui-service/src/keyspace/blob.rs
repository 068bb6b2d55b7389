//! Keys of containers, of blobs, and of their contents.
//!
//! A blob's key ends with its revision, so that a scan returns the revisions of one name in the order of lists:
//! snapshots, then versions, oldest first, and the current blob last.

use super::{Edge, Incarnation, KeyWriter, read_text, space};
use std::borrow::Cow;
use tepui_model::Timestamp;
use tepui_model::blob::{BlockId, Revision};
use tepui_storage::{Extent, Key, KeyRange, StoreId};

const SNAPSHOT: u8 = 0x01;
const VERSION: u8 = 0x02;
const BASE: u8 = 0x03;

/// The id of a content in rows of its own. Never used twice; later ones are greater, roughly.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct ContentId(pub(crate) u128);

impl ContentId {
    /// The time, so that contents made together are close to each other, and random bits.
    pub(crate) fn new(now: Timestamp, random: u128) -> Self {
        Self(u128::from(now.ticks()) << 64 | random & u128::from(u64::MAX))
    }
}

/// The catalogue row of a container.
pub(crate) fn container(account: &str, name: &str) -> Key {
    KeyWriter::new(space::CONTAINER).text(account).text(name).finish()
}

/// The catalogue row of a soft-deleted container.
pub(crate) fn deleted_container(account: &str, name: &str, container: Incarnation) -> Key {
    KeyWriter::new(space::CONTAINER).text(account).text(name).number(container.0).finish()
}

/// The rows of an account's containers whose names begin with `prefix`.
pub(crate) fn containers(account: &str, prefix: &str) -> KeyRange {
    let key = || KeyWriter::new(space::CONTAINER).text(account).last_text(prefix);
    KeyRange { start: key().finish(), end: key().after_all() }
}

/// The rows of all containers of all accounts.
pub(crate) fn all_containers() -> KeyRange {
    whole(KeyWriter::new(space::CONTAINER))
}

/// The boundary before or after all catalogue rows of a container's name.
pub(crate) fn container_edge(account: &str, name: &str, edge: Edge) -> Key {
    let key = KeyWriter::new(space::CONTAINER).text(account).text(name);
    match edge {
        Edge::Before => key.finish(),
        Edge::After => key.after_all(),
    }
}

/// The name inside a catalogue key of a container, and the incarnation of a soft-deleted one.
pub(crate) fn container_name<'a>(
    account: &str,
    key: &'a [u8],
) -> Option<(Cow<'a, str>, Option<Incarnation>)> {
    let (name, rest) = first_text(key.strip_prefix(containers(account, "").start.as_ref())?)?;
    match rest {
        [] => Some((name, None)),
        rest => Some((name, Some(Incarnation(number_at(rest, 0)?)))),
    }
}

/// The account and the name inside a key of [`all_containers`].
pub(crate) fn container_of(key: &[u8]) -> Option<(Cow<'_, str>, Cow<'_, str>)> {
    let (account, rest) = first_text(key.get(1..)?)?;
    Some((account, first_text(rest)?.0))
}

/// A name that is reserved after its container was deleted.
pub(crate) fn reserved_container_name(account: &str, name: &str) -> Key {
    KeyWriter::new(space::RESERVED_CONTAINER_NAME).text(account).last_text(name).finish()
}

/// The GC record of a dropped container.
pub(crate) fn dropped_container(container: Incarnation) -> Key {
    KeyWriter::new(space::DROPPED_CONTAINER).number(container.0).finish()
}

pub(crate) fn all_dropped_containers() -> KeyRange {
    whole(KeyWriter::new(space::DROPPED_CONTAINER))
}

/// The GC record of an unreferenced content.
pub(crate) fn dropped_content(content: ContentId) -> Key {
    of_content(space::DROPPED_CONTENT, content).finish()
}

pub(crate) fn all_dropped_contents() -> KeyRange {
    whole(KeyWriter::new(space::DROPPED_CONTENT))
}

/// The content inside a key of [`all_dropped_contents`].
pub(crate) fn dropped_content_id(key: &[u8]) -> Option<ContentId> {
    let number = key.get(1..)?.try_into().ok()?;
    Some(ContentId(u128::from_be_bytes(number)))
}

/// The GC record of an unreferenced extent.
pub(crate) fn free_extent(extent: Extent) -> Key {
    in_store(extent.store, space::FREE_EXTENT, space::FREE_EXTENT_IN_STORE)
        .number(extent.volume)
        .number(extent.offset)
        .finish()
}

/// The GC records of unreferenced extents in all stores.
pub(crate) fn all_free_extents() -> KeyRange {
    let start = KeyWriter::new(space::FREE_EXTENT).finish();
    KeyRange { start, end: KeyWriter::new(space::FREE_EXTENT_IN_STORE).after_all() }
}

/// The reference count of an extent.
pub(crate) fn extent(extent: Extent) -> Key {
    in_store(extent.store, space::EXTENT, space::EXTENT_IN_STORE)
        .number(extent.volume)
        .number(extent.offset)
        .finish()
}

/// The reference counts of all extents of a volume.
pub(crate) fn extents_of_volume(store: StoreId, volume: u64) -> KeyRange {
    whole(in_store(store, space::EXTENT, space::EXTENT_IN_STORE).number(volume))
}

/// The row that the first references to extents of a volume guard. Only of other stores than the local one.
pub(crate) fn volume(store: StoreId, volume: u64) -> Key {
    KeyWriter::with_capacity(space::VOLUME, 17).number(store.0).number(volume).finish()
}

/// The rows of all volumes.
pub(crate) fn all_volumes() -> KeyRange {
    whole(KeyWriter::new(space::VOLUME))
}

/// Keys of the local store have a space of their own, and do not name it.
fn in_store(store: StoreId, local: u8, other: u8) -> KeyWriter {
    match store {
        StoreId::LOCAL => KeyWriter::with_capacity(local, 17),
        StoreId(number) => KeyWriter::with_capacity(other, 25).number(number),
    }
}

/// The extent of so many bytes that a key of an extent, or of its GC record, names.
pub(crate) fn extent_at(key: &[u8], bytes: u64) -> Option<Extent> {
    let (space, numbers) = key.split_first()?;
    let (store, place) = match *space {
        space::EXTENT | space::FREE_EXTENT => (StoreId::LOCAL, numbers),
        _ => (StoreId(number_at(numbers, 0)?), numbers.get(8..)?),
    };
    (place.len() == 16).then_some(())?;
    Some(Extent { store, volume: number_at(place, 0)?, offset: number_at(place, 8)?, bytes })
}

/// A revision of a blob.
pub(crate) fn blob(container: Incarnation, name: &str, revision: Revision) -> Key {
    // The exact length unless NULs are escaped: these keys fill the engine's memory.
    let bytes = 1 + 8 + name.len() + 2 + 1 + if revision == Revision::Base { 0 } else { 8 };
    let key = KeyWriter::with_capacity(space::BLOB, bytes).number(container.0).text(name);
    with_revision(key, revision).finish()
}

/// All blobs of a container.
pub(crate) fn blobs(container: Incarnation) -> KeyRange {
    whole(KeyWriter::new(space::BLOB).number(container.0))
}

/// All blobs of a container whose names begin with `prefix`.
pub(crate) fn blobs_with_prefix(container: Incarnation, prefix: &str) -> KeyRange {
    whole(KeyWriter::new(space::BLOB).number(container.0).last_text(prefix))
}

/// All snapshots of a blob.
pub(crate) fn snapshots(container: Incarnation, name: &str) -> KeyRange {
    revisions(container, name, SNAPSHOT)
}

/// All previous versions of a blob.
pub(crate) fn versions(container: Incarnation, name: &str) -> KeyRange {
    revisions(container, name, VERSION)
}

fn revisions(container: Incarnation, name: &str, kind: u8) -> KeyRange {
    whole(KeyWriter::new(space::BLOB).number(container.0).text(name).byte(kind))
}

/// The name and the revision inside the key of a blob.
pub(crate) fn blob_of(key: &[u8]) -> Option<(Cow<'_, str>, Revision)> {
    let (name, rest) = first_text(key.get(9..)?)?;
    Some((name, read_revision(rest)?))
}

/// The container inside the key of a blob or a block.
pub(crate) fn container_of_blob(key: &[u8]) -> Option<Incarnation> {
    number_at(key, 1).map(Incarnation)
}

/// An uncommitted block.
pub(crate) fn block(container: Incarnation, name: &str, id: &BlockId) -> Key {
    let key = KeyWriter::new(space::BLOCK).number(container.0).text(name);
    id.bytes().iter().fold(key, |key, byte| key.byte(*byte)).finish()
}

/// The uncommitted blocks of a blob, in the order of their ids.
pub(crate) fn blocks(container: Incarnation, name: &str) -> KeyRange {
    whole(KeyWriter::new(space::BLOCK).number(container.0).text(name))
}

/// All uncommitted blocks of a container, of blobs whose names begin with `prefix`.
pub(crate) fn blocks_with_prefix(container: Incarnation, prefix: &str) -> KeyRange {
    whole(KeyWriter::new(space::BLOCK).number(container.0).last_text(prefix))
}

/// All uncommitted blocks of all containers.
pub(crate) fn all_blocks() -> KeyRange {
    whole(KeyWriter::new(space::BLOCK))
}

/// The name of the blob and the id inside the key of a block.
pub(crate) fn block_of(key: &[u8]) -> Option<(Cow<'_, str>, BlockId)> {
    let (name, id) = first_text(key.get(9..)?)?;
    Some((name, BlockId::from_bytes(id.to_vec())?))
}

/// The head of a content.
pub(crate) fn content(content: ContentId) -> Key {
    of_content(space::CONTENT, content).finish()
}

/// A small content.
pub(crate) fn small_content(content: ContentId) -> Key {
    of_content(space::SMALL_CONTENT, content).finish()
}

/// The pieces of a content that end at the offset `end`.
pub(crate) fn pieces(content: ContentId, end: u64) -> Key {
    of_content(space::PIECES, content).number(end).finish()
}

/// The content and the end inside a key of pieces; of a head or of a small content, the end is `None`.
pub(crate) fn content_of(key: &[u8]) -> Option<(ContentId, Option<u64>)> {
    let id = key.get(1..17)?.try_into().ok().map(u128::from_be_bytes)?;
    match key.len() {
        17 => Some((ContentId(id), None)),
        25 => Some((ContentId(id), number_at(key, 17))),
        _ => None,
    }
}

/// All pieces of a content that end after the offset `first`.
pub(crate) fn pieces_from(content: ContentId, first: u64) -> KeyRange {
    let start = of_content(space::PIECES, content).number(first.saturating_add(1)).finish();
    KeyRange { start, end: of_content(space::PIECES, content).after_all() }
}

/// An entry of the index of tags.
pub(crate) fn tag(container: Incarnation, (key, value): (&str, &str), name: &str, revision: Revision) -> Key {
    let tag = KeyWriter::new(space::TAG).number(container.0).text(key).text(value).text(name);
    with_revision(tag, revision).finish()
}

/// All blobs of a container that have a tag.
pub(crate) fn tagged(container: Incarnation, key: &str) -> KeyRange {
    whole(KeyWriter::new(space::TAG).number(container.0).text(key))
}

/// The boundary before or after all blobs that have a tag with this value.
pub(crate) fn tag_edge(container: Incarnation, key: &str, value: &str, edge: Edge) -> Key {
    let tag = KeyWriter::new(space::TAG).number(container.0).text(key).text(value);
    match edge {
        Edge::Before => tag.finish(),
        Edge::After => tag.after_all(),
    }
}

/// All tags of a container.
pub(crate) fn tags(container: Incarnation) -> KeyRange {
    whole(KeyWriter::new(space::TAG).number(container.0))
}

/// The name and the revision inside the key of a tag.
pub(crate) fn tagged_blob(key: &[u8]) -> Option<(Cow<'_, str>, Revision)> {
    let (_, rest) = first_text(key.get(9..)?)?;
    let (_, rest) = first_text(rest)?;
    let (name, rest) = first_text(rest)?;
    Some((name, read_revision(rest)?))
}

/// The GC record that ends the retention of a soft-deleted revision.
pub(crate) fn retained(until: Timestamp, container: Incarnation, name: &str, revision: Revision) -> Key {
    let key = KeyWriter::new(space::RETAINED).number(until.ticks()).number(container.0).text(name);
    with_revision(key, revision).finish()
}

/// All GC records whose retention has ended at `now`.
pub(crate) fn retained_until(now: Timestamp) -> KeyRange {
    let end = KeyWriter::new(space::RETAINED).number(now.ticks().saturating_add(1)).finish();
    KeyRange { start: KeyWriter::new(space::RETAINED).finish(), end }
}

/// The container, the name and the revision inside a key of [`retained_until`].
pub(crate) fn retained_blob(key: &[u8]) -> Option<(Incarnation, Cow<'_, str>, Revision)> {
    let container = Incarnation(number_at(key, 9)?);
    let (name, rest) = first_text(key.get(17..)?)?;
    Some((container, name, read_revision(rest)?))
}

/// The record of a pending copy, by its id.
pub(crate) fn pending_copy(id: &str) -> Key {
    KeyWriter::new(space::PENDING_COPY).last_text(id).finish()
}

pub(crate) fn all_pending_copies() -> KeyRange {
    whole(KeyWriter::new(space::PENDING_COPY))
}

/// The id inside a key of [`all_pending_copies`].
pub(crate) fn pending_copy_id(key: &[u8]) -> Option<Cow<'_, str>> {
    read_text(key.get(1..)?)
}

/// The GC record of blocks that a block list has consumed: those that were put until a time.
pub(crate) fn consumed_blocks(container: Incarnation, name: &str) -> Key {
    KeyWriter::new(space::CONSUMED_BLOCKS).number(container.0).last_text(name).finish()
}

pub(crate) fn all_consumed_blocks() -> KeyRange {
    whole(KeyWriter::new(space::CONSUMED_BLOCKS))
}

/// The container and the name inside a key of [`all_consumed_blocks`] or [`all_staged`].
pub(crate) fn blob_of_marker(key: &[u8]) -> Option<(Incarnation, Cow<'_, str>)> {
    Some((container_of_blob(key)?, read_text(key.get(9..)?)?))
}

/// The marker of a blob that may have uncommitted blocks.
pub(crate) fn staged(container: Incarnation, name: &str) -> Key {
    KeyWriter::new(space::STAGED).number(container.0).last_text(name).finish()
}

pub(crate) fn staged_in(container: Incarnation) -> KeyRange {
    whole(KeyWriter::new(space::STAGED).number(container.0))
}

pub(crate) fn all_staged() -> KeyRange {
    whole(KeyWriter::new(space::STAGED))
}

fn of_content(space: u8, content: ContentId) -> KeyWriter {
    let key = KeyWriter::with_capacity(space, 25);
    content.0.to_be_bytes().into_iter().fold(key, KeyWriter::byte)
}

fn with_revision(key: KeyWriter, revision: Revision) -> KeyWriter {
    match revision {
        Revision::Snapshot(timestamp) => key.byte(SNAPSHOT).number(timestamp.ticks()),
        Revision::Version(timestamp) => key.byte(VERSION).number(timestamp.ticks()),
        Revision::Base => key.byte(BASE),
    }
}

fn read_revision(written: &[u8]) -> Option<Revision> {
    let (kind, ticks) = written.split_first()?;
    let timestamp = || Timestamp::from_ticks(u64::from_be_bytes(ticks.try_into().ok()?));
    match *kind {
        SNAPSHOT => timestamp().map(Revision::Snapshot),
        VERSION => timestamp().map(Revision::Version),
        BASE if ticks.is_empty() => Some(Revision::Base),
        _ => None,
    }
}

/// All keys with this prefix.
fn whole(prefix: KeyWriter) -> KeyRange {
    let start = Key::copy_from_slice(&prefix.0);
    KeyRange { start, end: prefix.after_all() }
}

fn number_at(key: &[u8], at: usize) -> Option<u64> {
    key.get(at..at + 8)?.try_into().ok().map(u64::from_be_bytes)
}

/// A text, and what follows its end mark.
fn first_text(written: &[u8]) -> Option<(Cow<'_, str>, &[u8])> {
    let mut from = 0;
    loop {
        let zero = from + memchr::memchr(0x00, &written[from..])?;
        match written.get(zero + 1)? {
            0x01 => return Some((read_text(&written[..zero])?, &written[zero + 2..])),
            _ => from = zero + 2,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{any_text, utf16};
    use super::*;
    use proptest::prelude::*;

    const CONTAINER: Incarnation = Incarnation(7);

    fn any_revision() -> impl Strategy<Value = Revision> {
        (0..3u8, 0..=Timestamp::MAX.ticks()).prop_map(|(kind, ticks)| {
            let timestamp = Timestamp::from_ticks(ticks).unwrap();
            [Revision::Base, Revision::Snapshot(timestamp), Revision::Version(timestamp)][usize::from(kind)]
        })
    }

    /// The order of revisions in lists.
    fn rank(revision: Revision) -> (u8, u64) {
        match revision {
            Revision::Snapshot(timestamp) => (0, timestamp.ticks()),
            Revision::Version(timestamp) => (1, timestamp.ticks()),
            Revision::Base => (2, 0),
        }
    }

    fn holds(range: &KeyRange, key: &Key) -> bool {
        range.start <= *key && *key < range.end
    }

    proptest! {
        #[test]
        fn order_of_keys_is_order_of_lists(
            a in (any_text(), any_revision()),
            b in (any_text(), any_revision()),
        ) {
            let expected = (utf16(&a.0), rank(a.1)).cmp(&(utf16(&b.0), rank(b.1)));
            prop_assert_eq!(blob(CONTAINER, &a.0, a.1).cmp(&blob(CONTAINER, &b.0, b.1)), expected);
            let tag = |(name, revision): &(String, Revision)| tag(CONTAINER, ("k", "v"), name, *revision);
            prop_assert_eq!(tag(&a).cmp(&tag(&b)), expected);
        }

        #[test]
        fn keys_are_read_back(name in any_text(), revision in any_revision(), id: u64, ticks in 0..1u64 << 60) {
            let key = blob(CONTAINER, &name, revision);
            prop_assert_eq!(blob_of(&key), Some(((&*name).into(), revision)));
            let key = tag(CONTAINER, ("key", &name), &name, revision);
            prop_assert_eq!(tagged_blob(&key), Some(((&*name).into(), revision)));
            let until = Timestamp::from_ticks(ticks).unwrap();
            let key = retained(until, CONTAINER, &name, revision);
            prop_assert_eq!(retained_blob(&key), Some((CONTAINER, (&*name).into(), revision)));
            prop_assert!(holds(&retained_until(until), &key));
            let id = BlockId::from_bytes(id.to_be_bytes().to_vec()).unwrap();
            let key = block(CONTAINER, &name, &id);
            prop_assert_eq!(block_of(&key), Some(((&*name).into(), id)));
            prop_assert!(holds(&blocks(CONTAINER, &name), &key) && holds(&all_blocks(), &key));
        }

        #[test]
        fn ranges_hold_what_they_name(name in any_text(), prefix in any_text(), revision in any_revision()) {
            let key = blob(CONTAINER, &name, revision);
            prop_assert_eq!(holds(&blobs_with_prefix(CONTAINER, &prefix), &key), name.starts_with(&prefix));
            prop_assert!(holds(&blobs(CONTAINER), &key));
            let is_snapshot = matches!(revision, Revision::Snapshot(_));
            prop_assert_eq!(holds(&snapshots(CONTAINER, &name), &key), is_snapshot);
            let is_version = matches!(revision, Revision::Version(_));
            prop_assert_eq!(holds(&versions(CONTAINER, &name), &key), is_version);
        }

        #[test]
        fn pieces_are_found_by_any_of_their_bytes(first: u64, end: u64, content: u128) {
            let content = ContentId(content);
            prop_assert_eq!(holds(&pieces_from(content, first), &pieces(content, end)), first < end);
        }

        #[test]
        fn foreign_keys_do_no_harm(bytes in prop::collection::vec(any::<u8>(), 0..40)) {
            let _ = (blob_of(&bytes), block_of(&bytes), tagged_blob(&bytes), retained_blob(&bytes));
            let _ = (container_name("acct", &bytes), extent_at(&bytes, 1));
            let _ = (dropped_content_id(&bytes), container_of_blob(&bytes));
            let _ = (blob_of_marker(&bytes), pending_copy_id(&bytes));
        }
    }

    #[test]
    fn containers_are_read_back() {
        let (live, deleted) = (container("acct", "pics"), deleted_container("acct", "pics", CONTAINER));
        assert!(live < deleted && deleted < container("acct", "pics2"));
        assert_eq!(container_name("acct", &live), Some(("pics".into(), None)));
        assert_eq!(container_name("acct", &deleted), Some(("pics".into(), Some(CONTAINER))));
        for (account, prefix, inside) in
            [("acct", "", true), ("acct", "pic", true), ("acct", "pics-x", false), ("acc", "", false)]
        {
            assert_eq!(holds(&containers(account, prefix), &live), inside, "{account} {prefix}");
            assert_eq!(holds(&containers(account, prefix), &deleted), inside, "{account} {prefix}");
        }
    }

    #[test]
    fn extents_are_read_back() {
        for store in [StoreId::LOCAL, StoreId(3)] {
            let one = Extent { store, volume: 3, offset: u64::MAX, bytes: 5 };
            assert_eq!(extent_at(&extent(one), 5), Some(one));
            assert_eq!(extent_at(&free_extent(one), 5), Some(one));
            assert!(holds(&all_free_extents(), &free_extent(one)));
            for (in_store, volume) in [(0, 3), (3, 3), (0, 4), (3, 4)] {
                let expected = StoreId(in_store) == store && volume == 3;
                assert_eq!(holds(&extents_of_volume(StoreId(in_store), volume), &extent(one)), expected);
            }
        }
        assert_eq!(dropped_content_id(&dropped_content(ContentId(9))), Some(ContentId(9)));
        assert_eq!(blob_of_marker(&consumed_blocks(CONTAINER, "é")), Some((CONTAINER, "é".into())));
        assert_eq!(blob_of_marker(&staged(CONTAINER, "é")), Some((CONTAINER, "é".into())));
        assert!(holds(&staged_in(CONTAINER), &staged(CONTAINER, "é")));
        assert_eq!(pending_copy_id(&pending_copy("some-id")), Some("some-id".into()));
        assert!(holds(&all_pending_copies(), &pending_copy("some-id")));
    }
}
