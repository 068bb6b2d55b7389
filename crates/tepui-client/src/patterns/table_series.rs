//! High volume delete pattern: what is to be deleted together has a table of its own.
//!
//! To delete old entities one by one, they have to be found by a scan first. [`TableSeries`] keeps the entities of each day (or
//! hour, or month) in a table of their own, such as `Logins20260115`, and deletes whole tables: one request, however
//! many entities there are.
//!
//! - A table is deleted when all of its period is older than what is to be kept. The time is that of the machine or that of the
//!   service, whichever is earlier: a clock that runs ahead deletes nothing too early.
//! - A name is not used again: a table whose time is over is not created, whatever the clock of the machine says. Services
//!   need a while to delete a table, and refuse to create one of that name meanwhile.
//! - The next table is created before it is needed ([`TableSeries::create_next`]), so that the first write of a period does not
//!   wait for it.
//!
//! Use it for what ends by its age, such as logins that are kept for 60 days. Do not use it if single entities are looked up
//! without their time: each table would have to be asked. Each new table also begins cold: services spread its partitions
//! only when they see load. To list tables, the account's key or a SAS of the account is needed, not a SAS of a table.
//!
//! ```
//! use tepui_client::patterns::table_series::TableSeries;
//! use tepui_client::DynamicEntity;
//!
//! # tepui_client_testing::run(async |account| {
//! let logins = TableSeries::daily("Logins").keep(60).open::<DynamicEntity>(&account)?;
//! logins.create_next().await?; // Every hour or so, together with:
//! logins.drop_expired().await?;
//!
//! let now = logins.now();
//! logins.table(now).await?.insert(&DynamicEntity::new("user7", "000001")).await?;
//! let mut found = logins.stream(now, now, |query| query.partition("user7")).await?;
//! assert!(found.next_entity().await?.is_some_and(|login| login.key.partition_key == "user7"));
//! assert!(found.next_entity().await?.is_none());
//! # Ok(()) });
//! ```

mod period;
mod stream;

pub use period::Period;
pub use stream::SeriesStream;

use crate::{
    Account, DynamicEntity, Entity, Error, ErrorKind, Query, QueryWithoutPartition, Table, Timestamp,
};
use std::collections::BTreeSet;
use std::fmt;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use tepui_model::table::TableName;
use tepui_model::time::{Clock, SystemClock};

type Now = dyn Fn() -> Timestamp + Send + Sync;

/// Tables of consecutive periods. Cheap to clone.
pub struct TableSeries<E = DynamicEntity> {
    shared: Arc<Shared>,
    entity: PhantomData<fn() -> E>,
}

struct Shared {
    account: Account,
    prefix: String,
    period: Period,
    keep: u32,
    now: Box<Now>,
    /// The latest time that the service was seen to have, in ticks.
    service_now: AtomicU64,
    /// The beginnings of periods whose tables are known to exist.
    known: Mutex<BTreeSet<Timestamp>>,
}

/// What a series is before it is used.
#[must_use]
pub struct TableSeriesBuilder {
    prefix: String,
    period: Period,
    keep: Option<u32>,
    now: Box<Now>,
}

impl TableSeries {
    /// A table for each day: `Logins20260115`.
    pub fn daily(prefix: &str) -> TableSeriesBuilder {
        TableSeriesBuilder::new(prefix, Period::Day)
    }

    /// A table for each hour: `Logins2026011507`.
    pub fn hourly(prefix: &str) -> TableSeriesBuilder {
        TableSeriesBuilder::new(prefix, Period::Hour)
    }

    /// A table for each month: `Logins202601`.
    pub fn monthly(prefix: &str) -> TableSeriesBuilder {
        TableSeriesBuilder::new(prefix, Period::Month)
    }
}

impl TableSeriesBuilder {
    fn new(prefix: &str, period: Period) -> Self {
        let clock = SystemClock::new();
        Self { prefix: prefix.to_owned(), period, keep: None, now: Box::new(move || clock.now()) }
    }

    /// How many periods are kept beside the current one. There is no default: nothing is deleted unless this is said.
    pub fn keep(mut self, periods: u32) -> Self {
        self.keep = Some(periods);
        self
    }

    /// Another clock than that of the machine.
    pub fn clock(mut self, now: impl Fn() -> Timestamp + Send + Sync + 'static) -> Self {
        self.now = Box::new(now);
        self
    }

    /// The series in an account. Nothing is sent yet.
    pub fn open<E: Entity>(self, account: &Account) -> Result<TableSeries<E>, Error> {
        // Otherwise Logins1 for a day could be Logins for an hour.
        if self.prefix.ends_with(|last: char| last.is_ascii_digit()) {
            return Err(Error::new(ErrorKind::KeyInvalid, "the name of a series must not end with a digit"));
        }
        TableName::parse(&self.period.table_name(&self.prefix, Timestamp::UNIX_EPOCH))
            .map_err(|error| Error::from(error).with_kind(ErrorKind::KeyInvalid))?;
        let keep = self.keep.ok_or_else(|| {
            Error::new(ErrorKind::Configuration, "how much of the series is kept has to be said")
        })?;
        let shared = Shared {
            account: account.clone(),
            prefix: self.prefix,
            period: self.period,
            keep,
            now: self.now,
            service_now: AtomicU64::new(0),
            known: Mutex::default(),
        };
        Ok(TableSeries { shared: Arc::new(shared), entity: PhantomData })
    }
}

impl<E: Entity + 'static> TableSeries<E> {
    /// The time by the clock of the series.
    pub fn now(&self) -> Timestamp {
        (self.shared.now)()
    }

    /// The name of the table that has the entities of a time.
    pub fn table_name(&self, at: Timestamp) -> String {
        self.shared.period.table_name(&self.shared.prefix, at)
    }

    /// The table for entities of a time, which is created if it is not there. A time that is no longer kept is
    /// [`Refused`](ErrorKind::Refused), and so is one beyond the next period: the clock that it is from must be wrong.
    pub async fn table(&self, at: Timestamp) -> Result<Table<E>, Error> {
        let shared = &self.shared;
        let start = shared.period.start(at);
        let table = shared.account.table(&self.table_name(at))?.of();
        if self.known(|known| known.contains(&start)) {
            return Ok(table);
        }
        let (_, service_now) = self.tables().await?;
        if is_expired(shared.period, start, service_now, shared.keep) {
            let message = "the time is no longer kept: an entity of it would be deleted at once";
            return Err(Error::new(ErrorKind::Refused, message));
        }
        if start > shared.period.after(shared.period.after(service_now)) {
            let message = format!("the time is too far ahead: the clock of the service says {service_now}");
            return Err(Error::new(ErrorKind::Refused, message));
        }
        table.create_if_missing().await?;
        self.known(|known| known.insert(start));
        Ok(table)
    }

    /// Creates the tables of the current and of the next period. Call it more often than once a period.
    pub async fn create_next(&self) -> Result<(), Error> {
        let now = self.now();
        self.table(now).await?;
        self.table(self.shared.period.after(now)).await.map(drop)
    }

    /// Deletes the tables of which all is older than what is kept, and returns their names. To do it again, or at several
    /// places at a time, is harmless.
    pub async fn drop_expired(&self) -> Result<Vec<String>, Error> {
        let shared = &self.shared;
        let (tables, service_now) = self.tables().await?;
        let now = self.now().min(service_now);
        let mut dropped = Vec::new();
        for (start, name) in tables {
            if !is_expired(shared.period, start, now, shared.keep) {
                continue;
            }
            self.known(|known| known.remove(&start));
            match shared.account.table(&name)?.delete_table().await {
                Ok(()) => dropped.push(name),
                // Somebody else was faster, or it is being deleted.
                Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::Conflict) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(dropped)
    }

    /// The entities of a span of time, table by table, the oldest first. `narrow` says what is wanted of each table. The tables
    /// are asked several at a time.
    pub async fn stream<Q: Into<Query<E>>>(
        &self,
        from: Timestamp,
        to: Timestamp,
        narrow: impl Fn(QueryWithoutPartition<E>) -> Q,
    ) -> Result<SeriesStream<E>, Error> {
        let first = self.shared.period.start(from);
        let (tables, _) = self.tables().await?;
        let of_span = tables.into_iter().filter(|(start, _)| (first..=to).contains(start));
        let query =
            |(_, name): (_, String)| Ok(narrow(self.shared.account.table(&name)?.of().query()).into());
        Ok(SeriesStream::new(of_span.map(query).collect::<Result<_, Error>>()?))
    }

    /// The tables that there are, the oldest first, and the time of the service.
    async fn tables(&self) -> Result<(Vec<(Timestamp, String)>, Timestamp), Error> {
        let shared = &self.shared;
        let (names, date) = shared.account.table_names_and_date(&shared.prefix).await?;
        let date = date.ok_or_else(|| Error::decode("the service does not say what time it is"))?;
        // Time does not go back: what was deleted once stays over.
        let before = shared.service_now.fetch_max(date.ticks(), Ordering::Relaxed);
        let service_now = Timestamp::from_ticks(before).map_or(date, |before| before.max(date));
        let parsed =
            names.into_iter().filter_map(|name| Some((shared.period.parse(&shared.prefix, &name)?, name)));
        let mut tables: Vec<_> = parsed.collect();
        tables.sort();
        Ok((tables, service_now))
    }

    fn known<T>(&self, use_them: impl FnOnce(&mut BTreeSet<Timestamp>) -> T) -> T {
        use_them(&mut self.shared.known.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Whether all of the period that begins then is older than so many whole periods.
fn is_expired(period: Period, start: Timestamp, now: Timestamp, keep: u32) -> bool {
    // The current period and so many before it are kept: the youngest entity of the one before those is older than all of them.
    start < period.before(now, keep)
}

impl<E> Clone for TableSeries<E> {
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared), entity: PhantomData }
    }
}

impl<E> fmt::Debug for TableSeries<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Shared { prefix, period, keep, .. } = &*self.shared;
        f.debug_struct("TableSeries")
            .field("prefix", prefix)
            .field("period", period)
            .field("keep", keep)
            .finish()
    }
}

impl fmt::Debug for TableSeriesBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TableSeriesBuilder")
            .field("prefix", &self.prefix)
            .field("period", &self.period)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    const HOUR: Duration = Duration::from_secs(3600);

    /// The shortest time that so many periods take.
    fn shortest(period: Period, periods: u32) -> Duration {
        match period {
            Period::Hour => HOUR * periods,
            Period::Day => 24 * HOUR * periods,
            // Whole months, whichever they are: checked by the calendar below instead.
            Period::Month => 28 * 24 * HOUR * periods,
        }
    }

    #[test]
    fn nothing_younger_than_what_is_kept_is_ever_deleted() {
        let mut random = fastrand::Rng::with_seed(7);
        for _ in 0..200_000 {
            let period = [Period::Hour, Period::Day, Period::Month][random.usize(0..3)];
            let keep = random.u32(0..100);
            let truth =
                Timestamp::UNIX_EPOCH.saturating_add(Duration::from_secs(random.u64(86_400..6_000_000_000)));
            // The machine's clock may be anywhere; that of the service is right.
            let jump = Duration::from_secs(random.u64(0..2_000_000_000));
            let machine = [truth, truth.saturating_add(jump), truth.saturating_sub(jump)][random.usize(0..3)];
            let now = machine.min(truth);
            // An entity of some time, near the bound most of the time.
            let around = shortest(period, keep) + HOUR * random.u32(0..800);
            let written = truth.saturating_sub(around.mul_f64(random.f64() * 1.2));
            if is_expired(period, period.start(written), now, keep) {
                assert!(
                    truth.since(written) > shortest(period, keep),
                    "{period:?} {keep} {written} at {truth}"
                );
            }
        }
    }

    #[test]
    fn what_is_older_is_deleted_at_last() {
        for (period, at, now, keep, expected) in [
            (Period::Day, "2026-01-14T23:59:59Z", "2026-03-16T00:00:00Z", 60, true),
            (Period::Day, "2026-01-15T00:00:00Z", "2026-03-16T23:59:59Z", 60, false),
            (Period::Day, "2026-03-15T23:59:59Z", "2026-03-16T00:00:00Z", 0, true),
            (Period::Day, "2026-03-16T00:00:00Z", "2026-03-16T00:00:00Z", 0, false),
            (Period::Hour, "2026-03-15T22:59:59Z", "2026-03-16T00:30:00Z", 1, true),
            (Period::Hour, "2026-03-15T23:00:00Z", "2026-03-16T00:30:00Z", 1, false),
            (Period::Month, "2025-12-31T23:59:59Z", "2026-03-01T00:00:00Z", 2, true),
            (Period::Month, "2026-01-01T00:00:00Z", "2026-03-31T23:00:00Z", 2, false),
            (Period::Month, "2026-01-01T00:00:00Z", "0001-01-31T23:00:00Z", 2, false),
        ] {
            let [at, now] = [at, now].map(|text| Timestamp::parse_iso(text).unwrap());
            assert_eq!(is_expired(period, period.start(at), now, keep), expected, "{at} at {now}");
        }
    }
}
