//! Replies as a client reads them: the mirror of [`encode`](super::encode).

use super::{MESSAGES_COUNT, POP_RECEIPT, TIME_NEXT_VISIBLE};
use crate::metadata;
use crate::remote::{self, ReplyError, check, text};
use crate::version::ServiceVersion;
use crate::xml::document::{self, Element, Limits};
use crate::xml::{self, GeoReplication};
use http::{Response, StatusCode};
use tepui_model::Timestamp;
use tepui_model::access_policy::SignedIdentifier;
use tepui_model::metadata::Metadata;
use tepui_model::queue::{Call, ListedQueue, MessageId, Operation, SequencedOperation};
use tepui_model::service_properties::ServiceProperties;

/// What a service replies to an operation. Receipts and markers are as the service spells them.
#[derive(Debug, Clone, PartialEq)]
pub enum RemoteReply {
    Queues {
        queues: Vec<ListedQueue>,
        next: Option<String>,
    },
    QueueCreated,
    /// It is there already, with the same metadata.
    QueueExists,
    QueueDeleted,
    Metadata {
        metadata: Metadata,
        messages: u64,
    },
    MetadataSet,
    Acl(Vec<SignedIdentifier>),
    AclSet,
    /// Without its text. `None`: the version does not describe messages that are put.
    Put(Option<RemoteMessage>),
    Messages(Vec<RemoteMessage>),
    /// Nobody holds them: they have no claims.
    Peeked(Vec<RemoteMessage>),
    Updated(Claim),
    MessageDeleted,
    Cleared,
    ServiceProperties(ServiceProperties),
    ServicePropertiesSet,
    ServiceStats(GeoReplication),
}

/// A message as a reply has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RemoteMessage {
    pub id: MessageId,
    pub inserted: Timestamp,
    pub expires: Timestamp,
    /// What whoever has put or taken it holds.
    pub claim: Option<Claim>,
    pub dequeue_count: u32,
    pub text: String,
}

/// What proves that its bearer holds a message, and until when.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim {
    pub receipt: String,
    pub visible: Timestamp,
}

/// The reply in a response to the request of [`write`](crate::queue::request::write::write).
pub fn read(
    call: &Call,
    version: ServiceVersion,
    response: &Response<impl AsRef<[u8]>>,
) -> Result<RemoteReply, ReplyError> {
    check(response)?;
    match call {
        Call::Operation(operation) => read_operation(operation, version, response),
        Call::Sequenced(operation) => read_sequenced(operation, response),
    }
}

fn read_operation(
    operation: &Operation,
    version: ServiceVersion,
    response: &Response<impl AsRef<[u8]>>,
) -> Result<RemoteReply, ReplyError> {
    let body = response.body().as_ref();
    let unreadable = ReplyError::Unreadable;
    Ok(match operation {
        Operation::ListQueues(_) => queues(body).ok_or(unreadable("a list of queues"))?,
        Operation::CreateQueue { .. } if response.status() == StatusCode::NO_CONTENT => {
            RemoteReply::QueueExists
        }
        Operation::CreateQueue { .. } => RemoteReply::QueueCreated,
        Operation::GetMetadata { .. } => RemoteReply::Metadata {
            metadata: remote::metadata(response)?,
            messages: text(response, MESSAGES_COUNT)
                .and_then(|count| count.parse().ok())
                .ok_or(unreadable("the number of messages"))?,
        },
        Operation::SetMetadata { .. } => RemoteReply::MetadataSet,
        Operation::GetAcl { .. } => RemoteReply::Acl(
            xml::parse_signed_identifiers(body).map_err(|_| unreadable("stored access policies"))?,
        ),
        Operation::SetAcl { .. } => RemoteReply::AclSet,
        Operation::PeekMessages { .. } => {
            RemoteReply::Peeked(messages(body).ok_or(unreadable("a list of messages"))?)
        }
        Operation::GetServiceProperties => RemoteReply::ServiceProperties(
            xml::receive_service_properties(body, version).ok_or(unreadable("service properties"))?,
        ),
        Operation::SetServiceProperties(_) => RemoteReply::ServicePropertiesSet,
        Operation::GetServiceStats => {
            RemoteReply::ServiceStats(xml::receive_service_stats(body).ok_or(unreadable("service stats"))?)
        }
    })
}

fn read_sequenced(
    operation: &SequencedOperation,
    response: &Response<impl AsRef<[u8]>>,
) -> Result<RemoteReply, ReplyError> {
    let body = response.body().as_ref();
    let unreadable = ReplyError::Unreadable;
    Ok(match operation {
        SequencedOperation::DeleteQueue { .. } => RemoteReply::QueueDeleted,
        SequencedOperation::PutMessage { .. } if body.is_empty() => RemoteReply::Put(None),
        SequencedOperation::PutMessage { .. } => {
            let mut messages = messages(body).ok_or(unreadable("a message that was put"))?;
            RemoteReply::Put(messages.pop())
        }
        SequencedOperation::GetMessages { .. } => {
            RemoteReply::Messages(messages(body).ok_or(unreadable("a list of messages"))?)
        }
        SequencedOperation::UpdateMessage { .. } => RemoteReply::Updated(Claim {
            receipt: text(response, POP_RECEIPT).ok_or(unreadable("a receipt"))?.to_owned(),
            visible: text(response, TIME_NEXT_VISIBLE)
                .and_then(Timestamp::parse_http)
                .ok_or(unreadable("when a message is visible"))?,
        }),
        SequencedOperation::DeleteMessage { .. } => RemoteReply::MessageDeleted,
        SequencedOperation::ClearMessages { .. } => RemoteReply::Cleared,
    })
}

fn root(body: &[u8], name: &str) -> Option<Element> {
    document::parse_any(body, Limits::OF_REPLIES).ok().filter(|root| root.name == name)
}

fn queues(body: &[u8]) -> Option<RemoteReply> {
    let mut root = root(body, "EnumerationResults")?;
    let next = root.take("NextMarker").map(|marker| marker.text).filter(|marker| !marker.is_empty());
    let listed = root.take("Queues")?.children.into_iter().map(|mut queue| {
        let name = queue.take("Name")?.text;
        let metadata = match queue.take("Metadata") {
            Some(pairs) => Some(metadata::receive(pairs)?),
            None => None,
        };
        Some(ListedQueue { name, metadata })
    });
    Some(RemoteReply::Queues { queues: listed.collect::<Option<_>>()?, next })
}

fn messages(body: &[u8]) -> Option<Vec<RemoteMessage>> {
    root(body, "QueueMessagesList")?.children.into_iter().map(message).collect()
}

fn message(mut element: Element) -> Option<RemoteMessage> {
    let mut text = |name| element.take(name).map(|child| child.text);
    let time = |text: String| Timestamp::parse_http(&text);
    let claim = match (text("PopReceipt"), text("TimeNextVisible")) {
        (Some(receipt), Some(visible)) => Some(Claim { receipt, visible: time(visible)? }),
        _ => None,
    };
    Some(RemoteMessage {
        id: MessageId::parse(&text("MessageId")?)?,
        inserted: time(text("InsertionTime")?)?,
        expires: time(text("ExpirationTime")?)?,
        claim,
        // Neither is told of a message that was put.
        dequeue_count: text("DequeueCount").map_or(Some(0), |count| count.parse().ok())?,
        text: text("MessageText").unwrap_or_default(),
    })
}
