//! Keys of the state of a copy of everything to this storage, and which keys are copied.

use super::{KeyWriter, space};
use tepui_storage::{Extent, Key, KeyRange};

const STATE: u8 = 0x00;
const EXTENT: u8 = 0x01;

/// How far a copy to this storage is. Its row is there until the copy is finished.
pub(crate) fn copy_state() -> Key {
    KeyWriter::with_capacity(space::STORAGE_COPY, 2).byte(STATE).finish()
}

/// Where the bytes of an extent of the source are in this storage.
pub(crate) fn copied_extent(source: Extent) -> Key {
    let key = KeyWriter::with_capacity(space::STORAGE_COPY, 26).byte(EXTENT);
    key.number(source.store.0).number(source.volume).number(source.offset).finish()
}

/// The rows of all extents that were copied.
pub(crate) fn copied_extents() -> KeyRange {
    let prefix = || KeyWriter::with_capacity(space::STORAGE_COPY, 2).byte(EXTENT);
    KeyRange { start: prefix().finish(), end: prefix().after_all() }
}

/// The rows that a copy of everything consists of. What is between these ranges is about one storage and the nodes that use it:
/// extents to be freed, leases, volumes, and the state of a copy.
pub(crate) fn portable_rows() -> [KeyRange; 2] {
    let all = super::everything();
    [
        KeyRange { start: all.start, end: KeyWriter::new(space::FREE_EXTENT).finish() },
        KeyRange { start: KeyWriter::new(space::INSTALLATION).after_all(), end: all.end },
    ]
}

/// The reference counts of the extents in all stores.
pub(crate) fn extent_counts() -> [KeyRange; 2] {
    [space::EXTENT, space::EXTENT_IN_STORE].map(|space| KeyRange {
        start: KeyWriter::new(space).finish(),
        end: KeyWriter::new(space).after_all(),
    })
}

/// Whether a key is that of the reference count of an extent.
pub(crate) fn is_extent_count(key: &[u8]) -> bool {
    matches!(key.first(), Some(&(space::EXTENT | space::EXTENT_IN_STORE)))
}

/// The leases on the numbers of nodes.
pub(crate) fn nodes() -> KeyRange {
    KeyRange { start: KeyWriter::new(space::NODE).finish(), end: KeyWriter::new(space::NODE).after_all() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keyspace;
    use tepui_storage::StoreId;

    #[test]
    fn what_is_about_one_storage_is_not_copied() {
        let extent = Extent { store: StoreId(7), volume: u64::MAX, offset: u64::MAX, bytes: 1 };
        let local = Extent { store: StoreId::LOCAL, ..extent };
        let is_copied = |key: &Key| portable_rows().iter().any(|range| range.contains(key));
        for (case, key, expected) in [
            ("a counter", keyspace::incarnation_counter(), true),
            (
                "a container to be collected",
                keyspace::dropped_container(keyspace::Incarnation(u64::MAX)),
                true,
            ),
            ("a content to be collected", keyspace::dropped_content(keyspace::ContentId(u128::MAX)), true),
            ("an extent to be freed", keyspace::free_extent(local), false),
            ("one of another store", keyspace::free_extent(extent), false),
            ("a lease on work", keyspace::work_lease("collect"), false),
            ("the state of a copy", copy_state(), false),
            ("a copied extent", copied_extent(extent), false),
            ("an account", keyspace::account("people"), true),
            ("a role assignment", keyspace::role_assignment(7), true),
            ("the secret of the server", keyspace::server_secret(), true),
            ("an entity", keyspace::entity(keyspace::Incarnation(1), "p", "r"), true),
            ("a count", keyspace::extent(extent), true),
        ] {
            assert_eq!(is_copied(&key), expected, "{case}");
        }
        assert!(
            copied_extents().contains(&copied_extent(extent)) && !copied_extents().contains(&copy_state())
        );
        assert!(is_extent_count(&keyspace::extent(extent)) && is_extent_count(&keyspace::extent(local)));
        assert!(extent_counts()[0].contains(&keyspace::extent(local)));
        assert!(extent_counts()[1].contains(&keyspace::extent(extent)));
    }
}
