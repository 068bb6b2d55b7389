//! Who may do what: for each service the tables of its operations and the rights they need, of a SAS and of roles.
//!
//! | | |
//! | --- | --- |
//! | `table.rs`, `queue.rs`, `blob.rs` | what each operation needs, and whether a grant has it |
//! | `role_tests.rs` | every role and every operation, against a list that people can read |

pub mod blob;
pub mod queue;
#[cfg(test)]
mod role_tests;
pub mod table;

use tepui_model::grant::{AccountRoles, Delegator, Grant};
use tepui_model::permissions::{Permissions, ResourceTypes, Services};
use tepui_model::role::Actions;
use tepui_model::{ErrorCode, Service, ServiceError};

/// What an operation needs of a shared access signature. With the key of the account everything is allowed.
#[derive(Debug, Clone, Copy)]
struct Need {
    /// The resource types of an account SAS of which one will do; none: no SAS will do.
    resource_types: ResourceTypes,
    /// All of these permissions, and at least one of `any`, if that has some.
    all: Permissions,
    any: Permissions,
    /// Whether [`Permissions::CREATE`] will do for something new.
    creates: bool,
    /// The narrowest SAS of the service that reaches it.
    reach: Reach,
}

/// What a SAS of a service must be for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd)]
enum Reach {
    Blob,
    /// A table, a queue or a container.
    Whole,
    /// No SAS of a service is for the account.
    Account,
}

/// How a need is met.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Met {
    Fully,
    /// For what is not there yet.
    IfAbsent,
}

impl Met {
    /// As far as both.
    fn and(self, other: Self) -> Self {
        if self == Self::Fully { other } else { self }
    }
}

/// What an operation needs of roles.
#[derive(Debug, Clone, Copy)]
struct RoleNeed {
    /// One of these, each whole. None: no role will do.
    one_of: &'static [Actions],
    /// What will do for something new. None: nothing.
    creates: Actions,
    /// Where the role must be assigned.
    at: RoleAt,
}

/// Where a role must be assigned for it to count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RoleAt {
    /// At the table, the queue or the container, or above.
    Resource,
    /// At the service, the account or the server.
    Service,
}

impl RoleNeed {
    /// No role will do.
    const NEVER: Self = Self::one_of(&[]);
    /// Anybody with a token may: what is inside is checked by itself.
    const NOTHING: Self = Self::one_of(&[Actions::NONE]);

    /// One of these sets of actions, each whole.
    const fn one_of(one_of: &'static [Actions]) -> Self {
        Self { one_of, creates: Actions::NONE, at: RoleAt::Resource }
    }

    /// The same of a role that is assigned at the service or above.
    const fn at_service(one_of: &'static [Actions]) -> Self {
        Self { at: RoleAt::Service, ..Self::one_of(one_of) }
    }

    fn check(
        &self,
        roles: &AccountRoles,
        service: Service,
        resource: Option<&str>,
    ) -> Result<Met, ErrorCode> {
        let resource = resource.filter(|_| self.at == RoleAt::Resource);
        let given = roles.actions(service, resource);
        match self.one_of.iter().any(|all| given.contains_all(*all)) {
            true => Ok(Met::Fully),
            false if given.contains_any(self.creates) => Ok(Met::IfAbsent),
            false => Err(ErrorCode::AuthorizationPermissionMismatch),
        }
    }

    /// Whether the roles of who has signed a SAS will do, if somebody has who is not the owner of the account.
    fn check_delegator(
        &self,
        delegator: Option<&Delegator>,
        service: Service,
        resource: &str,
    ) -> Result<Met, ErrorCode> {
        match delegator {
            Some(delegator) => self.check(&delegator.roles, service, Some(resource)),
            None => Ok(Met::Fully),
        }
    }
}

/// Who may ask for a user delegation key: only who comes with a token.
fn check_is_token(grant: &Grant) -> Result<(), ServiceError> {
    match grant {
        Grant::Token(_) => Ok(()),
        Grant::AccountKey
        | Grant::AccountSas { .. }
        | Grant::TableSas { .. }
        | Grant::QueueSas { .. }
        | Grant::BlobSas { .. }
        | Grant::Anonymous => {
            let reason = "Only authentication scheme Bearer is supported";
            let error = ServiceError::new(ErrorCode::AuthenticationFailed).with_cause(reason);
            Err(error.with_detail("AuthenticationErrorDetail", reason))
        }
    }
}

/// The answer to a token that asks for access policies in a version that had none for tokens.
///
/// The real Table service answers so; what the others do is not known.
const NO_POLICIES_FOR_TOKENS: ErrorCode = ErrorCode::ResourceNotFound;

impl Need {
    /// Only the key of the account will do.
    const ACCOUNT_KEY: Self = Self::account(ResourceTypes::NONE, Permissions::NONE);

    /// Of an account SAS: all of these permissions.
    const fn account(resource_types: ResourceTypes, all: Permissions) -> Self {
        Self { resource_types, all, any: Permissions::NONE, creates: false, reach: Reach::Account }
    }

    /// Of an account SAS, or of one for the table, the queue or the container: all of these permissions.
    const fn whole(resource_types: ResourceTypes, all: Permissions) -> Self {
        Self { reach: Reach::Whole, ..Self::account(resource_types, all) }
    }

    /// The same, but one of these permissions will do.
    const fn one_of(self, any: Permissions) -> Self {
        Self { all: Permissions::NONE, any, ..self }
    }

    fn check_permissions(&self, given: Permissions) -> Result<Met, ErrorCode> {
        let suffices = given.contains_all(self.all) && (self.any.is_empty() || given.contains_any(self.any));
        match (suffices, self.creates && given.contains_all(Permissions::CREATE)) {
            (true, _) => Ok(Met::Fully),
            (false, true) => Ok(Met::IfAbsent),
            (false, false) => Err(ErrorCode::AuthorizationPermissionMismatch),
        }
    }

    /// Whether an account SAS will do. `service`: the one that is asked.
    fn check_account_sas(
        &self,
        service: Services,
        services: Services,
        types: ResourceTypes,
        permissions: Permissions,
    ) -> Result<Met, ErrorCode> {
        if !services.contains_all(service) {
            return Err(ErrorCode::AuthorizationServiceMismatch);
        }
        if self.resource_types.is_empty() {
            return Err(ErrorCode::AuthorizationFailure);
        }
        if !types.contains_any(self.resource_types) {
            return Err(ErrorCode::AuthorizationResourceTypeMismatch);
        }
        self.check_permissions(permissions)
    }

    /// Whether a SAS of the service will do, if it reaches what is asked for.
    ///
    /// Fidelity: tokens of old versions hide what they do not reach. scenario: sas-old-version-permission
    fn check_service_sas(
        &self,
        reaches: bool,
        permissions: Permissions,
        modern_errors: bool,
    ) -> Result<Met, ErrorCode> {
        let outcome =
            if reaches { self.check_permissions(permissions) } else { Err(ErrorCode::AuthorizationFailure) };
        outcome.map_err(|code| if modern_errors { code } else { ErrorCode::ResourceNotFound })
    }
}
