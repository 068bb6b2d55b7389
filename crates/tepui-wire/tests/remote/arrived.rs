//! A client's request as the server sees it.

use http::{HeaderMap, Method};
use proptest::prelude::*;
use tepui_model::Timestamp;
use tepui_model::account::{Account, AccountKey};
use tepui_model::permissions::{Permissions, ResourceTypes, Services};
use tepui_wire::address::{self, AddressRules, Service, Target};
use tepui_wire::auth::{AccountSas, Credentials, SasLimits, Signer, SigningKeys, Verifier};
use tepui_wire::head::Head;
use tepui_wire::metadata::HeaderCase;
use tepui_wire::query::Query;
use tepui_wire::remote::{Authorization, OutgoingRequest, RemoteService, RequestBody};
use tepui_wire::version::ServiceVersion;

pub(crate) const ACCOUNT: &str = "acct1";

pub(crate) fn now() -> Timestamp {
    Timestamp::parse_iso("2026-03-10T08:15:30.5Z").unwrap()
}

fn key() -> AccountKey {
    AccountKey::new(b"a key of some length, as they are".to_vec())
}

/// How a request shows who sends it.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Signed {
    SharedKey,
    SharedKeyLite,
    Sas,
}

pub(crate) fn any_signed() -> impl Strategy<Value = Signed> {
    prop_oneof![Just(Signed::SharedKey), Just(Signed::SharedKeyLite), Just(Signed::Sas)]
}

/// A service in either style of addresses, in some version.
pub(crate) fn any_remote(service: Service) -> impl Strategy<Value = RemoteService> {
    let hosts = prop_oneof![
        Just(format!("http://127.0.0.1:10002/{ACCOUNT}")),
        Just(format!("https://{ACCOUNT}.{}.core.windows.net", service.name())),
    ];
    let versions = prop_oneof![Just(None), Just(Some("2026-02-06")), Just(Some("2017-07-29"))];
    (hosts, versions).prop_map(move |(url, version)| {
        let remote = RemoteService::new(service, &url, None).unwrap();
        assert_eq!(remote.account(), ACCOUNT);
        match version {
            Some(version) => remote.with_version(ServiceVersion::parse(version).unwrap()),
            None => remote,
        }
    })
}

/// What a [`Head`] borrows from.
#[derive(Debug)]
pub(crate) struct Arrived {
    pub(crate) rules: AddressRules,
    method: Method,
    target: Target,
    query: Query,
    headers: HeaderMap,
    case: Option<HeaderCase>,
    version: ServiceVersion,
    pub(crate) body: Vec<u8>,
}

impl Arrived {
    /// Signs a request, sends it, and has the signature checked.
    pub(crate) fn new(remote: &RemoteService, mut request: OutgoingRequest, signed: Signed) -> Self {
        let signer = Signer::new(ACCOUNT, key()).unwrap();
        let sas = AccountSas {
            services: Services::parse("bqt"),
            resource_types: ResourceTypes::parse("sco"),
            permissions: Permissions::parse("rwdxylacuptfi"),
            limits: SasLimits::until(Timestamp::parse_iso("2026-04-01").unwrap()),
        };
        let token = signer.account_sas(&sas).unwrap();
        let authorization = match signed {
            Signed::SharedKey => Authorization::SharedKey(&signer),
            Signed::SharedKeyLite => Authorization::SharedKeyLite(&signer),
            Signed::Sas => Authorization::Sas(&token),
        };
        remote.authorize(&mut request, authorization, now()).unwrap();
        let rules = AddressRules::new(remote.service());
        let target = address::parse(request.uri(), request.headers(), remote.is_secure(), &rules).unwrap();
        assert_eq!(target.account, ACCOUNT);
        let version = ServiceVersion::parse(request.headers()["x-ms-version"].to_str().unwrap()).unwrap();
        let (parts, body) = request.into_parts();
        let body = match body {
            RequestBody::Empty | RequestBody::Streamed { .. } => Vec::new(),
            RequestBody::Whole(body) => body.to_vec(),
        };
        let arrived = Self {
            rules,
            query: Query::parse(parts.uri.query()),
            method: parts.method,
            target,
            case: parts.extensions.get::<HeaderCase>().cloned(),
            headers: parts.headers,
            version,
            body,
        };
        arrived.verify(remote.service());
        arrived
    }

    fn verify(&self, service: Service) {
        let account = Account { name: ACCOUNT.to_owned(), keys: vec![key()] };
        let keys = SigningKeys::new(&account);
        let verifier = Verifier {
            keys: &keys,
            now: now(),
            now_of_clients: now(),
            peer_ip: [10, 0, 0, 7].into(),
            secure: true,
        };
        match verifier.authenticate(&self.head(service)) {
            Ok(Credentials::AccountKey) => {}
            Ok(Credentials::Sas(token)) => drop(token.resolve(None, &verifier).unwrap()),
            other => panic!("{other:?}: {self:?}"),
        }
    }

    pub(crate) fn head(&self, service: Service) -> Head<'_> {
        let Self { method, target, query, headers, case, version, .. } = self;
        Head {
            service,
            method,
            target,
            path: &target.path,
            query,
            headers,
            case: case.as_ref(),
            version: *version,
        }
    }

    /// The account as it stands in paths, in path style.
    pub(crate) fn account_in_path(&self) -> Option<&str> {
        (!self.target.host_style).then_some(ACCOUNT)
    }
}

/// A response as it arrives, with what every response has.
pub(crate) fn answered<B: AsRef<[u8]>>(mut response: http::Response<B>) -> http::Response<B> {
    response.headers_mut().insert("x-ms-request-id", "5b1f0b7e-0a0e-4a38-9f6c-2f6f6f0d5a11".parse().unwrap());
    response
}
