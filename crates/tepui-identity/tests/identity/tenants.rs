//! Of which tenant tokens are: an issuer that is trusted makes none of the tenant of another.

use crate::make::{ACCOUNT, NOW, Signer, at, claims, key_set, timing};
use serde_json::json;
use tepui_identity::{DevelopmentIssuer, Directory, IssuerSettings};
use tepui_model::Service;

const TENANT: &str = "72f988bf-86f1-41af-91ab-2d7cd011db47";
const FIXED: &str = "5b1f0b7e-0a0e-4a38-9f6c-2f6f6f0d5a11";
const ENTRA: &str = "https://sts.windows.net/72f988bf-86f1-41af-91ab-2d7cd011db47/";
const KEYCLOAK: &str = "https://keycloak.example.org/realms/storage";
const OF_FIXED: &str = "https://dex.example.org/dex";
const OF_CLAIM: &str = "https://login.example.org";

#[tokio::test]
async fn no_issuer_makes_tokens_of_the_tenant_of_another() {
    let signer = Signer::p256();
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), key_set(&[signer.jwk("k")])).unwrap();
    let settings = |issuer: &str, tenant: Option<&str>| IssuerSettings {
        issuer: issuer.to_owned(),
        jwks_file: Some(file.path().to_owned()),
        tenant: tenant.map(str::to_owned),
        ..Default::default()
    };
    let issuers = [
        settings(ENTRA, None),
        settings(KEYCLOAK, None),
        settings(OF_FIXED, Some(FIXED)),
        settings(OF_CLAIM, Some("org")),
    ];
    let own = DevelopmentIssuer::new().unwrap();
    let directory = Directory::with_timing(&issuers, Some(&own), timing()).unwrap();
    let tenant_of = async |issuer: &str, said: &str| {
        let token = signer.token("k", &claims(json!({"iss": issuer, "tid": said, "org": said})));
        directory.verify(&token, Service::Blob, ACCOUNT, at(NOW)).await.unwrap().tenant_id.clone()
    };
    assert_eq!(tenant_of(ENTRA, TENANT).await, TENANT);
    let of_entra = tenant_of(ENTRA, FIXED).await;
    let of_keycloak = tenant_of(KEYCLOAK, TENANT).await;
    assert_eq!(tenant_of(OF_FIXED, FIXED).await, FIXED);
    // Who has chosen a claim believes it.
    assert_eq!(tenant_of(OF_CLAIM, FIXED).await, FIXED);

    let development = DevelopmentIssuer::tenant();
    let all = [TENANT, FIXED, &of_entra, &of_keycloak, &development];
    for (issuer, expected) in [
        (ENTRA, &[TENANT, &of_entra][..]),
        (KEYCLOAK, &[&of_keycloak]),
        (OF_FIXED, &[FIXED]),
        (OF_CLAIM, &[]),
        (DevelopmentIssuer::ISSUER, &[&development]),
        ("https://unknown.example/72f988bf-86f1-41af-91ab-2d7cd011db47/", &[]),
    ] {
        for tenant in all {
            let is_its = directory.is_tenant_of(&tenant.to_uppercase(), issuer);
            assert_eq!(is_its, expected.contains(&tenant), "{issuer} {tenant}");
        }
        assert!(!directory.is_tenant_of("", issuer));
    }
}
