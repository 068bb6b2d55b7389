//! The issuer that is part of the server, and tokens that are believed.

use crate::make::{NOW, Signer, at, claims};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};
use std::time::Duration;
use tepui_identity::{DevelopmentIssuer, Directory, IssuerSettings, TokenRequest};
use tepui_model::Service;
use tepui_model::role::PrincipalName;
use tepui_model::token::TokenFailure;

fn request(principal: &str) -> TokenRequest {
    TokenRequest {
        principal: principal.to_owned(),
        groups: vec!["team".to_owned()],
        audience: None,
        tenant: None,
        lifetime: Duration::from_secs(3600),
    }
}

#[tokio::test]
async fn the_server_takes_the_tokens_that_it_made() {
    const GUID: &str = "5b1f0b7e-0a0e-4a38-9f6c-2f6f6f0d5a11";
    let issuer = DevelopmentIssuer::new().unwrap();
    let directory = Directory::new(&[], Some(&issuer)).unwrap();
    for (principal, object_id) in [("ada", DevelopmentIssuer::object_id("ada")), (GUID, GUID.to_owned())] {
        let minted = issuer.mint(&request(principal), at(NOW)).unwrap();
        let owner = directory.verify(&minted.token, Service::Queue, "any", at(NOW)).await.unwrap();
        assert_eq!((&owner.object_id, &minted.object_id), (&object_id, &object_id));
        assert_eq!(owner.tenant_id, directory.challenge_tenant());
        for name in [PrincipalName::Subject(principal.to_owned()), PrincipalName::Group("team".to_owned())] {
            assert!(owner.names.contains(&name), "{name}");
        }
        assert_eq!(minted.expires, NOW + 3600);
        let late = directory.verify(&minted.token, Service::Queue, "any", at(minted.expires + 60)).await;
        assert_eq!(late, Err(TokenFailure::Expired));
    }
    let of_another = DevelopmentIssuer::new().unwrap().mint(&request("ada"), at(NOW)).unwrap();
    let refused = directory.verify(&of_another.token, Service::Queue, "any", at(NOW)).await;
    assert_eq!(refused, Err(TokenFailure::UnknownKey));
}

#[tokio::test]
async fn a_token_is_for_what_was_asked_for() {
    let issuer = DevelopmentIssuer::new().unwrap();
    let directory = Directory::new(&[], Some(&issuer)).unwrap();
    let audience = Some("https://one.blob.core.windows.net/".to_owned());
    let minted = issuer.mint(&TokenRequest { audience, ..request("ada") }, at(NOW)).unwrap();
    for (service, account, is_good) in [(Service::Blob, "one", true), (Service::Blob, "two", false)] {
        let outcome = directory.verify(&minted.token, service, account, at(NOW)).await;
        assert_eq!(outcome.is_ok(), is_good, "{account}");
    }
}

#[test]
fn an_issuer_is_trusted_once() {
    let issuer = DevelopmentIssuer::new().unwrap();
    let settings = |name: &str| IssuerSettings { issuer: name.to_owned(), ..Default::default() };
    let twice = [settings("https://issuer.example"), settings("https://issuer.example")];
    assert!(Directory::new(&twice, None).is_err());
    assert!(Directory::new(&[settings(DevelopmentIssuer::ISSUER)], Some(&issuer)).is_err());
    assert!(Directory::new(&twice[..1], Some(&issuer)).is_ok());
}

#[tokio::test]
async fn basic_believes_what_a_token_says() {
    let directory = Directory::basic();
    assert!(directory.is_basic());
    let entra = "https://sts.windows.net/5b1f0b7e-0a0e-4a38-9f6c-2f6f6f0d5a11/";
    type F = TokenFailure;
    for (case, changes, expected) in [
        ("good", json!({}), Ok(())),
        ("another tenant", json!({"iss": "https://sts.windows.net/x/"}), Ok(())),
        ("another issuer", json!({"iss": "https://issuer.example"}), Err(F::Issuer)),
        ("almost Entra ID", json!({"iss": "https://sts.windows.net.evil.example/"}), Err(F::Issuer)),
        ("nobody", json!({"sub": null}), Ok(())),
        ("no beginning", json!({"nbf": null}), Err(F::Form)),
        ("no end", json!({"exp": null}), Err(F::Form)),
        ("not said when made", json!({"iat": null}), Err(F::Form)),
        ("expired", json!({"exp": NOW}), Err(F::Expired)),
        ("not yet", json!({"nbf": NOW + 1}), Err(F::NotYetValid)),
        ("another audience", json!({"aud": "x"}), Err(F::Audience)),
        ("another account", json!({"aud": "https://b.blob.core.windows.net"}), Err(F::Audience)),
    ] {
        let mut value: Value = claims(json!({"iss": entra}));
        for (name, change) in changes.as_object().unwrap() {
            match change {
                Value::Null => drop(value.as_object_mut().unwrap().remove(name)),
                change => value[name] = change.clone(),
            }
        }
        // Nobody's signature, and none at all.
        let signed = Signer::p256().token("k", &value);
        let unsigned = format!(
            "{}.{}.",
            URL_SAFE_NO_PAD.encode(r#"{"alg":"none"}"#),
            URL_SAFE_NO_PAD.encode(value.to_string())
        );
        for token in [signed, unsigned] {
            let outcome = directory.verify(&token, Service::Blob, "acct", at(NOW)).await.map(|_| ());
            assert_eq!(outcome, expected, "{case}");
        }
    }
}
