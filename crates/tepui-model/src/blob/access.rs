//! What a grant allows of the Blob service: the table of operations and the permissions they need.

use super::operation::OperationKind;
use super::properties::PublicAccess;
use crate::ErrorCode;
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

/// What an operation asks of a shared access signature.
struct Need {
    /// The resource types of an account SAS of which one will do; none: no SAS will do.
    resource_types: &'static str,
    /// At least one of these letters; none: any SAS will do.
    any: &'static str,
    /// Whether `c` will do for something new.
    creates: bool,
    /// The narrowest SAS of the service that reaches it.
    reach: Reach,
}

/// What a SAS of the service must be for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd)]
enum Reach {
    Blob,
    Container,
    Account,
}

impl Need {
    const fn of_blob(any: &'static str) -> Self {
        Self { resource_types: "o", any, creates: false, reach: Reach::Blob }
    }

    const fn of_new_blob() -> Self {
        Self { resource_types: "o", any: "w", creates: true, reach: Reach::Blob }
    }

    const fn of_account(resource_types: &'static str, any: &'static str) -> Self {
        Self { resource_types, any, creates: false, reach: Reach::Account }
    }

    fn check_letters(&self, given: &str) -> Result<Allowed, ErrorCode> {
        if self.any.is_empty() || self.any.chars().any(|letter| given.contains(letter)) {
            return Ok(Allowed::Fully);
        }
        match self.creates && given.contains('c') {
            true => Ok(Allowed::IfAbsent),
            false => Err(ErrorCode::AuthorizationPermissionMismatch),
        }
    }
}

fn need(kind: OperationKind) -> Need {
    use OperationKind::*;
    match kind {
        GetServiceProperties | GetServiceStats => Need::of_account("s", "r"),
        SetServiceProperties => Need::of_account("s", "w"),
        ListContainers => Need::of_account("s", "l"),
        GetAccountInformation => Need { resource_types: "sco", any: "", creates: false, reach: Reach::Blob },
        FindBlobsByTags => Need::of_account("sco", "f"),
        FindBlobsByTagsInContainer => {
            Need { resource_types: "sco", any: "f", creates: false, reach: Reach::Container }
        }
        // The operations inside are checked one by one.
        Batch => Need::of_account("sco", ""),
        ContainerBatch => Need { resource_types: "sco", any: "", creates: false, reach: Reach::Container },
        CreateContainer => Need::of_account("c", "cw"),
        GetContainerProperties | GetContainerMetadata => Need::of_account("c", "r"),
        SetContainerMetadata | LeaseContainer | RestoreContainer | RenameContainer => {
            Need::of_account("c", "w")
        }
        BreakContainerLease => Need::of_account("c", "wd"),
        DeleteContainer => Need::of_account("c", "d"),
        GetContainerAcl | SetContainerAcl | GetUserDelegationKey => Need::of_account("", ""),
        ListBlobs => Need { resource_types: "c", any: "l", creates: false, reach: Reach::Container },
        GetBlob | GetBlobProperties | GetBlobMetadata | GetBlockList | GetPageRanges | GetPageRangesDiff
        | QueryBlobContents => Need::of_blob("r"),
        PutBlob | PutBlobFromUrl | CopyBlob | CopyBlobFromUrl | IncrementalCopy | PutBlock
        | PutBlockFromUrl | PutBlockList => Need::of_new_blob(),
        AppendBlock | AppendBlockFromUrl | SealBlob => Need::of_blob("aw"),
        PutPages | ClearPages | PutPagesFromUrl | SetBlobProperties | SetBlobMetadata | SetBlobTier
        | SetBlobExpiry | AbortCopy | UndeleteBlob | LeaseBlob => Need::of_blob("w"),
        BreakBlobLease => Need::of_blob("wd"),
        SnapshotBlob => Need::of_blob("cw"),
        DeleteBlob => Need::of_blob("d"),
        DeleteBlobVersion => Need::of_blob("x"),
        DeleteBlobPermanently => Need::of_blob("y"),
        GetBlobTags | SetBlobTags => Need::of_blob("t"),
        SetImmutabilityPolicy | DeleteImmutabilityPolicy | SetLegalHold => Need::of_blob("i"),
    }
}

/// Whether `grant` allows an operation, in `container` if it is in one.
pub fn check(grant: &Grant, kind: OperationKind, container: Option<&str>) -> Result<Allowed, ErrorCode> {
    let need = need(kind);
    match grant {
        Grant::AccountKey => Ok(Allowed::Fully),
        Grant::AccountSas { services, resource_types, permissions } => {
            if !services.contains('b') {
                return Err(ErrorCode::AuthorizationServiceMismatch);
            }
            if need.resource_types.is_empty() {
                return Err(ErrorCode::AuthorizationFailure);
            }
            if !need.resource_types.chars().any(|letter| resource_types.contains(letter)) {
                return Err(ErrorCode::AuthorizationResourceTypeMismatch);
            }
            need.check_letters(permissions)
        }
        Grant::BlobSas { container: granted, reach, permissions, modern_errors } => {
            let reaches = match reach {
                BlobReach::Container => need.reach <= Reach::Container,
                BlobReach::Directory | BlobReach::Blob => need.reach == Reach::Blob,
                // Nothing can be done to these but to read and to delete them, and to change what is around.
                BlobReach::Snapshot | BlobReach::Version => need.reach == Reach::Blob && !need.creates,
            };
            let outcome = match reaches && container.is_none_or(|asked| asked == granted) {
                true => need.check_letters(permissions),
                false => Err(ErrorCode::AuthorizationFailure),
            };
            outcome.map_err(|code| if *modern_errors { code } else { ErrorCode::ResourceNotFound })
        }
        Grant::Anonymous => public(kind).map(Allowed::IfPublic).ok_or(ErrorCode::ResourceNotFound),
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
