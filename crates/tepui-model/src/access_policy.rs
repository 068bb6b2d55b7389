//! Stored access policies: what a shared access signature can refer to by name.

use crate::Timestamp;

/// The most policies that one table, queue or container has.
pub const MAX_POLICIES: usize = 5;
/// The longest id of a policy, in characters.
pub const MAX_ID_CHARS: usize = 64;

/// One signed identifier of a resource. Fields that were not given are not returned either.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SignedIdentifier {
    pub id: String,
    pub policy: Option<AccessPolicy>,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AccessPolicy {
    pub start: Option<Timestamp>,
    pub expiry: Option<Timestamp>,
    pub permission: Option<String>,
}
