//! Log data in blobs: what is written all the time and read by spans of time.
//!
//! Entities are no place for the log of a service. With the time as the partition key, one partition takes all writes; with
//! another one, a span of time is a scan of the whole table. [`LogBlobs`] writes lines to append blobs instead, one or more for
//! each hour: `service/2026/03/10/08/0.log`. A span of time is a list of names, and reading it is reading whole blobs.
//!
//! Lines are collected and written together, when there are enough of them, or enough bytes, or when the first of them has
//! waited long enough. **If the program ends, those that are not written yet are lost**: at most [`LogLimits::lines`], at
//! most [`LogLimits::bytes`], and none that is older than [`LogLimits::age`] while the service can be reached.
//! [`flush`](LogBlobs::flush) writes what there is.
//!
//! Each writer has blobs of its own, and says at which position it appends. An append that is repeated after a lost answer
//! then fails instead of writing the lines twice. An append blob takes 50,000 appends; after those, and for each hour, the
//! writer begins a new one.
//!
//! Use it for logs, traces and other events that are read in bulk. Do not use it for what is looked up one by one: for
//! the newest events of one user, see [`log_tail`](super::log_tail).
//!
//! ```
//! use tepui_client::patterns::log_blobs::{LogBlobs, LogLimits};
//!
//! # tepui_client_testing::run(async |account| {
//! let container = account.container("logs")?;
//! container.create_if_missing().await?;
//! let log = LogBlobs::new(&container, "orders", LogLimits { lines: 100, ..LogLimits::default() })?;
//! log.write("1001 accepted").await?;
//! log.write("1002 refused").await?;
//! log.flush().await?;
//!
//! let now = log.now();
//! let mut lines = log.read(now, now).await?;
//! let mut refused = Vec::new();
//! while let Some(line) = lines.next_line().await? {
//!     refused.extend(line.strip_suffix(" refused").map(str::to_owned));
//! }
//! assert_eq!(refused, ["1002"]);
//! # Ok(()) });
//! ```

mod lines;
mod names;
mod writer;

pub use lines::LogLines;

use crate::{Container, Error, ErrorKind, ListedBlob, Timestamp};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use tepui_model::blob::BlobName;
use tepui_model::time::{Clock, SystemClock};
use tokio::sync::Mutex;
use writer::Writer;

/// What one append takes, everywhere.
const MAX_APPEND_BYTES: usize = 4 << 20;
/// What an append blob takes.
const MAX_BLOCKS: u32 = 50_000;

/// How many lines wait at most before they are written: what may be lost when the program ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogLimits {
    pub lines: usize,
    /// At most 4 MiB, which is what one append takes.
    pub bytes: usize,
    /// How long the first of them waits.
    pub age: Duration,
    /// How many appends a blob takes before the next is begun: at most 50,000.
    pub blocks: u32,
}

impl Default for LogLimits {
    /// 1,000 lines, 256 KiB, 5 seconds.
    fn default() -> Self {
        Self { lines: 1_000, bytes: 256 << 10, age: Duration::from_secs(5), blocks: MAX_BLOCKS }
    }
}

/// The log of a service, in append blobs. Clones write to the same blobs.
#[derive(Clone)]
pub struct LogBlobs {
    container: Container,
    service: Arc<str>,
    limits: LogLimits,
    now: Arc<dyn Fn() -> Timestamp + Send + Sync>,
    writer: Arc<Mutex<Writer>>,
}

impl LogBlobs {
    /// The log of a service in a container that exists. The name may have slashes, and is the beginning of all names.
    pub fn new(container: &Container, service: &str, limits: LogLimits) -> Result<Self, Error> {
        let fits = limits.lines > 0
            && (1..=MAX_APPEND_BYTES).contains(&limits.bytes)
            && (1..=MAX_BLOCKS).contains(&limits.blocks);
        if !fits {
            let message = "a log needs at least one line, 1 byte to 4 MiB, and 1 to 50,000 appends";
            return Err(Error::new(ErrorKind::Configuration, message));
        }
        BlobName::parse(&names::hour_prefix(service, Timestamp::MAX))
            .map_err(|error| Error::from(error).with_kind(ErrorKind::KeyInvalid))?;
        let clock = SystemClock::new();
        Ok(Self {
            container: container.clone(),
            service: service.into(),
            limits,
            now: Arc::new(move || clock.now()),
            writer: Arc::default(),
        })
    }

    /// Another clock than that of the machine.
    #[must_use]
    pub fn clock(mut self, now: impl Fn() -> Timestamp + Send + Sync + 'static) -> Self {
        self.now = Arc::new(now);
        self
    }

    /// The time by the clock of the log.
    pub fn now(&self) -> Timestamp {
        (self.now)()
    }

    /// Adds a line to those that wait, and writes them if there are enough. A line has no line's end in it.
    ///
    /// After an error, the line is not among those that wait; all others still are, and are written with the next.
    pub async fn write(&self, line: &str) -> Result<(), Error> {
        if line.contains(['\n', '\r']) {
            return Err(Error::new(ErrorKind::Refused, "a line of a log has no line's end in it"));
        }
        if line.len() >= self.limits.bytes {
            return Err(Error::new(ErrorKind::TooLarge, "the line is longer than what is written together"));
        }
        let hour = names::hour_prefix(&self.service, self.now());
        let mut writer = self.writer.lock().await;
        if !writer.fits(line, &hour, &self.limits) {
            writer.flush(&self.container, &self.limits).await?;
        }
        writer.add(line, hour);
        if writer.is_full(&self.limits) {
            // What cannot be written now waits, and its error is that of the next line.
            let _ = writer.flush(&self.container, &self.limits).await;
        }
        if writer.waiting() > 0 && !writer.has_timer {
            writer.has_timer = true;
            self.flush_later();
        }
        Ok(())
    }

    /// Writes what waits.
    pub async fn flush(&self) -> Result<(), Error> {
        self.writer.lock().await.flush(&self.container, &self.limits).await
    }

    /// How many lines wait.
    pub async fn waiting(&self) -> usize {
        self.writer.lock().await.waiting()
    }

    /// Writes what waits when the first line of it is old enough. Ends with the last clone of the log, so flush before that.
    fn flush_later(&self) {
        let (writer, container, limits) = (Arc::downgrade(&self.writer), self.container.clone(), self.limits);
        tokio::spawn(async move {
            loop {
                tokio::time::sleep(limits.age).await;
                let Some(writer) = writer.upgrade() else { return };
                let mut writer = writer.lock().await;
                // What cannot be written is tried again after as much time.
                if writer.flush(&container, &limits).await.is_ok() {
                    writer.has_timer = false;
                    return;
                }
            }
        });
    }

    /// The blobs with the lines of a span of time, in the order of their hours.
    pub async fn blobs(&self, from: Timestamp, to: Timestamp) -> Result<Vec<ListedBlob>, Error> {
        let mut all = Vec::new();
        for prefix in names::prefixes(&self.service, from, to) {
            all.extend(self.container.list(&prefix).await?);
        }
        let hours = names::hour_prefix(&self.service, from)..=names::hour_prefix(&self.service, to);
        all.retain(|blob| {
            names::parse(&self.service, &blob.name).is_some_and(|(hour, _)| hours.contains(&hour))
        });
        all.sort_by_key(|blob| names::parse(&self.service, &blob.name));
        Ok(all)
    }

    /// The lines of the hours that a span of time touches. Those of one writer are in their order; those of several writers come
    /// one writer after the other.
    pub async fn read(&self, from: Timestamp, to: Timestamp) -> Result<LogLines, Error> {
        Ok(LogLines::new(self.container.clone(), self.blobs(from, to).await?))
    }
}

impl fmt::Debug for LogBlobs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LogBlobs")
            .field("container", &self.container)
            .field("service", &self.service)
            .finish_non_exhaustive()
    }
}
