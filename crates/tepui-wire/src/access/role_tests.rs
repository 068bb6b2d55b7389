//! Every role and every operation of every service, at every scope, against the list below: written by hand from the
//! documentation of the actions, and not from the tables that it checks.

use super::{blob, queue, table};
use crate::version::ServiceVersion;
use std::collections::HashSet;
use std::sync::Arc;
use tepui_model::blob::access::Allowed;
use tepui_model::grant::{AccountRoles, BlobReach, Delegator, Grant, KeyBounds, TokenOwner};
use tepui_model::operation::Kind as _;
use tepui_model::permissions::Permissions;
use tepui_model::role::{Actions, AssignedRoles, Principal, PrincipalName, Role, RoleAssignment, Scope};
use tepui_model::{ErrorCode, Service};

/// For each service: its operations, where a role must be assigned for them, and the roles that will do.
///
/// `resource`: at the table, the queue or the container, or above. `service`: at the service, the account or the server.
/// Roles are short: `Owner`, `Contributor`, `Reader`, `Processor` and `Sender` are the data roles of the service, `Delegator` its
/// delegator, and `Account` is Storage Account Contributor. `*`: anybody with a token.
const ALLOWED: [(Service, &str); 3] = [
    (
        Service::Table,
        "
        GetTableServiceProperties  service   Account
        SetTableServiceProperties  service   Account
        GetTableServiceStats       service   Account
        GetUserDelegationKey       service   Delegator Account
        QueryTables                service   Contributor Reader Account
        QueryTable                 service   Contributor Reader Account
        CreateTable                service   Contributor Account
        DeleteTable                resource  Contributor Account
        GetTableACL                resource  Account
        SetTableACL                resource  Account
        QueryEntities              resource  Contributor Reader
        QueryEntity                resource  Contributor Reader
        InsertEntity               resource  Contributor
        UpdateEntity               resource  Contributor
        MergeEntity                resource  Contributor
        InsertOrReplaceEntity      resource  Contributor
        InsertOrMergeEntity        resource  Contributor
        DeleteEntity               resource  Contributor
        EntityGroupTransaction     resource  *
        ",
    ),
    (
        Service::Queue,
        "
        GetQueueServiceProperties  service   Account
        SetQueueServiceProperties  service   Account
        GetQueueServiceStats       service   Account
        GetUserDelegationKey       service   Delegator Account
        ListQueues                 service   Contributor Reader Account
        CreateQueue                resource  Contributor Account
        DeleteQueue                resource  Contributor Account
        GetQueueMetadata           resource  Contributor Reader Account
        SetQueueMetadata           resource  Contributor Account
        GetQueueACL                resource  Account
        SetQueueACL                resource  Account
        PutMessage                 resource  Contributor Sender
        GetMessages                resource  Contributor Processor
        PeekMessages               resource  Contributor Reader Processor
        UpdateMessage              resource  Contributor
        DeleteMessage              resource  Contributor Processor
        ClearMessages              resource  Contributor
        ",
    ),
    (
        Service::Blob,
        "
        GetBlobServiceProperties      service   Account
        SetBlobServiceProperties      service   Account
        GetBlobServiceStats           service   Account
        GetAccountInformation         service   Account
        GetUserDelegationKey          service   Owner Contributor Reader Delegator Account
        ListContainers                service   Owner Contributor Reader Account
        FindBlobsByTags               service   Owner
        BlobBatch                     service   Owner Contributor Account
        ContainerBlobBatch            resource  Owner Contributor Account
        FindBlobsByTagsInContainer    resource  Owner
        CreateContainer               resource  Owner Contributor Account
        GetContainerProperties        resource  Owner Contributor Reader Account
        GetContainerMetadata          resource  Owner Contributor Reader Account
        SetContainerMetadata          resource  Owner Contributor Account
        GetContainerACL               resource  Owner Account
        SetContainerACL               resource  Owner Account
        LeaseContainer                resource  Owner Contributor Account
        BreakContainerLease           resource  Owner Contributor Account
        DeleteContainer               resource  Owner Contributor Account
        RestoreContainer              service   Owner Contributor Account
        RenameContainer               resource
        ListBlobs                     resource  Owner Contributor Reader
        GetBlob                       resource  Owner Contributor Reader
        GetBlobProperties             resource  Owner Contributor Reader
        GetBlobMetadata               resource  Owner Contributor Reader
        GetBlockList                  resource  Owner Contributor Reader
        GetPageRanges                 resource  Owner Contributor Reader
        GetPageRangesDiff             resource  Owner Contributor Reader
        QueryBlobContents             resource  Owner Contributor Reader
        PutBlob                       resource  Owner Contributor
        PutBlobFromURL                resource  Owner Contributor
        CopyBlob                      resource  Owner Contributor
        CopyBlobFromURL               resource  Owner Contributor
        IncrementalCopyBlob           resource  Owner Contributor
        AbortCopyBlob                 resource  Owner Contributor
        SetBlobMetadata               resource  Owner Contributor
        SetBlobProperties             resource  Owner Contributor
        SetBlobTier                   resource  Owner Contributor
        SetBlobExpiry                 resource  Owner Contributor
        LeaseBlob                     resource  Owner Contributor
        BreakBlobLease                resource  Owner Contributor
        SnapshotBlob                  resource  Owner Contributor
        PutBlock                      resource  Owner Contributor
        PutBlockFromURL               resource  Owner Contributor
        PutBlockList                  resource  Owner Contributor
        AppendBlock                   resource  Owner Contributor
        AppendBlockFromURL            resource  Owner Contributor
        SealBlob                      resource  Owner Contributor
        PutPage                       resource  Owner Contributor
        ClearPage                     resource  Owner Contributor
        PutPageFromURL                resource  Owner Contributor
        DeleteBlob                    resource  Owner Contributor
        DeleteBlobVersion             resource  Owner
        PermanentDeleteBlob           resource  Owner
        UndeleteBlob                  resource  Owner Contributor Account
        GetBlobTags                   resource  Owner
        SetBlobTags                   resource  Owner
        SetBlobImmutabilityPolicy     resource  Owner
        DeleteBlobImmutabilityPolicy  resource  Owner
        SetBlobLegalHold              resource  Owner Contributor Account
        ",
    ),
];

const ACCOUNT: &str = "acct";
const RESOURCE: &str = "things";

/// The short name of a role among those of a service. `None`: it is of another service.
fn short(role: Role, service: Service) -> Option<&'static str> {
    use Role::*;
    Some(match (role, service) {
        (AccountContributor, _) => "Account",
        (BlobDataOwner, Service::Blob) => "Owner",
        (BlobDataContributor, Service::Blob)
        | (QueueDataContributor, Service::Queue)
        | (TableDataContributor, Service::Table) => "Contributor",
        (BlobDataReader, Service::Blob)
        | (QueueDataReader, Service::Queue)
        | (TableDataReader, Service::Table) => "Reader",
        (BlobDelegator, Service::Blob)
        | (QueueDelegator, Service::Queue)
        | (TableDelegator, Service::Table) => "Delegator",
        (QueueDataMessageProcessor, Service::Queue) => "Processor",
        (QueueDataMessageSender, Service::Queue) => "Sender",
        _ => return None,
    })
}

fn principal() -> Arc<Principal> {
    Arc::new(Principal {
        issuer: "https://issuer".to_owned(),
        object_id: "o".to_owned(),
        tenant_id: "t".to_owned(),
        names: vec![PrincipalName::Object("o".to_owned())],
    })
}

fn token(assigned: AssignedRoles) -> Grant {
    let roles = AccountRoles { account: ACCOUNT.to_owned(), assigned };
    Grant::Token(Box::new(TokenOwner { principal: principal(), roles }))
}

/// A role at a scope, as it is assigned.
fn assigned(role: Role, scope: &str) -> AssignedRoles {
    let scope = scope.parse().unwrap();
    let assignment =
        RoleAssignment { principal: PrincipalName::Object("o".to_owned()), issuer: None, role, scope };
    AssignedRoles::of(&principal(), ACCOUNT, [&assignment])
}

/// All operations of a service: name, whether its requests name a table, a queue or a container, and whether a grant
/// allows it on the one of that name.
type Check = Box<dyn Fn(&Grant, Option<&str>) -> Result<Allowed, ErrorCode>>;

fn operations(service: Service) -> Vec<(&'static str, Check)> {
    fn boxed(check: impl Fn(&Grant, Option<&str>) -> Result<Allowed, ErrorCode> + 'static) -> Check {
        Box::new(check)
    }
    match service {
        Service::Table => tepui_model::table::OperationKind::ALL
            .iter()
            .map(|kind| {
                (kind.name(), boxed(|grant, name| table::check(grant, *kind, name).map(|()| Allowed::Fully)))
            })
            .collect(),
        Service::Queue => tepui_model::queue::OperationKind::ALL
            .iter()
            .map(|kind| {
                (kind.name(), boxed(|grant, name| queue::check(grant, *kind, name).map(|()| Allowed::Fully)))
            })
            .collect(),
        Service::Blob => tepui_model::blob::OperationKind::ALL
            .iter()
            .map(|kind| (kind.name(), boxed(|grant, name| blob::check(grant, *kind, name))))
            .collect(),
    }
}

/// The row of an operation in the list.
fn row(service: Service, name: &str) -> (bool, Vec<&'static str>) {
    let rows = ALLOWED.iter().find(|(of, _)| *of == service).map_or("", |(_, rows)| rows);
    let mut found = rows.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    let found = found.find(|words| words.first() == Some(&name));
    let words = found.unwrap_or_else(|| panic!("{service:?} {name} is not in the list"));
    let at_service = match words[1] {
        "service" => true,
        "resource" => false,
        other => panic!("{other}"),
    };
    (at_service, words[2..].to_vec())
}

#[test]
fn every_role_may_do_what_is_listed_and_nothing_else() {
    const REFUSED: Result<Allowed, ErrorCode> = Err(ErrorCode::AuthorizationPermissionMismatch);
    let mut checked = 0;
    for service in Service::ALL {
        let name = service.name();
        let other_service = if service == Service::Blob { "queue" } else { "blob" };
        // Where a role is assigned, and whether that counts for one resource, and for all of the service.
        let scopes = [
            ("/".to_owned(), true, true),
            (format!("/{ACCOUNT}"), true, true),
            (format!("/{ACCOUNT}/{name}"), true, true),
            (format!("/{ACCOUNT}/{name}/{RESOURCE}"), true, false),
            (format!("/{ACCOUNT}/{name}/others"), false, false),
            (format!("/{ACCOUNT}/{other_service}"), false, false),
            (format!("/{ACCOUNT}/{other_service}/{RESOURCE}"), false, false),
            ("/other".to_owned(), false, false),
            (format!("/other/{name}"), false, false),
            (format!("/other/{name}/{RESOURCE}"), false, false),
        ];
        let operations = operations(service);
        for (operation, check) in &operations {
            let (at_service, roles) = row(service, operation);
            assert_eq!(check(&token(AssignedRoles::default()), Some(RESOURCE)).is_ok(), roles == ["*"]);
            for role in Role::ALL {
                let is_listed =
                    roles == ["*"] || short(role, service).is_some_and(|role| roles.contains(&role));
                for (scope, counts_for_one, counts_for_all) in &scopes {
                    let counts = if at_service { *counts_for_all } else { *counts_for_one };
                    let expected = is_listed && (counts || roles == ["*"]);
                    let found = check(&token(assigned(role, scope)), Some(RESOURCE));
                    let expected = if expected { Ok(Allowed::Fully) } else { REFUSED };
                    assert_eq!(found, expected, "{service:?} {operation} {role:?} {scope}");
                    checked += 1;
                }
            }
        }
        let listed = ALLOWED.iter().find(|(of, _)| *of == service).map_or("", |(_, rows)| rows);
        let names: Vec<&str> = listed.lines().filter_map(|line| line.split_whitespace().next()).collect();
        assert_eq!(names.len(), names.iter().collect::<HashSet<_>>().len(), "no operation is listed twice");
        assert_eq!(names.len(), operations.len(), "nothing else is listed");
    }
    assert_eq!(checked, 13 * 10 * (19 + 17 + 60));
}

#[test]
fn roles_of_one_resource_do_not_count_where_none_is_named() {
    for service in Service::ALL {
        for role in Role::ALL {
            let grant = token(assigned(role, &format!("/{ACCOUNT}/{}/{RESOURCE}", service.name())));
            for (operation, check) in operations(service) {
                let is_free = operation == "EntityGroupTransaction";
                assert_eq!(check(&grant, None).is_ok(), is_free, "{role:?} {operation}");
            }
        }
    }
}

/// Sets of actions that no built-in role has, as in documentation of what each operation needs.
#[test]
fn one_action_will_do_or_two_together() {
    type A = Actions;
    use Service::*;
    const FULLY: Option<Allowed> = Some(Allowed::Fully);
    for (service, actions, operation, expected) in [
        (Table, A::ENTITY_ADD, "InsertEntity", FULLY),
        (Table, A::ENTITY_ADD, "InsertOrMergeEntity", None),
        (Table, A::ENTITY_ADD, "InsertOrReplaceEntity", None),
        (Table, A::ENTITY_ADD, "MergeEntity", None),
        (Table, A::ENTITY_UPDATE, "MergeEntity", FULLY),
        (Table, A::ENTITY_UPDATE, "UpdateEntity", FULLY),
        (Table, A::ENTITY_UPDATE, "InsertEntity", None),
        (Table, A::ENTITY_UPDATE, "InsertOrMergeEntity", None),
        (Table, A::ENTITY_ADD | A::ENTITY_UPDATE, "InsertOrMergeEntity", FULLY),
        (Table, A::ENTITY_ADD | A::ENTITY_UPDATE, "InsertOrReplaceEntity", FULLY),
        (Table, A::ENTITY_WRITE, "InsertOrReplaceEntity", FULLY),
        (Table, A::ENTITY_WRITE, "InsertEntity", FULLY),
        (Table, A::ENTITY_WRITE, "MergeEntity", FULLY),
        (Table, A::ENTITY_WRITE, "DeleteEntity", None),
        (Queue, A::MESSAGE_READ, "GetMessages", None),
        (Queue, A::MESSAGE_DELETE, "GetMessages", None),
        (Queue, A::MESSAGE_READ | A::MESSAGE_DELETE, "GetMessages", FULLY),
        (Queue, A::MESSAGE_PROCESS, "GetMessages", FULLY),
        (Queue, A::MESSAGE_PROCESS, "PeekMessages", None),
        (Queue, A::MESSAGE_PROCESS, "UpdateMessage", None),
        (Queue, A::MESSAGE_PROCESS, "ClearMessages", None),
        (Queue, A::MESSAGE_DELETE, "DeleteMessage", FULLY),
        (Queue, A::MESSAGE_DELETE, "ClearMessages", FULLY),
        (Queue, A::MESSAGE_WRITE, "PutMessage", FULLY),
        (Blob, A::BLOB_ADD, "PutBlob", Some(Allowed::IfAbsent)),
        (Blob, A::BLOB_ADD, "CopyBlob", Some(Allowed::IfAbsent)),
        (Blob, A::BLOB_ADD, "PutBlobFromURL", Some(Allowed::IfAbsent)),
        (Blob, A::BLOB_ADD, "SnapshotBlob", FULLY),
        (Blob, A::BLOB_ADD, "AppendBlock", FULLY),
        (Blob, A::BLOB_ADD, "PutBlock", None),
        (Blob, A::BLOB_ADD, "SetBlobMetadata", None),
        (Blob, A::BLOB_ADD | A::BLOB_WRITE, "PutBlob", FULLY),
        (Blob, A::BLOB_TAGS_READ, "SetBlobTags", None),
        (Blob, A::BLOB_DELETE, "DeleteBlobVersion", None),
    ] {
        let roles = [(Scope::Account(ACCOUNT.to_owned()), actions)].into_iter().collect();
        let found = operations(service).into_iter().find(|(name, _)| *name == operation);
        let (_, check) = found.unwrap_or_else(|| panic!("{operation}"));
        assert_eq!(check(&token(roles), Some(RESOURCE)).ok(), expected, "{operation} {actions:?}");
    }
}

/// A SAS that a user has signed with a key of their own.
fn delegated(service: Service, permissions: &str, roles: AssignedRoles, vouches: bool) -> Grant {
    let delegator = Some(Box::new(Delegator {
        object_id: "o".to_owned(),
        tenant_id: "t".to_owned(),
        authorized_object_id: vouches.then(|| "a".to_owned()),
        roles: AccountRoles { account: ACCOUNT.to_owned(), assigned: roles },
    }));
    let permissions = Permissions::parse(permissions);
    let (modern_errors, name) = (true, RESOURCE.to_owned());
    match service {
        Service::Table => Grant::TableSas {
            table: name,
            permissions,
            bounds: KeyBounds::EVERYTHING,
            modern_errors,
            delegator,
        },
        Service::Queue => Grant::QueueSas { queue: name, permissions, modern_errors, delegator },
        Service::Blob => Grant::BlobSas {
            container: name,
            reach: BlobReach::Container,
            permissions,
            modern_errors,
            delegator,
        },
    }
}

const ALL_LETTERS: &str = "abcdefghijklmnopqrstuvwxyz";

/// Never more than the token of the same user, never more than the same SAS by a key of the account, and all that both may.
#[test]
fn a_sas_of_a_user_allows_what_both_allow() {
    for service in Service::ALL {
        for role in Role::ALL {
            for scope in ["/", "/acct", &format!("/acct/{}/{RESOURCE}", service.name()), "/acct/blob/x"] {
                for letters in ["", "r", "c", "a", "w", "ac", "rl", "dp", ALL_LETTERS] {
                    let of_user = delegated(service, letters, assigned(role, scope), false);
                    let own = token(assigned(role, scope));
                    let by_key = without_delegator(of_user.clone());
                    for (operation, check) in operations(service) {
                        let allowed = check(&of_user, Some(RESOURCE)).ok();
                        let (own, by_key) = (check(&own, Some(RESOURCE)), check(&by_key, Some(RESOURCE)));
                        let both = match (own, by_key) {
                            (Ok(Allowed::Fully), Ok(Allowed::Fully)) => Some(Allowed::Fully),
                            (Ok(_), Ok(_)) => Some(Allowed::IfAbsent),
                            _ => None,
                        };
                        let both = both.filter(|_| operation != "GetQueueMetadata");
                        assert_eq!(allowed, both, "{service:?} {operation} {role:?} {scope} {letters}");
                    }
                }
            }
        }
    }
}

fn without_delegator(mut grant: Grant) -> Grant {
    if let Grant::TableSas { delegator, .. }
    | Grant::QueueSas { delegator, .. }
    | Grant::BlobSas { delegator, .. } = &mut grant
    {
        *delegator = None;
    }
    grant
}

#[test]
fn what_a_sas_of_a_user_never_allows() {
    for (service, never) in [
        (
            Service::Table,
            "QueryTables QueryTable CreateTable DeleteTable GetTableACL SetTableACL GetTableServiceProperties \
             SetTableServiceProperties GetTableServiceStats GetUserDelegationKey",
        ),
        (
            Service::Queue,
            "ListQueues CreateQueue DeleteQueue GetQueueMetadata SetQueueMetadata GetQueueACL SetQueueACL ClearMessages \
             GetQueueServiceProperties SetQueueServiceProperties GetQueueServiceStats GetUserDelegationKey",
        ),
        (
            Service::Blob,
            "ListContainers CreateContainer DeleteContainer GetContainerProperties GetContainerMetadata \
             SetContainerMetadata GetContainerACL SetContainerACL LeaseContainer BreakContainerLease RestoreContainer \
             RenameContainer GetBlobServiceProperties SetBlobServiceProperties GetBlobServiceStats \
             GetUserDelegationKey FindBlobsByTags BlobBatch",
        ),
    ] {
        let never: Vec<&str> = never.split_whitespace().collect();
        let grant = delegated(service, ALL_LETTERS, AssignedRoles::everything(), false);
        for (operation, check) in operations(service) {
            assert_eq!(check(&grant, Some(RESOURCE)).is_err(), never.contains(&operation), "{operation}");
        }
    }
}

#[test]
fn the_roles_of_who_signs_count_when_it_is_used() {
    for service in Service::ALL {
        let (operation, letters) = match service {
            Service::Table => ("QueryEntities", "r"),
            Service::Queue => ("PeekMessages", "r"),
            Service::Blob => ("GetBlob", "r"),
        };
        let mut grant = delegated(service, letters, AssignedRoles::default(), false);
        let check = |grant: &Grant| {
            let found = operations(service).into_iter().find(|(name, _)| *name == operation);
            found.unwrap().1(grant, Some(RESOURCE))
        };
        assert_eq!(check(&grant), Err(ErrorCode::AuthorizationPermissionMismatch));
        grant.set_delegator_roles(AssignedRoles::everything());
        assert_eq!(check(&grant), Ok(Allowed::Fully));
        grant.set_delegator_roles(AssignedRoles::default());
        assert_eq!(check(&grant), Err(ErrorCode::AuthorizationPermissionMismatch));
    }
}

#[test]
fn who_vouches_for_others_must_own_the_data() {
    use tepui_model::blob::OperationKind::GetBlob;
    for (role, vouches, expected) in [
        (Role::BlobDataContributor, false, true),
        (Role::BlobDataContributor, true, false),
        (Role::BlobDataOwner, true, true),
    ] {
        let grant = delegated(Service::Blob, "r", assigned(role, "/acct"), vouches);
        assert_eq!(blob::check(&grant, GetBlob, Some(RESOURCE)).is_ok(), expected, "{role:?} {vouches}");
    }
}

#[test]
fn tags_are_for_owners() {
    for (role, scope, expected) in [
        (Role::BlobDataOwner, "/acct", true),
        (Role::BlobDataOwner, "/acct/blob/things", true),
        (Role::BlobDataOwner, "/acct/blob/others", false),
        (Role::BlobDataContributor, "/acct", false),
        (Role::BlobDataReader, "/acct", false),
        (Role::AccountContributor, "/", false),
    ] {
        let own = blob::check_tags(&token(assigned(role, scope)), Some(RESOURCE));
        assert_eq!(own.is_ok(), expected, "{role:?} {scope}");
        for (letters, has_letter) in [("rt", true), ("r", false)] {
            let grant = delegated(Service::Blob, letters, assigned(role, scope), false);
            let allowed = blob::check_tags(&grant, Some(RESOURCE)).is_ok();
            assert_eq!(allowed, expected && has_letter, "{role:?} {scope} {letters}");
        }
    }
}

#[test]
fn policies_are_for_tokens_since_2025() {
    use tepui_model::{queue::OperationKind as Q, table::OperationKind as T};
    let owner = token(AssignedRoles::everything());
    let version = |text| ServiceVersion::parse(text).unwrap();
    for (text, expected) in
        [("2025-05-05", Err(ErrorCode::ResourceNotFound)), ("2025-07-05", Ok(())), ("2026-10-06", Ok(()))]
    {
        for kind in [T::GetTableAcl, T::SetTableAcl] {
            let found = table::check_request(&owner, kind, Some(RESOURCE), version(text));
            assert_eq!(found.map_err(|error| error.code), expected, "{kind:?} {text}");
        }
        for kind in [Q::GetAcl, Q::SetAcl] {
            let found = queue::check_request(&owner, kind, Some(RESOURCE), version(text));
            assert_eq!(found.map_err(|error| error.code), expected, "{kind:?} {text}");
        }
        assert!(
            table::check_request(&Grant::AccountKey, T::GetTableAcl, Some(RESOURCE), version(text)).is_ok()
        );
    }
}

#[test]
fn keys_of_users_are_for_tokens() {
    use tepui_model::{queue::OperationKind as Q, table::OperationKind as T};
    let newest = ServiceVersion::NEWEST;
    for (grant, expected) in [
        (token(AssignedRoles::everything()), Ok(())),
        (token(AssignedRoles::default()), Err(ErrorCode::AuthorizationPermissionMismatch)),
        (Grant::AccountKey, Err(ErrorCode::AuthenticationFailed)),
        (Grant::Anonymous, Err(ErrorCode::AuthenticationFailed)),
        (
            delegated(Service::Queue, "r", AssignedRoles::everything(), false),
            Err(ErrorCode::AuthenticationFailed),
        ),
    ] {
        let queue = queue::check_request(&grant, Q::GetUserDelegationKey, None, newest);
        let table = table::check_request(&grant, T::GetUserDelegationKey, None, newest);
        assert_eq!(queue.map_err(|error| error.code), expected, "{grant:?}");
        assert_eq!(table.map_err(|error| error.code), expected, "{grant:?}");
    }
}
