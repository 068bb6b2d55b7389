//! Requests as they end, for those who watch. Nobody waits for a watcher: what one does not read in time is dropped, and told.

use crate::net::body::{BrokenReply, Pieces};
use crate::pipeline::{Caller, FinishedExchange, OperationKind};
use crate::redact::without_signature;
use bytes::Bytes;
use parking_lot::Mutex;
use serde_json::{Map, Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;
use tepui_model::Clock;
use tepui_model::cost::Receipt;
use tepui_wire::address::Service;
use tokio::sync::mpsc;
use tokio::time::{Instant, Interval, MissedTickBehavior};

/// All who watch.
pub(crate) struct Tail {
    clock: Arc<dyn Clock>,
    /// How many there are.
    count: AtomicUsize,
    listeners: Mutex<Listeners>,
}

#[derive(Default)]
struct Listeners {
    last_id: u64,
    list: Vec<Listener>,
    closed: bool,
}

struct Listener {
    id: u64,
    filter: TailFilter,
    events: mpsc::Sender<Bytes>,
    /// Events that found no room.
    dropped: Arc<AtomicU64>,
}

/// Which requests somebody wants to see: all that is given has to match.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct TailFilter {
    pub(crate) service: Option<String>,
    pub(crate) account: Option<String>,
    pub(crate) operation: Option<String>,
    pub(crate) status: Option<StatusFilter>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StatusFilter {
    Is(u16),
    /// From 100 times this number on.
    Class(u16),
    /// No answer was sent.
    None,
}

impl StatusFilter {
    /// Reads `503`, `5xx` and `none`.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        if text == "none" {
            return Some(Self::None);
        }
        match text.strip_suffix("xx") {
            Some(class) => class.parse().ok().filter(|class| (1..=5).contains(class)).map(Self::Class),
            None => text.parse().ok().filter(|status| (100..=599).contains(status)).map(Self::Is),
        }
    }

    fn matches(self, status: Option<u16>) -> bool {
        match self {
            Self::Is(wanted) => status == Some(wanted),
            Self::Class(class) => status.is_some_and(|status| status / 100 == class),
            Self::None => status.is_none(),
        }
    }
}

impl TailFilter {
    fn matches(&self, service: Service, exchange: &FinishedExchange) -> bool {
        let is = |wanted: &Option<String>, given: &str| wanted.as_ref().is_none_or(|wanted| wanted == given);
        is(&self.service, service.name())
            && is(&self.account, &exchange.account)
            && is(&self.operation, exchange.operation.map_or("", OperationKind::name))
            && self.status.is_none_or(|status| status.matches(exchange.status))
    }
}

impl Tail {
    pub(crate) const MAX_LISTENERS: usize = 16;
    /// Events that wait for one listener.
    const MAX_WAITING: usize = 1024;

    pub(crate) fn new(clock: Arc<dyn Clock>) -> Self {
        Self { clock, count: AtomicUsize::new(0), listeners: Mutex::default() }
    }

    /// Whether anybody watches. All that it costs a request if nobody does.
    pub(crate) fn has_listeners(&self) -> bool {
        self.count.load(Ordering::Relaxed) > 0
    }

    /// `None` if there are too many already.
    pub(crate) fn listen(self: &Arc<Self>, filter: TailFilter) -> Option<TailStream> {
        let mut listeners = self.listeners.lock();
        if listeners.closed || listeners.list.len() == Self::MAX_LISTENERS {
            return None;
        }
        listeners.last_id += 1;
        let (id, dropped) = (listeners.last_id, Arc::new(AtomicU64::new(0)));
        let (events, received) = mpsc::channel(Self::MAX_WAITING);
        listeners.list.push(Listener { id, filter, events, dropped: Arc::clone(&dropped) });
        self.count.store(listeners.list.len(), Ordering::Relaxed);
        let mut keep_alive = tokio::time::interval_at(Instant::now() + KEEP_ALIVE, KEEP_ALIVE);
        keep_alive.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Some(TailStream { tail: Arc::clone(self), id, received, dropped, keep_alive, has_begun: false })
    }

    /// Tells those who watch that a request has ended.
    pub(crate) fn publish(&self, service: Service, exchange: &FinishedExchange) {
        let mut event = None;
        for listener in &self.listeners.lock().list {
            if !listener.filter.matches(service, exchange) {
                continue;
            }
            let event = event.get_or_insert_with(|| self.event(service, exchange));
            if listener.events.try_send(event.clone()).is_err() {
                listener.dropped.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    fn event(&self, service: Service, exchange: &FinishedExchange) -> Bytes {
        let milliseconds = |from: std::time::Instant, to: std::time::Instant| {
            to.saturating_duration_since(from).as_micros() as f64 / 1000.0
        };
        let receipt = exchange.cost.map(|cost| Receipt { cost, time: exchange.answered - exchange.started });
        let header = |name: &str| {
            let value = exchange.request.headers.get(name)?;
            Some(cut(&String::from_utf8_lossy(value.as_bytes())))
        };
        let event = json!({
            "time": self.clock.now().to_iso_7(),
            "requestId": exchange.request_id,
            "clientRequestId": header("x-ms-client-request-id"),
            "client": exchange.client.to_string(),
            "userAgent": header("user-agent"),
            "service": service.name(),
            "account": exchange.account,
            "operation": exchange.operation.map(OperationKind::name),
            "auth": exchange.caller.map(auth),
            "method": exchange.request.method.as_str(),
            "url": cut(&without_signature(exchange.request.uri.path_and_query().map_or("", |url| url.as_str()))),
            "status": exchange.status,
            "errorCode": exchange.error_code,
            "bytesIn": exchange.bytes_in,
            "bytesOut": exchange.bytes_out,
            "serverMs": milliseconds(exchange.started, exchange.answered),
            "ms": milliseconds(exchange.started, exchange.ended),
            "receipt": receipt.map(|receipt| dictionary(&receipt.to_string())),
        });
        Bytes::from(format!("data: {event}\n\n"))
    }

    /// Ends all streams.
    pub(crate) fn close(&self) {
        let mut listeners = self.listeners.lock();
        listeners.closed = true;
        listeners.list.clear();
        self.count.store(0, Ordering::Relaxed);
    }

    fn remove(&self, id: u64) {
        let mut listeners = self.listeners.lock();
        listeners.list.retain(|listener| listener.id != id);
        self.count.store(listeners.list.len(), Ordering::Relaxed);
    }
}

fn auth(caller: Caller) -> &'static str {
    match caller {
        Caller::AccountKey => "key",
        Caller::Sas => "sas",
        Caller::Token => "bearer",
        Caller::Anonymous => "anonymous",
    }
}

const MAX_TEXT_CHARS: usize = 1024;

fn cut(text: &str) -> String {
    text.chars().take(MAX_TEXT_CHARS).collect()
}

/// A dictionary of structured fields as JSON: receipts are told the same way everywhere.
fn dictionary(text: &str) -> Value {
    let member = |member: &str| {
        let (key, value) = member.split_once('=').unwrap_or((member, "?1"));
        let value = match value {
            "?1" => Value::Bool(true),
            "?0" => Value::Bool(false),
            text => serde_json::from_str::<serde_json::Number>(text)
                .map_or_else(|_| Value::String(text.trim_matches('"').to_owned()), Value::Number),
        };
        (key.to_owned(), value)
    };
    Value::Object(text.split(", ").filter(|text| !text.is_empty()).map(member).collect::<Map<_, _>>())
}

/// Comments are sent so often to a watcher who has nothing to see, so that both sides notice if the other has gone.
const KEEP_ALIVE: Duration = Duration::from_secs(15);
/// Events that are sent together.
const MAX_TOGETHER: usize = 64;

/// Server-sent events for one watcher, as a body.
pub(crate) struct TailStream {
    tail: Arc<Tail>,
    id: u64,
    received: mpsc::Receiver<Bytes>,
    dropped: Arc<AtomicU64>,
    keep_alive: Interval,
    has_begun: bool,
}

impl Pieces for TailStream {
    fn may_read_ahead(&self) -> bool {
        false
    }

    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Vec<Bytes>>, BrokenReply>> {
        let mut pieces = Vec::new();
        if !std::mem::replace(&mut self.has_begun, true) {
            pieces.push(Bytes::from_static(b": from here on\n\n"));
        }
        let dropped = self.dropped.swap(0, Ordering::Relaxed);
        if dropped > 0 {
            pieces.push(Bytes::from(format!("event: dropped\ndata: {{\"count\":{dropped}}}\n\n")));
        }
        while pieces.len() < MAX_TOGETHER {
            match self.received.poll_recv(cx) {
                Poll::Ready(Some(event)) => pieces.push(event),
                Poll::Ready(None) if pieces.is_empty() => return Poll::Ready(Ok(None)),
                Poll::Ready(None) | Poll::Pending => break,
            }
        }
        if !pieces.is_empty() {
            return Poll::Ready(Ok(Some(pieces)));
        }
        self.keep_alive.poll_tick(cx).map(|_| Ok(Some(vec![Bytes::from_static(b":\n\n")])))
    }
}

impl Drop for TailStream {
    fn drop(&mut self) {
        self.tail.remove(self.id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statuses() {
        for (text, status, expected) in [
            ("503", Some(503), Some(true)),
            ("503", Some(500), Some(false)),
            ("5xx", Some(500), Some(true)),
            ("5xx", Some(404), Some(false)),
            ("5xx", None, Some(false)),
            ("none", None, Some(true)),
            ("none", Some(200), Some(false)),
            ("6xx", None, None),
            ("99", None, None),
            ("600", None, None),
            ("xx", None, None),
            ("", None, None),
        ] {
            assert_eq!(
                StatusFilter::parse(text).map(|filter| filter.matches(status)),
                expected,
                "{text} {status:?}"
            );
        }
    }

    #[test]
    fn receipts_as_json() {
        let value = dictionary("plan=row-range, ranges=1, units=3, ms=0.217, more, hint=\"x y\"");
        let expected =
            json!({"plan": "row-range", "ranges": 1, "units": 3, "ms": 0.217, "more": true, "hint": "x y"});
        assert_eq!(value, expected);
    }
}
