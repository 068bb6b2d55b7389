//! What an operation asks of a shared access signature, whichever service it belongs to.

use crate::ErrorCode;

#[derive(Debug, Clone, Copy)]
pub struct Need {
    /// The resource types of an account SAS of which one will do; none: no SAS will do.
    pub resource_types: &'static str,
    /// All of these permissions, and at least one of `any`, if that has some.
    pub all: &'static str,
    pub any: &'static str,
    /// Whether `c` will do for something new.
    pub creates: bool,
    /// The narrowest SAS of the service that reaches it.
    pub reach: Reach,
}

/// What a SAS of a service must be for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd)]
pub enum Reach {
    Blob,
    /// A table, a queue or a container.
    Whole,
    /// No SAS of a service is for the account.
    Account,
}

/// How a need is met.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Met {
    Fully,
    /// For what is not there yet.
    IfAbsent,
}

impl Need {
    pub const NO_SAS_WILL_DO: Self = Self::account_only("", "", "");

    pub const fn account_only(resource_types: &'static str, all: &'static str, any: &'static str) -> Self {
        Self { resource_types, all, any, creates: false, reach: Reach::Account }
    }

    /// Of a table, a queue or a container.
    pub const fn of_whole(resource_types: &'static str, all: &'static str) -> Self {
        Self { resource_types, all, any: "", creates: false, reach: Reach::Whole }
    }

    /// Whether these permissions will do.
    pub fn check_permissions(&self, given: &str) -> Result<Met, ErrorCode> {
        let all = self.all.chars().all(|letter| given.contains(letter));
        let any = self.any.is_empty() || self.any.chars().any(|letter| given.contains(letter));
        match (all && any, self.creates && given.contains('c')) {
            (true, _) => Ok(Met::Fully),
            (false, true) => Ok(Met::IfAbsent),
            (false, false) => Err(ErrorCode::AuthorizationPermissionMismatch),
        }
    }

    /// Whether an account SAS of these letters will do for the service of the letter `service`.
    pub fn check_account_sas(
        &self,
        service: char,
        services: &str,
        types: &str,
        permissions: &str,
    ) -> Result<Met, ErrorCode> {
        if !services.contains(service) {
            return Err(ErrorCode::AuthorizationServiceMismatch);
        }
        if self.resource_types.is_empty() {
            return Err(ErrorCode::AuthorizationFailure);
        }
        if !self.resource_types.chars().any(|letter| types.contains(letter)) {
            return Err(ErrorCode::AuthorizationResourceTypeMismatch);
        }
        self.check_permissions(permissions)
    }

    /// Whether a SAS of the service will do, if it reaches what is asked for.
    pub fn check_service_sas(&self, reaches: bool, permissions: &str) -> Result<Met, ErrorCode> {
        if reaches { self.check_permissions(permissions) } else { Err(ErrorCode::AuthorizationFailure) }
    }
}
