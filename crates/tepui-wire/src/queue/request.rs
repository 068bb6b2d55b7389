//! Requests of the Queue service, read in three steps, so that others can be asked in between: what the head names
//! ([`Request::read`]), what it asks for without a body ([`Request::prepare`]), and the operation ([`Prepared::decode`]).
//!
//! | | |
//! | --- | --- |
//! | `resource.rs` | what the path names |
//! | `classify.rs` | which operation it is |
//! | `write.rs` | the other direction: operations as requests of a client |

mod classify;
pub(crate) mod resource;
pub mod write;

use self::resource::Resource;
use super::{message_xml, pop_receipt};
use crate::access;
use crate::head::{BodyUse, Head};
use crate::metadata;
use crate::parameters::{given, integer, invalid_value, missing, ranged};
use crate::query::Query;
use crate::version::ServiceVersion;
use crate::xml;
use bytes::Bytes;
use std::time::Duration;
use tepui_model::access_policy::SignedIdentifier;
use tepui_model::grant::Grant;
use tepui_model::queue::message::{MAX_MESSAGES, MAX_TEXT_BYTES};
use tepui_model::queue::{
    Call, ListQueues, MessageId, Operation, OperationKind, PopReceipt, QueueName, SequencedOperation,
};
use tepui_model::service_properties::ServicePropertiesChange;
use tepui_model::{ErrorCode, ServiceError};

/// A text of the largest size whose every character is escaped, and what is around it.
const MAX_BODY_BYTES: usize = 6 * MAX_TEXT_BYTES + 1024;
const MAX_PAGE_SIZE: i64 = 5000;
const SECONDS_OF_WEEK: i64 = 7 * 24 * 60 * 60;
const DEFAULT_INVISIBLE_SECONDS: i64 = 30;
/// The limits before 2011-08-18.
const SMALL_TEXT_BYTES: usize = 8 * 1024;
const SHORT_INVISIBLE_SECONDS: i64 = 2 * 60 * 60;
/// What a stored access policy of a queue can allow.
const PERMISSIONS: &str = "raup";

/// What a request asks for, as far as its head tells.
#[derive(Debug)]
pub struct Request<'a> {
    head: Head<'a>,
    kind: OperationKind,
    resource: Resource,
}

impl<'a> Request<'a> {
    pub fn read(head: &Head<'a>) -> Result<Self, ServiceError> {
        let resource = Resource::parse(head.path)?;
        let kind = classify::classify(head.method, &resource, head.query)?;
        if kind == OperationKind::GetUserDelegationKey && !head.version.has_tokens_for_everything() {
            return Err(invalid_value("comp", "userdelegationkey", ""));
        }
        Ok(Self { head: *head, kind, resource })
    }

    pub fn kind(&self) -> OperationKind {
        self.kind
    }

    /// The queue that the request is about, as the caller spells it.
    pub fn queue(&self) -> Option<&str> {
        self.resource.queue()
    }

    /// Whether the caller may do this at all.
    pub fn check_access(&self, grant: &Grant) -> Result<(), ServiceError> {
        access::queue::check_request(grant, self.kind, self.queue(), self.head.version)
    }

    /// What is done with the body. Those of operations that have none are read, too, and then ignored.
    pub fn body(&self) -> BodyUse {
        use OperationKind::*;
        let required = match self.kind {
            PutMessage | SetAcl | SetServiceProperties | GetUserDelegationKey => true,
            // Update Message may have one.
            UpdateMessage | ListQueues | CreateQueue | DeleteQueue | GetMetadata | SetMetadata | GetAcl
            | GetMessages | PeekMessages | DeleteMessage | ClearMessages | GetServiceProperties
            | GetServiceStats => false,
        };
        BodyUse::Whole { max_bytes: MAX_BODY_BYTES, required }
    }

    /// Looks at everything but the body: first the name, then the parameters and headers.
    pub fn prepare(&self) -> Result<Prepared, ServiceError> {
        Ok(Prepared { call: without_body(self)?, version: self.head.version })
    }

    /// An error of the service about a parameter, with the text of that parameter. The service knows only
    /// what parameters were decoded to: of a receipt that cannot be read it has nothing to quote.
    pub fn quoted(&self, mut error: ServiceError) -> ServiceError {
        let position = |element| error.details.iter().position(|(name, _)| *name == element);
        if let (Some(at), None) = (position("QueryParameterName"), position("QueryParameterValue")) {
            let text = given(self.head.query, &error.details[at].1).unwrap_or_default().to_owned();
            error.details.insert(at + 1, ("QueryParameterValue", text));
        }
        error
    }
}

/// A request that is good as far as one can tell without its body.
#[derive(Debug)]
pub struct Prepared {
    /// Without what the body says.
    call: Call,
    version: ServiceVersion,
}

fn without_body(request: &Request<'_>) -> Result<Call, ServiceError> {
    use OperationKind::*;
    let Head { query, headers, case, version, .. } = request.head;
    let name = || QueueName::parse(request.queue().unwrap_or_default());
    let metadata = || metadata::decode(headers, case);
    Ok(match request.kind {
        ListQueues => Operation::ListQueues(list_queues(query)?).into(),
        CreateQueue => Operation::CreateQueue { queue: name()?, metadata: metadata()? }.into(),
        DeleteQueue => SequencedOperation::DeleteQueue { queue: name()? }.into(),
        GetMetadata => Operation::GetMetadata { queue: name()? }.into(),
        SetMetadata => Operation::SetMetadata { queue: name()?, metadata: metadata()? }.into(),
        GetAcl => Operation::GetAcl { queue: name()? }.into(),
        SetAcl => Operation::SetAcl { queue: name()?, identifiers: Vec::new() }.into(),
        PutMessage => {
            let queue = name()?;
            let (visibility, lifetime) = put_times(query, version)?;
            SequencedOperation::PutMessage { queue, text: Bytes::new(), visibility, lifetime }.into()
        }
        GetMessages => {
            let queue = name()?;
            let count = count(query)?;
            let most = if version.has_large_messages() { SECONDS_OF_WEEK } else { SHORT_INVISIBLE_SECONDS };
            let visible = ranged(query, "visibilitytimeout", 1, most)?.unwrap_or(DEFAULT_INVISIBLE_SECONDS);
            SequencedOperation::GetMessages { queue, count, visibility: seconds(visible) }.into()
        }
        PeekMessages => Operation::PeekMessages { queue: name()?, count: count(query)? }.into(),
        UpdateMessage => {
            let queue = name()?;
            let receipt = required_receipt(query)?;
            let visibility = ranged(query, "visibilitytimeout", 0, SECONDS_OF_WEEK)?
                .map(seconds)
                .ok_or_else(|| missing("visibilitytimeout"))?;
            let id = addressed(&request.resource);
            SequencedOperation::UpdateMessage { queue, id, receipt, visibility, text: None }.into()
        }
        DeleteMessage => {
            let queue = name()?;
            let receipt = required_receipt(query)?;
            SequencedOperation::DeleteMessage { queue, id: addressed(&request.resource), receipt }.into()
        }
        ClearMessages => SequencedOperation::ClearMessages { queue: name()? }.into(),
        GetServiceProperties => Operation::GetServiceProperties.into(),
        SetServiceProperties => Operation::SetServiceProperties(ServicePropertiesChange::default()).into(),
        GetServiceStats => Operation::GetServiceStats.into(),
        // No operation of the service: see [`crate::delegation_xml`].
        GetUserDelegationKey => return Err(ErrorCode::InvalidInput.into()),
    })
}

impl Prepared {
    /// The queue that the request is about, if it is about one.
    pub fn queue(&self) -> Option<&QueueName> {
        self.call.queue()
    }

    /// Adds what the body says. The bodies of operations that have none are not looked at.
    pub fn decode(self, body: &[u8]) -> Result<Call, ServiceError> {
        let read_text = || {
            let most = if self.version.has_large_messages() { MAX_TEXT_BYTES } else { SMALL_TEXT_BYTES };
            message_xml::parse(body, most)
        };
        let mut call = self.call;
        match &mut call {
            Call::Operation(Operation::SetAcl { identifiers: policies, .. }) => {
                *policies = identifiers(body)?
            }
            Call::Operation(Operation::SetServiceProperties(change)) => {
                *change = xml::parse_service_properties(body, self.version)?;
            }
            Call::Sequenced(SequencedOperation::PutMessage { text, .. }) => *text = read_text()?,
            // Without a body only the visibility moves.
            Call::Sequenced(SequencedOperation::UpdateMessage { text, .. }) if !body.is_empty() => {
                *text = Some(read_text()?);
            }
            Call::Operation(_) | Call::Sequenced(_) => {}
        }
        Ok(call)
    }
}

fn identifiers(body: &[u8]) -> Result<Vec<SignedIdentifier>, ServiceError> {
    let identifiers = xml::parse_signed_identifiers(body)?;
    let permissions = identifiers
        .iter()
        .filter_map(|identifier| identifier.policy.as_ref()?.permission.as_deref())
        .all(|letters| letters.chars().all(|letter| PERMISSIONS.contains(letter)));
    if permissions {
        return Ok(identifiers);
    }
    Err(ServiceError::new(ErrorCode::InvalidXmlDocument)
        .with_detail("LineNumber", "0")
        .with_detail("LinePosition", "0")
        .with_detail("Reason", "")
        .with_cause("a permission that queues have not"))
}

fn list_queues(query: &Query) -> Result<ListQueues, ServiceError> {
    let prefix = given(query, "prefix").unwrap_or_default();
    if !prefix.chars().all(xml::is_xml_character) {
        // The answer could not say it.
        return Err(invalid_value("prefix", prefix, ""));
    }
    let page_size = ranged(query, "maxresults", 1, i64::from(i32::MAX))?.unwrap_or(MAX_PAGE_SIZE);
    let include = given(query, "include").unwrap_or_default();
    let mut included = include.split(',').filter(|name| !name.is_empty()).peekable();
    let with_metadata = included.peek().is_some();
    if !included.all(|name| name.eq_ignore_ascii_case("metadata")) {
        return Err(invalid_value("include", include, ""));
    }
    Ok(ListQueues {
        prefix: prefix.to_owned(),
        from: given(query, "marker").map(first_of_page).transpose()?,
        page_size: page_size.min(MAX_PAGE_SIZE) as usize,
        with_metadata,
    })
}

/// The name in a marker: `/account/name`. See [`super::reply`].
fn first_of_page(marker: &str) -> Result<String, ServiceError> {
    let name = marker.strip_prefix('/').and_then(|rest| rest.split_once('/')).map(|(_, name)| name);
    match name {
        Some(name) if QueueName::parse(name).is_ok() => Ok(name.to_owned()),
        _ => Err(invalid_value("marker", marker, "")),
    }
}

/// How long a message that is put stays invisible, and how long it lives.
fn put_times(query: &Query, version: ServiceVersion) -> Result<(Duration, Option<Duration>), ServiceError> {
    let visible = ranged(query, "visibilitytimeout", 0, SECONDS_OF_WEEK)?.unwrap_or(0);
    let lifetime = if version.has_long_lifetimes() {
        integer(query, "messagettl")?
    } else {
        ranged(query, "messagettl", 1, SECONDS_OF_WEEK)?
    };
    match lifetime.unwrap_or(SECONDS_OF_WEEK) {
        -1 => Ok((seconds(visible), None)),
        wrong if wrong < 1 => {
            let reason = "messagettl must be a positive number of seconds or -1";
            Err(invalid_value("messagettl", given(query, "messagettl").unwrap_or_default(), reason))
        }
        lifetime if visible >= lifetime => {
            let reason = "messagettl must be greater than visibilitytimeout";
            Err(invalid_value("visibilitytimeout", &visible.to_string(), reason))
        }
        lifetime => Ok((seconds(visible), Some(seconds(lifetime)))),
    }
}

fn count(query: &Query) -> Result<usize, ServiceError> {
    Ok(ranged(query, "numofmessages", 1, MAX_MESSAGES as i64)?.unwrap_or(1) as usize)
}

/// `None` if the id is no GUID: no message has it.
fn addressed(resource: &Resource) -> Option<MessageId> {
    match resource {
        Resource::Message(_, id) => MessageId::parse(id),
        _ => None,
    }
}

/// `None` if it is there but cannot be read: whether that matters depends on the message.
fn required_receipt(query: &Query) -> Result<Option<PopReceipt>, ServiceError> {
    given(query, "popreceipt").map(pop_receipt::parse).ok_or_else(|| missing("popreceipt"))
}

/// Only for numbers that are not negative.
fn seconds(number: i64) -> Duration {
    Duration::from_secs(number.unsigned_abs())
}

#[cfg(test)]
mod tests;
