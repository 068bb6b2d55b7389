//! `--oauth basic`, as Azurite has it: what a token says is checked, its signature is not. So anybody can be anybody, which is
//! good enough on the machine of a developer and nowhere else.

use crate::audience::Audiences;
use crate::claims::{Lifetime, OwnerRules, TenantRule};
use crate::jws::Parts;
use crate::token_cache::Verified;
use crate::unique_json::parse_object;
use serde_json::Value;
use std::sync::{Arc, Weak};
use tepui_model::token::TokenFailure;

/// Whose tokens these are said to be, where one has to be named.
pub(crate) const ISSUER: &str = "https://sts.windows.net/";

/// How issuers begin: those of Entra ID, in all its clouds.
const ISSUERS: [&str; 5] = [
    ISSUER,
    "https://sts.microsoftonline.de/",
    "https://sts.chinacloudapi.cn/",
    "https://sts.windows-ppe.net",
    "https://login.microsoftonline.com/",
];

pub(crate) fn believe(token: &str, now: u64) -> Result<Verified, TokenFailure> {
    let parts = Parts::of(token).ok_or(TokenFailure::Form)?;
    let claims = parse_object(&parts.claims).ok_or(TokenFailure::Form)?;
    // Azurite wants all three.
    if !["nbf", "exp", "iat"].iter().all(|name| claims.contains_key(*name)) {
        return Err(TokenFailure::Form);
    }
    let lifetime = Lifetime::of(&claims, 0)?;
    lifetime.check(now)?;
    let issuer = claims.get("iss").and_then(Value::as_str).unwrap_or_default();
    if !ISSUERS.iter().any(|known| issuer.starts_with(known)) {
        return Err(TokenFailure::Issuer);
    }
    let rules = OwnerRules {
        issuer: issuer.to_owned(),
        subject: None,
        tenant: TenantRule::Any,
        groups: vec!["groups".to_owned()],
    };
    // Azurite asks for no owner. The name is needed for logs and delegation keys only.
    let owner = rules.owner(&claims).or_else(|failure| match failure {
        TokenFailure::Form => {
            let mut named = claims.clone();
            named.insert("sub".to_owned(), "somebody".into());
            named.remove("oid");
            rules.owner(&named)
        }
        other => Err(other),
    })?;
    Ok(Verified {
        owner: Arc::new(owner),
        allowed: Audiences::azure().allowed_by(claims.get("aud")),
        lifetime,
        key: Weak::new(),
    })
}
