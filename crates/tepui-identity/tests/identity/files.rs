//! Keys that are in a file.

use crate::make::{Signer, Trusting, claims, key_set, timing};
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;
use tepui_identity::{Directory, IssuerSettings, Timing};
use tepui_model::token::TokenFailure;

#[tokio::test]
async fn a_file_that_changed_is_read_again() {
    let (one, other) = (Signer::p256(), Signer::p256());
    let trusting = Trusting::keys(&[one.jwk("one")]);
    let (old, new) = (one.token("one", &claims(json!({}))), other.token("other", &claims(json!({}))));
    let settings = IssuerSettings {
        issuer: crate::make::ISSUER.to_owned(),
        jwks_file: Some(trusting.file.path().to_owned()),
        ..Default::default()
    };
    let quick = Timing { file: Duration::from_millis(10), ..timing() };
    let directory = Arc::new(Directory::with_timing(&[settings], None, quick).unwrap());
    let trusting = Trusting { directory: Directory::basic(), ..trusting };
    let keeping = tokio::spawn(Arc::clone(&directory).keep_keys_fresh());
    let verify = async |token: &str| {
        let now = crate::make::at(crate::make::NOW);
        directory.verify(token, tepui_model::Service::Table, "acct", now).await.map(|_| ())
    };
    let until = async |token: &str, expected: Result<(), TokenFailure>| {
        for _ in 0..1000 {
            if verify(token).await == expected {
                return;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        panic!("{expected:?} does not come");
    };
    assert_eq!(verify(&old).await, Ok(()));
    assert_eq!(verify(&new).await, Err(TokenFailure::UnknownKey));
    std::fs::write(trusting.file.path(), key_set(&[other.jwk("other"), json!({"kty": "oct"})])).unwrap();
    until(&new, Ok(())).await;
    assert_eq!(verify(&old).await, Err(TokenFailure::UnknownKey));
    // A file that is wrong changes nothing.
    std::fs::write(trusting.file.path(), "{").unwrap();
    until(&old, Err(TokenFailure::KeysUnavailable)).await;
    assert_eq!(verify(&new).await, Ok(()));
    keeping.abort();
}

#[tokio::test]
async fn a_file_that_is_not_there() {
    let trusting = Trusting::with(&[], IssuerSettings::default());
    std::fs::remove_file(trusting.file.path()).unwrap();
    let token = Signer::p256().token("k", &claims(json!({})));
    assert_eq!(trusting.verify(&token).await, Err(TokenFailure::KeysUnavailable));
}
