//! Verifies tokens as a server would: for tests with real issuers, and to see why a token is refused.
//!
//! ```text
//! verify_token ISSUER AUDIENCE [CA_FILE]
//! ```
//!
//! Reads tokens, one a line, and answers each with a line of JSON.

use serde_json::json;
use std::io::BufRead as _;
use std::path::PathBuf;
use std::sync::Arc;
use tepui_identity::{Directory, IssuerSettings};
use tepui_model::time::{Clock as _, SystemClock};
use tepui_model::{Service, role::Principal, token::TokenFailure};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let issuer = arguments.next().ok_or("the issuer is needed")?;
    let audience = arguments.next().ok_or("the audience is needed")?;
    let ca_file = arguments.next().map(PathBuf::from);
    let settings = IssuerSettings { issuer, audiences: vec![audience], ca_file, ..Default::default() };
    let directory = Arc::new(Directory::new(&[settings], None)?);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    runtime.spawn(Arc::clone(&directory).keep_keys_fresh());
    for line in std::io::stdin().lock().lines() {
        let now = SystemClock::new().now();
        let outcome = runtime.block_on(directory.verify(line?.trim(), Service::Blob, "acct", now));
        println!("{}", shown(&outcome));
    }
    Ok(())
}

fn shown(outcome: &Result<Arc<Principal>, TokenFailure>) -> serde_json::Value {
    match outcome {
        Ok(owner) => {
            let names: Vec<String> = owner.names.iter().map(ToString::to_string).collect();
            json!({"objectId": owner.object_id, "tenantId": owner.tenant_id, "names": names})
        }
        Err(failure) => json!({"failure": failure.name(), "detail": failure.detail()}),
    }
}
