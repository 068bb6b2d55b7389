//! What a grant allows of the Queue service.

use super::{NO_POLICIES_FOR_TOKENS, Need, Reach, RoleNeed, check_is_token};
use crate::version::ServiceVersion;
use tepui_model::grant::Grant;
use tepui_model::permissions::{Permissions, ResourceTypes, Services};
use tepui_model::queue::OperationKind;
use tepui_model::role::Actions;
use tepui_model::{ErrorCode, Service, ServiceError};

fn need(kind: OperationKind) -> Need {
    use OperationKind::*;
    type P = Permissions;
    const SERVICE: ResourceTypes = ResourceTypes::SERVICE;
    const QUEUE: ResourceTypes = ResourceTypes::CONTAINER;
    const MESSAGE: ResourceTypes = ResourceTypes::OBJECT;
    match kind {
        GetServiceProperties | GetServiceStats => Need::account(SERVICE, P::READ),
        SetServiceProperties => Need::account(SERVICE, P::WRITE),
        ListQueues => Need::account(SERVICE, P::LIST),
        CreateQueue => Need::account(QUEUE, P::NONE).one_of(P::CREATE | P::WRITE),
        DeleteQueue => Need::account(QUEUE, P::DELETE),
        GetMetadata => Need::whole(QUEUE, P::READ),
        SetMetadata => Need::account(QUEUE, P::WRITE),
        GetAcl | SetAcl | GetUserDelegationKey => Need::ACCOUNT_KEY,
        PutMessage => Need::whole(MESSAGE, P::ADD),
        GetMessages | DeleteMessage => Need::whole(MESSAGE, P::PROCESS),
        PeekMessages => Need::whole(MESSAGE, P::READ),
        UpdateMessage => Need::whole(MESSAGE, P::UPDATE),
        ClearMessages => Need::account(MESSAGE, P::DELETE),
    }
}

fn role_need(kind: OperationKind) -> RoleNeed {
    use OperationKind::*;
    type A = Actions;
    const GET: &[A] = &[A::MESSAGE_PROCESS, A::MESSAGE_READ.or(A::MESSAGE_DELETE)];
    match kind {
        GetServiceProperties | GetServiceStats => RoleNeed::at_service(&[A::QUEUE_SERVICE_READ]),
        SetServiceProperties => RoleNeed::at_service(&[A::QUEUE_SERVICE_WRITE]),
        GetUserDelegationKey => RoleNeed::at_service(&[A::QUEUE_GENERATE_KEY]),
        ListQueues => RoleNeed::at_service(&[A::QUEUE_READ]),
        CreateQueue | SetMetadata => RoleNeed::one_of(&[A::QUEUE_WRITE]),
        DeleteQueue => RoleNeed::one_of(&[A::QUEUE_DELETE]),
        GetMetadata => RoleNeed::one_of(&[A::QUEUE_READ]),
        GetAcl => RoleNeed::one_of(&[A::QUEUE_GET_ACL]),
        SetAcl => RoleNeed::one_of(&[A::QUEUE_SET_ACL]),
        PutMessage => RoleNeed::one_of(&[A::MESSAGE_ADD, A::MESSAGE_WRITE]),
        GetMessages => RoleNeed::one_of(GET),
        PeekMessages => RoleNeed::one_of(&[A::MESSAGE_READ]),
        DeleteMessage => RoleNeed::one_of(&[A::MESSAGE_PROCESS, A::MESSAGE_DELETE]),
        UpdateMessage => RoleNeed::one_of(&[A::MESSAGE_WRITE]),
        ClearMessages => RoleNeed::one_of(&[A::MESSAGE_DELETE]),
    }
}

/// Whether `grant` allows an operation, on `queue` if it is about one.
pub fn check(grant: &Grant, kind: OperationKind, queue: Option<&str>) -> Result<(), ErrorCode> {
    let need = need(kind);
    match grant {
        Grant::AccountKey => Ok(()),
        Grant::AccountSas { services, resource_types, permissions } => {
            need.check_account_sas(Services::QUEUE, *services, *resource_types, *permissions).map(drop)
        }
        Grant::QueueSas { queue: granted, permissions, modern_errors, delegator } => {
            // One by the key of a user is for messages only.
            let is_foreign = delegator.is_some() && kind == OperationKind::GetMetadata;
            let reaches = queue == Some(granted) && need.reach == Reach::Whole && !is_foreign;
            need.check_service_sas(reaches, *permissions, *modern_errors)?;
            role_need(kind).check_delegator(delegator.as_deref(), Service::Queue, granted).map(drop)
        }
        Grant::Token(owner) => role_need(kind).check(&owner.roles, Service::Queue, queue).map(drop),
        Grant::TableSas { .. } | Grant::BlobSas { .. } | Grant::Anonymous => {
            Err(ErrorCode::AuthorizationFailure)
        }
    }
}

/// The same for a request of a version.
pub fn check_request(
    grant: &Grant,
    kind: OperationKind,
    queue: Option<&str>,
    version: ServiceVersion,
) -> Result<(), ServiceError> {
    use OperationKind::*;
    match (kind, grant) {
        (GetUserDelegationKey, _) => check_is_token(grant)?,
        (GetAcl | SetAcl, Grant::Token(_)) if !version.has_tokens_for_everything() => {
            return Err(NO_POLICIES_FOR_TOKENS.into());
        }
        _ => {}
    }
    Ok(check(grant, kind, queue)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ErrorCode::*;
    use OperationKind::*;

    #[test]
    fn account_sas() {
        for (services, types, permissions, kind, expected) in [
            ("q", "s", "l", ListQueues, Ok(())),
            ("bt", "s", "l", ListQueues, Err(AuthorizationServiceMismatch)),
            ("q", "co", "l", ListQueues, Err(AuthorizationResourceTypeMismatch)),
            ("q", "s", "r", SetServiceProperties, Err(AuthorizationPermissionMismatch)),
            ("q", "c", "c", CreateQueue, Ok(())),
            ("q", "c", "w", CreateQueue, Ok(())),
            ("q", "c", "r", CreateQueue, Err(AuthorizationPermissionMismatch)),
            ("q", "c", "d", DeleteQueue, Ok(())),
            ("q", "c", "r", GetMetadata, Ok(())),
            ("q", "c", "w", SetMetadata, Ok(())),
            ("q", "sco", "rwdlacup", GetAcl, Err(AuthorizationFailure)),
            ("q", "sco", "rwdlacup", SetAcl, Err(AuthorizationFailure)),
            ("q", "o", "a", PutMessage, Ok(())),
            ("q", "o", "r", GetMessages, Err(AuthorizationPermissionMismatch)),
            ("q", "o", "r", PeekMessages, Ok(())),
            ("q", "o", "u", UpdateMessage, Ok(())),
            ("q", "o", "p", DeleteMessage, Ok(())),
            ("q", "o", "p", ClearMessages, Err(AuthorizationPermissionMismatch)),
            ("q", "o", "d", ClearMessages, Ok(())),
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
    fn queue_sas() {
        for (permissions, kind, queue, expected) in [
            ("r", GetMetadata, Some("jobs"), Ok(())),
            ("r", PeekMessages, Some("jobs"), Ok(())),
            ("r", PeekMessages, Some("other"), Err(AuthorizationFailure)),
            ("r", GetMessages, Some("jobs"), Err(AuthorizationPermissionMismatch)),
            ("a", PutMessage, Some("jobs"), Ok(())),
            ("u", UpdateMessage, Some("jobs"), Ok(())),
            ("p", GetMessages, Some("jobs"), Ok(())),
            ("p", DeleteMessage, Some("jobs"), Ok(())),
            ("raup", ClearMessages, Some("jobs"), Err(AuthorizationFailure)),
            ("raup", SetMetadata, Some("jobs"), Err(AuthorizationFailure)),
            ("raup", GetAcl, Some("jobs"), Err(AuthorizationFailure)),
            ("raup", CreateQueue, Some("jobs"), Err(AuthorizationFailure)),
            ("raup", ListQueues, None, Err(AuthorizationFailure)),
        ] {
            let grant = |modern_errors| Grant::QueueSas {
                queue: "jobs".to_owned(),
                permissions: Permissions::parse(permissions),
                modern_errors,
                delegator: None,
            };
            assert_eq!(check(&grant(true), kind, queue), expected, "{permissions} {kind:?} {queue:?}");
            let hidden = expected.map_err(|_| ResourceNotFound);
            assert_eq!(check(&grant(false), kind, queue), hidden, "{permissions} {kind:?} {queue:?}");
        }
    }
}
