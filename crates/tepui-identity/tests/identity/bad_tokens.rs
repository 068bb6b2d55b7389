//! Every way in which a token can be bad.

use crate::make::{ISSUER, NOW, Signer, Trusting, at, claims};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::hmac;
use serde_json::{Value, json};
use tepui_identity::{IssuerSettings, MAX_TOKEN_BYTES};
use tepui_model::Service;
use tepui_model::role::PrincipalName;
use tepui_model::token::TokenFailure;

type F = TokenFailure;

#[tokio::test]
async fn every_algorithm_is_verified_by_a_key_for_it() {
    for signer in [
        Signer::Rsa("RS256"),
        Signer::Rsa("RS384"),
        Signer::Rsa("RS512"),
        Signer::Rsa("PS256"),
        Signer::Rsa("PS384"),
        Signer::Rsa("PS512"),
        Signer::p256(),
        Signer::p384(),
        Signer::ed25519(),
    ] {
        let algorithm = signer.algorithm();
        let trusting = Trusting::keys(&[signer.jwk_with_algorithm("k")]);
        let token = signer.token("k", &claims(json!({})));
        let owner =
            trusting.verify(&token).await.unwrap_or_else(|failure| panic!("{algorithm}: {failure:?}"));
        assert!(owner.names.contains(&PrincipalName::Subject("ada".to_owned())), "{algorithm}");
        let other = signer.token("k", &claims(json!({"sub": "eve"})));
        let mixed = format!("{}.{}", other.rsplit_once('.').unwrap().0, token.rsplit_once('.').unwrap().1);
        assert_eq!(trusting.verify(&mixed).await, Err(F::Signature), "{algorithm}");
    }
}

#[tokio::test]
async fn a_key_is_for_one_algorithm() {
    let good = claims(json!({}));
    for (case, key, signer, is_good) in [
        ("RS256 is meant if nothing is said", Signer::Rsa("RS256").jwk("k"), Signer::Rsa("RS256"), true),
        ("and nothing else", Signer::Rsa("RS256").jwk("k"), Signer::Rsa("RS512"), false),
        ("nor the other padding", Signer::Rsa("RS256").jwk("k"), Signer::Rsa("PS256"), false),
        ("what is said", Signer::Rsa("PS256").jwk_with_algorithm("k"), Signer::Rsa("PS256"), true),
        ("and only that", Signer::Rsa("PS256").jwk_with_algorithm("k"), Signer::Rsa("RS256"), false),
    ] {
        let outcome = Trusting::keys(&[key]).verify(&signer.token("k", &good)).await;
        assert_eq!(outcome.map(|_| ()), if is_good { Ok(()) } else { Err(F::Signature) }, "{case}");
    }
}

#[tokio::test]
async fn headers_that_are_refused() {
    let signer = Signer::p256();
    let jwk = signer.jwk("k");
    let trusting = Trusting::keys(&[jwk.clone(), Signer::Rsa("RS256").jwk("rsa")]);
    let good = claims(json!({}));
    for (case, header, expected) in [
        ("good", json!({"alg": "ES256", "kid": "k"}), Ok(())),
        ("a token for access", json!({"alg": "ES256", "kid": "k", "typ": "at+jwt"}), Ok(())),
        ("spelled out", json!({"alg": "ES256", "kid": "k", "typ": "application/at+JWT"}), Ok(())),
        ("what means nothing here", json!({"alg": "ES256", "kid": "k", "x5t": "a", "nonce": "b"}), Ok(())),
        ("no algorithm", json!({"kid": "k"}), Err(F::Form)),
        ("no signature", json!({"alg": "none", "kid": "k"}), Err(F::Signature)),
        ("none, as some spell it", json!({"alg": "nOnE", "kid": "k"}), Err(F::Signature)),
        ("a secret", json!({"alg": "HS256", "kid": "k"}), Err(F::Signature)),
        ("another algorithm", json!({"alg": "ES384", "kid": "k"}), Err(F::Signature)),
        ("another algorithm, known key", json!({"alg": "RS256", "kid": "k"}), Err(F::Signature)),
        ("the key of another algorithm", json!({"alg": "ES256", "kid": "rsa"}), Err(F::Signature)),
        ("in lower case", json!({"alg": "es256", "kid": "k"}), Err(F::Signature)),
        ("a list of algorithms", json!({"alg": ["ES256"], "kid": "k"}), Err(F::Form)),
        ("an unknown key", json!({"alg": "ES256", "kid": "other"}), Err(F::UnknownKey)),
        ("no key", json!({"alg": "ES256"}), Err(F::UnknownKey)),
        ("an empty key", json!({"alg": "ES256", "kid": ""}), Err(F::UnknownKey)),
        ("a key that is a number", json!({"alg": "ES256", "kid": 1}), Err(F::Form)),
        ("a path for a key", json!({"alg": "ES256", "kid": "../../k"}), Err(F::UnknownKey)),
        ("a key of its own", json!({"alg": "ES256", "kid": "x", "jwk": jwk.clone()}), Err(F::UnknownKey)),
        (
            "keys elsewhere",
            json!({"alg": "ES256", "kid": "x", "jku": "https://evil.example"}),
            Err(F::UnknownKey),
        ),
        ("what must be understood", json!({"alg": "ES256", "kid": "k", "crit": ["exp"]}), Err(F::Form)),
        ("nothing to be understood", json!({"alg": "ES256", "kid": "k", "crit": []}), Err(F::Form)),
        ("claims as they are", json!({"alg": "ES256", "kid": "k", "b64": false}), Err(F::Form)),
        ("encrypted", json!({"alg": "ES256", "kid": "k", "enc": "A128GCM"}), Err(F::Form)),
        ("nested", json!({"alg": "ES256", "kid": "k", "cty": "JWT"}), Err(F::Form)),
        ("a proof", json!({"alg": "ES256", "kid": "k", "typ": "dpop+jwt"}), Err(F::Form)),
        ("an event", json!({"alg": "ES256", "kid": "k", "typ": "logout+jwt"}), Err(F::Form)),
        ("a kind that is no text", json!({"alg": "ES256", "kid": "k", "typ": 1}), Err(F::Form)),
    ] {
        let outcome = trusting.verify(&signer.token_with(&header, &good)).await;
        assert_eq!(outcome.map(|_| ()), expected, "{case}");
    }
}

#[tokio::test]
async fn a_public_key_is_no_secret() {
    // The classic mistake: the public key, which everybody has, taken as the secret of an HMAC.
    let jwk = Signer::Rsa("RS256").jwk("k");
    let trusting = Trusting::keys(std::slice::from_ref(&jwk));
    let head = json!({"alg": "HS256", "kid": "k"}).to_string();
    let body = claims(json!({})).to_string();
    let signed = format!("{}.{}", URL_SAFE_NO_PAD.encode(head), URL_SAFE_NO_PAD.encode(body));
    let modulus = URL_SAFE_NO_PAD.decode(jwk["n"].as_str().unwrap()).unwrap();
    for secret in [jwk.to_string().into_bytes(), modulus, Vec::new()] {
        let key = hmac::Key::new(hmac::HMAC_SHA256, &secret);
        let signature = URL_SAFE_NO_PAD.encode(hmac::sign(&key, signed.as_bytes()));
        assert_eq!(trusting.verify(&format!("{signed}.{signature}")).await, Err(F::Signature));
    }
}

#[tokio::test]
async fn claims_that_are_refused() {
    let signer = Signer::p256();
    let trusting = Trusting::keys(&[signer.jwk("k")]);
    for (case, changes, expected) in [
        ("good", json!({}), Ok(())),
        ("another issuer", json!({"iss": "https://evil.example"}), Err(F::Issuer)),
        ("almost the issuer", json!({"iss": format!("{ISSUER}/")}), Err(F::Issuer)),
        ("in another case", json!({"iss": ISSUER.to_uppercase()}), Err(F::Issuer)),
        ("no issuer", json!({"iss": null}), Err(F::Issuer)),
        ("several issuers", json!({"iss": [ISSUER]}), Err(F::Issuer)),
        ("another audience", json!({"aud": "https://graph.microsoft.com"}), Err(F::Audience)),
        ("no audience", json!({"aud": null}), Err(F::Audience)),
        ("a list of audiences", json!({"aud": ["a", "https://storage.azure.com/"]}), Ok(())),
        ("this account", json!({"aud": "https://acct.blob.core.windows.net/"}), Ok(())),
        ("another account", json!({"aud": "https://other.blob.core.windows.net/"}), Err(F::Audience)),
        ("another service", json!({"aud": "https://acct.queue.core.windows.net/"}), Err(F::Audience)),
        ("no end", json!({"exp": null}), Err(F::Form)),
        ("an end that is text", json!({"exp": "2030"}), Err(F::Form)),
        ("expired, as clocks differ", json!({"exp": NOW - 59}), Ok(())),
        ("expired", json!({"exp": NOW - 60}), Err(F::Expired)),
        ("no beginning", json!({"nbf": null, "iat": null}), Ok(())),
        ("begins, as clocks differ", json!({"nbf": NOW + 60}), Ok(())),
        ("not yet", json!({"nbf": NOW + 61}), Err(F::NotYetValid)),
        ("no owner", json!({"sub": null}), Err(F::Form)),
        ("a tenant that is none", json!({"tid": "common"}), Err(F::Tenant)),
    ] {
        let outcome = trusting.verify(&signer.token("k", &claims(changes))).await;
        assert_eq!(outcome.map(|_| ()), expected, "{case}");
    }
}

#[tokio::test]
async fn an_audience_of_one_account_counts_there_only_also_when_it_is_remembered() {
    let signer = Signer::p256();
    let trusting = Trusting::keys(&[signer.jwk("k")]);
    let token = signer.token("k", &claims(json!({"aud": "https://acct.blob.core.windows.net"})));
    for round in 0..3 {
        for (service, account, is_good) in
            [(Service::Blob, "acct", true), (Service::Queue, "acct", false), (Service::Blob, "b", false)]
        {
            let outcome = trusting.directory.verify(&token, service, account, at(NOW)).await;
            assert_eq!(outcome.is_ok(), is_good, "{round} {service:?} {account}");
        }
    }
    assert_eq!(trusting.directory.counters().cache_hits(), 8);
    let end = trusting.directory.verify(&token, Service::Blob, "acct", at(NOW + 3660)).await;
    assert_eq!(end, Err(F::Expired), "what is remembered expires, too");
}

#[tokio::test]
async fn tenants_and_audiences_as_configured() {
    const TENANT: &str = "5b1f0b7e-0a0e-4a38-9f6c-2f6f6f0d5a11";
    let signer = Signer::p256();
    let settings = IssuerSettings {
        audiences: vec!["tepui".to_owned()],
        tenant: Some(TENANT.to_uppercase()),
        groups: Some(vec!["realm_access.roles".to_owned()]),
        ..Default::default()
    };
    let trusting = Trusting::with(&[signer.jwk("k")], settings);
    let own = |changes: Value| {
        let mut claims = claims(json!({"aud": "tepui"}));
        claims.as_object_mut().unwrap().extend(changes.as_object().cloned().unwrap());
        signer.token("k", &claims)
    };
    let owner = trusting.verify(&own(json!({"realm_access": {"roles": ["admin"]}}))).await.unwrap();
    assert_eq!(owner.tenant_id, TENANT);
    assert!(owner.names.contains(&PrincipalName::Group("admin".to_owned())));
    assert_eq!(trusting.directory.challenge_tenant(), TENANT);
    let other = own(json!({"tid": "00000000-0000-0000-0000-000000000001"}));
    assert_eq!(trusting.verify(&other).await, Err(F::Tenant));
    let for_azure = own(json!({"aud": "https://storage.azure.com"}));
    assert_eq!(trusting.verify(&for_azure).await, Err(F::Audience));
}

#[tokio::test]
async fn texts_that_are_no_tokens() {
    let signer = Signer::p256();
    let trusting = Trusting::keys(&[signer.jwk("k")]);
    let good = signer.token("k", &claims(json!({})));
    let parts: Vec<&str> = good.split('.').collect();
    let (head, body, signature) = (parts[0], parts[1], parts[2]);
    let header = json!({"alg": "ES256", "kid": "k"}).to_string();
    let twice = claims(json!({})).to_string().replacen('{', r#"{"sub":"eve","#, 1);
    let twice_inside = claims(json!({})).to_string().replacen('{', r#"{"x":{"a":1,"a":2},"#, 1);
    let long = claims(json!({"x": "x".repeat(MAX_TOKEN_BYTES)}));
    let not_utf8 = [&b"{\"sub\":\"\xFF\","[..], &claims(json!({})).to_string().as_bytes()[1..]].concat();
    let nested = signer.token_of(header.as_bytes(), good.as_bytes());
    for (case, token, expected) in [
        ("empty", String::new(), F::Form),
        ("dots", "..".to_owned(), F::Form),
        ("two parts", format!("{head}.{body}"), F::Form),
        ("no signature", format!("{head}.{body}."), F::Signature),
        ("four parts", format!("{good}.{signature}"), F::Form),
        ("five parts, as if encrypted", format!("{good}.{head}.{body}"), F::Form),
        ("padding", format!("{head}.{body}.{signature}=="), F::Form),
        ("padding of claims", format!("{head}.{body}=.{signature}"), F::Form),
        ("a space before", format!(" {good}"), F::Form),
        ("a line end", format!("{good}\n"), F::Form),
        ("a space inside", good.replacen('.', ". ", 1), F::Form),
        ("the other alphabet", format!("{head}.{body}.+/{}", &signature[2..]), F::Form),
        ("not ASCII", format!("{good}é"), F::Form),
        ("a null", format!("{good}\0"), F::Form),
        ("another scheme", format!("Bearer {good}"), F::Form),
        ("too long", signer.token("k", &long), F::Form),
        ("a name twice", signer.token_of(header.as_bytes(), twice.as_bytes()), F::Form),
        ("a name twice inside", signer.token_of(header.as_bytes(), twice_inside.as_bytes()), F::Form),
        ("two algorithms", signer.token_of(br#"{"alg":"ES256","alg":"none","kid":"k"}"#, b"{}"), F::Form),
        ("not UTF-8", signer.token_of(header.as_bytes(), &not_utf8), F::Form),
        ("no JSON", signer.token_of(header.as_bytes(), b"sub=ada"), F::Form),
        ("a list", signer.token_of(header.as_bytes(), b"[]"), F::Form),
        ("a token inside a token", nested, F::Form),
        (
            "a signature in another form",
            format!("{head}.{body}.{}", URL_SAFE_NO_PAD.encode([0; 64])),
            F::Signature,
        ),
    ] {
        assert_eq!(trusting.verify(&token).await, Err(expected), "{case}");
    }
    assert!(trusting.verify(&good).await.is_ok());
    let refused: u64 = trusting.directory.counters().refused().iter().map(|(_, count)| count).sum();
    assert_eq!((refused, trusting.directory.counters().accepted()), (24, 1));
}

#[tokio::test]
async fn keys_without_a_name_are_for_tokens_without_one() {
    let (one, other) = (Signer::p256(), Signer::p256());
    let unnamed = |signer: &Signer| {
        let mut jwk = signer.jwk("");
        jwk.as_object_mut().unwrap().remove("kid");
        jwk
    };
    let trusting = Trusting::keys(&[unnamed(&one), unnamed(&other)]);
    for signer in [&one, &other] {
        let token = signer.token_with(&json!({"alg": "ES256"}), &claims(json!({})));
        assert!(trusting.verify(&token).await.is_ok());
    }
}
