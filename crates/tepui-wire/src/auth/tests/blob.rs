//! What is particular to the Blob service: what a SAS is for, and callers without credentials.

use super::*;
use tepui_model::grant::BlobReach;

const ACCOUNT: &str = DEVELOPMENT_ACCOUNT;
const MOMENT: &str = "2026-03-04T05:06:07.0201905Z";

/// A request with a SAS of 2021-08-06 that is good until April.
fn with_sas(path: &str, sr: &str, resource: &str, snapshot: &str) -> Request {
    let text = format!(
        "r\n\n2026-04-01\n/blob/{ACCOUNT}/{resource}\n\n\n\n2021-08-06\n{sr}\n{snapshot}\n\n\n\n\n\n"
    );
    let signature = sign(&text).replace('+', "%2B");
    let separator = if path.contains('?') { '&' } else { '?' };
    let uri = format!("/{ACCOUNT}/{path}{separator}sp=r&se=2026-04-01&sv=2021-08-06&sr={sr}&sig={signature}");
    table("GET", &uri).service(Service::Blob)
}

#[test]
fn a_sas_is_for_what_is_signed() {
    use BlobReach::*;
    let snapshot = format!("c/b?snapshot={MOMENT}");
    let version = format!("c/b?VersionId={MOMENT}");
    let smuggled = format!("c/b?Snapshot=2020-01-01T00:00:00.0000000Z&snapshot={MOMENT}");
    for (path, sr, resource, moment, expected) in [
        ("c/b", "b", "c/b", "", Some(Blob)),
        ("c/b", "c", "c", "", Some(Container)),
        ("c?restype=container&comp=list", "c", "c", "", Some(Container)),
        ("robots.txt", "b", "$root/robots.txt", "", Some(Blob)),
        ("c/d/e/b?sdd=2", "d", "c/d/e", "", Some(Directory)),
        (&snapshot, "bs", "c/b", MOMENT, Some(Snapshot)),
        (&version, "bv", "c/b", MOMENT, Some(Version)),
        ("c/other", "b", "c/b", "", None),
        ("other/b", "c", "c", "", None),
        ("c/x/e/b?sdd=2", "d", "c/d/e", "", None),
        ("c/b", "bs", "c/b", MOMENT, None),
        (&smuggled, "bs", "c/b", MOMENT, None),
        ("c?restype=container", "b", "c/", "", None),
        ("?comp=list", "c", "c", "", None),
        ("c/b", "q", "c/b", "", None),
    ] {
        let container = resource.split('/').next().unwrap_or_default().to_owned();
        let grant = with_sas(path, sr, resource, moment).grant(None).map_err(|error| error.code);
        let expected = expected.ok_or(ErrorCode::AuthenticationFailed).map(|reach| Grant::BlobSas {
            container,
            reach,
            permissions: Permissions::READ,
            modern_errors: true,
            delegator: None,
        });
        assert_eq!(grant, expected, "{path} {sr}");
    }
}

#[test]
fn policies_of_containers_fill_their_sas() {
    let text = format!("\n\n\n/blob/{ACCOUNT}/c\np\n\n\n2021-08-06\nc\n\n\n\n\n\n\n");
    let signature = sign(&text).replace('+', "%2B");
    let request = table("GET", &format!("/{ACCOUNT}/c/b?si=p&sv=2021-08-06&sr=c&sig={signature}"));
    let request = request.service(Service::Blob);
    let found = request.run(|head, verifier| match verifier.authenticate(head) {
        Ok(Credentials::Sas(token)) => {
            (token.policy_id().map(str::to_owned), token.container().map(str::to_owned))
        }
        other => panic!("{other:?}"),
    });
    assert_eq!(found, (Some("p".to_owned()), Some("c".to_owned())));
    let policy = AccessPolicy {
        start: None,
        expiry: Timestamp::parse_iso("2026-04-01"),
        permission: Some("rl".to_owned()),
    };
    let identifier = SignedIdentifier { id: "p".to_owned(), policy: Some(policy) };
    assert!(
        matches!(request.grant(Some(&identifier)), Ok(Grant::BlobSas { permissions, .. }) if permissions == Permissions::READ | Permissions::LIST)
    );
    assert!(request.grant(None).is_err());
}

#[test]
fn callers_without_credentials() {
    let request = table("GET", "/devstoreaccount1/c/b").service(Service::Blob);
    assert_eq!(request.grant(None), Ok(Grant::Anonymous));
    let old = ServiceVersion::parse("2019-07-07").unwrap();
    let said: HeaderMap =
        [(http::HeaderName::from_static("x-ms-version"), "x".parse().unwrap())].into_iter().collect();
    for (headers, version, expected) in [
        (&said, ServiceVersion::NEWEST, ErrorCode::NoAuthenticationInformation),
        (&said, old, ErrorCode::ResourceNotFound),
        (&HeaderMap::new(), ServiceVersion::NEWEST, ErrorCode::ResourceNotFound),
    ] {
        assert_eq!(deny_anonymous(headers, version).code, expected, "{version}");
    }
}
