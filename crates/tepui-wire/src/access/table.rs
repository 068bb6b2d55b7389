//! What a grant allows of the Table service.

use super::{Need, Reach};
use tepui_model::ErrorCode;
use tepui_model::grant::{Grant, KeyBounds};
use tepui_model::permissions::{Permissions, ResourceTypes, Services};
use tepui_model::table::OperationKind;

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
        GetTableAcl | SetTableAcl => Need::ACCOUNT_KEY,
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
        Grant::TableSas { table: granted, permissions, modern_errors, .. } => {
            let same = table.is_none_or(|asked| asked.eq_ignore_ascii_case(granted));
            let reaches = same && need.reach == Reach::Whole;
            need.check_service_sas(reaches, *permissions, *modern_errors).map(drop)
        }
        Grant::QueueSas { .. } | Grant::BlobSas { .. } | Grant::Anonymous => {
            Err(ErrorCode::AuthorizationFailure)
        }
    }
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
            };
            assert_eq!(
                check(&grant, kind, table),
                expected,
                "{permissions} {modern_errors} {kind:?} {table:?}"
            );
        }
    }
}
