//! Queues and their messages.

use crate::core::{self, CallOptions, Core, Failure};
use crate::{Account, Error, ErrorKind, Timestamp};
use bytes::Bytes;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use tepui_model::metadata::Metadata;
use tepui_model::queue::message::{MAX_MESSAGES, MAX_TEXT_BYTES};
use tepui_model::queue::{Call, MessageId, Operation, QueueName, SequencedOperation};
use tepui_wire::address::Service;
use tepui_wire::queue::reply::read::{RemoteMessage, RemoteReply, read};
use tepui_wire::queue::request::write::{Options, write};

/// A queue. Cheap to clone.
///
/// ```
/// use std::time::Duration;
/// # tepui_client_testing::run(async |account| {
/// let work = account.queue("index-upkeep")?;
/// work.create_if_missing().await?;
/// work.put("employee 223 has a new name").await?;
/// for mut message in work.get(32, Duration::from_secs(30)).await? {
///     assert_eq!((message.text.as_str(), message.dequeue_count), ("employee 223 has a new name", 1));
///     work.update(&mut message, Duration::from_secs(60), None).await?; // More time.
///     work.delete(&message).await?;
/// }
/// assert!(work.peek(32).await?.is_empty());
/// # Ok(()) });
/// ```
#[derive(Clone)]
pub struct Queue {
    core: Arc<Core>,
    name: QueueName,
    within: Option<Duration>,
}

/// A message of a queue: put, taken or looked at.
///
/// ```
/// # tepui_client_testing::run(async |account| {
/// # let work = account.queue("work")?;
/// # work.create_if_missing().await?;
/// let put = work.put("archive employee 223").await?;
/// // Whoever has put a message may delete it again.
/// work.delete(&put).await?;
/// assert!(work.peek(1).await?.is_empty());
/// # Ok(()) });
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    id: MessageId,
    receipt: Option<String>,
    /// Empty right after it was put.
    pub text: String,
    pub inserted: Timestamp,
    pub expires: Timestamp,
    /// How often it was taken, this time among them.
    pub dequeue_count: u32,
    /// When others see it, if it is held.
    pub visible: Option<Timestamp>,
}

/// How a message is put.
///
/// ```
/// use std::time::Duration;
/// use tepui_client::PutMessage;
/// let later = PutMessage::new("wake up").visible_after(Duration::from_secs(60)).never_expires();
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PutMessage {
    text: String,
    visible_after: Duration,
    lifetime: Option<Duration>,
}

impl PutMessage {
    /// Visible at once, and for a week.
    pub fn new(text: impl Into<String>) -> Self {
        let week = Duration::from_secs(7 * 24 * 60 * 60);
        Self { text: text.into(), visible_after: Duration::ZERO, lifetime: Some(week) }
    }

    /// Nobody sees it before. Whole seconds.
    pub fn visible_after(mut self, time: Duration) -> Self {
        self.visible_after = time;
        self
    }

    /// Whole seconds.
    pub fn expires_after(mut self, time: Duration) -> Self {
        self.lifetime = Some(time);
        self
    }

    pub fn never_expires(mut self) -> Self {
        self.lifetime = None;
        self
    }
}

impl<T: Into<String>> From<T> for PutMessage {
    fn from(text: T) -> Self {
        Self::new(text)
    }
}

impl Message {
    pub fn id(&self) -> String {
        self.id.to_string()
    }

    /// What proves that it is held, for programs that store it.
    pub fn receipt(&self) -> Option<&str> {
        self.receipt.as_deref()
    }

    fn received(message: RemoteMessage) -> Self {
        let RemoteMessage { id, inserted, expires, claim, dequeue_count, text } = message;
        let (receipt, visible) = claim.map(|claim| (claim.receipt, claim.visible)).unzip();
        Self { id, receipt, text, inserted, expires, dequeue_count, visible }
    }
}

impl Account {
    /// A queue by its name. Whether it exists is not asked.
    pub fn queue(&self, name: &str) -> Result<Queue, Error> {
        let name =
            QueueName::parse(name).map_err(|error| Error::from(error).with_kind(ErrorKind::KeyInvalid))?;
        Ok(Queue { core: Arc::clone(&self.0), name, within: None })
    }
}

impl Queue {
    pub fn name(&self) -> &str {
        self.name.as_str()
    }

    /// Another queue of the same account.
    pub(crate) fn beside(&self, name: &str) -> Result<Self, Error> {
        let name =
            QueueName::parse(name).map_err(|error| Error::from(error).with_kind(ErrorKind::KeyInvalid))?;
        Ok(Self { name, ..self.clone() })
    }

    /// The same queue, with so much time for each call.
    #[must_use]
    pub fn within(&self, time: Duration) -> Self {
        Self { within: Some(time), ..self.clone() }
    }

    /// Creates the queue unless it is there. Says whether it was not.
    pub async fn create_if_missing(&self) -> Result<bool, Error> {
        let operation = Operation::CreateQueue { queue: self.name.clone(), metadata: Metadata::default() };
        match self.call(operation.into(), None).await {
            Ok(reply) => Ok(reply == RemoteReply::QueueCreated),
            // With other metadata, which are left alone.
            Err(Failure { error, .. }) if error.kind() == ErrorKind::AlreadyExists => Ok(false),
            Err(failure) => Err(failure.of_write()),
        }
    }

    /// Deletes the queue with all its messages.
    pub async fn delete_queue(&self) -> Result<(), Error> {
        let operation = SequencedOperation::DeleteQueue { queue: self.name.clone() };
        core::gone(self.call(operation.into(), None).await)
    }

    /// Deletes all messages.
    pub async fn clear(&self) -> Result<(), Error> {
        let operation = SequencedOperation::ClearMessages { queue: self.name.clone() };
        self.call(operation.into(), None).await.map(drop).map_err(Failure::of_write)
    }

    /// About how many messages there are, also those that nobody sees now.
    pub async fn approximate_count(&self) -> Result<u64, Error> {
        match self.call(Operation::GetMetadata { queue: self.name.clone() }.into(), None).await? {
            RemoteReply::Metadata { messages, .. } => Ok(messages),
            _ => Err(Error::unexpected()),
        }
    }

    /// Puts a message. If the answer is lost it is put again, so that there may be two of it: whoever works on messages
    /// has to expect the same one twice anyway.
    pub async fn put(&self, message: impl Into<PutMessage>) -> Result<Message, Error> {
        self.put_with(message.into(), false).await
    }

    /// Puts a message such that there are never two of it. If the answer is lost it is [`Unknown`](ErrorKind::Unknown) whether
    /// there is one.
    pub(crate) async fn put_at_most_once(&self, message: PutMessage) -> Result<Message, Error> {
        self.put_with(message, true).await
    }

    async fn put_with(&self, message: PutMessage, at_most_once: bool) -> Result<Message, Error> {
        let PutMessage { text, visible_after, lifetime } = message;
        check_text(&text)?;
        let (queue, text) = (self.name.clone(), Bytes::from(text));
        let operation = SequencedOperation::PutMessage { queue, text, visibility: visible_after, lifetime };
        match self.call_with(operation.into(), None, at_most_once).await.map_err(Failure::of_write)? {
            RemoteReply::Put(Some(message)) => Ok(Message::received(message)),
            _ => Err(Error::unexpected()),
        }
    }

    /// Takes up to 32 messages, which nobody else sees for this time: whole seconds, at least one. If the answer is lost,
    /// what was taken is seen again after that time.
    pub async fn get(&self, count: usize, hold: Duration) -> Result<Vec<Message>, Error> {
        let operation = SequencedOperation::GetMessages {
            queue: self.name.clone(),
            count: count.clamp(1, MAX_MESSAGES),
            visibility: hold,
        };
        match self.call(operation.into(), None).await? {
            RemoteReply::Messages(messages) => Ok(messages.into_iter().map(Message::received).collect()),
            _ => Err(Error::unexpected()),
        }
    }

    /// Looks at up to 32 messages without taking them.
    pub async fn peek(&self, count: usize) -> Result<Vec<Message>, Error> {
        let count = count.clamp(1, MAX_MESSAGES);
        match self.call(Operation::PeekMessages { queue: self.name.clone(), count }.into(), None).await? {
            RemoteReply::Peeked(messages) => Ok(messages.into_iter().map(Message::received).collect()),
            _ => Err(Error::unexpected()),
        }
    }

    /// Holds a message for so long from now on, with another text if one is given. It is then known by a new receipt, which
    /// goes into `message`.
    pub async fn update(
        &self,
        message: &mut Message,
        hold: Duration,
        text: Option<&str>,
    ) -> Result<(), Error> {
        text.map_or(Ok(()), check_text)?;
        let operation = SequencedOperation::UpdateMessage {
            queue: self.name.clone(),
            id: Some(message.id),
            receipt: None,
            visibility: hold,
            text: text.map(|text| Bytes::copy_from_slice(text.as_bytes())),
        };
        let receipt = held(message)?.to_owned();
        match self.call(operation.into(), Some(&receipt)).await.map_err(Failure::of_write)? {
            RemoteReply::Updated(claim) => {
                message.receipt = Some(claim.receipt);
                message.visible = Some(claim.visible);
                if let Some(text) = text {
                    text.clone_into(&mut message.text);
                }
                Ok(())
            }
            _ => Err(Error::unexpected()),
        }
    }

    /// Deletes a message that is held. If somebody else has it now, it is a [`NotFound`](ErrorKind::NotFound) or
    /// [`Refused`](ErrorKind::Refused).
    pub async fn delete(&self, message: &Message) -> Result<(), Error> {
        let receipt = held(message)?;
        let (queue, id) = (self.name.clone(), Some(message.id));
        let operation = SequencedOperation::DeleteMessage { queue, id, receipt: None };
        core::gone(self.call(operation.into(), Some(receipt)).await)
    }

    async fn call(&self, call: Call, receipt: Option<&str>) -> Result<RemoteReply, Failure> {
        self.call_with(call, receipt, false).await
    }

    async fn call_with(
        &self,
        call: Call,
        receipt: Option<&str>,
        at_most_once: bool,
    ) -> Result<RemoteReply, Failure> {
        let certain = |error: Error| Failure { error, is_doubtful: false };
        let endpoint = self.core.endpoint(Service::Queue).map_err(certain)?;
        let options = Options { receipt, ..Options::default() };
        let request = write(&endpoint.remote, &call, &options).map_err(|error| certain(error.into()))?;
        let busy_key = format!("queue {}", self.name);
        let (partition, within) = (Some(busy_key.as_str()), self.within);
        let how = CallOptions { partition, within, at_most_once, ..CallOptions::default() };
        let version = endpoint.remote.version();
        self.core.call(endpoint, &request, &how, |response| read(&call, version, response)).await
    }
}

impl fmt::Debug for Queue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Queue").field(&self.name.as_str()).finish()
    }
}

fn held(message: &Message) -> Result<&str, Error> {
    message
        .receipt()
        .ok_or_else(|| Error::new(ErrorKind::Refused, "the message was only looked at, and is not held"))
}

fn check_text(text: &str) -> Result<(), Error> {
    if text.len() > MAX_TEXT_BYTES {
        return Err(Error::new(ErrorKind::TooLarge, "the text of a message has at most 64 KiB"));
    }
    Ok(())
}
