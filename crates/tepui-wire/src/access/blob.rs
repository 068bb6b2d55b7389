//! What a grant allows of the Blob service.

use super::{Met, Need, Reach};
use crate::auth;
use crate::blob::request::{Prepared, Request};
use crate::head::Head;
use tepui_model::blob::access::Allowed;
use tepui_model::blob::{Call, OperationKind, PublicAccess};
use tepui_model::grant::{BlobReach, Grant};
use tepui_model::permissions::{Permissions, ResourceTypes, Services};
use tepui_model::{ErrorCode, ServiceError};

type P = Permissions;

impl From<Met> for Allowed {
    fn from(met: Met) -> Self {
        match met {
            Met::Fully => Self::Fully,
            Met::IfAbsent => Self::IfAbsent,
        }
    }
}

/// Of a blob: one of these permissions.
const fn blob(any: Permissions) -> Need {
    Need { reach: Reach::Blob, ..Need::account(ResourceTypes::OBJECT, P::NONE).one_of(any) }
}

fn need(kind: OperationKind) -> Need {
    use OperationKind::*;
    const SERVICE: ResourceTypes = ResourceTypes::SERVICE;
    const CONTAINER: ResourceTypes = ResourceTypes::CONTAINER;
    let any_type = SERVICE | CONTAINER | ResourceTypes::OBJECT;
    match kind {
        GetServiceProperties | GetServiceStats => Need::account(SERVICE, P::READ),
        SetServiceProperties => Need::account(SERVICE, P::WRITE),
        ListContainers => Need::account(SERVICE, P::LIST),
        GetAccountInformation => Need { resource_types: any_type, ..blob(P::NONE) },
        FindBlobsByTags => Need::account(any_type, P::FIND_BY_TAGS),
        FindBlobsByTagsInContainer => Need::whole(any_type, P::FIND_BY_TAGS),
        // The operations inside are checked one by one.
        Batch => Need::account(any_type, P::NONE),
        ContainerBatch => Need::whole(any_type, P::NONE),
        CreateContainer => Need::account(CONTAINER, P::NONE).one_of(P::CREATE | P::WRITE),
        GetContainerProperties | GetContainerMetadata => Need::account(CONTAINER, P::READ),
        SetContainerMetadata | LeaseContainer | RestoreContainer | RenameContainer => {
            Need::account(CONTAINER, P::WRITE)
        }
        BreakContainerLease => Need::account(CONTAINER, P::NONE).one_of(P::WRITE | P::DELETE),
        DeleteContainer => Need::account(CONTAINER, P::DELETE),
        GetContainerAcl | SetContainerAcl | GetUserDelegationKey => Need::ACCOUNT_KEY,
        ListBlobs => Need::whole(CONTAINER, P::LIST),
        GetBlob | GetBlobProperties | GetBlobMetadata | GetBlockList | GetPageRanges | GetPageRangesDiff
        | QueryBlobContents => blob(P::READ),
        PutBlob | PutBlobFromUrl | CopyBlob | CopyBlobFromUrl | IncrementalCopy | PutBlock
        | PutBlockFromUrl | PutBlockList => Need { creates: true, ..blob(P::WRITE) },
        AppendBlock | AppendBlockFromUrl | SealBlob => blob(P::ADD | P::WRITE),
        PutPages | ClearPages | PutPagesFromUrl | SetBlobProperties | SetBlobMetadata | SetBlobTier
        | SetBlobExpiry | AbortCopy | UndeleteBlob | LeaseBlob => blob(P::WRITE),
        BreakBlobLease => blob(P::WRITE | P::DELETE),
        SnapshotBlob => blob(P::CREATE | P::WRITE),
        DeleteBlob => blob(P::DELETE),
        DeleteBlobVersion => blob(P::DELETE_VERSION),
        DeleteBlobPermanently => blob(P::DELETE_PERMANENTLY),
        GetBlobTags | SetBlobTags => blob(P::TAGS),
        SetImmutabilityPolicy | DeleteImmutabilityPolicy | SetLegalHold => blob(P::PROTECT),
    }
}

/// Whether `grant` allows an operation, in `container` if it is in one.
pub fn check(grant: &Grant, kind: OperationKind, container: Option<&str>) -> Result<Allowed, ErrorCode> {
    let need = need(kind);
    match grant {
        Grant::AccountKey => Ok(Allowed::Fully),
        Grant::AccountSas { services, resource_types, permissions } => need
            .check_account_sas(Services::BLOB, *services, *resource_types, *permissions)
            .map(Allowed::from),
        Grant::BlobSas { container: granted, reach, permissions, modern_errors } => {
            let reaches = match reach {
                BlobReach::Container => need.reach <= Reach::Whole,
                BlobReach::Directory | BlobReach::Blob => need.reach == Reach::Blob,
                // Nothing can be done to these but to read and to delete them, and to change what is around.
                BlobReach::Snapshot | BlobReach::Version => need.reach == Reach::Blob && !need.creates,
            };
            let reaches = reaches && container.is_none_or(|asked| asked == granted);
            need.check_service_sas(reaches, *permissions, *modern_errors).map(Allowed::from)
        }
        Grant::Anonymous => public(kind).map(Allowed::IfPublic).ok_or(ErrorCode::ResourceNotFound),
        Grant::TableSas { .. } | Grant::QueueSas { .. } => Err(ErrorCode::AuthorizationFailure),
    }
}

/// How far `grant` allows to go with what a request asks for.
pub fn check_request(grant: &Grant, request: &Request<'_>) -> Result<Allowed, ServiceError> {
    use OperationKind::*;
    let kind = request.kind();
    // Only who comes with a token of a directory gets a key of their own, and tokens are not served.
    if kind == GetUserDelegationKey && *grant != Grant::Anonymous {
        let error = ServiceError::new(ErrorCode::AuthenticationFailed);
        let reason = "Only authentication scheme Bearer is supported";
        return Err(error.with_detail("AuthenticationErrorDetail", reason));
    }
    let checked = check(grant, kind, request.container()).map_err(ServiceError::from);
    let allowed = checked.map_err(|error| redact_error(error, grant, request.head()))?;
    match kind {
        // Fidelity: `c` did not always do for blocks. scenario: blob-sas-create-blocks
        PutBlock | PutBlockFromUrl | PutBlockList
            if allowed == Allowed::IfAbsent && !request.head().version.creates_from_blocks() =>
        {
            Err(ErrorCode::AuthorizationPermissionMismatch.into())
        }
        _ => Ok(allowed),
    }
}

/// What an operation needs beside the right to do it at all: whoever asks for tags must be allowed to know of
/// them, and whoever protects a new blob must be allowed to protect one that is there.
pub fn check_details(grant: &Grant, prepared: &Prepared, head: &Head<'_>) -> Result<(), ServiceError> {
    // In lists, everybody who is let in without credentials has no tags.
    let leaves_out = *grant == Grant::Anonymous && matches!(prepared.call(), Call::List(_));
    let asks_for_tags = prepared.asks_for_tags && !leaves_out;
    let tags = if asks_for_tags { check_tags(grant) } else { Ok(()) };
    let protects = prepared.call().sets_protection();
    let checked = tags.and_then(|()| if protects { check_also(grant, P::PROTECT) } else { Ok(()) });
    checked.map_err(|code| redact_error(code.into(), grant, head))
}

/// Whether `grant` allows to know of tags, beside what else is done: by a condition, or in a list.
pub fn check_tags(grant: &Grant) -> Result<(), ErrorCode> {
    check_also(grant, P::TAGS)
}

/// Whether `grant` has a permission that an operation needs beside its own.
fn check_also(grant: &Grant, permission: Permissions) -> Result<(), ErrorCode> {
    match grant {
        Grant::AccountKey => Ok(()),
        Grant::AccountSas { permissions, .. } | Grant::BlobSas { permissions, .. }
            if permissions.contains_all(permission) =>
        {
            Ok(())
        }
        Grant::BlobSas { modern_errors: false, .. } | Grant::Anonymous => Err(ErrorCode::ResourceNotFound),
        Grant::AccountSas { .. } | Grant::BlobSas { .. } => Err(ErrorCode::AuthorizationPermissionMismatch),
        Grant::TableSas { .. } | Grant::QueueSas { .. } => Err(ErrorCode::AuthorizationFailure),
    }
}

/// Leaves out of an error what the caller may not know: without credentials, whether there is something that is not
/// open to everybody.
pub fn redact_error(error: ServiceError, grant: &Grant, head: &Head<'_>) -> ServiceError {
    match (grant, error.code) {
        (Grant::Anonymous, ErrorCode::ResourceNotFound) => auth::deny_anonymous(head.headers, head.version),
        (_, ErrorCode::CannotVerifyCopySource) if !head.version.tells_of_copy_source() => {
            error.without_copy_source()
        }
        _ => error,
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
                services: Services::parse(services),
                resource_types: ResourceTypes::parse(types),
                permissions: Permissions::parse(permissions),
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
                permissions: Permissions::parse(permissions),
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
