//! Role-based access control: actions, the built-in data roles of Azure, and who has which of them where.
//!
//! A role is a set of actions. An assignment gives a role to a principal, or to a group, at a scope. What a principal may do
//! with a resource is the union of the roles that were assigned at its scope or at one around it.

use crate::Service;
use crate::account::is_account_name;
use std::fmt;
use std::ops::BitOr;
use std::str::FromStr;

/// A set of actions. Those that Azure calls actions and those that it calls data actions are not told apart: both are asked
/// for by requests.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub struct Actions(u64);

/// Declares the actions with their names on Azure, one bit for each.
macro_rules! actions {
    ($($name:ident = $text:literal;)*) => {
        /// The position of each action.
        #[allow(non_camel_case_types, clippy::upper_case_acronyms, reason = "the names of the constants, as numbers")]
        enum Position { $($name,)* }

        impl Actions {
            $(pub const $name: Self = Self(1 << Position::$name as u64);)*

            /// Each action with its name, below `Microsoft.Storage/storageAccounts/`.
            pub const ALL: &[(Self, &str)] = &[$((Self::$name, $text),)*];
        }
    };
}

actions! {
    BLOB_SERVICE_READ = "blobServices/read";
    BLOB_SERVICE_WRITE = "blobServices/write";
    BLOB_SERVICE_GET_INFO = "blobServices/getInfo";
    BLOB_GENERATE_KEY = "blobServices/generateUserDelegationKey/action";
    CONTAINER_READ = "blobServices/containers/read";
    CONTAINER_WRITE = "blobServices/containers/write";
    CONTAINER_DELETE = "blobServices/containers/delete";
    CONTAINER_GET_ACL = "blobServices/containers/getAcl/action";
    CONTAINER_SET_ACL = "blobServices/containers/setAcl/action";
    BLOB_READ = "blobServices/containers/blobs/read";
    BLOB_WRITE = "blobServices/containers/blobs/write";
    BLOB_DELETE = "blobServices/containers/blobs/delete";
    BLOB_ADD = "blobServices/containers/blobs/add/action";
    BLOB_MOVE = "blobServices/containers/blobs/move/action";
    BLOB_FILTER = "blobServices/containers/blobs/filter/action";
    BLOB_TAGS_READ = "blobServices/containers/blobs/tags/read";
    BLOB_TAGS_WRITE = "blobServices/containers/blobs/tags/write";
    BLOB_DELETE_VERSION = "blobServices/containers/blobs/deleteBlobVersion/action";
    BLOB_PERMANENT_DELETE = "blobServices/containers/blobs/permanentDelete/action";
    BLOB_IMMUTABLE_STORAGE = "blobServices/containers/blobs/immutableStorage/runAsSuperUser/action";
    BLOB_MANAGE_OWNERSHIP = "blobServices/containers/blobs/manageOwnership/action";
    BLOB_RUN_AS_SUPER_USER = "blobServices/containers/blobs/runAsSuperUser/action";
    QUEUE_SERVICE_READ = "queueServices/read";
    QUEUE_SERVICE_WRITE = "queueServices/write";
    QUEUE_GENERATE_KEY = "queueServices/generateUserDelegationKey/action";
    QUEUE_READ = "queueServices/queues/read";
    QUEUE_WRITE = "queueServices/queues/write";
    QUEUE_DELETE = "queueServices/queues/delete";
    QUEUE_GET_ACL = "queueServices/queues/getAcl/action";
    QUEUE_SET_ACL = "queueServices/queues/setAcl/action";
    MESSAGE_READ = "queueServices/queues/messages/read";
    MESSAGE_WRITE = "queueServices/queues/messages/write";
    MESSAGE_DELETE = "queueServices/queues/messages/delete";
    MESSAGE_ADD = "queueServices/queues/messages/add/action";
    MESSAGE_PROCESS = "queueServices/queues/messages/process/action";
    TABLE_SERVICE_READ = "tableServices/read";
    TABLE_SERVICE_WRITE = "tableServices/write";
    TABLE_GENERATE_KEY = "tableServices/generateUserDelegationKey/action";
    TABLE_READ = "tableServices/tables/read";
    TABLE_WRITE = "tableServices/tables/write";
    TABLE_DELETE = "tableServices/tables/delete";
    TABLE_GET_ACL = "tableServices/tables/getAcl/action";
    TABLE_SET_ACL = "tableServices/tables/setAcl/action";
    ENTITY_READ = "tableServices/tables/entities/read";
    ENTITY_WRITE = "tableServices/tables/entities/write";
    ENTITY_DELETE = "tableServices/tables/entities/delete";
    ENTITY_ADD = "tableServices/tables/entities/add/action";
    ENTITY_UPDATE = "tableServices/tables/entities/update/action";
}

impl Actions {
    pub const NONE: Self = Self(0);

    pub const fn or(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    pub fn contains_all(self, others: Self) -> bool {
        self.0 & others.0 == others.0
    }

    pub fn contains_any(self, others: Self) -> bool {
        self.0 & others.0 != 0
    }
}

impl BitOr for Actions {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        self.or(other)
    }
}

impl fmt::Debug for Actions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = Self::ALL.iter().filter(|(action, _)| self.contains_all(*action)).map(|(_, name)| name);
        f.debug_set().entries(names).finish()
    }
}

/// A built-in role.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Role {
    BlobDataOwner,
    BlobDataContributor,
    BlobDataReader,
    BlobDelegator,
    QueueDataContributor,
    QueueDataReader,
    QueueDataMessageProcessor,
    QueueDataMessageSender,
    QueueDelegator,
    TableDataContributor,
    TableDataReader,
    TableDelegator,
    /// Everything but data: properties of services, policies, tables, queues and containers.
    AccountContributor,
}

impl Role {
    pub const ALL: [Self; 13] = [
        Self::BlobDataOwner,
        Self::BlobDataContributor,
        Self::BlobDataReader,
        Self::BlobDelegator,
        Self::QueueDataContributor,
        Self::QueueDataReader,
        Self::QueueDataMessageProcessor,
        Self::QueueDataMessageSender,
        Self::QueueDelegator,
        Self::TableDataContributor,
        Self::TableDataReader,
        Self::TableDelegator,
        Self::AccountContributor,
    ];

    /// As on Azure.
    pub fn name(self) -> &'static str {
        match self {
            Self::BlobDataOwner => "Storage Blob Data Owner",
            Self::BlobDataContributor => "Storage Blob Data Contributor",
            Self::BlobDataReader => "Storage Blob Data Reader",
            Self::BlobDelegator => "Storage Blob Delegator",
            Self::QueueDataContributor => "Storage Queue Data Contributor",
            Self::QueueDataReader => "Storage Queue Data Reader",
            Self::QueueDataMessageProcessor => "Storage Queue Data Message Processor",
            Self::QueueDataMessageSender => "Storage Queue Data Message Sender",
            Self::QueueDelegator => "Storage Queue Delegator",
            Self::TableDataContributor => "Storage Table Data Contributor",
            Self::TableDataReader => "Storage Table Data Reader",
            Self::TableDelegator => "Storage Table Delegator",
            Self::AccountContributor => "Storage Account Contributor",
        }
    }

    /// The id of its definition, as on Azure.
    pub fn id(self) -> &'static str {
        match self {
            Self::BlobDataOwner => "b7e6dc6d-f1e8-4753-8033-0f276bb0955b",
            Self::BlobDataContributor => "ba92f5b4-2d11-453d-a403-e96b0029c9fe",
            Self::BlobDataReader => "2a2b9908-6ea1-4ae2-8e65-a410df84e7d1",
            Self::BlobDelegator => "db58b8e5-c6ad-4a2a-8342-4190687cbf4a",
            Self::QueueDataContributor => "974c5e8b-45b9-4653-ba55-5f855dd0fb88",
            Self::QueueDataReader => "19e7f393-937e-4f77-808e-94535e297925",
            Self::QueueDataMessageProcessor => "8a0f0c08-91a1-4084-bc3d-661d67233fed",
            Self::QueueDataMessageSender => "c6a89b2d-59bc-44d0-9896-0f6e12d7b80a",
            Self::QueueDelegator => "7ee386e9-84f0-448e-80a6-f185f6533131",
            Self::TableDataContributor => "0a9a7e1f-b9d0-4cc4-a60d-0319b160aaa3",
            Self::TableDataReader => "76199698-9eea-4c19-bc75-cec21354c6b6",
            Self::TableDelegator => "965033a5-c8eb-4f35-b82f-fef460a3606d",
            Self::AccountContributor => "17d1049b-9a84-46fb-8f53-869881c3d3ab",
        }
    }

    pub fn actions(self) -> Actions {
        type A = Actions;
        const CONTAINERS: A = A::CONTAINER_READ.or(A::CONTAINER_WRITE).or(A::CONTAINER_DELETE);
        const QUEUES: A = A::QUEUE_READ.or(A::QUEUE_WRITE).or(A::QUEUE_DELETE);
        const TABLES: A = A::TABLE_READ.or(A::TABLE_WRITE).or(A::TABLE_DELETE);
        const CONTAINER_ACL: A = A::CONTAINER_GET_ACL.or(A::CONTAINER_SET_ACL);
        const QUEUE_ACL: A = A::QUEUE_GET_ACL.or(A::QUEUE_SET_ACL);
        const TABLE_ACL: A = A::TABLE_GET_ACL.or(A::TABLE_SET_ACL);
        match self {
            Self::BlobDataOwner => {
                CONTAINERS
                    | CONTAINER_ACL
                    | A::BLOB_GENERATE_KEY
                    | A::BLOB_READ
                    | A::BLOB_WRITE
                    | A::BLOB_DELETE
                    | A::BLOB_ADD
                    | A::BLOB_MOVE
                    | A::BLOB_FILTER
                    | A::BLOB_TAGS_READ
                    | A::BLOB_TAGS_WRITE
                    | A::BLOB_DELETE_VERSION
                    | A::BLOB_PERMANENT_DELETE
                    | A::BLOB_IMMUTABLE_STORAGE
                    | A::BLOB_MANAGE_OWNERSHIP
                    | A::BLOB_RUN_AS_SUPER_USER
            }
            Self::BlobDataContributor => {
                CONTAINERS
                    | A::BLOB_GENERATE_KEY
                    | A::BLOB_READ
                    | A::BLOB_WRITE
                    | A::BLOB_DELETE
                    | A::BLOB_ADD
                    | A::BLOB_MOVE
            }
            Self::BlobDataReader => A::CONTAINER_READ | A::BLOB_GENERATE_KEY | A::BLOB_READ,
            Self::BlobDelegator => A::BLOB_GENERATE_KEY,
            Self::QueueDataContributor => {
                QUEUES | A::MESSAGE_READ | A::MESSAGE_WRITE | A::MESSAGE_DELETE | A::MESSAGE_PROCESS
            }
            Self::QueueDataReader => A::QUEUE_READ | A::MESSAGE_READ,
            Self::QueueDataMessageProcessor => A::MESSAGE_READ | A::MESSAGE_PROCESS,
            Self::QueueDataMessageSender => A::MESSAGE_ADD,
            Self::QueueDelegator => A::QUEUE_GENERATE_KEY,
            Self::TableDataContributor => {
                TABLES
                    | A::ENTITY_READ
                    | A::ENTITY_WRITE
                    | A::ENTITY_DELETE
                    | A::ENTITY_ADD
                    | A::ENTITY_UPDATE
            }
            Self::TableDataReader => A::TABLE_READ | A::ENTITY_READ,
            Self::TableDelegator => A::TABLE_GENERATE_KEY,
            Self::AccountContributor => {
                CONTAINERS
                    | CONTAINER_ACL
                    | QUEUES
                    | QUEUE_ACL
                    | TABLES
                    | TABLE_ACL
                    | A::BLOB_SERVICE_READ
                    | A::BLOB_SERVICE_WRITE
                    | A::BLOB_SERVICE_GET_INFO
                    | A::BLOB_GENERATE_KEY
                    | A::QUEUE_SERVICE_READ
                    | A::QUEUE_SERVICE_WRITE
                    | A::QUEUE_GENERATE_KEY
                    | A::TABLE_SERVICE_READ
                    | A::TABLE_SERVICE_WRITE
                    | A::TABLE_GENERATE_KEY
            }
        }
    }
}

/// By its name, in any case, or by its id.
impl FromStr for Role {
    type Err = InvalidAssignment;

    fn from_str(text: &str) -> Result<Self, InvalidAssignment> {
        let is_it =
            |role: &Self| text.eq_ignore_ascii_case(role.name()) || text.eq_ignore_ascii_case(role.id());
        Self::ALL.into_iter().find(is_it).ok_or_else(|| {
            let names = Self::ALL.map(Self::name).join(", ");
            InvalidAssignment(format!("there is no role '{text}'; the roles are: {names}"))
        })
    }
}

/// Where a role is assigned.
///
/// Written `/` for the server, `/ACCOUNT`, `/ACCOUNT/table`, `/ACCOUNT/table/NAME`; the same with `queue` and `blob`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Scope {
    Server,
    Account(String),
    Service(String, Service),
    /// A table, a queue or a container.
    Resource(String, Service, String),
}

impl Scope {
    /// Whether a role that was assigned here counts for a resource. `None`: for what no resource of the service is
    /// named by, such as a list of them.
    pub fn covers(&self, account: &str, service: Service, resource: Option<&str>) -> bool {
        match self {
            Self::Server => true,
            Self::Account(of) => of == account,
            Self::Service(of, granted) => of == account && *granted == service,
            Self::Resource(of, granted, name) => {
                let is_named = resource.is_some_and(|asked| match service {
                    // Fidelity: the names of tables are the same in any case. scenario: table-name-in-any-case
                    Service::Table => asked.eq_ignore_ascii_case(name),
                    Service::Queue | Service::Blob => asked == name,
                });
                of == account && *granted == service && is_named
            }
        }
    }

    /// Whether it is within an account.
    pub fn is_in(&self, account: &str) -> bool {
        match self {
            Self::Server => false,
            Self::Account(of) | Self::Service(of, _) | Self::Resource(of, _, _) => of == account,
        }
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Server => f.write_str("/"),
            Self::Account(account) => write!(f, "/{account}"),
            Self::Service(account, service) => write!(f, "/{account}/{}", service.name()),
            Self::Resource(account, service, name) => write!(f, "/{account}/{}/{name}", service.name()),
        }
    }
}

impl FromStr for Scope {
    type Err = InvalidAssignment;

    fn from_str(text: &str) -> Result<Self, InvalidAssignment> {
        let invalid = || {
            InvalidAssignment(format!(
                "a scope is /, /ACCOUNT, /ACCOUNT/SERVICE or /ACCOUNT/SERVICE/NAME with blob, queue or table for SERVICE: {text}"
            ))
        };
        let path = text.strip_prefix('/').ok_or_else(invalid)?;
        if path.is_empty() {
            return Ok(Self::Server);
        }
        let parts: Vec<&str> = path.split('/').collect();
        let account = parts.first().filter(|name| is_account_name(name)).ok_or_else(invalid)?;
        let account = (*account).to_owned();
        let service = || parts.get(1).and_then(|name| name.parse::<Service>().ok()).ok_or_else(invalid);
        match parts.len() {
            1 => Ok(Self::Account(account)),
            2 => Ok(Self::Service(account, service()?)),
            3 if !parts[2].is_empty() => Ok(Self::Resource(account, service()?, parts[2].to_owned())),
            _ => Err(invalid()),
        }
    }
}

/// A name by which a token shows who its owner is.
///
/// Written `oid:ID`, `sub:SUBJECT`, `client:ID` or `group:NAME`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum PrincipalName {
    /// The object id, in lower case: [`Principal::object_id`].
    Object(String),
    Subject(String),
    /// The application that a token was made for.
    Client(String),
    /// A group of which the owner is a member.
    Group(String),
}

impl fmt::Display for PrincipalName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Object(id) => write!(f, "oid:{id}"),
            Self::Subject(subject) => write!(f, "sub:{subject}"),
            Self::Client(id) => write!(f, "client:{id}"),
            Self::Group(name) => write!(f, "group:{name}"),
        }
    }
}

impl FromStr for PrincipalName {
    type Err = InvalidAssignment;

    fn from_str(text: &str) -> Result<Self, InvalidAssignment> {
        let invalid = || {
            InvalidAssignment(format!("a principal is oid:ID, sub:SUBJECT, client:ID or group:NAME: {text}"))
        };
        let (kind, name) = text.split_once(':').filter(|(_, name)| !name.is_empty()).ok_or_else(invalid)?;
        match kind {
            "oid" => Ok(Self::Object(name.to_ascii_lowercase())),
            "sub" => Ok(Self::Subject(name.to_owned())),
            "client" => Ok(Self::Client(name.to_owned())),
            "group" => Ok(Self::Group(name.to_owned())),
            _ => Err(invalid()),
        }
    }
}

/// A role for a principal or a group at a scope.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct RoleAssignment {
    pub principal: PrincipalName,
    /// Whose tokens are meant. `None`: those of any issuer.
    pub issuer: Option<String>,
    pub role: Role,
    pub scope: Scope,
}

/// Who a token was made for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Principal {
    pub issuer: String,
    /// A GUID in lower case.
    pub object_id: String,
    /// A GUID in lower case.
    pub tenant_id: String,
    /// All names by which roles can have been assigned, [`PrincipalName::Object`] among them.
    pub names: Vec<PrincipalName>,
}

/// The roles of a principal in an account.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AssignedRoles(Vec<(Scope, Actions)>);

impl AssignedRoles {
    /// Picks those of a principal that count in an account.
    pub fn of<'a>(
        principal: &Principal,
        account: &str,
        assignments: impl IntoIterator<Item = &'a RoleAssignment>,
    ) -> Self {
        let counts = |assignment: &&RoleAssignment| {
            (assignment.scope == Scope::Server || assignment.scope.is_in(account))
                && assignment.issuer.as_ref().is_none_or(|issuer| *issuer == principal.issuer)
                && principal.names.contains(&assignment.principal)
        };
        let assigned = assignments.into_iter().filter(counts);
        Self(assigned.map(|given| (given.scope.clone(), given.role.actions())).collect())
    }

    /// All roles at the scope of the server: for tests and for servers that check no more than who asks.
    pub fn everything() -> Self {
        Self(Role::ALL.map(|role| (Scope::Server, role.actions())).to_vec())
    }

    /// Whether there are none, anywhere in the account.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// What is allowed with a table, queue or container; `None`: with the service itself, or all of them.
    pub fn actions(&self, account: &str, service: Service, resource: Option<&str>) -> Actions {
        let covering = self.0.iter().filter(|(scope, _)| scope.covers(account, service, resource));
        covering.fold(Actions::NONE, |all, (_, actions)| all | *actions)
    }
}

/// Sets of actions that are no built-in roles.
impl FromIterator<(Scope, Actions)> for AssignedRoles {
    fn from_iter<I: IntoIterator<Item = (Scope, Actions)>>(assigned: I) -> Self {
        Self(assigned.into_iter().collect())
    }
}

/// What is wrong with a role assignment, for people to read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InvalidAssignment(String);

impl fmt::Display for InvalidAssignment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for InvalidAssignment {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scopes_are_read_and_written() {
        for (text, is_valid) in [
            ("/", true),
            ("/acct", true),
            ("/acct/table", true),
            ("/acct/table/Orders", true),
            ("/acct/blob/$web", true),
            ("", false),
            ("acct", false),
            ("//", false),
            ("/acct/", false),
            ("/acct/file", false),
            ("/acct/table/", false),
            ("/acct/blob/container/blob", false),
            ("/acct-secondary", false),
        ] {
            let scope = text.parse::<Scope>();
            assert_eq!(scope.is_ok(), is_valid, "{text}");
            if let Ok(scope) = scope {
                assert_eq!(scope.to_string(), text);
            }
        }
    }

    #[test]
    fn scopes_cover_what_is_below_them() {
        use Service::*;
        for (scope, service, resource, expected) in [
            ("/", Blob, None, true),
            ("/a", Queue, Some("jobs"), true),
            ("/b", Queue, Some("jobs"), false),
            ("/a/queue", Queue, None, true),
            ("/a/queue", Blob, None, false),
            ("/a/table/Orders", Table, Some("orders"), true),
            ("/a/table/Orders", Table, Some("others"), false),
            ("/a/table/Orders", Table, None, false),
            ("/a/blob/docs", Blob, Some("docs"), true),
            ("/a/blob/docs", Blob, Some("Docs"), false),
            ("/a/blob/docs", Queue, Some("docs"), false),
        ] {
            let covers = scope.parse::<Scope>().unwrap().covers("a", service, resource);
            assert_eq!(covers, expected, "{scope} {service:?} {resource:?}");
        }
    }

    #[test]
    fn roles_are_found_by_name_and_by_id() {
        for role in Role::ALL {
            assert_eq!(role.name().parse(), Ok(role));
            assert_eq!(role.name().to_lowercase().parse(), Ok(role));
            assert_eq!(role.id().to_uppercase().parse(), Ok(role));
            assert!(!role.actions().is_empty());
        }
        assert!("Owner".parse::<Role>().unwrap_err().to_string().contains("Storage Table Data Reader"));
    }

    #[test]
    fn roles_of_groups_count_and_those_of_other_issuers_do_not() {
        let principal = Principal {
            issuer: "https://one".to_owned(),
            object_id: "o".to_owned(),
            tenant_id: "t".to_owned(),
            names: vec!["oid:O".parse().unwrap(), "group:team".parse().unwrap()],
        };
        let given = |who: &str, issuer: Option<&str>, scope: &str| RoleAssignment {
            principal: who.parse().unwrap(),
            issuer: issuer.map(str::to_owned),
            role: Role::TableDataReader,
            scope: scope.parse().unwrap(),
        };
        for (assignment, table, counts) in [
            (given("oid:o", None, "/a"), None, true),
            (given("group:team", None, "/a/table/t"), Some("t"), true),
            (given("group:team", None, "/a/table/t"), None, false),
            (given("group:others", None, "/a"), None, false),
            (given("sub:o", None, "/a"), None, false),
            (given("oid:o", Some("https://one"), "/"), None, true),
            (given("oid:o", Some("https://two"), "/"), None, false),
            (given("oid:o", None, "/b"), None, false),
        ] {
            let roles = AssignedRoles::of(&principal, "a", [&assignment]);
            let actions = roles.actions("a", Service::Table, table);
            assert_eq!(actions == Role::TableDataReader.actions(), counts, "{assignment:?} {table:?}");
            assert_eq!(actions.is_empty(), !counts);
        }
    }

    #[test]
    fn data_roles_have_no_rights_beyond_their_service() {
        for (action, name) in Actions::ALL {
            for role in Role::ALL.into_iter().filter(|role| role.actions().contains_any(*action)) {
                let service = name.split_once("Services").map(|(service, _)| service).unwrap();
                let is_of_it = role.name().to_lowercase().contains(&format!("storage {service}"));
                assert!(is_of_it || role == Role::AccountContributor, "{role:?} {name}");
            }
        }
        assert!(!Role::AccountContributor.actions().contains_any(Actions::ENTITY_READ | Actions::BLOB_READ));
    }
}
