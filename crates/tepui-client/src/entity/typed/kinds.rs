//! Kinds of entities in one table, told apart by how their keys begin. Some of it runs when code is compiled.

use super::TypedEntity;
use crate::{EntityKey, Error};

#[doc(hidden)]
pub fn is_of<E: TypedEntity>(key: &EntityKey) -> bool {
    key.partition_key.starts_with(E::PARTITION_PREFIX) && key.row_key.starts_with(E::ROW_PREFIX)
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
