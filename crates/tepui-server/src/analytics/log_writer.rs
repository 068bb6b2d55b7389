//! Writes analytics logs to the container `$logs` of their accounts.
//!
//! Every flush writes new blobs, which never change: a reader sees a log whole or not at all, a crash leaves nothing half
//! written, and nothing has to be known of the blobs before but their numbers.

use super::log_buffer::{Hour, PendingLog};
use super::resets::Written;
use super::{Analytics, SystemRequest};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tepui_model::blob::BlobName;
use tepui_model::metadata::Metadata;
use tepui_model::time::Calendar;
use tepui_model::{ErrorCode, ServiceError, Timestamp};
use tepui_service::BlobService;
use tepui_service::blob::NewLog;
use tepui_storage::{Engine, Extents};
use tepui_wire::address::Service;
use tokio::sync::watch;

/// How often it is looked whether lines have waited long enough.
const TICK: Duration = Duration::from_secs(1);
/// How often a log is tried to be written, and how long is waited before the second time. Then it is twice as long.
const MAX_ATTEMPTS: u32 = 8;
const FIRST_PAUSE: Duration = Duration::from_millis(50);
/// How long a server that stops waits for its logs.
const MAX_STOP_TIME: Duration = Duration::from_secs(10);
/// Other nodes may take numbers, too.
const MAX_TAKEN_NUMBERS: u32 = 1000;
const LIST_PAGE: usize = 1000;

pub(crate) struct LogWriter<E, X> {
    analytics: Arc<Analytics>,
    blobs: Arc<BlobService<E, X>>,
    /// The longest that a line waits.
    flush_after: Duration,
    /// The next numbers of blobs, of hours for which some were written, and when the last was.
    next_numbers: HashMap<(String, Service, Hour), (u32, Instant)>,
    reported_drops: u64,
    /// The last log could not be written, so that the next is tried only once.
    is_failing: bool,
}

impl<E: Engine, X: Extents> LogWriter<E, X> {
    pub(crate) fn new(
        analytics: Arc<Analytics>,
        blobs: Arc<BlobService<E, X>>,
        flush_after: Duration,
    ) -> Self {
        Self {
            analytics,
            blobs,
            flush_after,
            next_numbers: HashMap::new(),
            reported_drops: 0,
            is_failing: false,
        }
    }

    /// Writes what there is to write, until `stop`, and then all that is left.
    pub(crate) async fn run(mut self, mut stop: watch::Receiver<bool>) {
        let analytics = Arc::clone(&self.analytics);
        loop {
            tokio::select! {
                () = tokio::time::sleep(TICK.min(self.flush_after)) => {}
                () = analytics.logs.filled() => {}
                _ = stop.wait_for(|stop| *stop) => break,
            }
            self.flush(self.flush_after).await;
        }
        if tokio::time::timeout(MAX_STOP_TIME, self.flush(Duration::ZERO)).await.is_err() {
            tracing::warn!("analytics logs could not be written in time: their lines are lost");
        }
    }

    /// Writes the lines that have waited for so long.
    pub(crate) async fn flush(&mut self, max_age: Duration) {
        // A tick early rather than late.
        let max_age = max_age.saturating_sub(TICK.min(max_age / 2));
        let analytics = Arc::clone(&self.analytics);
        for (account, log) in self.analytics.logs.take(max_age) {
            let _held = analytics.hold_resets().await;
            let (bytes, lines, last, began) = (log.text.len(), log.lines, log.last, Instant::now());
            if analytics.is_undone(Written::LogLine, &account, log.service, log.since) {
                analytics.logs.release(bytes);
                continue;
            }
            let written = self.write(&account, log).await;
            if let Err(error) = &written {
                tracing::warn!(account, lines, %error, "an analytics log cannot be written");
                self.analytics.logs.count_dropped(lines);
            }
            if let Ok(properties) = self.blobs.service_properties(&account).await {
                let (time, succeeded) = (began.elapsed(), written.is_ok());
                let done = SystemRequest { bytes: bytes as u64, time, succeeded };
                self.analytics.record_system(&account, &properties.shared, "PutBlob", last, done);
            }
            self.analytics.logs.release(bytes);
        }
        let dropped = self.analytics.logs.dropped();
        if dropped > self.reported_drops {
            tracing::warn!(lines = dropped - self.reported_drops, "lines of analytics logs dropped");
            self.reported_drops = dropped;
        }
    }

    async fn write(&mut self, account: &str, log: PendingLog) -> Result<(), ServiceError> {
        let (service, hour) = (log.service, log.hour);
        let metadata = metadata(&log)?;
        let text = bytes::Bytes::from(log.text);
        let (mut attempts_left, mut pause) = (if self.is_failing { 1 } else { MAX_ATTEMPTS }, FIRST_PAUSE);
        let (mut number, mut taken_numbers) = (None, 0);
        loop {
            if self.analytics.is_undone(Written::LogLine, account, service, log.since) {
                return Ok(());
            }
            let written = async {
                let number = match number {
                    Some(number) => number,
                    None => *number.insert(self.next_number(account, service, hour).await?),
                };
                let name = BlobName::parse(&name(service, hour, number))?;
                let log = NewLog { name, metadata: metadata.clone(), text: text.clone() };
                self.blobs.put_log(account, &log).await.map(|()| number)
            };
            let written = written.await;
            self.is_failing = false;
            match written {
                Ok(number) => {
                    self.keep_number(account, service, hour, number + 1);
                    return Ok(());
                }
                Err(error)
                    if error.code == ErrorCode::BlobAlreadyExists && taken_numbers < MAX_TAKEN_NUMBERS =>
                {
                    taken_numbers += 1;
                    number = number.map(|number| number + 1);
                }
                Err(error) if attempts_left <= 1 => {
                    self.is_failing = true;
                    return Err(error);
                }
                Err(_) => {
                    attempts_left -= 1;
                    tokio::time::sleep(pause).await;
                    pause *= 2;
                }
            }
        }
    }

    /// The number after the last that is taken, also by a process before this one.
    async fn next_number(&self, account: &str, service: Service, hour: Hour) -> Result<u32, ServiceError> {
        if let Some((number, at)) = self.next_numbers.get(&(account.to_owned(), service, hour))
            && !self.analytics.is_undone(Written::LogLine, account, Service::Blob, *at)
        {
            return Ok(*number);
        }
        let (prefix, mut next, mut from) = (folder(service, hour), 0, None);
        loop {
            let (names, marker) = self.blobs.log_names(account, &prefix, from, LIST_PAGE).await?;
            let numbers =
                names.iter().filter_map(|name| name[prefix.len()..].strip_suffix(".log")?.parse().ok());
            next = numbers.map(|number: u32| number.saturating_add(1)).max().unwrap_or(0).max(next);
            from = marker;
            if from.is_none() {
                return Ok(next);
            }
        }
    }

    fn keep_number(&mut self, account: &str, service: Service, hour: Hour, next: u32) {
        // Requests end late now and then, but not by hours.
        self.next_numbers.retain(|(_, _, other), _| other.0 + 2 > hour.0);
        self.next_numbers.insert((account.to_owned(), service, hour), (next, Instant::now()));
    }
}

/// Where the logs of an hour are: `table/2026/03/10/0800/`.
fn folder(service: Service, hour: Hour) -> String {
    let Calendar { year, month, day, hour, .. } = start(hour).calendar();
    format!("{}/{year:04}/{month:02}/{day:02}/{hour:02}00/", service.name())
}

fn name(service: Service, hour: Hour, number: u32) -> String {
    format!("{}{number:06}.log", folder(service, hour))
}

fn start(hour: Hour) -> Timestamp {
    Timestamp::MIN.saturating_add(Duration::from_secs(hour.0.saturating_mul(3600)))
}

/// The hour that the name of a log says, `None` if it is none.
pub(super) fn hour_of(name: &str) -> Option<Hour> {
    let mut parts = name.split('/').skip(1);
    let mut number = |digits: usize| {
        let text = parts.next().filter(|text| text.len() == digits)?;
        text.parse::<u32>().ok()
    };
    let (year, month, day, hour) = (number(4)?, number(2)?, number(2)?, number(4)?);
    let calendar = Calendar { year, month, day, hour: hour / 100, minute: 0, second: 0, ticks: 0 };
    Timestamp::from_calendar(calendar).map(Hour::of)
}

fn metadata(log: &PendingLog) -> Result<Metadata, ServiceError> {
    let classes = ["read", "write", "delete"].iter().zip(log.classes).filter(|(_, has)| *has);
    let classes: Vec<&str> = classes.map(|(class, _)| *class).collect();
    let pairs = [
        ("LogType", classes.join(",")),
        ("StartTime", whole_seconds(log.first)),
        ("EndTime", whole_seconds(log.last)),
        ("LogVersion", log.version.text().to_owned()),
    ];
    Metadata::new(pairs.map(|(name, value)| (name.to_owned(), value)).into())
}

fn whole_seconds(time: Timestamp) -> String {
    let Calendar { year, month, day, hour, minute, second, .. } = time.calendar();
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

#[cfg(test)]
#[path = "log_writer_fault_tests.rs"]
mod fault_tests;
#[cfg(test)]
#[path = "log_writer_tests.rs"]
mod tests;
