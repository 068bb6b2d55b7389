//! Replies as responses. The other direction, for clients, is in `read.rs`.

pub mod read;

use super::{message_xml, pop_receipt};
use crate::address::Service;
use crate::head::Head;
use crate::metadata::{self, HeaderCase};
use crate::parameters;
use crate::xml::{self, DECLARATION, GeoReplication, Printer};
use http::header::{CACHE_CONTROL, CONTENT_LENGTH, CONTENT_TYPE, HeaderName, HeaderValue};
use http::{Response, StatusCode};
use tepui_model::metadata::Metadata;
use tepui_model::queue::{Claimed, MessageId, Peeked, PopReceipt, QueuePage, Reply, Stamp};
use tepui_model::{ServiceError, Timestamp};

const MESSAGES_COUNT: HeaderName = HeaderName::from_static("x-ms-approximate-messages-count");
const POP_RECEIPT: HeaderName = HeaderName::from_static("x-ms-popreceipt");
const TIME_NEXT_VISIBLE: HeaderName = HeaderName::from_static("x-ms-time-next-visible");

/// The answer to an operation that succeeded. Replies say all about their operations that answers depend on.
pub fn encode(head: &Head<'_>, reply: Reply) -> Result<Response<Vec<u8>>, ServiceError> {
    Ok(match reply {
        Reply::Messages(messages) => read(claimed_list(&messages)),
        Reply::Peeked(messages) => read(peeked_list(&messages)),
        Reply::Put(_) if !head.version.describes_put_messages() => empty(StatusCode::CREATED),
        Reply::Put(message) => with_body(StatusCode::CREATED, put_list(&message)),
        Reply::Updated(receipt) => updated(&receipt),
        Reply::QueueCreated => empty(StatusCode::CREATED),
        Reply::QueueExists
        | Reply::QueueDeleted
        | Reply::MetadataSet
        | Reply::AclSet
        | Reply::MessageDeleted
        | Reply::Cleared => empty(StatusCode::NO_CONTENT),
        Reply::Metadata { metadata, messages } => properties(&metadata, messages)?,
        Reply::Queues(page) => read(queue_list(head, &page)),
        Reply::Acl(identifiers) => read(xml::print_signed_identifiers(&identifiers, Service::Queue)),
        Reply::ServiceProperties(properties) => {
            read(xml::print_service_properties(&properties, head.version, Service::Queue))
        }
        Reply::ServicePropertiesSet => empty(StatusCode::ACCEPTED),
        Reply::ServiceStats { last_sync } => {
            read(xml::print_service_stats(GeoReplication::Live { last_sync }, Service::Queue))
        }
    })
}

fn properties(pairs: &Metadata, messages: u64) -> Result<Response<Vec<u8>>, ServiceError> {
    let mut response = empty(StatusCode::OK);
    let headers = response.headers_mut();
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    // The answer to HEAD has it as well.
    headers.insert(CONTENT_LENGTH, HeaderValue::from(0));
    headers.insert(MESSAGES_COUNT, HeaderValue::from(messages));
    metadata::encode(pairs, headers)?;
    response.extensions_mut().insert(HeaderCase::of(pairs));
    Ok(response)
}

fn updated(receipt: &PopReceipt) -> Response<Vec<u8>> {
    let mut response = empty(StatusCode::NO_CONTENT);
    let headers = response.headers_mut();
    headers.insert(POP_RECEIPT, ascii(&pop_receipt::print(receipt)));
    headers.insert(TIME_NEXT_VISIBLE, ascii(&receipt.visible.http_bytes()));
    response
}

fn queue_list(head: &Head<'_>, page: &QueuePage) -> Vec<u8> {
    let mut out = Printer::new(Service::Queue);
    let endpoint = format!("{}/", head.target.base);
    let attribute = match head.version.lists_name_endpoint() {
        true => ("ServiceEndpoint", endpoint.as_str()),
        false => ("AccountName", head.target.account.as_str()),
    };
    out.parent_with("EnumerationResults", &[attribute], |out| {
        for (parameter, element) in [("prefix", "Prefix"), ("marker", "Marker")] {
            if let Some(value) = head.query.get_ignore_case(parameter) {
                out.leaf(element, value);
            }
        }
        // Clients read a number from it.
        if let Some(value) = parameters::given(head.query, "maxresults") {
            out.leaf("MaxResults", value);
        }
        out.parent("Queues", |out| {
            for queue in &page.queues {
                out.parent("Queue", |out| {
                    out.leaf("Name", &queue.name);
                    queue.metadata.iter().for_each(|metadata| push_metadata(metadata, out));
                });
            }
        });
        let marker = page.next.as_ref().map(|next| format!("/{}/{next}", head.target.account));
        out.leaf("NextMarker", marker.as_deref().unwrap_or_default());
    });
    out.finish()
}

fn push_metadata(pairs: &Metadata, out: &mut Printer) {
    out.parent("Metadata", |out| {
        pairs.iter().for_each(|(name, value)| out.leaf(name, &metadata::readable(value)));
    });
}

/// What a message takes besides its text, at most.
const AROUND_MESSAGE_BYTES: usize = 512;

fn claimed_list(messages: &[Claimed]) -> Vec<u8> {
    let texts = messages.iter().map(|message| message.text.len()).sum();
    list(messages, texts, |message, out| {
        push_stamp(&message.stamp, out);
        push_claim(message, out);
        push_content(message.dequeue_count, &message.text, out);
    })
}

fn peeked_list(messages: &[Peeked]) -> Vec<u8> {
    let texts = messages.iter().map(|message| message.text.len()).sum();
    list(messages, texts, |message, out| {
        push_stamp(&message.stamp, out);
        push_content(message.dequeue_count, &message.text, out);
    })
}

fn put_list(message: &Claimed) -> Vec<u8> {
    list(std::slice::from_ref(message), 0, |message, out| {
        push_stamp(&message.stamp, out);
        push_claim(message, out);
    })
}

fn list<M>(messages: &[M], text_bytes: usize, push: impl Fn(&M, &mut Vec<u8>)) -> Vec<u8> {
    let mut out = Vec::with_capacity(128 + AROUND_MESSAGE_BYTES * messages.len() + text_bytes);
    out.extend_from_slice(DECLARATION.as_bytes());
    if messages.is_empty() {
        out.extend_from_slice(b"<QueueMessagesList />");
        return out;
    }
    out.extend_from_slice(b"<QueueMessagesList>");
    for message in messages {
        out.extend_from_slice(b"<QueueMessage>");
        push(message, &mut out);
        out.extend_from_slice(b"</QueueMessage>");
    }
    out.extend_from_slice(b"</QueueMessagesList>");
    out
}

fn push_stamp(stamp: &Stamp, out: &mut Vec<u8>) {
    out.extend_from_slice(b"<MessageId>");
    push_id(stamp.id, out);
    out.extend_from_slice(b"</MessageId><InsertionTime>");
    push_time(stamp.inserted, out);
    out.extend_from_slice(b"</InsertionTime><ExpirationTime>");
    push_time(stamp.expires, out);
    out.extend_from_slice(b"</ExpirationTime>");
}

fn push_claim(message: &Claimed, out: &mut Vec<u8>) {
    out.extend_from_slice(b"<PopReceipt>");
    out.extend_from_slice(&pop_receipt::print(&message.receipt));
    out.extend_from_slice(b"</PopReceipt><TimeNextVisible>");
    push_time(message.receipt.visible, out);
    out.extend_from_slice(b"</TimeNextVisible>");
}

fn push_content(dequeue_count: u32, text: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(b"<DequeueCount>");
    out.extend_from_slice(itoa::Buffer::new().format(dequeue_count).as_bytes());
    if text.is_empty() {
        return out.extend_from_slice(b"</DequeueCount><MessageText />");
    }
    out.extend_from_slice(b"</DequeueCount><MessageText>");
    message_xml::push_text(text, out);
    out.extend_from_slice(b"</MessageText>");
}

fn push_id(id: MessageId, out: &mut Vec<u8>) {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    for (at, byte) in id.0.to_be_bytes().into_iter().enumerate() {
        if matches!(at, 4 | 6 | 8 | 10) {
            out.push(b'-');
        }
        out.extend_from_slice(&[HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]]);
    }
}

fn push_time(time: Timestamp, out: &mut Vec<u8>) {
    out.extend_from_slice(&time.http_bytes());
}

/// 200 with a document that is not to be cached.
fn read(body: Vec<u8>) -> Response<Vec<u8>> {
    let mut response = with_body(StatusCode::OK, body);
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    response
}

fn with_body(status: StatusCode, body: Vec<u8>) -> Response<Vec<u8>> {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/xml"));
    response
}

fn empty(status: StatusCode) -> Response<Vec<u8>> {
    let mut response = Response::new(Vec::new());
    *response.status_mut() = status;
    response
}

/// A header of text that was made here and is ASCII.
fn ascii(text: &[u8]) -> HeaderValue {
    HeaderValue::from_bytes(text).unwrap_or_else(|_| HeaderValue::from_static(""))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn ids_are_printed_as_they_are_read(number: u128) {
            let mut out = Vec::new();
            push_id(MessageId(number), &mut out);
            prop_assert_eq!(String::from_utf8(out).unwrap(), MessageId(number).to_string());
        }
    }
}
