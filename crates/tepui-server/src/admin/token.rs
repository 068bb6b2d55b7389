//! Tokens of the development issuer, for anybody.

use super::call::{self, AdminError, AnswerFuture, Area, Call, Route};
use crate::net::body::ReplyBody;
use hyper::http::{Response, StatusCode};
use serde::Deserialize;
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;
use tepui_identity::{DevelopmentIssuer, TokenRequest};
use tepui_model::{Clock, Timestamp};

pub(crate) struct TokenArea {
    issuer: Option<Arc<DevelopmentIssuer>>,
    clock: Arc<dyn Clock>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Wanted {
    principal: String,
    #[serde(default)]
    groups: Vec<String>,
    audience: Option<String>,
    tenant: Option<String>,
    #[serde(default = "an_hour")]
    lifetime_seconds: u64,
}

fn an_hour() -> u64 {
    3600
}

impl TokenArea {
    /// Without an issuer, calls are refused with the reason.
    pub(crate) fn new(issuer: Option<Arc<DevelopmentIssuer>>, clock: Arc<dyn Clock>) -> Self {
        Self { issuer, clock }
    }

    fn mint(&self, call: &Call) -> Result<Response<ReplyBody>, AdminError> {
        call.only_parameters(&[])?;
        let Some(issuer) = &self.issuer else {
            return Err(AdminError::new(
                StatusCode::FORBIDDEN,
                "NoDevelopmentIssuer",
                "Only a server that was started with --dev-issuer makes tokens.",
            ));
        };
        let Wanted { principal, groups, audience, tenant, lifetime_seconds } = call.json()?;
        let lifetime = Duration::from_secs(lifetime_seconds);
        let request = TokenRequest { principal, groups, audience, tenant, lifetime };
        let now = machine_time(&*self.clock);
        let minted = issuer.mint(&request, now).map_err(|error| AdminError::invalid(format!("{error}.")))?;
        let expires = Timestamp::UNIX_EPOCH.saturating_add(Duration::from_secs(minted.expires));
        call::ok(&json!({
            "token": minted.token,
            "issuer": DevelopmentIssuer::ISSUER,
            "objectId": minted.object_id,
            "tenantId": minted.tenant_id,
            "audience": minted.audience,
            "expiresOn": expires.to_iso_7(),
        }))
    }
}

/// What tokens live by, also where the clock of a test bench was set: clients look at their own clock.
pub(super) fn machine_time(clock: &dyn Clock) -> Timestamp {
    clock.of_machine(clock.now())
}

impl Area for TokenArea {
    fn routes(&self) -> &'static [Route] {
        &[("POST", "/token")]
    }

    fn is_for_test_bench(&self) -> bool {
        false
    }

    fn max_body_bytes(&self) -> usize {
        64 << 10
    }

    fn answer(&self, call: Call) -> AnswerFuture<'_> {
        Box::pin(async move { self.mint(&call) })
    }
}
