//! Operations as requests of a client: the mirror of [`Request::read`](super::Request::read) and of what follows it.
//! All operations of the Queue service.

use super::MAX_PAGE_SIZE;
use crate::address::Service;
use crate::queue::{message_xml, pop_receipt};
use crate::remote::{InvalidRequest, Outgoing, OutgoingRequest, RemoteService};
use crate::xml;
use http::Method;
use std::time::Duration;
use tepui_model::queue::{Call, ListQueues, MessageId, Operation, PopReceipt, QueueName, SequencedOperation};

/// What services have told a client before, in their own words. Takes the place of what the operation says.
#[derive(Debug, Clone, Copy, Default)]
pub struct Options<'a> {
    /// The receipt of the message that is updated or deleted.
    pub receipt: Option<&'a str>,
    /// Where a list goes on.
    pub marker: Option<&'a str>,
}

/// The request for what is asked of a service.
pub fn write(
    to: &RemoteService,
    call: &Call,
    options: &Options<'_>,
) -> Result<OutgoingRequest, InvalidRequest> {
    match call {
        Call::Operation(operation) => write_operation(to, operation, options),
        Call::Sequenced(operation) => write_sequenced(to, operation, options),
    }
}

fn write_operation(
    to: &RemoteService,
    operation: &Operation,
    options: &Options<'_>,
) -> Result<OutgoingRequest, InvalidRequest> {
    match operation {
        Operation::ListQueues(list) => list_queues(to, list, options).empty(),
        Operation::CreateQueue { queue, metadata } => {
            let mut out = of_queue(to, Method::PUT, queue, None);
            out.metadata(metadata);
            out.empty()
        }
        Operation::GetMetadata { queue } => of_queue(to, Method::GET, queue, Some("metadata")).empty(),
        Operation::SetMetadata { queue, metadata } => {
            let mut out = of_queue(to, Method::PUT, queue, Some("metadata"));
            out.metadata(metadata);
            out.empty()
        }
        Operation::GetAcl { queue } => of_queue(to, Method::GET, queue, Some("acl")).empty(),
        Operation::SetAcl { queue, identifiers } => {
            // Without the empty elements that replies of queues have.
            let body = xml::print_signed_identifiers(identifiers, Service::Blob);
            of_queue(to, Method::PUT, queue, Some("acl")).whole(XML, body)
        }
        Operation::PeekMessages { queue, count } => {
            let mut out = of_messages(to, Method::GET, queue);
            out.parameter("peekonly", "true");
            out.parameter("numofmessages", &count.to_string());
            out.empty()
        }
        Operation::GetServiceProperties => service(to, Method::GET, "properties").empty(),
        Operation::SetServiceProperties(change) => {
            let body = xml::print_service_properties_change(change, to.version());
            service(to, Method::PUT, "properties").whole(XML, body)
        }
        Operation::GetServiceStats => service(to, Method::GET, "stats").empty(),
    }
}

fn write_sequenced(
    to: &RemoteService,
    operation: &SequencedOperation,
    options: &Options<'_>,
) -> Result<OutgoingRequest, InvalidRequest> {
    match operation {
        SequencedOperation::DeleteQueue { queue } => of_queue(to, Method::DELETE, queue, None).empty(),
        SequencedOperation::PutMessage { queue, text, visibility, lifetime } => {
            let mut out = of_messages(to, Method::POST, queue);
            if !visibility.is_zero() {
                push_seconds(&mut out, "visibilitytimeout", *visibility);
            }
            match lifetime {
                Some(lifetime) => push_seconds(&mut out, "messagettl", *lifetime),
                None => out.parameter("messagettl", "-1"),
            }
            with_text(out, text)
        }
        SequencedOperation::GetMessages { queue, count, visibility } => {
            let mut out = of_messages(to, Method::GET, queue);
            out.parameter("numofmessages", &count.to_string());
            push_seconds(&mut out, "visibilitytimeout", *visibility);
            out.empty()
        }
        SequencedOperation::UpdateMessage { queue, id, receipt, visibility, text } => {
            let mut out = of_message(to, Method::PUT, queue, *id, *receipt, options)?;
            push_seconds(&mut out, "visibilitytimeout", *visibility);
            match text {
                Some(text) => with_text(out, text),
                None => out.empty(),
            }
        }
        SequencedOperation::DeleteMessage { queue, id, receipt } => {
            of_message(to, Method::DELETE, queue, *id, *receipt, options)?.empty()
        }
        SequencedOperation::ClearMessages { queue } => of_messages(to, Method::DELETE, queue).empty(),
    }
}

const XML: &str = "application/xml";

fn list_queues<'a>(to: &'a RemoteService, list: &ListQueues, options: &Options<'_>) -> Outgoing<'a> {
    let mut out = Outgoing::new(to, Method::GET, "");
    out.parameter("comp", "list");
    out.parameter_if("prefix", Some(&list.prefix));
    let from = list.from.as_ref().map(|name| format!("/{}/{name}", to.account()));
    out.parameter_if("marker", options.marker.or(from.as_deref()));
    if list.page_size as i64 != MAX_PAGE_SIZE {
        out.parameter("maxresults", &list.page_size.to_string());
    }
    if list.with_metadata {
        out.parameter("include", "metadata");
    }
    out
}

fn of_queue<'a>(
    to: &'a RemoteService,
    method: Method,
    queue: &QueueName,
    comp: Option<&str>,
) -> Outgoing<'a> {
    let mut out = Outgoing::new(to, method, queue.as_str());
    out.parameter_if("comp", comp);
    out
}

fn of_messages<'a>(to: &'a RemoteService, method: Method, queue: &QueueName) -> Outgoing<'a> {
    Outgoing::new(to, method, &format!("{queue}/messages"))
}

fn of_message<'a>(
    to: &'a RemoteService,
    method: Method,
    queue: &QueueName,
    id: Option<MessageId>,
    receipt: Option<PopReceipt>,
    options: &Options<'_>,
) -> Result<Outgoing<'a>, InvalidRequest> {
    let id = id.ok_or(InvalidRequest("the message has no id"))?;
    let mut out = Outgoing::new(to, method, &format!("{queue}/messages/{id}"));
    match (options.receipt, receipt) {
        (Some(receipt), _) => out.parameter("popreceipt", receipt),
        (None, Some(receipt)) => {
            out.parameter("popreceipt", &String::from_utf8_lossy(&pop_receipt::print(&receipt)));
        }
        (None, None) => return Err(InvalidRequest("the message has no receipt")),
    }
    Ok(out)
}

fn service<'a>(to: &'a RemoteService, method: Method, comp: &str) -> Outgoing<'a> {
    let mut out = Outgoing::new(to, method, "");
    out.parameter("restype", "service");
    out.parameter("comp", comp);
    out
}

fn push_seconds(out: &mut Outgoing<'_>, name: &str, time: Duration) {
    if time.subsec_nanos() != 0 {
        out.refuse("times of messages are whole seconds");
    }
    out.parameter(name, &time.as_secs().to_string());
}

fn with_text(mut out: Outgoing<'_>, text: &[u8]) -> Result<OutgoingRequest, InvalidRequest> {
    if !message_xml::is_text(text) {
        out.refuse("the text of a message has characters that XML has not");
    }
    let mut body = b"<QueueMessage><MessageText>".to_vec();
    message_xml::push_text(text, &mut body);
    body.extend_from_slice(b"</MessageText></QueueMessage>");
    out.whole(XML, body)
}
