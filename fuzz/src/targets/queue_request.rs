//! Whole requests of the Queue service, through the same steps as in the server, up to the typed operation.

use super::message_xml::survives;
use crate::checks::refused;
use crate::material::Request;
use http::HeaderMap;
use std::time::Duration;
use tepui_model::metadata::Metadata;
use tepui_model::queue::message::{MAX_MESSAGES, MAX_TEXT_BYTES};
use tepui_model::queue::{ListedQueue, Operation, QueuePage, Reply};
use tepui_model::{ServiceError, Timestamp};
use tepui_wire::address::{self, AddressError, AddressRules, Service, Target};
use tepui_wire::error_body::{self, ErrorDress};
use tepui_wire::metadata;
use tepui_wire::query::Query;
use tepui_wire::queue::classify::classify;
use tepui_wire::queue::decode::{self, prepare};
use tepui_wire::queue::encode::{Context, encode};
use tepui_wire::queue::resource::Resource;
use tepui_wire::version::{self, ServiceVersion, VersionPolicy};

pub(super) const WORDS: &[&str] = &[
    "GET ",
    "HEAD ",
    "POST ",
    "PUT ",
    "DELETE ",
    "/devstoreaccount1/",
    "/",
    "jobs",
    "messages",
    "5b1f0b7e-0a0e-4a38-9f6c-2f6f6f0d5a11",
    "?",
    "&",
    "comp=list",
    "comp=metadata",
    "comp=acl",
    "restype=service&comp=properties",
    "restype=service&comp=stats",
    "restype=service&comp=userdelegationkey",
    "prefix=jo",
    "marker=/devstoreaccount1/jobs",
    "maxresults=5",
    "include=metadata",
    "peekonly=true",
    "numofmessages=32",
    "visibilitytimeout=30",
    "messagettl=-1",
    "messagettl=99999999999999999999",
    "popreceipt=cG9wMQfDHtCred4IKgAAAAAAAAABAAAA",
    "timeout=0",
    "%FF",
    "%2F",
    "-1",
    " HTTP/1.1\r\n",
    "Host: 127.0.0.1:10001\r\n",
    "x-ms-version: 2009-09-19\r\n",
    "x-ms-version: 2017-04-17\r\n",
    "x-ms-meta-team: core\r\n",
    "x-ms-meta-: x\r\n",
    "x-ms-meta-a: \u{E9}\r\n",
    "\r\n",
    "<QueueMessage><MessageText>",
    "</MessageText></QueueMessage>",
    "<SignedIdentifiers/>",
    "<Permission>raup</Permission>",
];

const WEEK: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// Whatever is asked, the answer can be written.
pub fn queue_request(data: &[u8]) {
    let Some(request) = Request::read(data) else { return };
    let query = Query::parse(request.uri.query());
    let rules = AddressRules::new(Service::Queue);
    let target = match address::parse(&request.uri, &request.headers, false, &rules) {
        Ok(target) => target,
        Err(AddressError::Service(error)) => return refused(&error),
        Err(AddressError::InvalidUrl { .. }) => return,
    };
    if let Err(error) = answer(&request, &query, &target) {
        refused(&error);
        let now = *crate::material::NOW;
        let body = error_body::encode(&error, ErrorDress::Xml, Service::Queue, "id", now).into_body();
        is_text_of_xml(&body);
    }
}

fn answer(request: &Request<'_>, query: &Query, target: &Target) -> Result<(), ServiceError> {
    let version = version::negotiate(&request.headers, query, None, VersionPolicy::Check)?;
    let resource = Resource::parse(&target.path)?;
    let kind = classify(&request.method, &resource, query)?;
    let headers = &request.headers;
    let prepared =
        prepare(&decode::Request { kind, resource: &resource, query, headers, case: None, version })?;
    assert_eq!(prepared.queue().map(|queue| queue.as_str()), resource.queue());
    let operation = prepared.decode(request.body)?;
    match &operation {
        Operation::ListQueues(list) => assert!((1..=5000).contains(&list.page_size)),
        Operation::CreateQueue { metadata, .. } | Operation::SetMetadata { metadata, .. } => {
            metadata_survives(metadata);
            list(query, target, version, &operation, metadata);
        }
        Operation::PutMessage { text, visibility, lifetime, .. } => {
            survives(text, MAX_TEXT_BYTES);
            assert!(*visibility <= WEEK && lifetime.is_none_or(|lifetime| lifetime > *visibility));
            let _ = Timestamp::MIN.saturating_add(lifetime.unwrap_or_default());
        }
        Operation::GetMessages { count, visibility, .. } => {
            assert!((1..=MAX_MESSAGES).contains(count) && *visibility <= WEEK && !visibility.is_zero());
        }
        Operation::PeekMessages { count, .. } => assert!((1..=MAX_MESSAGES).contains(count)),
        Operation::UpdateMessage { text, visibility, .. } => {
            text.iter().for_each(|text| survives(text, MAX_TEXT_BYTES));
            assert!(*visibility <= WEEK);
        }
        _ => {}
    }
    Ok(())
}

fn metadata_survives(pairs: &Metadata) {
    let mut headers = HeaderMap::new();
    metadata::encode(pairs, &mut headers).expect("what headers brought fits into headers");
    assert_eq!(metadata::decode(&headers, None).map(|again| again.says_the_same_as(pairs)), Ok(true));
}

/// The query and the metadata are foreign, and lists repeat both.
fn list(query: &Query, target: &Target, version: ServiceVersion, operation: &Operation, pairs: &Metadata) {
    let queue = ListedQueue { name: "jobs".to_owned(), metadata: Some(pairs.clone()) };
    let page = QueuePage { queues: vec![queue], next: Some("next".to_owned()) };
    let context = Context { base: &target.base, account: &target.account, query, version };
    let response = encode(&context, operation, Reply::Queues(page)).expect("lists can be written");
    is_text_of_xml(response.body());
}

/// UTF-8 without characters that no document can hold.
pub(super) fn is_text_of_xml(body: &[u8]) {
    let text = std::str::from_utf8(body).expect("answers are UTF-8");
    let forbidden =
        |next: char| matches!(next, '\0'..='\u{8}' | '\u{B}'..='\u{1F}' | '\u{FFFE}' | '\u{FFFF}');
    assert!(!text.contains(forbidden), "{text}");
}
