//! What a grant allows: the table of operations and the permissions they need.

use tepui_model::ErrorCode;
use tepui_model::access::{Need, Reach};
use tepui_model::grant::{Grant, KeyBounds};
use tepui_model::queue;
use tepui_model::table::OperationKind;

fn need(kind: OperationKind) -> Need {
    use OperationKind::*;
    match kind {
        GetServiceProperties | GetServiceStats => Need::account_only("s", "r", ""),
        SetServiceProperties => Need::account_only("s", "w", ""),
        QueryTables | GetTable => Need::account_only("c", "l", ""),
        CreateTable => Need::account_only("c", "", "cw"),
        DeleteTable => Need::account_only("c", "d", ""),
        QueryEntities | GetEntity => Need::of_whole("o", "r"),
        InsertEntity => Need::of_whole("o", "a"),
        UpdateEntity | MergeEntity => Need::of_whole("o", "u"),
        InsertOrReplaceEntity | InsertOrMergeEntity => Need::of_whole("o", "au"),
        DeleteEntity => Need::of_whole("o", "d"),
        // The operations inside are checked one by one.
        EntityGroupTransaction => Need::of_whole("sco", ""),
        GetTableAcl | SetTableAcl => Need::NO_SAS_WILL_DO,
    }
}

fn queue_need(kind: queue::OperationKind) -> Need {
    use queue::OperationKind::*;
    match kind {
        GetServiceProperties | GetServiceStats => Need::account_only("s", "r", ""),
        SetServiceProperties => Need::account_only("s", "w", ""),
        ListQueues => Need::account_only("s", "l", ""),
        CreateQueue => Need::account_only("c", "", "cw"),
        DeleteQueue => Need::account_only("c", "d", ""),
        GetMetadata => Need::of_whole("c", "r"),
        SetMetadata => Need::account_only("c", "w", ""),
        GetAcl | SetAcl => Need::NO_SAS_WILL_DO,
        PutMessage => Need::of_whole("o", "a"),
        GetMessages | DeleteMessage => Need::of_whole("o", "p"),
        PeekMessages => Need::of_whole("o", "r"),
        UpdateMessage => Need::of_whole("o", "u"),
        ClearMessages => Need::account_only("o", "d", ""),
    }
}

/// Whether `grant` allows an operation, on `table` if it is about one.
pub fn check(grant: &Grant, kind: OperationKind, table: Option<&str>) -> Result<(), ErrorCode> {
    let need = need(kind);
    match grant {
        Grant::AccountKey => Ok(()),
        Grant::AccountSas { services, resource_types, permissions } => {
            need.check_account_sas('t', services, resource_types, permissions).map(drop)
        }
        Grant::TableSas { table: granted, permissions, modern_errors, .. } => {
            let same = table.is_none_or(|asked| asked.eq_ignore_ascii_case(granted));
            let reaches = same && need.reach == Reach::Whole;
            need.check_service_sas(reaches, permissions).map(drop).map_err(|code| shown(code, *modern_errors))
        }
        Grant::QueueSas { .. } | Grant::BlobSas { .. } | Grant::Anonymous => {
            Err(ErrorCode::AuthorizationFailure)
        }
    }
}

/// Whether `grant` allows an operation of the Queue service, on `queue` if it is about one.
pub fn check_queue(grant: &Grant, kind: queue::OperationKind, queue: Option<&str>) -> Result<(), ErrorCode> {
    let need = queue_need(kind);
    match grant {
        Grant::AccountKey => Ok(()),
        Grant::AccountSas { services, resource_types, permissions } => {
            need.check_account_sas('q', services, resource_types, permissions).map(drop)
        }
        Grant::QueueSas { queue: granted, permissions, modern_errors } => {
            let reaches = queue == Some(granted) && need.reach == Reach::Whole;
            need.check_service_sas(reaches, permissions).map(drop).map_err(|code| shown(code, *modern_errors))
        }
        Grant::TableSas { .. } | Grant::BlobSas { .. } | Grant::Anonymous => {
            Err(ErrorCode::AuthorizationFailure)
        }
    }
}

/// Fidelity: tokens of old versions hide what they do not reach. scenario: sas-old-version-permission
fn shown(code: ErrorCode, modern_errors: bool) -> ErrorCode {
    if modern_errors { code } else { ErrorCode::ResourceNotFound }
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
                services: services.to_owned(),
                resource_types: types.to_owned(),
                permissions: permissions.to_owned(),
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
                permissions: permissions.to_owned(),
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

    #[test]
    fn queues_by_account_sas() {
        use queue::OperationKind::*;
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
                services: services.to_owned(),
                resource_types: types.to_owned(),
                permissions: permissions.to_owned(),
            };
            assert_eq!(
                check_queue(&grant, kind, None),
                expected,
                "{services} {types} {permissions} {kind:?}"
            );
        }
    }

    #[test]
    fn queue_sas() {
        use queue::OperationKind::*;
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
                permissions: permissions.to_owned(),
                modern_errors,
            };
            assert_eq!(check_queue(&grant(true), kind, queue), expected, "{permissions} {kind:?} {queue:?}");
            let hidden = expected.map_err(|_| ResourceNotFound);
            assert_eq!(check_queue(&grant(false), kind, queue), hidden, "{permissions} {kind:?} {queue:?}");
            assert_eq!(check(&grant(true), QueryEntities, None), Err(AuthorizationFailure));
        }
    }
}
