//! Whole answers of the Queue service, as they go over the wire.

mod snapshot;

use bytes::Bytes;
use http::{HeaderMap, Method, Response};
use snapshot::Snapshot;
use tepui_model::access_policy::{AccessPolicy, SignedIdentifier};
use tepui_model::metadata::Metadata;
use tepui_model::queue::{Claimed, ListedQueue, MessageId, Peeked, PopReceipt, QueuePage, Reply, Stamp};
use tepui_model::service_properties::ServiceProperties;
use tepui_model::{ErrorCode, ServiceError, Timestamp};
use tepui_wire::address::{Service, Target};
use tepui_wire::auth::Challenge;
use tepui_wire::error_body::{self, ErrorFormat};
use tepui_wire::head::Head;
use tepui_wire::query::Query;
use tepui_wire::queue::reply::encode;
use tepui_wire::version::ServiceVersion;

fn at(text: &str) -> Timestamp {
    Timestamp::parse_iso(text).expect("a time")
}

fn answer_in(version: &str, query: &str, reply: Reply) -> Response<Vec<u8>> {
    let target = Target {
        account: "tepuiacct".to_owned(),
        secondary: false,
        base: "http://127.0.0.1:10001/tepuiacct".to_owned(),
        raw_path: "/tepuiacct/".to_owned(),
        path: String::new(),
        host_style: false,
    };
    let head = Head {
        service: Service::Queue,
        method: &Method::GET,
        target: &target,
        path: &target.path,
        query: &Query::parse(Some(query)),
        headers: &HeaderMap::new(),
        case: None,
        version: ServiceVersion::parse(version).expect("a version"),
    };
    encode(&head, reply).expect("an answer")
}

fn answer(reply: Reply) -> Response<Vec<u8>> {
    answer_in("2026-02-06", "", reply)
}

fn metadata(pairs: &[(&str, &str)]) -> Metadata {
    let owned = pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    Metadata::new(owned.collect()).expect("metadata")
}

fn claimed(text: &'static str) -> Claimed {
    Claimed {
        stamp: stamp(),
        receipt: PopReceipt { visible: at("2026-03-04T05:06:37.1234567Z"), sequence: 42, changes: 1 },
        dequeue_count: 1,
        text: Bytes::from_static(text.as_bytes()),
    }
}

fn stamp() -> Stamp {
    Stamp {
        id: MessageId::parse("5b1f0b7e-0a0e-4a38-9f6c-2f6f6f0d5a11").expect("an id"),
        inserted: at("2026-03-04T05:06:07.1234567Z"),
        expires: Timestamp::MAX,
    }
}

#[test]
fn queues() {
    let listed = |name: &str, metadata| ListedQueue { name: name.to_owned(), metadata };
    let page = QueuePage {
        queues: vec![listed("jobs", None)],
        next: Some("jobs-low".to_owned()),
        ..QueuePage::default()
    };
    let described = QueuePage {
        queues: vec![
            listed(
                "jobs",
                Some(metadata(&[("team", "core & <more>"), ("empty", ""), ("e", "\u{C3}\u{A9}")])),
            ),
            listed("plain", Some(Metadata::default())),
        ],
        ..QueuePage::default()
    };
    let asked = "comp=list&prefix=jo%26&MaxResults=1&marker=%2Ftepuiacct%2Fjobs";
    let old = |version, page| answer_in(version, "comp=list", Reply::Queues(page));
    Snapshot::default()
        .add("none", &answer(Reply::Queues(QueuePage::default())))
        .add("a page, as asked for", &answer_in("2026-02-06", asked, Reply::Queues(page.clone())))
        .add("the last page, with metadata", &answer(Reply::Queues(described)))
        .add("a page in an old version", &old("2012-02-12", page))
        .add("created", &answer(Reply::QueueCreated))
        .add("there already", &answer(Reply::QueueExists))
        .add("deleted", &answer(Reply::QueueDeleted))
        .add("metadata", &answer(Reply::Metadata { metadata: metadata(&[("team", "core")]), messages: 7 }))
        .add("metadata set", &answer(Reply::MetadataSet))
        .check("queues");
}

#[test]
fn messages() {
    let peeked = Peeked { stamp: stamp(), dequeue_count: 0, text: Bytes::from_static(b"aGVsbG8=") };
    let texts = [" <b>&lt;</b>\r\n é ", ""];
    Snapshot::default()
        .add("put", &answer(Reply::Put(claimed(""))))
        .add("put in an old version", &answer_in("2015-12-11", "", Reply::Put(claimed(""))))
        .add("taken", &answer(Reply::Messages(vec![claimed("aGVsbG8=")])))
        .add("taken, odd texts", &answer(Reply::Messages(texts.map(claimed).to_vec())))
        .add("none", &answer(Reply::Messages(vec![])))
        .add("peeked", &answer(Reply::Peeked(vec![peeked])))
        .add("peeked at none", &answer(Reply::Peeked(vec![])))
        .add("updated", &answer(Reply::Updated(claimed("").receipt)))
        .add("deleted", &answer(Reply::MessageDeleted))
        .add("cleared", &answer(Reply::Cleared))
        .check("messages");
}

#[test]
fn policies_and_settings() {
    let policy = AccessPolicy {
        start: Some(at("2026-01-02T03:04:05Z")),
        expiry: None,
        permission: Some("raup".to_owned()),
    };
    let named = |id: &str, policy| SignedIdentifier { id: id.to_owned(), policy };
    let identifiers = vec![named("p1", Some(policy)), named("p2", None)];
    Snapshot::default()
        .add("no policies", &answer(Reply::Acl(vec![])))
        .add("policies", &answer(Reply::Acl(identifiers)))
        .add("policies set", &answer(Reply::AclSet))
        .add("properties", &answer(Reply::ServiceProperties(ServiceProperties::default())))
        .add("properties set", &answer(Reply::ServicePropertiesSet))
        .add("stats", &answer(Reply::ServiceStats { last_sync: at("2026-03-05T03:05:15Z") }))
        .check("queue_policies_and_settings");
}

#[test]
fn errors() {
    let answer = |error: &ServiceError| {
        error_body::encode(
            error,
            ErrorFormat::Xml,
            Service::Queue,
            "id",
            at("2026-03-04T05:06:07Z"),
            &Challenge::default(),
        )
    };
    let range = ServiceError::new(ErrorCode::OutOfRangeQueryParameterValue)
        .with_detail("QueryParameterName", "numofmessages")
        .with_detail("QueryParameterValue", "33")
        .with_detail("MinimumAllowed", "1")
        .with_detail("MaximumAllowed", "32");
    let value = ServiceError::new(ErrorCode::InvalidQueryParameterValue)
        .with_detail("QueryParameterName", "prefix")
        .with_detail("QueryParameterValue", "<\u{1}>")
        .with_detail("Reason", "");
    Snapshot::default()
        .add("out of range", &answer(&range))
        .add("with what XML cannot hold", &answer(&value))
        .check("queue_errors");
}
