//! What a grant allows of the Table service.

use super::{NO_POLICIES_FOR_TOKENS, Need, Reach, RoleNeed, check_is_token};
use crate::version::ServiceVersion;
use tepui_model::grant::{Grant, KeyBounds};
use tepui_model::permissions::{Permissions, ResourceTypes, Services};
use tepui_model::role::Actions;
use tepui_model::table::OperationKind;
use tepui_model::{ErrorCode, Service, ServiceError};

fn need(kind: OperationKind) -> Need {
    use OperationKind::*;
    type P = Permissions;
    const SERVICE: ResourceTypes = ResourceTypes::SERVICE;
    const TABLE: ResourceTypes = ResourceTypes::CONTAINER;
    const ENTITY: ResourceTypes = ResourceTypes::OBJECT;
    match kind {
        GetServiceProperties | GetServiceStats => Need::account(SERVICE, P::READ),
        SetServiceProperties => Need::account(SERVICE, P::WRITE),
        QueryTables | GetTable => Need::account(TABLE, P::LIST),
        CreateTable => Need::account(TABLE, P::NONE).one_of(P::CREATE | P::WRITE),
        DeleteTable => Need::account(TABLE, P::DELETE),
        QueryEntities | GetEntity => Need::whole(ENTITY, P::READ),
        InsertEntity => Need::whole(ENTITY, P::ADD),
        UpdateEntity | MergeEntity => Need::whole(ENTITY, P::UPDATE),
        InsertOrReplaceEntity | InsertOrMergeEntity => Need::whole(ENTITY, P::ADD | P::UPDATE),
        DeleteEntity => Need::whole(ENTITY, P::DELETE),
        // The operations inside are checked one by one.
        EntityGroupTransaction => Need::whole(SERVICE | TABLE | ENTITY, P::NONE),
        GetTableAcl | SetTableAcl | GetUserDelegationKey => Need::ACCOUNT_KEY,
    }
}

fn role_need(kind: OperationKind) -> RoleNeed {
    use OperationKind::*;
    type A = Actions;
    const UPSERT: &[A] = &[A::ENTITY_WRITE, A::ENTITY_ADD.or(A::ENTITY_UPDATE)];
    match kind {
        GetServiceProperties | GetServiceStats => RoleNeed::at_service(&[A::TABLE_SERVICE_READ]),
        SetServiceProperties => RoleNeed::at_service(&[A::TABLE_SERVICE_WRITE]),
        GetUserDelegationKey => RoleNeed::at_service(&[A::TABLE_GENERATE_KEY]),
        QueryTables | GetTable => RoleNeed::at_service(&[A::TABLE_READ]),
        // Its name is in the body: no narrower scope could be told.
        CreateTable => RoleNeed::at_service(&[A::TABLE_WRITE]),
        DeleteTable => RoleNeed::one_of(&[A::TABLE_DELETE]),
        GetTableAcl => RoleNeed::one_of(&[A::TABLE_GET_ACL]),
        SetTableAcl => RoleNeed::one_of(&[A::TABLE_SET_ACL]),
        QueryEntities | GetEntity => RoleNeed::one_of(&[A::ENTITY_READ]),
        InsertEntity => RoleNeed::one_of(&[A::ENTITY_WRITE, A::ENTITY_ADD]),
        UpdateEntity | MergeEntity => RoleNeed::one_of(&[A::ENTITY_WRITE, A::ENTITY_UPDATE]),
        InsertOrReplaceEntity | InsertOrMergeEntity => RoleNeed::one_of(UPSERT),
        DeleteEntity => RoleNeed::one_of(&[A::ENTITY_DELETE]),
        // The operations inside are checked one by one.
        EntityGroupTransaction => RoleNeed::NOTHING,
    }
}

/// Whether `grant` allows an operation, on `table` if it is about one.
pub fn check(grant: &Grant, kind: OperationKind, table: Option<&str>) -> Result<(), ErrorCode> {
    let need = need(kind);
    match grant {
        Grant::AccountKey => Ok(()),
        Grant::AccountSas { services, resource_types, permissions } => {
            need.check_account_sas(Services::TABLE, *services, *resource_types, *permissions).map(drop)
        }
        Grant::TableSas { table: granted, permissions, modern_errors, delegator, .. } => {
            let same = table.is_none_or(|asked| asked.eq_ignore_ascii_case(granted));
            let reaches = same && need.reach == Reach::Whole;
            need.check_service_sas(reaches, *permissions, *modern_errors)?;
            role_need(kind).check_delegator(delegator.as_deref(), Service::Table, granted).map(drop)
        }
        Grant::Token(owner) => role_need(kind).check(&owner.roles, Service::Table, table).map(drop),
        Grant::QueueSas { .. } | Grant::BlobSas { .. } | Grant::Anonymous => {
            Err(ErrorCode::AuthorizationFailure)
        }
    }
}

/// The same for a request of a version.
pub fn check_request(
    grant: &Grant,
    kind: OperationKind,
    table: Option<&str>,
    version: ServiceVersion,
) -> Result<(), ServiceError> {
    use OperationKind::*;
    match (kind, grant) {
        (GetUserDelegationKey, _) => check_is_token(grant)?,
        (GetTableAcl | SetTableAcl, Grant::Token(_)) if !version.has_tokens_for_everything() => {
            return Err(NO_POLICIES_FOR_TOKENS.into());
        }
        _ => {}
    }
    Ok(check(grant, kind, table)?)
}

/// The entities that `grant` reaches.
pub fn bounds(grant: &Grant) -> &KeyBounds {
    match grant {
        Grant::TableSas { bounds, .. } => bounds,
        _ => &KeyBounds::EVERYTHING,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ErrorCode::*;
    use OperationKind::*;

    #[test]
    fn account_sas() {
        for (services, types, permissions, kind, expected) in [
            ("t", "o", "r", GetEntity, Ok(())),
            ("bq", "o", "r", GetEntity, Err(AuthorizationServiceMismatch)),
            ("t", "s", "r", GetEntity, Err(AuthorizationResourceTypeMismatch)),
            ("t", "o", "a", GetEntity, Err(AuthorizationPermissionMismatch)),
            ("t", "s", "l", QueryTables, Err(AuthorizationResourceTypeMismatch)),
            ("t", "c", "l", QueryTables, Ok(())),
            ("t", "c", "c", CreateTable, Ok(())),
            ("t", "c", "w", CreateTable, Ok(())),
            ("t", "c", "r", CreateTable, Err(AuthorizationPermissionMismatch)),
            ("t", "o", "a", InsertOrMergeEntity, Err(AuthorizationPermissionMismatch)),
            ("t", "o", "au", InsertOrMergeEntity, Ok(())),
            ("t", "sco", "rwdlacu", SetTableAcl, Err(AuthorizationFailure)),
            ("t", "s", "w", SetServiceProperties, Ok(())),
            ("t", "s", "r", EntityGroupTransaction, Ok(())),
            ("b", "o", "r", EntityGroupTransaction, Err(AuthorizationServiceMismatch)),
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
    fn table_sas() {
        for (permissions, modern_errors, kind, table, expected) in [
            ("r", true, QueryEntities, Some("Orders"), Ok(())),
            ("r", true, QueryEntities, Some("Other"), Err(AuthorizationFailure)),
            ("r", true, InsertEntity, Some("orders"), Err(AuthorizationPermissionMismatch)),
            ("r", false, InsertEntity, Some("orders"), Err(ResourceNotFound)),
            ("raud", true, QueryTables, None, Err(AuthorizationFailure)),
            ("raud", true, GetTableAcl, Some("orders"), Err(AuthorizationFailure)),
            ("r", true, EntityGroupTransaction, None, Ok(())),
        ] {
            let grant = Grant::TableSas {
                table: "orders".to_owned(),
                permissions: Permissions::parse(permissions),
                bounds: KeyBounds::EVERYTHING,
                modern_errors,
                delegator: None,
            };
            assert_eq!(
                check(&grant, kind, table),
                expected,
                "{permissions} {modern_errors} {kind:?} {table:?}"
            );
        }
    }
}
