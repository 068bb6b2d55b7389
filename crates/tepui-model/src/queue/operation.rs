//! What can be asked of the Queue service.

use super::message::{MessageId, PopReceipt};
use super::name::QueueName;
use crate::access_policy::SignedIdentifier;
use crate::metadata::Metadata;
use crate::operation::operation_kinds;
use crate::service_properties::ServicePropertiesChange;
use bytes::Bytes;
use std::time::Duration;

/// A request, decoded. Values are within their limits.
#[derive(Debug, Clone, PartialEq)]
pub enum Operation {
    ListQueues(ListQueues),
    CreateQueue {
        queue: QueueName,
        metadata: Metadata,
    },
    DeleteQueue {
        queue: QueueName,
    },
    GetMetadata {
        queue: QueueName,
    },
    SetMetadata {
        queue: QueueName,
        metadata: Metadata,
    },
    GetAcl {
        queue: QueueName,
    },
    SetAcl {
        queue: QueueName,
        identifiers: Vec<SignedIdentifier>,
    },
    PutMessage {
        queue: QueueName,
        text: Bytes,
        /// How long it stays invisible.
        visibility: Duration,
        /// `None`: it never expires.
        lifetime: Option<Duration>,
    },
    GetMessages {
        queue: QueueName,
        count: usize,
        visibility: Duration,
    },
    PeekMessages {
        queue: QueueName,
        count: usize,
    },
    UpdateMessage {
        queue: QueueName,
        /// `None`: the caller's id is no GUID, so there is no such message.
        id: Option<MessageId>,
        /// `None`: it cannot be read.
        receipt: Option<PopReceipt>,
        visibility: Duration,
        /// `None`: the text stays.
        text: Option<Bytes>,
    },
    DeleteMessage {
        queue: QueueName,
        id: Option<MessageId>,
        receipt: Option<PopReceipt>,
    },
    ClearMessages {
        queue: QueueName,
    },
    GetServiceProperties,
    SetServiceProperties(ServicePropertiesChange),
    GetServiceStats,
}

impl Operation {
    /// Whether it frees space on the disk, in the end, or is needed to get there: it is carried out though the disk is nearly full.
    pub fn frees_space(&self) -> bool {
        match self {
            // Whoever empties a queue takes messages before deleting them.
            Self::GetMessages { .. } | Self::DeleteMessage { .. } => true,
            Self::ClearMessages { .. } | Self::DeleteQueue { .. } => true,
            _ => false,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListQueues {
    pub prefix: String,
    /// The first name that the page may hold.
    pub from: Option<String>,
    /// 1 to 5000.
    pub page_size: usize,
    pub with_metadata: bool,
}

operation_kinds! {
    ListQueues = "ListQueues", Read;
    CreateQueue = "CreateQueue", Write;
    DeleteQueue = "DeleteQueue", Write;
    GetMetadata = "GetQueueMetadata", Read;
    SetMetadata = "SetQueueMetadata", Write;
    GetAcl = "GetQueueACL", Read;
    SetAcl = "SetQueueACL", Write;
    PutMessage = "PutMessage", Write;
    GetMessages = "GetMessages", Write;
    PeekMessages = "PeekMessages", Read;
    UpdateMessage = "UpdateMessage", Write;
    DeleteMessage = "DeleteMessage", Write;
    ClearMessages = "ClearMessages", Write;
    GetServiceProperties = "GetQueueServiceProperties", Read;
    SetServiceProperties = "SetQueueServiceProperties", Write;
    GetServiceStats = "GetQueueServiceStats", Read;
}
