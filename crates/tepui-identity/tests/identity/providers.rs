//! Issuers that are asked over HTTP: rotation, and all that can be wrong with them.

use crate::make::{ACCOUNT, NOW, Signer, at, claims, timing};
use crate::provider::Provider;
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;
use tepui_identity::{Directory, IssuerSettings, KeySet, Timing};
use tepui_model::Service;
use tepui_model::token::TokenFailure;
use tokio::time::Instant;

type F = TokenFailure;

fn settings(provider: &Provider) -> IssuerSettings {
    IssuerSettings { issuer: provider.issuer(), ..Default::default() }
}

fn directory(provider: &Provider, timing: Timing) -> Arc<Directory> {
    Arc::new(Directory::with_timing(&[settings(provider)], None, timing).unwrap())
}

fn token(provider: &Provider, signer: &Signer, key: &str) -> String {
    signer.token(key, &claims(json!({"iss": provider.issuer()})))
}

async fn verify(directory: &Directory, token: &str) -> Result<(), F> {
    directory.verify(token, Service::Blob, ACCOUNT, at(NOW)).await.map(|_| ())
}

/// Waits until something is so.
async fn until(what: &str, is_so: impl Fn() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < Duration::from_secs(10), "{what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn keys_are_found_and_asked_for_once() {
    let signer = Signer::p256();
    let provider = Provider::start(&[signer.jwk("k")]).await;
    let directory = directory(&provider, timing());
    let keeping = tokio::spawn(Arc::clone(&directory).keep_keys_fresh());
    let token = token(&provider, &signer, "k");
    for _ in 0..100 {
        assert_eq!(verify(&directory, &token).await, Ok(()));
    }
    assert_eq!(provider.fetches(), 1);
    assert_eq!(directory.counters().cache_hits(), 99);
    assert_eq!(directory.counters().fetches().succeeded, 1);
    keeping.abort();
}

#[tokio::test]
async fn a_new_key_fails_no_request() {
    let (old, new) = (Signer::p256(), Signer::Rsa("RS256"));
    let provider = Provider::start(&[old.jwk("old")]).await;
    let directory = directory(&provider, timing());
    let before = token(&provider, &old, "old");
    assert_eq!(verify(&directory, &before).await, Ok(()));
    // A regular fetch has just been made, and the first demand has been used by the line above.
    let fresh = Arc::new(Directory::with_timing(&[settings(&provider)], None, timing()).unwrap());
    let keeping = tokio::spawn(Arc::clone(&fresh).keep_keys_fresh());
    until("the first fetch", || fresh.counters().fetches().succeeded == 1).await;
    assert_eq!(verify(&fresh, &before).await, Ok(()));
    provider.change(|behaviour| behaviour.keys = vec![old.jwk("old"), new.jwk("new")]);
    let after = token(&provider, &new, "new");
    let mut requests = tokio::task::JoinSet::new();
    for number in 0..50 {
        let (fresh, token) =
            (Arc::clone(&fresh), if number % 2 == 0 { after.clone() } else { before.clone() });
        requests.spawn(async move { verify(&fresh, &token).await });
    }
    assert!(requests.join_all().await.iter().all(Result::is_ok));
    assert_eq!(fresh.counters().fetches().succeeded, 2);
    // The old key goes: its tokens are refused from the next fetch on, also those that are remembered.
    keeping.abort();
}

#[tokio::test]
async fn a_key_that_goes_takes_its_tokens_along() {
    let (old, new) = (Signer::p256(), Signer::p256());
    let provider = Provider::start(&[old.jwk("old")]).await;
    let short = Timing { between_demands: Duration::ZERO, ..timing() };
    let directory = directory(&provider, short);
    let (before, after) = (token(&provider, &old, "old"), token(&provider, &new, "new"));
    assert_eq!(verify(&directory, &before).await, Ok(()));
    provider.change(|behaviour| behaviour.keys = vec![new.jwk("new")]);
    assert_eq!(verify(&directory, &before).await, Ok(()), "nobody knows yet");
    assert_eq!(verify(&directory, &after).await, Ok(()));
    assert_eq!(verify(&directory, &before).await, Err(F::UnknownKey));
    // The same name for another key.
    provider.change(|behaviour| behaviour.keys = vec![old.jwk("new"), new.jwk("newer")]);
    assert_eq!(verify(&directory, &token(&provider, &new, "newer")).await, Ok(()));
    assert_eq!(verify(&directory, &after).await, Err(F::Signature));
}

#[tokio::test]
async fn a_herd_of_unknown_keys_makes_one_fetch() {
    let (known, unknown) = (Signer::p256(), Signer::p256());
    let provider = Provider::start(&[known.jwk("k")]).await;
    provider.change(|behaviour| behaviour.delay = Duration::from_millis(50));
    let directory = directory(&provider, timing());
    let mut requests = tokio::task::JoinSet::new();
    for number in 0..200 {
        let (directory, token) = (Arc::clone(&directory), token(&provider, &unknown, &format!("k{number}")));
        requests.spawn(async move { verify(&directory, &token).await });
    }
    assert!(requests.join_all().await.iter().all(|outcome| *outcome == Err(F::UnknownKey)));
    assert_eq!(provider.fetches(), 1);
    let start = Instant::now();
    assert_eq!(verify(&directory, &token(&provider, &unknown, "another")).await, Err(F::UnknownKey));
    assert!(start.elapsed() < Duration::from_secs(1), "later ones do not wait");
    assert_eq!(provider.fetches(), 1);
    assert_eq!(verify(&directory, &token(&provider, &known, "k")).await, Ok(()));
}

#[tokio::test]
async fn known_keys_go_on_while_the_issuer_is_down() {
    let (known, unknown) = (Signer::p256(), Signer::p256());
    let mut provider = Provider::start(&[known.jwk("k")]).await;
    let short = Timing { between_demands: Duration::ZERO, ..timing() };
    let directory = directory(&provider, short);
    assert_eq!(verify(&directory, &token(&provider, &known, "k")).await, Ok(()));
    provider.stop().await;
    let fresh = known.token("k", &claims(json!({"iss": provider.issuer(), "sub": "grace"})));
    for _ in 0..3 {
        assert_eq!(verify(&directory, &fresh).await, Ok(()));
        assert_eq!(verify(&directory, &token(&provider, &unknown, "u")).await, Err(F::KeysUnavailable));
    }
    assert!(directory.counters().fetches().failed >= 1);
    provider.change(|behaviour| behaviour.keys = vec![known.jwk("k"), unknown.jwk("u")]);
    provider.start_again().await;
    assert_eq!(verify(&directory, &token(&provider, &unknown, "u")).await, Ok(()));
}

#[tokio::test]
async fn an_issuer_may_come_up_after_the_server() {
    let signer = Signer::p256();
    let mut provider = Provider::start(&[signer.jwk("k")]).await;
    provider.stop().await;
    let soon = Timing { retry_first: Duration::from_millis(20), ..timing() };
    let directory = directory(&provider, soon);
    let keeping = tokio::spawn(Arc::clone(&directory).keep_keys_fresh());
    let token = token(&provider, &signer, "k");
    until("two attempts", || directory.counters().fetches().failed >= 2).await;
    assert_eq!(verify(&directory, &token).await, Err(F::KeysUnavailable));
    provider.start_again().await;
    until("keys", || directory.counters().fetches().succeeded >= 1).await;
    assert_eq!(verify(&directory, &token).await, Ok(()));
    keeping.abort();
}

#[tokio::test]
async fn a_slow_issuer_is_waited_for_a_little() {
    let signer = Signer::p256();
    let provider = Provider::start(&[signer.jwk("k")]).await;
    provider.change(|behaviour| behaviour.delay = Duration::from_millis(400));
    let impatient = Timing { patience: Duration::from_millis(100), ..timing() };
    let directory = directory(&provider, impatient);
    let token = token(&provider, &signer, "k");
    let start = Instant::now();
    assert_eq!(verify(&directory, &token).await, Err(F::KeysUnavailable));
    assert!(start.elapsed() < Duration::from_millis(350));
    // The fetch goes on without whoever asked for it.
    until("keys", || directory.counters().fetches().succeeded == 1).await;
    assert_eq!(verify(&directory, &token).await, Ok(()));
    assert_eq!(provider.fetches(), 1);
}

#[tokio::test]
async fn an_issuer_that_never_answers_is_given_up() {
    let signer = Signer::p256();
    let provider = Provider::start(&[signer.jwk("k")]).await;
    provider.change(|behaviour| behaviour.delay = Duration::from_secs(3600));
    let directory = directory(&provider, Timing { fetch: Duration::from_millis(50), ..timing() });
    assert_eq!(verify(&directory, &token(&provider, &signer, "k")).await, Err(F::KeysUnavailable));
    assert_eq!(directory.counters().fetches().failed, 1);
}

#[tokio::test]
async fn answers_that_are_not_taken() {
    let signer = Signer::p256();
    let many = vec![signer.jwk("k"); KeySet::MAX_KEYS + 1];
    let one = crate::make::key_set(&[signer.jwk("k")]);
    let huge = format!("{one}{}", " ".repeat(KeySet::MAX_BYTES));
    for (case, head, body) in [
        ("a redirect", Some("302 Found\r\nLocation: /keys"), None),
        ("a redirect elsewhere", Some("301 Moved\r\nLocation: http://127.0.0.1:1/keys"), None),
        ("an error", Some("500 Oh"), None),
        ("not there", Some("404 Not Found"), None),
        ("partial", Some("206 Partial"), None),
        ("a page", None, Some("<html>".to_owned())),
        ("nothing", None, Some(String::new())),
        ("too large", None, Some(huge)),
        ("too many", None, Some(crate::make::key_set(&many))),
        ("too long a head", Some(&*format!("200 OK\r\nX: {}", "x".repeat(1_000_000))), None),
    ] {
        let provider = Provider::start(&[signer.jwk("k")]).await;
        provider.change(|behaviour| {
            behaviour.head = head.map(str::to_owned);
            behaviour.body = body;
        });
        let directory = directory(&provider, timing());
        let outcome = verify(&directory, &token(&provider, &signer, "k")).await;
        assert_eq!(outcome, Err(F::KeysUnavailable), "{case}");
        assert_eq!((provider.fetches(), directory.counters().fetches().failed), (1, 1), "{case}");
    }
}

#[tokio::test]
async fn a_document_of_another_issuer_is_not_taken_and_a_url_of_keys_is() {
    let signer = Signer::p256();
    let provider = Provider::start(&[signer.jwk("k")]).await;
    provider.change(|behaviour| behaviour.named = Some("https://other.example".to_owned()));
    let token = token(&provider, &signer, "k");
    assert_eq!(verify(&directory(&provider, timing()), &token).await, Err(F::KeysUnavailable));
    assert_eq!(provider.fetches(), 0, "its keys are not even asked for");
    let keys = Some(format!("{}/keys", provider.issuer()));
    let settings = IssuerSettings { jwks_uri: keys, ..settings(&provider) };
    let directory = Directory::with_timing(&[settings], None, timing()).unwrap();
    assert_eq!(verify(&directory, &token).await, Ok(()));
}

#[tokio::test]
async fn what_answers_say_about_their_age_counts_within_bounds() {
    let signer = Signer::p256();
    for (case, age, least, fetches_soon) in [
        ("as it says", "max-age=0", Duration::from_millis(20), true),
        ("not more often than that", "no-store", Duration::from_secs(60), false),
        ("nothing is said", "public", Duration::from_millis(20), false),
    ] {
        let provider = Provider::start(&[signer.jwk("k")]).await;
        provider.change(|behaviour| behaviour.head = Some(format!("200 OK\r\nCache-Control: {age}")));
        let directory = directory(&provider, Timing { refresh_least: least, ..timing() });
        let keeping = tokio::spawn(Arc::clone(&directory).keep_keys_fresh());
        until("the first fetch", || provider.fetches() > 0).await;
        tokio::time::sleep(Duration::from_millis(300)).await;
        assert_eq!(provider.fetches() > 1, fetches_soon, "{case}: {}", provider.fetches());
        keeping.abort();
    }
}

#[tokio::test]
async fn an_issuer_without_keys_has_none() {
    let signer = Signer::p256();
    let provider = Provider::start(&[signer.jwk("k")]).await;
    let short = Timing { between_demands: Duration::ZERO, ..timing() };
    let directory = directory(&provider, short);
    let token = token(&provider, &signer, "k");
    assert_eq!(verify(&directory, &token).await, Ok(()));
    provider.change(|behaviour| behaviour.keys = Vec::new());
    let _ = verify(&directory, &signer.token("x", &claims(json!({"iss": provider.issuer()})))).await;
    assert_eq!(verify(&directory, &token).await, Err(F::UnknownKey));
}
