//! Who the owners of tokens are, and what they may do: the part of authentication that this crate asks others for.

use std::fmt::Debug;
use std::future::{Future, ready};
use std::pin::Pin;
use std::sync::Arc;
use tepui_model::role::{AssignedRoles, Principal};
use tepui_model::{Service, TokenFailure};
use tepui_wire::auth::{Challenge, TokenText};

/// Verifies tokens, and knows which roles are assigned to whom.
///
/// Roles are asked for with every request: an assignment that is taken back counts at once.
pub trait Directory: Debug + Send + Sync {
    /// Who a token was made for, if it is good for a service of an account: signed by an issuer that is trusted, for this
    /// audience, and neither too old nor too new.
    fn verify<'a>(&'a self, token: &'a TokenText, service: Service, account: &'a str) -> Verified<'a>;

    /// The roles of the owner of a token in an account, with those of their groups.
    fn roles(&self, principal: &Principal, account: &str) -> AssignedRoles;

    /// The roles of somebody of whom only the object id and the tenant are known: who has signed a SAS with a key of their own.
    ///
    /// A SAS names neither the issuer nor the groups of who signed it, and what their token said when they asked for the key
    /// may be true no longer. So only assignments to the object id itself count here, not those to groups, subjects and
    /// clients. Those for the tokens of one issuer count if its tokens are of this tenant.
    fn roles_of_object(&self, object_id: &str, tenant_id: &str, account: &str) -> AssignedRoles;

    /// Where tokens can be had.
    fn challenge(&self) -> &Challenge;
}

/// The outcome of [`Directory::verify`]: rarely waited for, because tokens and the keys of issuers are kept.
pub type Verified<'a> = Pin<Box<dyn Future<Output = Result<Arc<Principal>, TokenFailure>> + Send + 'a>>;

/// For servers that know no issuer: there are no tokens.
#[derive(Debug, Default)]
pub struct NoDirectory(Challenge);

impl Directory for NoDirectory {
    fn verify<'a>(&'a self, _: &'a TokenText, _: Service, _: &'a str) -> Verified<'a> {
        Box::pin(ready(Err(TokenFailure::NotAccepted)))
    }

    fn roles(&self, _: &Principal, _: &str) -> AssignedRoles {
        AssignedRoles::default()
    }

    fn roles_of_object(&self, _: &str, _: &str, _: &str) -> AssignedRoles {
        AssignedRoles::default()
    }

    fn challenge(&self) -> &Challenge {
        &self.0
    }
}
