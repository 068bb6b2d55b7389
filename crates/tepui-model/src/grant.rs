//! What a caller has shown to be allowed: the outcome of authentication.

use crate::Service;
use crate::permissions::{Permissions, ResourceTypes, Services};
use crate::role::{Actions, AssignedRoles, Principal};
use crate::text::utf16_cmp;
use std::cmp::Ordering;
use std::sync::Arc;

/// What the credentials of a request are good for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Grant {
    /// Signed with a key of the account: everything.
    AccountKey,
    AccountSas {
        services: Services,
        resource_types: ResourceTypes,
        permissions: Permissions,
    },
    /// A SAS for one table.
    TableSas {
        table: String,
        permissions: Permissions,
        bounds: KeyBounds,
        modern_errors: bool,
        /// By whose key it was signed. `None`: by one of the account's.
        delegator: Option<Box<Delegator>>,
    },
    /// A SAS for one queue.
    QueueSas {
        queue: String,
        permissions: Permissions,
        modern_errors: bool,
        delegator: Option<Box<Delegator>>,
    },
    /// A SAS for a container, or for what is in it. Where it is for less than the container, the signature
    /// covers the path of the request: nothing else can be asked for with it.
    BlobSas {
        container: String,
        reach: BlobReach,
        permissions: Permissions,
        modern_errors: bool,
        delegator: Option<Box<Delegator>>,
    },
    /// A token of a directory: what the roles of its owner allow.
    Token(Box<TokenOwner>),
    /// No credentials: what is public.
    Anonymous,
}

impl Grant {
    /// Who signed it with a key of their own, if it is such a SAS.
    pub fn delegator(&self) -> Option<&Delegator> {
        match self {
            Self::TableSas { delegator, .. }
            | Self::QueueSas { delegator, .. }
            | Self::BlobSas { delegator, .. } => delegator.as_deref(),
            Self::AccountKey | Self::AccountSas { .. } | Self::Token(_) | Self::Anonymous => None,
        }
    }

    /// Sets what the delegator may do now. Until then that is nothing.
    pub fn set_delegator_roles(&mut self, assigned: AssignedRoles) {
        if let Self::TableSas { delegator: Some(delegator), .. }
        | Self::QueueSas { delegator: Some(delegator), .. }
        | Self::BlobSas { delegator: Some(delegator), .. } = self
        {
            delegator.roles.assigned = assigned;
        }
    }
}

/// The roles of somebody in the account that is asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AccountRoles {
    pub account: String,
    pub assigned: AssignedRoles,
}

impl AccountRoles {
    /// What they allow to do with a table, a queue or a container; `None`: with the service, or with all of them.
    pub fn actions(&self, service: Service, resource: Option<&str>) -> Actions {
        self.assigned.actions(&self.account, service, resource)
    }
}

/// Who comes with a token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenOwner {
    pub principal: Arc<Principal>,
    pub roles: AccountRoles,
}

/// A user who has signed a SAS with a key of their own. The SAS allows what they may do themselves at the time of its use,
/// cut down to its permissions and to what it is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delegator {
    pub object_id: String,
    pub tenant_id: String,
    /// The user on whose behalf the SAS was made: the delegator vouches for them.
    pub authorized_object_id: Option<String>,
    pub roles: AccountRoles,
}

/// What a SAS of the Blob service is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BlobReach {
    Container,
    /// The blobs whose names begin with a directory's.
    Directory,
    Blob,
    Snapshot,
    Version,
}

/// The entities that a table SAS reaches: all those between two tuples of keys, both included.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct KeyBounds {
    pub start_partition: Option<String>,
    pub start_row: Option<String>,
    pub end_partition: Option<String>,
    pub end_row: Option<String>,
}

impl KeyBounds {
    /// No bounds: every entity.
    pub const EVERYTHING: Self =
        Self { start_partition: None, start_row: None, end_partition: None, end_row: None };

    pub fn is_everything(&self) -> bool {
        self.start_partition.is_none() && self.end_partition.is_none()
    }

    pub fn contains(&self, partition_key: &str, row_key: &str) -> bool {
        let against = |partition: &Option<String>, row: &Option<String>| {
            let Some(partition) = partition else { return Ordering::Equal };
            utf16_cmp(partition_key.as_bytes(), partition.as_bytes()).then_with(|| match row {
                Some(row) => utf16_cmp(row_key.as_bytes(), row.as_bytes()),
                None => Ordering::Equal,
            })
        };
        against(&self.start_partition, &self.start_row).is_ge()
            && against(&self.end_partition, &self.end_row).is_le()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_are_tuples_and_inclusive() {
        let bounds = |spk: &str, srk: &str, epk: &str, erk: &str| {
            let given = |text: &str| (text != "-").then(|| text.to_owned());
            KeyBounds {
                start_partition: given(spk),
                start_row: given(srk),
                end_partition: given(epk),
                end_row: given(erk),
            }
        };
        for (bounds, key, expected) in [
            (bounds("-", "-", "-", "-"), ("", ""), true),
            (bounds("b", "-", "-", "-"), ("a", "z"), false),
            (bounds("b", "-", "-", "-"), ("b", ""), true),
            (bounds("b", "5", "-", "-"), ("b", "4"), false),
            (bounds("b", "5", "-", "-"), ("b", "5"), true),
            (bounds("b", "5", "-", "-"), ("c", "1"), true),
            (bounds("-", "-", "b", "-"), ("b", "zzz"), true),
            (bounds("-", "-", "b", "5"), ("b", "5"), true),
            (bounds("-", "-", "b", "5"), ("b", "50"), false),
            (bounds("-", "-", "b", "5"), ("a", "9"), true),
            (bounds("p1", "r1", "p1", "r9"), ("p1", "r5"), true),
            (bounds("p1", "r1", "p1", "r9"), ("p2", "r5"), false),
        ] {
            assert_eq!(bounds.contains(key.0, key.1), expected, "{bounds:?} {key:?}");
        }
    }
}
