//! Whole requests, through the same steps as in the server, up to the typed operation.

use crate::checks::{entity_survives, refused};
use crate::material::{ACCOUNT, Sent, verifier};
use http::{HeaderMap, Method};
use tepui_model::ServiceError;
use tepui_model::table::{Action, Call, OperationKind};
use tepui_wire::address::{self, AddressError, AddressRules, Service, Target};
use tepui_wire::auth;
use tepui_wire::auth::Challenge;
use tepui_wire::error_body;
use tepui_wire::head::BodyUse;
use tepui_wire::query::Query;
use tepui_wire::table::request::Request;
use tepui_wire::table::request::presentation::error_format;
use tepui_wire::version::{self, ServiceVersion, VersionPolicy};
use tepui_wire::{cors, table};

pub(super) const WORDS: &[&str] = &[
    "GET ",
    "POST ",
    "PUT ",
    "MERGE ",
    "PATCH ",
    "DELETE ",
    "OPTIONS ",
    "/devstoreaccount1/",
    "Tables",
    "Tables('T')",
    "People()",
    "(PartitionKey='p',RowKey='r')",
    "$batch",
    "?",
    "&",
    "$filter=A%20eq%201",
    "$select=A,B",
    "$top=10",
    "$format=json",
    "$orderby=A",
    "NextPartitionKey=1!4!cDE-",
    "NextRowKey=1!4!cjE-",
    "NextTableName=1!4!cDE-",
    "comp=acl",
    "restype=service&comp=properties",
    "comp=stats",
    "timeout=0",
    "api-version=2013-08-15",
    " HTTP/1.1\r\n",
    "Host: 127.0.0.1:10002\r\n",
    "Host: devstoreaccount1.table.local\r\n",
    "x-ms-version: 2013-08-15\r\n",
    "Accept: application/json;odata=fullmetadata\r\n",
    "Accept: application/atom+xml\r\n",
    ";q=0.5",
    "odata=verbose",
    "Content-Type: application/json\r\n",
    "Content-Type: application/atom+xml\r\n",
    "If-Match: *\r\n",
    "If-None-Match: *\r\n",
    "X-HTTP-Method: MERGE\r\n",
    "Prefer: return-content\r\n",
    "DataServiceVersion: 3.0;NetFx\r\n",
    "MaxDataServiceVersion: 2.0\r\n",
    "Authorization: SharedKey devstoreaccount1:AAAA\r\n",
    "\r\n",
    "{}",
    "{\"TableName\":\"People\"}",
    "{\"PartitionKey\":\"p\",\"RowKey\":\"r\"}",
    "<SignedIdentifiers/>",
];

/// Whatever is asked, the answer can be written.
pub fn request(data: &[u8]) {
    let Some(request) = Sent::read(data) else { return };
    let query = Query::parse(request.uri.query());
    let rules = AddressRules::new(Service::Table);
    let target = match address::parse(&request.uri, &request.headers, false, &rules) {
        Ok(target) => target,
        Err(AddressError::Service(error)) => return refused(&error),
        Err(AddressError::InvalidUrl { .. }) => return,
    };
    for policy in [VersionPolicy::Check, VersionPolicy::Skip] {
        let mut known = (None, ServiceVersion::NEWEST);
        if let Err(error) = answer(&request, &query, &target, policy, &mut known) {
            refused(&error);
            let format = error_format(known.0, &query, &request.headers, known.1);
            let mut response = error_body::encode(
                &error,
                format,
                Service::Table,
                "id",
                *crate::material::NOW,
                &Challenge::default(),
            );
            let (headers, version) = (response.headers_mut(), Some(known.1));
            error_body::finish(headers, Service::Table, version, "id", &request.headers);
        }
    }
}

fn answer(
    request: &Sent<'_>,
    query: &Query,
    target: &Target,
    policy: VersionPolicy,
    known: &mut (Option<OperationKind>, ServiceVersion),
) -> Result<(), ServiceError> {
    if request.method == Method::OPTIONS {
        return cors::preflight(&[], &request.headers).map(drop);
    }
    let version = version::negotiate(&request.headers, query, auth::sas_version(query), policy);
    let signed_version = version.clone().unwrap_or(ServiceVersion::NEWEST);
    let signed = request.head(Service::Table, signed_version, query, target);
    if let Err(error) = verifier().authenticate(&signed) {
        // Others could have signed it: what comes next is not only for those who cannot.
        refused(&error);
    }
    known.1 = version?;
    let decoded = Request::read(&request.head(Service::Table, known.1, query, target))?;
    known.0 = Some(decoded.kind());
    decoded.check_name()?;
    assert!(matches!(decoded.body(), BodyUse::Whole { .. }));
    let prepared = decoded.prepare()?;
    if prepared.kind() == OperationKind::EntityGroupTransaction {
        let content_type = text(&request.headers, "content-type");
        return table::batch::decode(content_type, request.body, Some(ACCOUNT)).map(drop);
    }
    match prepared.decode(request.body)? {
        Call::Change { change, .. } => match &change.action {
            Action::Insert(properties) => entity_survives(&change.key, properties),
            Action::InsertOrReplace(properties) => entity_survives(&change.key, properties),
            _ => {}
        },
        Call::Query(query) => assert!(query.page_size.get() <= 1000),
        Call::Operation(_) => {}
    }
    Ok(())
}

fn text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name).and_then(|value| value.to_str().ok())
}
