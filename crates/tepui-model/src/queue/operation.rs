//! What can be asked of the Queue service.

use super::message::{MessageId, PopReceipt};
use super::name::QueueName;
use crate::access_policy::SignedIdentifier;
use crate::metadata::Metadata;
use crate::operation::operation_kinds;
use crate::service_properties::ServicePropertiesChange;
use bytes::Bytes;
use std::time::Duration;

/// What a request asks for, by how it runs. Values are within their limits.
#[derive(Debug, Clone, PartialEq)]
pub enum Call {
    Operation(Operation),
    Sequenced(SequencedOperation),
}

impl Call {
    /// The length of the text that it writes.
    pub fn text_bytes(&self) -> usize {
        match self {
            Self::Sequenced(SequencedOperation::PutMessage { text, .. }) => text.len(),
            Self::Sequenced(SequencedOperation::UpdateMessage { text: Some(text), .. }) => text.len(),
            _ => 0,
        }
    }
}

/// What changes no message.
#[derive(Debug, Clone, PartialEq)]
pub enum Operation {
    ListQueues(ListQueues),
    CreateQueue { queue: QueueName, metadata: Metadata },
    GetMetadata { queue: QueueName },
    SetMetadata { queue: QueueName, metadata: Metadata },
    GetAcl { queue: QueueName },
    SetAcl { queue: QueueName, identifiers: Vec<SignedIdentifier> },
    PeekMessages { queue: QueueName, count: usize },
    GetServiceProperties,
    SetServiceProperties(ServicePropertiesChange),
    GetServiceStats,
}

/// What changes messages: decided one after the other for each queue.
#[derive(Debug, Clone, PartialEq)]
pub enum SequencedOperation {
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
    DeleteQueue {
        queue: QueueName,
    },
}

impl From<Operation> for Call {
    fn from(operation: Operation) -> Self {
        Self::Operation(operation)
    }
}

impl From<SequencedOperation> for Call {
    fn from(operation: SequencedOperation) -> Self {
        Self::Sequenced(operation)
    }
}

impl Call {
    /// The queue that it is about, if it is about one.
    pub fn queue(&self) -> Option<&QueueName> {
        match self {
            Self::Operation(operation) => operation.queue(),
            Self::Sequenced(operation) => Some(operation.queue()),
        }
    }
}

impl Operation {
    fn queue(&self) -> Option<&QueueName> {
        match self {
            Self::CreateQueue { queue, .. }
            | Self::GetMetadata { queue }
            | Self::SetMetadata { queue, .. }
            | Self::GetAcl { queue }
            | Self::SetAcl { queue, .. }
            | Self::PeekMessages { queue, .. } => Some(queue),
            Self::ListQueues(_)
            | Self::GetServiceProperties
            | Self::SetServiceProperties(_)
            | Self::GetServiceStats => None,
        }
    }
}

impl SequencedOperation {
    pub fn queue(&self) -> &QueueName {
        match self {
            Self::PutMessage { queue, .. }
            | Self::GetMessages { queue, .. }
            | Self::UpdateMessage { queue, .. }
            | Self::DeleteMessage { queue, .. }
            | Self::ClearMessages { queue }
            | Self::DeleteQueue { queue } => queue,
        }
    }

    /// Whether it frees space on the disk, in the end, or is needed to get there: it is carried out though the disk is nearly full.
    pub fn frees_space(&self) -> bool {
        match self {
            // A client that empties a queue gets messages before it deletes them.
            Self::GetMessages { .. } | Self::DeleteMessage { .. } => true,
            Self::ClearMessages { .. } | Self::DeleteQueue { .. } => true,
            Self::PutMessage { .. } | Self::UpdateMessage { .. } => false,
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
    GetUserDelegationKey = "GetUserDelegationKey", Read;
}
