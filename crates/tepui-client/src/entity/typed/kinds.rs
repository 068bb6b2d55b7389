//! Kinds of entities in one table, told apart by how their keys begin or by their `EntityType`. Some of it runs when code is compiled.

use super::TypedEntity;
use super::version::{StoredVersion, stored_version};
use crate::{EntityKey, Error, StoredEntity};

/// Whether what was read is of this type: by how its keys begin, and by what its `EntityType` says. A newer version is not,
/// because the type does not know what is in it. `needs_kind`: keys do not tell.
#[doc(hidden)]
pub fn is_of<E: TypedEntity>(stored: &StoredEntity, needs_kind: bool) -> bool {
    let key = &stored.key;
    let begins = key.partition_key.starts_with(E::PARTITION_PREFIX) && key.row_key.starts_with(E::ROW_PREFIX);
    begins
        && (E::KIND.is_empty()
            || match stored_version(&stored.properties) {
                StoredVersion::Of { kind, version } => kind == E::KIND && version <= E::VERSION,
                StoredVersion::Unsaid => !needs_kind,
                StoredVersion::Unreadable => false,
            })
}

/// Whether `EntityType` tells them apart.
#[doc(hidden)]
pub const fn is_different_kind<A: TypedEntity, B: TypedEntity>() -> bool {
    let (a, b) = (A::KIND.as_bytes(), B::KIND.as_bytes());
    if a.is_empty() || b.is_empty() || a.len() != b.len() {
        return !a.is_empty() && !b.is_empty();
    }
    let mut index = 0;
    while index < a.len() {
        if a[index] != b[index] {
            return true;
        }
        index += 1;
    }
    false
}

#[doc(hidden)]
pub fn unknown_kind(key: &EntityKey) -> Error {
    let EntityKey { partition_key, row_key } = key;
    Error::decode(format!("the entity is of no known kind: {partition_key:?} {row_key:?}"))
}

/// Whether a key can begin like those of both.
#[doc(hidden)]
pub const fn keys_collide<A: TypedEntity, B: TypedEntity>() -> bool {
    begin_alike(A::PARTITION_PREFIX, B::PARTITION_PREFIX) && begin_alike(A::ROW_PREFIX, B::ROW_PREFIX)
}

#[doc(hidden)]
pub const fn is_same_table<A: TypedEntity, B: TypedEntity>() -> bool {
    A::TABLE.eq_ignore_ascii_case(B::TABLE)
}

/// Whether one is a prefix of the other.
const fn begin_alike(a: &str, b: &str) -> bool {
    let (a, b) = (a.as_bytes(), b.as_bytes());
    let mut index = 0;
    while index < a.len() && index < b.len() {
        if a[index] != b[index] {
            return false;
        }
        index += 1;
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes() {
        for (a, b, expected) in
            [("", "x", true), ("emp_", "empid_", false), ("emp", "empid_", true), ("a", "a", true)]
        {
            assert_eq!((begin_alike(a, b), begin_alike(b, a)), (expected, expected), "{a} {b}");
        }
    }
}
