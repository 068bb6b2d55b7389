//! Who may do what: for each service the table of its operations and the rights they need.
//!
//! | | |
//! | --- | --- |
//! | `table.rs`, `queue.rs`, `blob.rs` | what each operation needs, and whether a grant has it |

pub mod blob;
pub mod queue;
pub mod table;

use tepui_model::ErrorCode;
use tepui_model::permissions::{Permissions, ResourceTypes, Services};

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
