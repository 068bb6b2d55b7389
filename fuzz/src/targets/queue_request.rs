//! Whole requests of the Queue service, through the same steps as in the server, up to the typed operation.

use super::message_xml::survives;
use crate::checks::refused;
use crate::material::Sent;
use http::HeaderMap;
use std::time::Duration;
use tepui_model::metadata::Metadata;
use tepui_model::queue::message::{MAX_MESSAGES, MAX_TEXT_BYTES};
use tepui_model::queue::{Call, ListedQueue, Operation, QueuePage, Reply, SequencedOperation};
use tepui_model::{ServiceError, Timestamp};
use tepui_wire::address::{self, AddressError, AddressRules, Service, Target};
use tepui_wire::auth::Challenge;
use tepui_wire::error_body::{self, ErrorFormat};
use tepui_wire::head::Head;
use tepui_wire::metadata;
use tepui_wire::query::Query;
use tepui_wire::queue::reply::encode;
use tepui_wire::queue::request::Request;
use tepui_wire::version::{self, VersionPolicy};

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
    let Some(request) = Sent::read(data) else { return };
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
        let body =
            error_body::encode(&error, ErrorFormat::Xml, Service::Queue, "id", now, &Challenge::default())
                .into_body();
        is_text_of_xml(&body);
    }
}

fn answer(sent: &Sent<'_>, query: &Query, target: &Target) -> Result<(), ServiceError> {
    let version = version::negotiate(&sent.headers, query, None, VersionPolicy::Check)?;
    let head = sent.head(Service::Queue, version, query, target);
    let request = Request::read(&head)?;
    let prepared = request.prepare()?;
    assert_eq!(prepared.queue().map(|queue| queue.as_str()), request.queue());
    let call = prepared.decode(sent.body)?;
    match &call {
        Call::Operation(Operation::ListQueues(list)) => assert!((1..=5000).contains(&list.page_size)),
        Call::Operation(Operation::CreateQueue { metadata, .. })
        | Call::Operation(Operation::SetMetadata { metadata, .. }) => {
            metadata_survives(metadata);
            list(&head, metadata);
        }
        Call::Sequenced(SequencedOperation::PutMessage { text, visibility, lifetime, .. }) => {
            survives(text, MAX_TEXT_BYTES);
            assert!(*visibility <= WEEK && lifetime.is_none_or(|lifetime| lifetime > *visibility));
            let _ = Timestamp::MIN.saturating_add(lifetime.unwrap_or_default());
        }
        Call::Sequenced(SequencedOperation::GetMessages { count, visibility, .. }) => {
            assert!((1..=MAX_MESSAGES).contains(count) && *visibility <= WEEK && !visibility.is_zero());
        }
        Call::Operation(Operation::PeekMessages { count, .. }) => assert!((1..=MAX_MESSAGES).contains(count)),
        Call::Sequenced(SequencedOperation::UpdateMessage { text, visibility, .. }) => {
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
fn list(head: &Head<'_>, pairs: &Metadata) {
    let queue = ListedQueue { name: "jobs".to_owned(), metadata: Some(pairs.clone()) };
    let page = QueuePage { queues: vec![queue], next: Some("next".to_owned()), ..QueuePage::default() };
    let response = encode(head, Reply::Queues(page)).expect("lists can be written");
    is_text_of_xml(response.body());
}

/// UTF-8 without characters that no document can hold.
pub(super) fn is_text_of_xml(body: &[u8]) {
    let text = std::str::from_utf8(body).expect("answers are UTF-8");
    let forbidden =
        |next: char| matches!(next, '\0'..='\u{8}' | '\u{B}'..='\u{1F}' | '\u{FFFE}' | '\u{FFFF}');
    assert!(!text.contains(forbidden), "{text}");
}
