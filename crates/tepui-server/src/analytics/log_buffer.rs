//! Lines of analytics logs in memory, until they are written: bounded, and filled without any wait.

use super::line::{self, LogVersion};
use super::operation::{self, Class};
use super::status::{RequestStatus, Requester, StatusKind};
use crate::pipeline::FinishedExchange;
use hyper::http::Method;
use parking_lot::Mutex;
use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tepui_model::Timestamp;
use tepui_wire::address::Service;
use tokio::sync::Notify;

/// A log of this size is written at once.
const FULL_BYTES: usize = 4 * 1024 * 1024;
/// Lines beyond this many bytes are dropped.
const MAX_BYTES: usize = 32 * 1024 * 1024;
/// A thread keeps so much memory for its next line.
const MAX_SCRATCH_BYTES: usize = 64 * 1024;

/// The lines that are not written yet.
pub(crate) struct LogBuffer {
    waiting: Mutex<Waiting>,
    dropped: AtomicU64,
    /// A log has reached its full size.
    full: Notify,
    max_bytes: usize,
    full_bytes: usize,
}

#[derive(Default)]
struct Waiting {
    /// By account.
    logs: HashMap<String, Vec<PendingLog>>,
    /// Of all lines, also of those that are being written.
    bytes: usize,
}

/// Lines that become one blob.
#[derive(Debug)]
pub(crate) struct PendingLog {
    pub(crate) service: Service,
    pub(crate) version: LogVersion,
    /// The hour in which its requests ended.
    pub(crate) hour: Hour,
    pub(crate) text: Vec<u8>,
    pub(crate) lines: u64,
    /// Of which classes there are lines.
    pub(crate) classes: [bool; 3],
    /// When the first and the last of its requests began.
    pub(crate) first: Timestamp,
    pub(crate) last: Timestamp,
    /// Since when its first line waits.
    pub(crate) since: Instant,
}

/// An hour of the calendar, counted from the year 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Hour(pub(crate) u64);

impl Hour {
    pub(crate) fn of(time: Timestamp) -> Self {
        Self(time.seconds() / 3600)
    }
}

impl Default for LogBuffer {
    fn default() -> Self {
        Self::bounded(MAX_BYTES, FULL_BYTES)
    }
}

thread_local! {
    /// Where a thread writes a line before it takes the lock.
    static SCRATCH: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

impl LogBuffer {
    fn bounded(max_bytes: usize, full_bytes: usize) -> Self {
        Self {
            waiting: Mutex::default(),
            dropped: AtomicU64::new(0),
            full: Notify::new(),
            max_bytes,
            full_bytes,
        }
    }

    /// Takes the lines about a request, if the account wants them.
    pub(crate) fn record(&self, exchange: &FinishedExchange) {
        let Some(settings) = &exchange.settings else { return };
        let logging = &settings.shared().logging;
        let class = operation::class(exchange);
        let is_wanted = match class {
            Class::Read => logging.read,
            Class::Write => logging.write,
            Class::Delete => logging.delete,
        };
        if !is_wanted || is_left_out(exchange) {
            return;
        }
        let version = LogVersion::of(exchange);
        SCRATCH.with_borrow_mut(|text| {
            text.clear();
            let lines = line::write(text, exchange, version);
            self.push(exchange, class, version, text, lines);
            text.shrink_to(MAX_SCRATCH_BYTES);
        });
    }

    fn push(&self, exchange: &FinishedExchange, class: Class, version: LogVersion, text: &[u8], lines: u64) {
        let (service, hour, began) = (exchange.service, Hour::of(exchange.ended_at()), exchange.started_at);
        let mut waiting = self.waiting.lock();
        // An account has at most as much as all others have left, so that none can take everything.
        let of_account = waiting.logs.get(&exchange.account);
        let account_bytes: usize = of_account.map_or(0, |logs| logs.iter().map(|log| log.text.len()).sum());
        if account_bytes + waiting.bytes + text.len() > self.max_bytes {
            drop(waiting);
            self.count_dropped(lines);
            return;
        }
        waiting.bytes += text.len();
        let logs = match waiting.logs.get_mut(&exchange.account) {
            Some(logs) => logs,
            None => waiting.logs.entry(exchange.account.clone()).or_default(),
        };
        let fits = |log: &PendingLog| {
            (log.service, log.version, log.hour) == (service, version, hour)
                && log.text.len() < self.full_bytes
        };
        let log = match logs.iter().position(fits) {
            Some(at) => &mut logs[at],
            None => {
                logs.push(PendingLog {
                    service,
                    version,
                    hour,
                    text: Vec::new(),
                    lines: 0,
                    classes: [false; 3],
                    first: began,
                    last: began,
                    since: exchange.ended,
                });
                let last = logs.len() - 1;
                &mut logs[last]
            }
        };
        log.text.extend_from_slice(text);
        log.lines += lines;
        log.classes[class as usize] = true;
        (log.first, log.last) = (log.first.min(began), log.last.max(began));
        let is_full = log.text.len() >= self.full_bytes;
        drop(waiting);
        if is_full {
            self.full.notify_one();
        }
    }

    /// Waits until a log has its full size.
    pub(crate) async fn filled(&self) {
        self.full.notified().await;
    }

    /// Takes out what has its full size or has waited for so long. Its bytes count until they are [released](Self::release).
    pub(crate) fn take(&self, max_age: Duration) -> Vec<(String, PendingLog)> {
        let mut taken = Vec::new();
        let mut waiting = self.waiting.lock();
        waiting.logs.retain(|account, logs| {
            let is_due =
                |log: &mut PendingLog| log.text.len() >= self.full_bytes || log.since.elapsed() >= max_age;
            taken.extend(logs.extract_if(.., is_due).map(|log| (account.clone(), log)));
            !logs.is_empty()
        });
        taken
    }

    /// Drops the lines that wait of some services of some accounts. They were wanted no more, so they are not counted.
    pub(crate) fn forget(&self, is_forgotten: impl Fn(&str, Service) -> bool) {
        let mut waiting = self.waiting.lock();
        let Waiting { logs, bytes } = &mut *waiting;
        logs.retain(|account, logs| {
            let forgotten = logs.extract_if(.., |log| is_forgotten(account, log.service));
            *bytes -= forgotten.map(|log| log.text.len()).sum::<usize>();
            !logs.is_empty()
        });
    }

    /// The lines of a log are written, or were given up.
    pub(crate) fn release(&self, bytes: usize) {
        self.waiting.lock().bytes -= bytes;
    }

    /// The bytes of all lines that are not written yet.
    #[cfg(test)]
    pub(crate) fn waiting_bytes(&self) -> usize {
        self.waiting.lock().bytes
    }

    pub(crate) fn count_dropped(&self, lines: u64) {
        self.dropped.fetch_add(lines, Ordering::Relaxed);
    }

    /// The lines that were not written, because there were too many of them or the store has failed.
    pub(crate) fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }
}

/// Whether a request is not logged whatever is asked for: it was anonymous and failed, through no fault of the server.
fn is_left_out(exchange: &FinishedExchange) -> bool {
    let status = RequestStatus::of(exchange);
    if status.requester != Requester::Anonymous {
        return false;
    }
    match status.kind {
        StatusKind::AuthorizationError | StatusKind::NetworkError => true,
        StatusKind::ClientOtherError => {
            !(exchange.status == Some(304) && exchange.request.method == Method::GET)
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pipeline::{AccountProperties, Caller};
    use std::sync::Arc;
    use tepui_model::service_properties::{Logging, ServiceProperties};

    fn exchange(method: &str, logging: Logging) -> FinishedExchange {
        let mut exchange = FinishedExchange::example(method, "/devstoreaccount1/T", &[]);
        let properties = ServiceProperties { logging, ..ServiceProperties::default() };
        exchange.settings = Some(AccountProperties::Common(Arc::new(properties)));
        exchange.caller = Some(Caller::AccountKey);
        exchange
    }

    fn all() -> Logging {
        Logging { read: true, write: true, delete: true, ..Logging::default() }
    }

    fn logged(exchange: &FinishedExchange) -> bool {
        let buffer = LogBuffer::default();
        buffer.record(exchange);
        !buffer.take(Duration::ZERO).is_empty()
    }

    #[test]
    fn classes_are_switched_on_one_by_one() {
        let none = Logging::default();
        for (case, method, logging, expected) in [
            ("nothing", "GET", none.clone(), false),
            ("read", "GET", Logging { read: true, ..none.clone() }, true),
            ("write", "PUT", Logging { write: true, ..none.clone() }, true),
            ("delete", "DELETE", Logging { delete: true, ..none.clone() }, true),
            ("not read", "GET", Logging { read: false, ..all() }, false),
            ("not write", "PUT", Logging { write: false, ..all() }, false),
            ("not delete", "DELETE", Logging { delete: false, ..all() }, false),
        ] {
            assert_eq!(logged(&exchange(method, logging)), expected, "{case}");
        }
    }

    #[test]
    fn anonymous_failures_are_not_logged() {
        for (method, status, code, expected) in [
            ("GET", Some(200), None, true),
            ("GET", Some(304), None, true),
            ("HEAD", Some(304), None, false),
            ("GET", Some(404), Some("BlobNotFound"), false),
            ("GET", Some(403), Some("AuthorizationFailure"), false),
            ("GET", Some(500), Some("InternalError"), true),
            ("GET", Some(500), Some("OperationTimedOut"), true),
            ("GET", Some(503), Some("ServerBusy"), true),
            ("GET", None, None, false),
        ] {
            let mut exchange = exchange(method, all());
            (exchange.status, exchange.error_code) = (status, code);
            assert!(logged(&exchange), "of an owner: {method} {status:?}");
            exchange.caller = Some(Caller::Anonymous);
            assert_eq!(logged(&exchange), expected, "{method} {status:?}");
        }
    }

    #[test]
    fn lines_are_gathered_by_hour_and_version() {
        let buffer = LogBuffer::default();
        let mut some = exchange("GET", all());
        buffer.record(&some);
        some.request.method = Method::PUT;
        some.started_at = Timestamp::parse_iso("2026-03-10T08:15:29.5Z").unwrap();
        buffer.record(&some);
        // Ends in the next hour.
        some.started_at = Timestamp::parse_iso("2026-03-10T08:59:59.5Z").unwrap();
        some.ended = some.started + Duration::from_secs(1);
        buffer.record(&some);
        let mut taken = buffer.take(Duration::ZERO);
        taken.sort_by_key(|(_, log)| log.hour);
        let [(account, first), (_, second)] = &taken[..] else { panic!("{taken:?}") };
        assert_eq!(account, "devstoreaccount1");
        assert_eq!((first.lines, first.classes, second.lines), (2, [true, true, false], 1));
        assert_eq!(first.first.to_string(), "2026-03-10T08:15:29.5Z");
        assert_eq!(first.last.to_string(), "2026-03-10T08:15:30.0719766Z");
        assert_eq!(second.hour.0, first.hour.0 + 1);
        assert!(buffer.take(Duration::ZERO).is_empty());
    }

    #[test]
    fn what_does_not_fit_is_dropped_and_counted() {
        let some = exchange("GET", all());
        let mut line = Vec::new();
        line::write(&mut line, &some, LogVersion::V1);
        let buffer = LogBuffer::bounded(9 * line.len(), 2 * line.len());
        let record = |account: &str, times: u64| {
            let mut some = exchange("GET", all());
            some.account = account.to_owned();
            // A name is in a line several times.
            let before = buffer.dropped();
            (0..times).for_each(|_| buffer.record(&some));
            times - (buffer.dropped() - before)
        };
        assert_eq!(record("devstoreaccount1", 8), 5, "half of the room");
        assert_eq!(record("devstoreaccount2", 8), 2, "half of the rest");
        assert_eq!(buffer.dropped(), 9);
        let full = buffer.take(Duration::from_secs(60));
        let mut lines: Vec<_> = full.iter().map(|(account, log)| (account.as_str(), log.lines)).collect();
        lines.sort_unstable();
        let expected = [("devstoreaccount1", 2), ("devstoreaccount1", 2), ("devstoreaccount2", 2)];
        assert_eq!(lines, expected, "only those that are full");
        assert_eq!(record("devstoreaccount1", 2), 1, "what is being written counts");
        full.iter().for_each(|(_, log)| buffer.release(log.text.len()));
        assert_eq!(record("devstoreaccount1", 1), 1);
    }
}
