//! What a grant allows of the Blob service.

use super::{Met, NO_POLICIES_FOR_TOKENS, Need, Reach, RoleNeed, check_is_token};
use crate::auth;
use crate::blob::request::resource::Resource;
use crate::blob::request::{Prepared, Request};
use crate::head::Head;
use tepui_model::blob::access::Allowed;
use tepui_model::blob::{Call, ContainerName, OperationKind, PublicAccess};
use tepui_model::grant::{AccountRoles, BlobReach, Grant};
use tepui_model::permissions::{Permissions, ResourceTypes, Services};
use tepui_model::role::Actions;
use tepui_model::{ErrorCode, Service, ServiceError};

type P = Permissions;
type A = Actions;

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

fn role_need(kind: OperationKind) -> RoleNeed {
    use OperationKind::*;
    match kind {
        GetServiceProperties | GetServiceStats => RoleNeed::at_service(&[A::BLOB_SERVICE_READ]),
        SetServiceProperties => RoleNeed::at_service(&[A::BLOB_SERVICE_WRITE]),
        GetAccountInformation => RoleNeed::at_service(&[A::BLOB_SERVICE_GET_INFO]),
        GetUserDelegationKey => RoleNeed::at_service(&[A::BLOB_GENERATE_KEY]),
        ListContainers => RoleNeed::at_service(&[A::CONTAINER_READ]),
        FindBlobsByTags => RoleNeed::at_service(&[A::BLOB_FILTER]),
        FindBlobsByTagsInContainer => RoleNeed::one_of(&[A::BLOB_FILTER]),
        // The operations inside are checked one by one, besides.
        Batch => RoleNeed::at_service(&[A::CONTAINER_WRITE]),
        // What is restored may have had another name, of which a role of this one says nothing.
        RestoreContainer => RoleNeed::at_service(&[A::CONTAINER_WRITE]),
        CreateContainer | SetContainerMetadata | LeaseContainer | BreakContainerLease | UndeleteBlob
        | SetLegalHold | ContainerBatch => RoleNeed::one_of(&[A::CONTAINER_WRITE]),
        GetContainerProperties | GetContainerMetadata => RoleNeed::one_of(&[A::CONTAINER_READ]),
        DeleteContainer => RoleNeed::one_of(&[A::CONTAINER_DELETE]),
        GetContainerAcl => RoleNeed::one_of(&[A::CONTAINER_GET_ACL]),
        SetContainerAcl => RoleNeed::one_of(&[A::CONTAINER_SET_ACL]),
        RenameContainer => RoleNeed::NEVER,
        ListBlobs | GetBlob | GetBlobProperties | GetBlobMetadata | GetBlockList | GetPageRanges
        | GetPageRangesDiff | QueryBlobContents => RoleNeed::one_of(&[A::BLOB_READ]),
        PutBlob | PutBlobFromUrl | CopyBlob | CopyBlobFromUrl | IncrementalCopy => {
            RoleNeed { creates: A::BLOB_ADD, ..RoleNeed::one_of(&[A::BLOB_WRITE]) }
        }
        // What they make is new in any case.
        SnapshotBlob | AppendBlock | AppendBlockFromUrl => RoleNeed::one_of(&[A::BLOB_WRITE, A::BLOB_ADD]),
        PutBlock | PutBlockFromUrl | PutBlockList | PutPages | ClearPages | PutPagesFromUrl | SealBlob
        | SetBlobProperties | SetBlobMetadata | SetBlobTier | SetBlobExpiry | AbortCopy | LeaseBlob
        | BreakBlobLease => RoleNeed::one_of(&[A::BLOB_WRITE]),
        DeleteBlob => RoleNeed::one_of(&[A::BLOB_DELETE]),
        DeleteBlobVersion => RoleNeed::one_of(&[A::BLOB_DELETE_VERSION]),
        DeleteBlobPermanently => RoleNeed::one_of(&[A::BLOB_PERMANENT_DELETE]),
        GetBlobTags => RoleNeed::one_of(&[A::BLOB_TAGS_READ]),
        SetBlobTags => RoleNeed::one_of(&[A::BLOB_TAGS_WRITE]),
        SetImmutabilityPolicy | DeleteImmutabilityPolicy => RoleNeed::one_of(&[A::BLOB_IMMUTABLE_STORAGE]),
    }
}

/// What a delegator needs who vouches for somebody else.
const VOUCHES: RoleNeed = RoleNeed::one_of(&[A::BLOB_RUN_AS_SUPER_USER, A::BLOB_MANAGE_OWNERSHIP]);

/// Whether `grant` allows an operation, in `container` if it is in one.
pub fn check(grant: &Grant, kind: OperationKind, container: Option<&str>) -> Result<Allowed, ErrorCode> {
    let need = need(kind);
    match grant {
        Grant::AccountKey => Ok(Allowed::Fully),
        Grant::AccountSas { services, resource_types, permissions } => need
            .check_account_sas(Services::BLOB, *services, *resource_types, *permissions)
            .map(Allowed::from),
        Grant::BlobSas { container: granted, reach, permissions, modern_errors, delegator } => {
            let reaches = match reach {
                BlobReach::Container => need.reach <= Reach::Whole,
                BlobReach::Directory | BlobReach::Blob => need.reach == Reach::Blob,
                // Nothing can be done to these but to read and to delete them, and to change what is around.
                BlobReach::Snapshot | BlobReach::Version => need.reach == Reach::Blob && !need.creates,
            };
            let reaches = reaches && container.is_none_or(|asked| asked == granted);
            let met = need.check_service_sas(reaches, *permissions, *modern_errors)?;
            let delegator = delegator.as_deref();
            if delegator.is_some_and(|delegator| delegator.authorized_object_id.is_some()) {
                VOUCHES.check_delegator(delegator, Service::Blob, granted)?;
            }
            let of_roles = role_need(kind).check_delegator(delegator, Service::Blob, granted)?;
            Ok(met.and(of_roles).into())
        }
        Grant::Token(owner) => {
            role_need(kind).check(&owner.roles, Service::Blob, container).map(Allowed::from)
        }
        Grant::Anonymous => public(kind).map(Allowed::IfPublic).ok_or(ErrorCode::ResourceNotFound),
        Grant::TableSas { .. } | Grant::QueueSas { .. } => Err(ErrorCode::AuthorizationFailure),
    }
}

/// How far `grant` allows to go with what a request asks for.
pub fn check_request(grant: &Grant, request: &Request<'_>) -> Result<Allowed, ServiceError> {
    use OperationKind::*;
    let kind = request.kind();
    match (kind, grant) {
        (GetUserDelegationKey, grant) if *grant != Grant::Anonymous => check_is_token(grant)?,
        (GetContainerAcl | SetContainerAcl, Grant::Token(_))
            if !request.head().version.has_tokens_for_everything() =>
        {
            return Err(NO_POLICIES_FOR_TOKENS.into());
        }
        _ => {}
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
    let container = prepared.call().container().map(ContainerName::as_str);
    let tags = if asks_for_tags { check_tags(grant, container) } else { Ok(()) };
    let protects = prepared.call().sets_protection();
    let checked = tags.and_then(|()| match protects {
        true => check_also(grant, P::PROTECT, A::BLOB_IMMUTABLE_STORAGE, container),
        false => Ok(()),
    });
    checked.map_err(|code| redact_error(code.into(), grant, head))
}

/// Whether `grant` allows to know of tags and to set them, beside what else is done: by a condition, in a list, with a
/// new blob.
pub fn check_tags(grant: &Grant, container: Option<&str>) -> Result<(), ErrorCode> {
    check_also(grant, P::TAGS, A::BLOB_TAGS_READ | A::BLOB_TAGS_WRITE, container)
}

/// The same for a request whose answer may tell of tags.
pub fn may_read_tags(grant: &Grant, head: &Head<'_>) -> bool {
    match grant {
        Grant::Token(_) => {
            let resource = Resource::parse(head.path, head.query).ok();
            check_tags(grant, resource.as_ref().and_then(Resource::container)).is_ok()
        }
        _ => check_tags(grant, None).is_ok(),
    }
}

/// Whether `grant` has a permission that an operation needs beside its own, or its owner the actions.
fn check_also(
    grant: &Grant,
    permission: Permissions,
    actions: Actions,
    container: Option<&str>,
) -> Result<(), ErrorCode> {
    let has = |roles: &AccountRoles, container| match roles.actions(Service::Blob, container) {
        given if given.contains_all(actions) => Ok(()),
        _ => Err(ErrorCode::AuthorizationPermissionMismatch),
    };
    match grant {
        Grant::AccountKey => Ok(()),
        Grant::Token(owner) => has(&owner.roles, container),
        Grant::BlobSas { container, permissions, delegator: Some(delegator), .. }
            if permissions.contains_all(permission) =>
        {
            has(&delegator.roles, Some(container))
        }
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
                delegator: None,
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
