//! Authorization of requests: the same texts are signed that [`crate::auth::Verifier`] checks.

use super::service::{InvalidRequest, OutgoingRequest, RemoteService};
use crate::auth::{Scheme, Signer};
use crate::head::Head;
use crate::query::Query;
use http::header::{AUTHORIZATION, HeaderName, HeaderValue};
use std::fmt;
use tepui_model::Timestamp;

const X_MS_DATE: HeaderName = HeaderName::from_static("x-ms-date");

/// How a caller shows that it may do what it asks for.
#[derive(Clone, Copy)]
pub enum Authorization<'a> {
    /// Signed with a key of the account.
    SharedKey(&'a Signer),
    SharedKeyLite(&'a Signer),
    /// A shared access signature, as it stands in a query string.
    Sas(&'a str),
    /// A token of a directory.
    Bearer(&'a str),
    /// None: for blobs that everybody may read.
    Anonymous,
}

/// Never prints what it is.
impl fmt::Debug for Authorization<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::SharedKey(_) => "SharedKey(…)",
            Self::SharedKeyLite(_) => "SharedKeyLite(…)",
            Self::Sas(_) => "Sas(…)",
            Self::Bearer(_) => "Bearer(…)",
            Self::Anonymous => "Anonymous",
        })
    }
}

impl RemoteService {
    /// Authorizes a request as it is: nothing of it may change afterwards. One that is sent again is authorized again,
    /// since signatures are good for some minutes only.
    pub fn authorize(
        &self,
        request: &mut OutgoingRequest,
        authorization: Authorization<'_>,
        now: Timestamp,
    ) -> Result<(), InvalidRequest> {
        match authorization {
            Authorization::SharedKey(signer) => self.sign(request, signer, Scheme::SharedKey, now),
            Authorization::SharedKeyLite(signer) => self.sign(request, signer, Scheme::SharedKeyLite, now),
            Authorization::Sas(token) => {
                let token = token.strip_prefix('?').unwrap_or(token);
                let before = request.uri().path_and_query().map_or("/", |path| path.as_str());
                let sign = if before.contains('?') { '&' } else { '?' };
                *request.uri_mut() = self.uri(format!("{before}{sign}{token}"))?;
                Ok(())
            }
            Authorization::Bearer(token) => set_authorization(request, &format!("Bearer {token}")),
            Authorization::Anonymous => Ok(()),
        }
    }

    fn sign(
        &self,
        request: &mut OutgoingRequest,
        signer: &Signer,
        scheme: Scheme,
        now: Timestamp,
    ) -> Result<(), InvalidRequest> {
        let date = HeaderValue::from_bytes(&now.http_bytes()).map_err(|_| InvalidRequest("the date"))?;
        request.headers_mut().insert(X_MS_DATE, date);
        let target = self.target(request.uri().path());
        let query = Query::parse(request.uri().query());
        let head = Head {
            service: self.service(),
            method: request.method(),
            target: &target,
            path: &target.path,
            query: &query,
            headers: request.headers(),
            case: None,
            version: self.version(),
        };
        let value = signer.authorization(&head, scheme);
        set_authorization(request, &value)
    }
}

fn set_authorization(request: &mut OutgoingRequest, value: &str) -> Result<(), InvalidRequest> {
    let mut value =
        HeaderValue::from_str(value).map_err(|_| InvalidRequest("a credential that no header can hold"))?;
    value.set_sensitive(true);
    request.headers_mut().insert(AUTHORIZATION, value);
    Ok(())
}
