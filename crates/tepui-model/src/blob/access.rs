//! What a grant allows of the Blob service: the table of operations and the permissions they need.

use super::operation::OperationKind;
use super::properties::PublicAccess;
use crate::ErrorCode;
use crate::access::{Met, Need, Reach};
use crate::grant::{BlobReach, Grant};

/// How far a permission goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Allowed {
    Fully,
    /// Unless there is such a blob already: that is [`ErrorCode::UnauthorizedBlobOverwrite`].
    IfAbsent,
    /// If the container is open to everybody to this degree. If not: [`ErrorCode::ResourceNotFound`].
    IfPublic(PublicAccess),
}

impl Allowed {
    /// Whether the caller has shown no credentials.
    pub fn is_anonymous(self) -> bool {
        matches!(self, Self::IfPublic(_))
    }
}

impl From<Met> for Allowed {
    fn from(met: Met) -> Self {
        match met {
            Met::Fully => Self::Fully,
            Met::IfAbsent => Self::IfAbsent,
        }
    }
}

const fn of_blob(any: &'static str) -> Need {
    Need { resource_types: "o", all: "", any, creates: false, reach: Reach::Blob }
}

const fn of_new_blob() -> Need {
    Need { creates: true, ..of_blob("w") }
}

const fn of_account(resource_types: &'static str, any: &'static str) -> Need {
    Need::account_only(resource_types, "", any)
}

fn need(kind: OperationKind) -> Need {
    use OperationKind::*;
    match kind {
        GetServiceProperties | GetServiceStats => of_account("s", "r"),
        SetServiceProperties => of_account("s", "w"),
        ListContainers => of_account("s", "l"),
        GetAccountInformation => Need { resource_types: "sco", ..of_blob("") },
        FindBlobsByTags => of_account("sco", "f"),
        FindBlobsByTagsInContainer => Need::of_whole("sco", "f"),
        // The operations inside are checked one by one.
        Batch => of_account("sco", ""),
        ContainerBatch => Need::of_whole("sco", ""),
        CreateContainer => of_account("c", "cw"),
        GetContainerProperties | GetContainerMetadata => of_account("c", "r"),
        SetContainerMetadata | LeaseContainer | RestoreContainer | RenameContainer => of_account("c", "w"),
        BreakContainerLease => of_account("c", "wd"),
        DeleteContainer => of_account("c", "d"),
        GetContainerAcl | SetContainerAcl | GetUserDelegationKey => Need::NO_SAS_WILL_DO,
        ListBlobs => Need::of_whole("c", "l"),
        GetBlob | GetBlobProperties | GetBlobMetadata | GetBlockList | GetPageRanges | GetPageRangesDiff
        | QueryBlobContents => of_blob("r"),
        PutBlob | PutBlobFromUrl | CopyBlob | CopyBlobFromUrl | IncrementalCopy | PutBlock
        | PutBlockFromUrl | PutBlockList => of_new_blob(),
        AppendBlock | AppendBlockFromUrl | SealBlob => of_blob("aw"),
        PutPages | ClearPages | PutPagesFromUrl | SetBlobProperties | SetBlobMetadata | SetBlobTier
        | SetBlobExpiry | AbortCopy | UndeleteBlob | LeaseBlob => of_blob("w"),
        BreakBlobLease => of_blob("wd"),
        SnapshotBlob => of_blob("cw"),
        DeleteBlob => of_blob("d"),
        DeleteBlobVersion => of_blob("x"),
        DeleteBlobPermanently => of_blob("y"),
        GetBlobTags | SetBlobTags => of_blob("t"),
        SetImmutabilityPolicy | DeleteImmutabilityPolicy | SetLegalHold => of_blob("i"),
    }
}

/// Whether `grant` allows an operation, in `container` if it is in one.
pub fn check(grant: &Grant, kind: OperationKind, container: Option<&str>) -> Result<Allowed, ErrorCode> {
    let need = need(kind);
    match grant {
        Grant::AccountKey => Ok(Allowed::Fully),
        Grant::AccountSas { services, resource_types, permissions } => {
            need.check_account_sas('b', services, resource_types, permissions).map(Allowed::from)
        }
        Grant::BlobSas { container: granted, reach, permissions, modern_errors } => {
            let reaches = match reach {
                BlobReach::Container => need.reach <= Reach::Whole,
                BlobReach::Directory | BlobReach::Blob => need.reach == Reach::Blob,
                // Nothing can be done to these but to read and to delete them, and to change what is around.
                BlobReach::Snapshot | BlobReach::Version => need.reach == Reach::Blob && !need.creates,
            };
            let reaches = reaches && container.is_none_or(|asked| asked == granted);
            let outcome = need.check_service_sas(reaches, permissions).map(Allowed::from);
            outcome.map_err(|code| if *modern_errors { code } else { ErrorCode::ResourceNotFound })
        }
        Grant::Anonymous => public(kind).map(Allowed::IfPublic).ok_or(ErrorCode::ResourceNotFound),
        Grant::TableSas { .. } | Grant::QueueSas { .. } => Err(ErrorCode::AuthorizationFailure),
    }
}

/// Whether `grant` allows to know of tags, beside what else is done: by a condition, or in a list.
pub fn check_tags(grant: &Grant) -> Result<(), ErrorCode> {
    check_also(grant, 't')
}

/// Whether `grant` allows to set a legal hold or an immutability policy, beside what else is done: with a new blob.
pub fn check_protection(grant: &Grant) -> Result<(), ErrorCode> {
    check_also(grant, 'i')
}

/// Whether `grant` has a permission that an operation needs beside its own.
fn check_also(grant: &Grant, permission: char) -> Result<(), ErrorCode> {
    match grant {
        Grant::AccountKey => Ok(()),
        Grant::AccountSas { permissions, .. } | Grant::BlobSas { permissions, .. }
            if permissions.contains(permission) =>
        {
            Ok(())
        }
        Grant::BlobSas { modern_errors: false, .. } | Grant::Anonymous => Err(ErrorCode::ResourceNotFound),
        Grant::AccountSas { .. } | Grant::BlobSas { .. } => Err(ErrorCode::AuthorizationPermissionMismatch),
        Grant::TableSas { .. } | Grant::QueueSas { .. } => Err(ErrorCode::AuthorizationFailure),
    }
}

/// What a container must be open to for everybody to do this. `None`: nobody may without credentials.
fn public(kind: OperationKind) -> Option<PublicAccess> {
    use OperationKind::*;
    match kind {
        GetBlob | GetBlobProperties | GetBlobMetadata | GetBlockList | GetPageRanges | GetPageRangesDiff => {
            Some(PublicAccess::Blob)
        }
        GetContainerProperties | GetContainerMetadata | ListBlobs => Some(PublicAccess::Container),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ErrorCode::*;
    use OperationKind::*;

    const FULLY: Result<Allowed, ErrorCode> = Ok(Allowed::Fully);

    #[test]
    fn account_sas() {
        for (services, types, permissions, kind, expected) in [
            ("b", "s", "l", ListContainers, FULLY),
            ("qt", "s", "l", ListContainers, Err(AuthorizationServiceMismatch)),
            ("b", "c", "l", ListContainers, Err(AuthorizationResourceTypeMismatch)),
            ("b", "c", "c", CreateContainer, FULLY),
            ("b", "c", "w", CreateContainer, FULLY),
            ("b", "c", "l", ListBlobs, FULLY),
            ("b", "c", "r", ListBlobs, Err(AuthorizationPermissionMismatch)),
            ("b", "sco", "rwdxylacuptfi", GetContainerAcl, Err(AuthorizationFailure)),
            ("b", "o", "r", GetBlob, FULLY),
            ("b", "o", "c", PutBlob, Ok(Allowed::IfAbsent)),
            ("b", "o", "w", PutBlob, FULLY),
            ("b", "o", "a", AppendBlock, FULLY),
            ("b", "o", "d", DeleteBlobVersion, Err(AuthorizationPermissionMismatch)),
            ("b", "o", "x", DeleteBlobVersion, FULLY),
            ("b", "o", "t", SetBlobTags, FULLY),
            ("b", "s", "r", GetAccountInformation, FULLY),
        ] {
            let grant = Grant::AccountSas {
                services: services.to_owned(),
                resource_types: types.to_owned(),
                permissions: permissions.to_owned(),
            };
            assert_eq!(check(&grant, kind, None), expected, "{services} {types} {permissions} {kind:?}");
        }
    }

    #[test]
    fn blob_sas() {
        use BlobReach::*;
        for (reach, permissions, kind, container, expected) in [
            (Container, "l", ListBlobs, Some("c"), FULLY),
            (Container, "l", ListBlobs, Some("other"), Err(AuthorizationFailure)),
            (Blob, "l", ListBlobs, Some("c"), Err(AuthorizationFailure)),
            (Container, "rwdl", GetContainerProperties, Some("c"), Err(AuthorizationFailure)),
            (Container, "rwdl", SetContainerAcl, Some("c"), Err(AuthorizationFailure)),
            (Container, "rwdl", ListContainers, None, Err(AuthorizationFailure)),
            (Container, "r", GetBlob, Some("c"), FULLY),
            (Blob, "r", GetBlob, Some("c"), FULLY),
            (Blob, "r", PutBlob, Some("c"), Err(AuthorizationPermissionMismatch)),
            (Blob, "c", PutBlob, Some("c"), Ok(Allowed::IfAbsent)),
            (Blob, "cw", PutBlob, Some("c"), FULLY),
            (Blob, "d", BreakBlobLease, Some("c"), FULLY),
            (Blob, "d", LeaseBlob, Some("c"), Err(AuthorizationPermissionMismatch)),
            (Snapshot, "r", GetBlob, Some("c"), FULLY),
            (Snapshot, "w", PutBlob, Some("c"), Err(AuthorizationFailure)),
            (Version, "x", DeleteBlobVersion, Some("c"), FULLY),
            (Directory, "r", GetBlob, Some("c"), FULLY),
            (Container, "f", FindBlobsByTagsInContainer, Some("c"), FULLY),
            (Container, "f", FindBlobsByTags, None, Err(AuthorizationFailure)),
            (Container, "d", ContainerBatch, Some("c"), FULLY),
            (Container, "", GetAccountInformation, Some("c"), FULLY),
        ] {
            let grant = |modern_errors| Grant::BlobSas {
                container: "c".to_owned(),
                reach,
                permissions: permissions.to_owned(),
                modern_errors,
            };
            assert_eq!(check(&grant(true), kind, container), expected, "{reach:?} {permissions} {kind:?}");
            if expected.is_err() {
                assert_eq!(check(&grant(false), kind, container), Err(ResourceNotFound), "{kind:?}");
            }
        }
    }

    #[test]
    fn everybody() {
        for (kind, expected) in [
            (GetBlob, Ok(Allowed::IfPublic(PublicAccess::Blob))),
            (ListBlobs, Ok(Allowed::IfPublic(PublicAccess::Container))),
            (PutBlob, Err(ResourceNotFound)),
            (GetBlobTags, Err(ResourceNotFound)),
            (ListContainers, Err(ResourceNotFound)),
        ] {
            assert_eq!(check(&Grant::Anonymous, kind, Some("c")), expected, "{kind:?}");
        }
    }
}
