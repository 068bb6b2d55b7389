//! Preconditions of operations on blobs, and which error wins: the state of the blob, then its lease, then conditions. See the REST page "Specifying conditional headers for Blob service
//! operations".

use super::lease::{Leased, Use};
use super::pending;
use super::tier;
use crate::record::StoredBlob;
use tepui_model::blob::access::Allowed;
use tepui_model::blob::{BlobType, CustomerKey, Encryption, OfType, Preconditions, Unmet, Validators};
use tepui_model::{ErrorCode, ServiceError, Timestamp};

/// Checks the preconditions of a request against a blob.
#[derive(Debug, Clone, Copy)]
pub(super) struct PreconditionCheck<'a> {
    pub(super) preconditions: &'a Preconditions,
    pub(super) container: &'a str,
    pub(super) now: Timestamp,
}

impl<'a> PreconditionCheck<'a> {
    fn validators(&self, blob: &'a StoredBlob) -> Validators<'a> {
        Validators { changed: blob.changed, container: self.container, tags: &blob.tags }
    }

    fn lease(&self, blob: &StoredBlob, how: Use) -> Result<(), ErrorCode> {
        blob.lease.check(self.preconditions.lease, Leased::Blob, how, self.now)
    }

    /// Whether a revision of a blob may be read. Only the current one can be leased.
    pub(super) fn for_read(&self, blob: &'a StoredBlob, is_base: bool) -> Result<(), ServiceError> {
        if is_base {
            self.lease(blob, Use::Read)?;
        }
        match self.preconditions.conditions.check_read(&self.validators(blob)) {
            Ok(()) => Ok(()),
            Err(Unmet::NotModified) => Err(ServiceError::new(ErrorCode::ConditionNotMet).with_status(304)),
            Err(Unmet::Failed) => Err(ErrorCode::ConditionNotMet.into()),
        }
    }

    /// Whether an existing blob may be changed or deleted.
    pub(super) fn for_write(&self, blob: &'a StoredBlob) -> Result<(), ErrorCode> {
        pending::require_none(blob)?;
        self.for_lease_holder(blob)
    }

    /// Whether the caller holds the lease, if there is one.
    pub(super) fn for_lease_holder(&self, blob: &'a StoredBlob) -> Result<(), ErrorCode> {
        self.lease(blob, Use::Write)?;
        self.check_conditions(blob)
    }

    /// Whether a blob may be used without being changed: its lease is checked only if the request names one.
    pub(super) fn for_use(&self, blob: &'a StoredBlob) -> Result<(), ErrorCode> {
        pending::require_none(blob)?;
        self.lease(blob, Use::Read)?;
        self.check_conditions(blob)
    }

    fn check_conditions(&self, blob: &'a StoredBlob) -> Result<(), ErrorCode> {
        self.preconditions.conditions.check_write(&self.validators(blob))
    }

    /// Whether a blob may be created, or replaced if it exists.
    pub(super) fn for_create(
        &self,
        blob: Option<&'a StoredBlob>,
        new_type: BlobType,
        allowed: Allowed,
    ) -> Result<(), ErrorCode> {
        let Some(blob) = blob else {
            if self.preconditions.lease.is_some() {
                return Err(ErrorCode::LeaseNotPresentWithBlobOperation);
            }
            return self.preconditions.conditions.check_absent();
        };
        if allowed == Allowed::IfAbsent {
            return Err(ErrorCode::UnauthorizedBlobOverwrite);
        }
        pending::require_none(blob)?;
        require_type(blob, new_type)?;
        require_not_archived(blob, self.now)?;
        require_mutable(blob, self.now)?;
        self.lease(blob, Use::Write)?;
        // Fidelity: the holder of the lease may replace an existing blob.
        if self.preconditions.conditions.only_creates() && self.preconditions.lease.is_none() {
            return Err(ErrorCode::BlobAlreadyExists);
        }
        self.check_conditions(blob)
    }
}

pub(super) fn require_type(blob: &StoredBlob, expected: BlobType) -> Result<(), ErrorCode> {
    if blob.of_type.blob_type() == expected { Ok(()) } else { Err(ErrorCode::InvalidBlobType) }
}

pub(super) fn require_not_archived(blob: &StoredBlob, now: Timestamp) -> Result<(), ErrorCode> {
    if tier::is_archived(blob, now) { Err(ErrorCode::BlobArchived) } else { Ok(()) }
}

/// Whether a blob may be written, replaced or deleted: it has no legal hold and no immutability policy in force.
pub(super) fn require_mutable(blob: &StoredBlob, now: Timestamp) -> Result<(), ErrorCode> {
    if blob.legal_hold == Some(true) {
        return Err(ErrorCode::BlobImmutableDueToLegalHold);
    }
    if blob.immutability.is_some_and(|policy| now < policy.until) {
        return Err(ErrorCode::BlobImmutableDueToPolicy);
    }
    Ok(())
}

pub(super) fn require_unsealed(blob: &StoredBlob) -> Result<(), ErrorCode> {
    match blob.of_type {
        OfType::Append { sealed: true, .. } => Err(ErrorCode::BlobIsSealed),
        _ => Ok(()),
    }
}

/// Whether the request has the customer-provided key that the blob was written with.
pub(super) fn check_key(blob: &StoredBlob, given: &Encryption) -> Result<(), ErrorCode> {
    check_keys(blob.encryption.key, given.key)
}

/// Whether the key that was used is the one that is given.
pub(super) fn check_keys(used: Option<CustomerKey>, given: Option<CustomerKey>) -> Result<(), ErrorCode> {
    match (used, given) {
        (Some(_), None) => Err(ErrorCode::BlobUsesCustomerSpecifiedEncryption),
        (None, Some(_)) => Err(ErrorCode::BlobDoesNotUseCustomerSpecifiedEncryption),
        (Some(used), Some(given)) if used != given => Err(ErrorCode::BlobCustomerSpecifiedEncryptionMismatch),
        _ => Ok(()),
    }
}

#[cfg(test)]
#[path = "precondition_tests.rs"]
mod tests;
