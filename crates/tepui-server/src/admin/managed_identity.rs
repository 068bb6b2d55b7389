//! Tokens as programs on Azure get theirs: the protocol of managed identities of App Service, which `DefaultAzureCredential` and
//! `ManagedIdentityCredential` speak if the variables IDENTITY_ENDPOINT and IDENTITY_HEADER are set. So programs run as they are where
//! there is no Azure.

use super::call::{self, AdminError};
use super::token::machine_time;
use crate::net::body::ReplyBody;
use hyper::http::{Method, Response, request};
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;
use tepui_identity::{DevelopmentIssuer, TokenRequest};
use tepui_model::Clock;
use tepui_wire::query::Query;

/// Who asks without saying which of its identities.
const DEFAULT_PRINCIPAL: &str = "managed-identity";
/// How the identity of a program is named, if it has several.
const NAMES: [&str; 3] = ["client_id", "principal_id", "mi_res_id"];
const LIFETIME: Duration = Duration::from_secs(3600);

pub(crate) struct ManagedIdentity {
    issuer: Arc<DevelopmentIssuer>,
    clock: Arc<dyn Clock>,
}

impl ManagedIdentity {
    /// What IDENTITY_ENDPOINT ends with.
    pub(super) const PATH: &str = "/admin/identity";

    pub(crate) fn new(issuer: Arc<DevelopmentIssuer>, clock: Arc<dyn Clock>) -> Self {
        Self { issuer, clock }
    }

    /// Answers a request whose sender may make it.
    pub(super) fn answer(&self, head: &request::Parts) -> Result<Response<ReplyBody>, AdminError> {
        if head.method != Method::GET {
            return Err(AdminError::method_not_allowed("GET"));
        }
        let query = Query::parse(head.uri.query());
        if query.get("api-version") != Some("2019-08-01") {
            return Err(AdminError::invalid("api-version is 2019-08-01."));
        }
        let Some(resource) = query.get("resource") else {
            return Err(AdminError::invalid("resource is needed, such as https://storage.azure.com."));
        };
        let name = NAMES.iter().find_map(|name| query.get(name)).unwrap_or(DEFAULT_PRINCIPAL);
        let request = TokenRequest {
            principal: name.to_owned(),
            groups: Vec::new(),
            audience: Some(resource.to_owned()),
            tenant: None,
            lifetime: LIFETIME,
        };
        let now = machine_time(&*self.clock);
        let minted =
            self.issuer.mint(&request, now).map_err(|error| AdminError::invalid(format!("{error}.")))?;
        call::ok(&json!({
            "access_token": minted.token,
            "client_id": name,
            // Seconds as text, as there.
            "expires_on": minted.expires.to_string(),
            "resource": resource,
            "token_type": "Bearer",
        }))
    }
}
