//! `tepui admin token`: a token of the development issuer.

use super::client::AdminClient;
use super::{Output, duration};
use crate::USAGE;
use crate::serve::Failure;
use clap::Args;
use serde_json::{Value, json};

/// Makes a token for anybody. The server is one that was started with --dev-issuer: see docs/identity.md.
#[derive(Args)]
pub(crate) struct TokenOptions {
    /// Whose token: a GUID, which is the object id, or any name, of which one is made
    #[arg(long, value_name = "NAME|GUID")]
    principal: String,

    /// A group of the principal; may be repeated
    #[arg(long = "group", value_name = "NAME")]
    groups: Vec<String>,

    /// What the token is for [default: `https://storage.azure.com`]
    #[arg(long, value_name = "URL")]
    audience: Option<String>,

    /// The tenant [default: that of the development issuer]
    #[arg(long, value_name = "GUID")]
    tenant: Option<String>,

    /// How long it is good, such as 10m; 24h at most
    #[arg(long, value_name = "DURATION", default_value = "1h")]
    lifetime: String,
}

pub(crate) fn token(client: &AdminClient, options: &TokenOptions, output: Output) -> Result<(), Failure> {
    let TokenOptions { principal, groups, audience, tenant, lifetime } = options;
    let seconds = duration::seconds(lifetime).filter(|seconds| *seconds >= 1.0).ok_or_else(|| Failure {
        message: format!("a duration is a number with s, m or h: {lifetime}"),
        code: USAGE,
    })?;
    let body = json!({
        "principal": principal,
        "groups": groups,
        "audience": audience,
        "tenant": tenant,
        "lifetimeSeconds": seconds as u64,
    });
    let answer = client.call("POST", "/token", Some(&body))?;
    // Nothing else, so that it can be put into a variable.
    output.print(&answer, |answer: &Value| answer["token"].as_str().unwrap_or_default().to_owned());
    Ok(())
}
