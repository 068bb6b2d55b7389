//! Shared access signatures: query strings.

use crate::checks::{refused, told_as_a_whole};
use crate::material::{ACCOUNT, KEYS, SERVICES, Sent, sign, sign_with, some_version, verifier};
use http::{HeaderMap, Method, Uri};
use tepui_model::access_policy::{AccessPolicy, SignedIdentifier};
use tepui_model::grant::Grant;
use tepui_model::permissions::{Permissions, ResourceTypes, Services};
use tepui_model::{ServiceError, Timestamp};
use tepui_wire::address::{Service, Target};
use tepui_wire::auth::{Credentials, Delegation, sas_version};
use tepui_wire::query::Query;
use tepui_wire::version::{self, VersionPolicy};

pub(super) const WORDS: &[&str] = &[
    "&",
    "=",
    "sv=2019-02-02",
    "sv=2012-02-12",
    "sv=2020-12-06",
    "ss=t",
    "srt=sco",
    "sp=raud",
    "st=2026-03-10T00:00:00Z",
    "se=2026-03-11",
    "se=2026-03-11T00%3A00%3A00Z",
    "sip=10.0.0.7",
    "sip=10.0.0.0-10.0.0.255",
    "sip=::1",
    "spr=https",
    "spr=https,http",
    "si=policy",
    "tn=People",
    "spk=a",
    "srk=b",
    "epk=c",
    "erk=d",
    "sr=b",
    "sr=c",
    "sr=d",
    "sr=bs",
    "sdd=1",
    "sdd=18446744073709551615",
    "snapshot=x",
    "skoid=1",
    "sktid=2",
    "skt=2026-03-10",
    "ske=2026-03-12",
    "sks=b",
    "skv=2020-12-06",
    "sks=q",
    "sks=t",
    "saoid=a",
    "suoid=a",
    "sduoid=a",
    "skdutid=a",
    "sv=2025-07-05",
    "sv=2026-04-06",
    "sr=bv",
    "versionid=x",
    "srh=a",
    "ses=e",
    "restype=container",
    "comp=list",
    "sig=AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA%3D",
    "sig=",
    "%2B",
    "+",
    "%",
    "%FF",
    "%00",
    "api-version=2015-04-05",
];

/// A token is good if it is signed, and what it allows is what it says.
pub fn sas(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let request = Sent { method: Method::GET, uri: Uri::default(), headers: HeaderMap::new(), body: b"" };
    let target = Target {
        account: ACCOUNT.to_owned(),
        secondary: false,
        base: format!("http://127.0.0.1/{ACCOUNT}"),
        raw_path: format!("/{ACCOUNT}/people/a/b"),
        path: "people/a/b".to_owned(),
        host_style: false,
    };
    let query = Query::parse(Some(text));
    if let Err(error) =
        version::negotiate(&request.headers, &query, sas_version(&query), VersionPolicy::Check)
    {
        refused(&error);
    }
    for service in SERVICES {
        let error = match verifier().authenticate(&request.head(service, some_version(data), &query, &target))
        {
            Ok(_) => continue,
            Err(error) => error,
        };
        refused(&error);
        let Some(to_sign) = string_to_sign(&error).and_then(told_as_a_whole) else { continue };
        let Some(query) = with_signature(text, &signature(to_sign, &query)) else { continue };
        let head = request.head(service, some_version(data), &query, &target);
        for policy in policies(&query) {
            match verifier().authenticate(&head) {
                Ok(Credentials::Sas(token)) => match token.resolve(policy.as_ref(), &verifier()) {
                    Ok(grant) => is_as_said(&grant, &query, service),
                    Err(error) => refused(&error),
                },
                Ok(other) => panic!("not a SAS: {other:?}"),
                Err(error) => {
                    refused(&error);
                    assert_eq!(string_to_sign(&error), None, "signed and still refused");
                }
            }
        }
    }
}

fn string_to_sign(error: &ServiceError) -> Option<&str> {
    let (_, detail) = error.details.first()?;
    detail.strip_prefix("Signature did not match. String to sign used was ")
}

/// By the account's key, or by the one that was made from it for a user.
fn signature(text: &str, query: &Query) -> String {
    if query.get("skoid").is_none() || query.get("ss").is_some() || query.get("srt").is_some() {
        return sign(text.as_bytes());
    }
    let value = |name| query.get(name).unwrap_or_default();
    let delegation = Delegation {
        account: ACCOUNT,
        object_id: value("skoid"),
        tenant_id: value("sktid"),
        start: value("skt"),
        expiry: value("ske"),
        service: value("sks"),
        version: value("skv"),
        delegated_tenant: value("skdutid"),
    };
    sign_with(&KEYS.delegate(&delegation).expect("the account has a secret"), text.as_bytes())
}

/// The same query with a good signature; `None` if the old one hides behind escapes.
fn with_signature(raw: &str, signature: &str) -> Option<Query> {
    let mut pairs: Vec<&str> = raw.split('&').filter(|pair| pair.split('=').next() != Some("sig")).collect();
    let signature = format!("sig={}", signature.replace('+', "%2B"));
    pairs.push(&signature);
    let query = Query::parse(Some(&pairs.join("&")));
    (query.count("sig") == 1).then_some(query)
}

/// What the policy allows that says everything.
const OF_POLICY: &str = "raud";

/// No policy, one that says nothing, and one that says everything.
fn policies(query: &Query) -> [Option<SignedIdentifier>; 3] {
    let id = query.get("si").unwrap_or_default().to_owned();
    let full = AccessPolicy {
        start: None,
        expiry: Timestamp::parse_iso("2027-01-01"),
        permission: Some(OF_POLICY.to_owned()),
    };
    [
        None,
        Some(SignedIdentifier { id: id.clone(), policy: None }),
        Some(SignedIdentifier { id, policy: Some(full) }),
    ]
}

fn is_as_said(grant: &Grant, query: &Query, service: Service) {
    let permissions = query.get("sp").filter(|letters| !letters.is_empty()).map(Permissions::parse);
    let is_permitted = |granted| assert_eq!(granted, permissions.unwrap_or(Permissions::parse(OF_POLICY)));
    match grant {
        Grant::AccountKey => panic!("a SAS is not a key"),
        Grant::AccountSas { services, resource_types, permissions } => {
            assert_eq!(Some(*services), query.get("ss").map(Services::parse));
            assert_eq!(Some(*resource_types), query.get("srt").map(ResourceTypes::parse));
            assert_eq!(Some(*permissions), query.get("sp").map(Permissions::parse));
        }
        Grant::TableSas { table, permissions, bounds, .. } => {
            assert!(service == Service::Table && Some(&**table) == query.get("tn"));
            is_permitted(*permissions);
            let value = |name: &str| query.get(name).filter(|value| !value.is_empty()).map(str::to_owned);
            assert_eq!((&bounds.start_partition, &bounds.end_row), (&value("spk"), &value("erk")));
            assert!(bounds.start_row.is_none() || bounds.start_partition.is_some());
        }
        Grant::QueueSas { queue, permissions, .. } => {
            assert!(service == Service::Queue && queue == "people");
            is_permitted(*permissions);
        }
        Grant::BlobSas { container, permissions, .. } => {
            assert!(service == Service::Blob && container == "people");
            is_permitted(*permissions);
        }
        Grant::Token(_) => panic!("a SAS is not a token"),
        Grant::Anonymous => panic!("a SAS is not nothing"),
    }
}
