//! The messages of a queue, also those that are hidden, without touching them.

use super::call::{self, AdminError, AnswerFuture, Area, Call, Route};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde::Serialize;
use std::sync::Arc;
use tepui_model::Timestamp;
use tepui_model::queue::QueueName;
use tepui_service::QueueService;
use tepui_service::queue::{MessageCursor, QueuedMessage};
use tepui_storage::Engine;

const DEFAULT_LIMIT: usize = 100;
const MAX_LIMIT: usize = 1000;

pub(crate) struct MessagesArea<E: Engine> {
    queues: Arc<QueueService<E>>,
}

impl<E: Engine> MessagesArea<E> {
    pub(crate) fn new(queues: Arc<QueueService<E>>) -> Self {
        Self { queues }
    }

    async fn page(&self, call: &Call) -> Result<Page, AdminError> {
        call.only_parameters(&["limit", "after"])?;
        call.no_body()?;
        let limit = call.number("limit", 1..=MAX_LIMIT)?.unwrap_or(DEFAULT_LIMIT);
        let after = call.parameter("after").map(str::parse::<MessageCursor>).transpose();
        let after =
            after.map_err(|()| AdminError::invalid("after is what `next` of the page before was."))?;
        let [account, queue] = &call.parts[..] else {
            return Err(AdminError::not_found("A queue has an account and a name."));
        };
        let name = QueueName::parse(queue).map_err(|error| AdminError::invalid(error.message()))?;
        let page = self.queues.all_messages(account, &name, after, limit).await?;
        Ok(Page {
            messages: page.messages.iter().map(Message::from).collect(),
            next: page.next.map(|next| next.to_string()),
        })
    }
}

#[derive(Serialize)]
struct Page {
    messages: Vec<Message>,
    next: Option<String>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Message {
    id: String,
    inserted: String,
    /// `None`: never.
    expires: Option<String>,
    next_visible: String,
    visible: bool,
    dequeue_count: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<String>,
    /// Where the text is not UTF-8.
    #[serde(skip_serializing_if = "Option::is_none")]
    base64: Option<String>,
}

impl From<&QueuedMessage> for Message {
    fn from(message: &QueuedMessage) -> Self {
        let text = std::str::from_utf8(&message.text).ok().map(str::to_owned);
        let base64 = text.is_none().then(|| BASE64.encode(&message.text));
        let expires = message.stamp.expires;
        Self {
            id: message.stamp.id.to_string(),
            inserted: message.stamp.inserted.to_iso_7(),
            expires: (expires < Timestamp::MAX).then(|| expires.to_iso_7()),
            next_visible: message.next_visible.to_iso_7(),
            visible: message.is_visible,
            dequeue_count: message.dequeue_count,
            text,
            base64,
        }
    }
}

impl<E: Engine> Area for MessagesArea<E> {
    fn routes(&self) -> &'static [Route] {
        &[("GET", "/queues/{}/{}/messages")]
    }

    fn is_for_test_bench(&self) -> bool {
        false
    }

    fn answer(&self, call: Call) -> AnswerFuture<'_> {
        Box::pin(async move { call::ok(&self.page(&call).await?) })
    }
}
