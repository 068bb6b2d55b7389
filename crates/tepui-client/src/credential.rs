//! How an account is entered. Nothing here prints a secret.

use crate::{Error, ErrorKind};
use std::error::Error as StdError;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use tepui_model::Timestamp;
use tepui_wire::auth::Signer;
use tepui_wire::remote::{Authorization, OutgoingRequest, RemoteService};

/// Hands out bearer tokens of a directory. It is asked for each request, and keeps a token as long as it is good.
///
/// ```
/// use tepui_client::{BearerSource, TokenFuture};
/// struct FromEnvironment;
/// impl BearerSource for FromEnvironment {
///     fn token(&self) -> TokenFuture<'_> {
///         Box::pin(async { Ok(std::env::var("STORAGE_TOKEN")?) })
///     }
/// }
/// ```
pub trait BearerSource: Send + Sync + 'static {
    fn token(&self) -> TokenFuture<'_>;
}

/// The token that a [`BearerSource`] hands out, without the word `Bearer`.
pub type TokenFuture<'a> =
    Pin<Box<dyn Future<Output = Result<String, Box<dyn StdError + Send + Sync>>> + Send + 'a>>;

#[derive(Clone)]
pub(crate) enum Credential {
    SharedKey(Signer),
    Sas(String),
    Bearer(Arc<dyn BearerSource>),
    Anonymous,
}

/// Never prints what it is.
impl fmt::Debug for Credential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::SharedKey(_) => "SharedKey(…)",
            Self::Sas(_) => "Sas(…)",
            Self::Bearer(_) => "Bearer(…)",
            Self::Anonymous => "Anonymous",
        })
    }
}

impl Credential {
    pub(crate) async fn authorize(
        &self,
        service: &RemoteService,
        request: &mut OutgoingRequest,
        now: Timestamp,
    ) -> Result<(), Error> {
        let token;
        let authorization = match self {
            Self::SharedKey(signer) => Authorization::SharedKey(signer),
            Self::Sas(token) => Authorization::Sas(token),
            Self::Bearer(source) => {
                token = source.token().await.map_err(|cause| {
                    Error::new(ErrorKind::Denied, "there is no bearer token").with_source(cause)
                })?;
                Authorization::Bearer(&token)
            }
            Self::Anonymous => Authorization::Anonymous,
        };
        Ok(service.authorize(request, authorization, now)?)
    }
}
