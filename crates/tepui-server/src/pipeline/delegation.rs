//! Credentials that are more than a signature: tokens, SAS by keys of users, and these keys.

use super::directory::Directory;
use super::exchange::Authorized;
use super::{Front, read_body};
use crate::net::body::{Body, ReplyBody};
use hyper::http::Response;
use std::sync::Arc;
use tepui_model::delegation::UserDelegationKey;
use tepui_model::grant::{AccountRoles, Grant, TokenOwner};
use tepui_model::role::Principal;
use tepui_model::{ErrorCode, ServiceError};
use tepui_wire::auth::{Delegation, RequiredUser, TokenText, refuse_token, service_letter};
use tepui_wire::delegation_xml;
use tepui_wire::head::{BodyUse, Head};

/// What the token of a request is good for.
pub(super) async fn resolve_token(
    directory: &dyn Directory,
    token: &TokenText,
    head: &Head<'_>,
) -> Result<Grant, ServiceError> {
    let principal = verify(directory, token, head).await?;
    let account = head.target.account.clone();
    let assigned = directory.roles(&principal, &account);
    let roles = AccountRoles { account, assigned };
    Ok(Grant::Token(Box::new(TokenOwner { principal, roles })))
}

/// Adds to a grant what its delegator may do now. `required`: for whom alone it is good, and the token that came with it.
pub(super) async fn resolve_delegated(
    directory: &dyn Directory,
    mut grant: Grant,
    required: Option<(RequiredUser, Option<TokenText>)>,
    head: &Head<'_>,
) -> Result<Grant, ServiceError> {
    if let Some((user, bearer)) = required {
        let token = bearer.ok_or_else(|| user.refusal())?;
        let principal = verify(directory, &token, head).await?;
        if !user.is(&principal.object_id, &principal.tenant_id) {
            return Err(user.refusal());
        }
    }
    if let Some(delegator) = grant.delegator() {
        let account = &delegator.roles.account;
        let roles = directory.roles_of_object(&delegator.object_id, &delegator.tenant_id, account);
        grant.set_delegator_roles(roles);
    }
    Ok(grant)
}

async fn verify(
    directory: &dyn Directory,
    token: &TokenText,
    head: &Head<'_>,
) -> Result<Arc<Principal>, ServiceError> {
    let verified = directory.verify(token, head.service, &head.target.account).await;
    verified.map_err(|failure| refuse_token(failure, head.service, head.version))
}

/// Answers Get User Delegation Key. The caller was checked before.
pub(super) async fn answer_key_request(
    front: &Front,
    authorized: &Authorized<'_>,
    body_use: BodyUse,
    body: &mut Option<Body>,
) -> Result<Response<ReplyBody>, ServiceError> {
    let Authorized { head, grant, now, .. } = authorized;
    // No one else gets here.
    let Grant::Token(owner) = grant else { return Err(ErrorCode::AuthenticationFailed.into()) };
    let bytes = read_body(body_use, authorized, body).await?;
    let mut request = delegation_xml::parse(&bytes)?;
    // Others would not look for it in the answer, and a SAS cannot name it.
    request.delegated_tenant = request.delegated_tenant.filter(|_| head.version.signs_delegated_user());
    let (start, expiry) = request.lifetime(*now)?;
    let Principal { object_id, tenant_id, .. } = &*owner.principal;
    let (start, expiry) = (delegation_xml::whole_seconds(start), delegation_xml::whole_seconds(expiry));
    let account = authorized.account();
    let accounts = front.accounts.current();
    let served = accounts.account(account).ok_or(ErrorCode::ResourceNotFound)?;
    let value = served.signing_keys().delegate(&Delegation {
        account,
        object_id,
        tenant_id,
        start: &start,
        expiry: &expiry,
        service: service_letter(front.service),
        version: head.version.text(),
        delegated_tenant: request.delegated_tenant.as_deref().unwrap_or_default(),
    });
    let value = value.ok_or_else(|| {
        ServiceError::new(ErrorCode::InternalError).with_cause("the account has no secret for keys of users")
    })?;
    let key = UserDelegationKey {
        object_id: object_id.clone(),
        tenant_id: tenant_id.clone(),
        start,
        expiry,
        service: front.service,
        version: head.version.text().to_owned(),
        delegated_tenant: request.delegated_tenant,
        value,
    };
    Ok(delegation_xml::encode(front.service, &key).map(ReplyBody::from))
}
