//! Log tail pattern: the newest entries of a partition, without reading the others.
//!
//! A table can return the first entities of a partition but not the last. So the row key begins with the time that is left
//! until the end of the year 9999: the newest entry has the smallest key and comes first. [`Log`] writes such entries and
//! reads them back.
//!
//! Two entries of the same tick of 100 ns would have the same key, so a number follows: `{at:desc}_{seq:04}`. An entry
//! whose key is taken by another gets the next number. One whose answer was lost is looked up by its mark first, so that it is
//! never there twice.
//!
//! Use it for what is read newest first within one partition: the last expense claims of an employee, the last logins of a
//! user. Do not use it for the log of a whole service: all entries of a time then go to one partition, which takes about
//! 2,000 entities a second ([`Log::load`] counts), and reading a span over many partitions is a scan. That is what
//! [`log_blobs`](super::log_blobs) is for.
//!
//! ```
//! use tepui_client::patterns::log_tail::{Log, LogEntry};
//! use tepui_client::{Entity, Timestamp};
//!
//! #[derive(Entity)]
//! #[entity(table = "Expenses")]
//! #[key(partition = "{employee}", row = "{at:desc}_{seq:04}")]
//! struct Claim {
//!     employee: String,
//!     at: Timestamp,
//!     seq: u16,
//!     cents: i64,
//! }
//!
//! impl LogEntry for Claim {
//!     fn at(&self) -> Timestamp {
//!         self.at
//!     }
//!     fn set_seq(&mut self, seq: u16) {
//!         self.seq = seq;
//!     }
//! }
//!
//! # tepui_client_testing::run(async |account| {
//! let claims = account.table_of::<Claim>()?;
//! claims.create_if_missing().await?;
//! let log = Log::new(&claims);
//! let at = Timestamp::parse_iso("2026-03-10T08:15:30Z").ok_or("no such time")?;
//! for cents in [1250, 990] {
//!     log.append(Claim { employee: "emp7".into(), at, seq: 0, cents }).await?; // In one tick: both are kept.
//! }
//! log.append(Claim { employee: "emp7".into(), at: at.next(), seq: 0, cents: 20 }).await?;
//! let newest: Vec<_> = log.tail("emp7", 2).await?.iter().map(|claim| claim.cents).collect();
//! assert_eq!(newest, [20, 1250]);
//! # Ok(()) });
//! ```

mod load;

pub use load::{Busiest, Load};

use super::marked::{Marked, Owner, owner};
use crate::entity::typed::TypedEntity;
use crate::key::{KeyRange, KeyReader, KeyWriter};
use crate::table::{MAX_TRIES, new_token, wait_after_conflict};
use crate::{
    DynamicEntity, ETag, EntityKey, EntityStream, Error, ErrorKind, Guid, Query, Table, Timestamp, Versioned,
};
use std::fmt;
use std::sync::Arc;

const SEQ_DIGITS: usize = 4;
const MAX_SEQ: u16 = 9999;

/// An entry of a [`Log`]: an entity whose row key is `{at:desc}_{seq:04}`, after a literal prefix if it has one.
pub trait LogEntry: TypedEntity + Send + Sync + 'static {
    fn at(&self) -> Timestamp;
    /// Makes it the entry with this number among those of its tick.
    fn set_seq(&mut self, seq: u16);
}

/// Entries of many partitions, the newest of each first. Cheap to clone; clones count together.
pub struct Log<E> {
    table: Table<E>,
    load: Arc<Load>,
}

/// An entry on its way into a log. After [`Unknown`](ErrorKind::Unknown) or an error of the connection it can be committed
/// again: it is not written twice.
#[must_use = "nothing is written before it is committed"]
pub struct PendingEntry<E> {
    log: Log<E>,
    entry: E,
    seq: u16,
    token: Guid,
}

impl<E: LogEntry> Log<E> {
    pub fn new(table: &Table<E>) -> Self {
        Self { table: table.clone(), load: Arc::default() }
    }

    /// How many entries were written to single partitions within a second.
    pub fn load(&self) -> &Load {
        &self.load
    }

    /// Adds an entry, under the first number of its tick that is free. Returns it with that number.
    ///
    /// [`Unknown`](ErrorKind::Unknown): it may be there or not. To be able to go on then, use [`Log::prepare`].
    pub async fn append(&self, entry: E) -> Result<Versioned<E>, Error> {
        let mut pending = self.prepare(entry);
        let etag = pending.commit().await?;
        Ok(Versioned { entity: pending.entry, etag, timestamp: None })
    }

    /// An entry to be added by [`PendingEntry::commit`].
    pub fn prepare(&self, entry: E) -> PendingEntry<E> {
        PendingEntry { log: self.clone(), entry, seq: 0, token: new_token() }
    }

    /// The newest entries of a partition, at most so many.
    pub async fn tail(&self, partition_key: &str, entries: usize) -> Result<Vec<Versioned<E>>, Error> {
        self.query(partition_key, KeyRange::prefix(E::ROW_PREFIX)).take(entries).all().await
    }

    /// The entries of a partition from a time on, the newest first.
    pub fn since(&self, partition_key: &str, from: Timestamp) -> Result<EntityStream<E>, Error> {
        let oldest = prefix_of::<E>(from)?;
        Ok(self.query(partition_key, KeyRange::prefixes(E::ROW_PREFIX, &oldest)).stream())
    }

    fn query(&self, partition_key: &str, rows: KeyRange) -> Query<E> {
        self.table.query().partition(partition_key).rows(rows)
    }

    /// The first number after all that a tick has.
    async fn seq_after_all(&self, partition_key: &str, at: Timestamp) -> Result<u16, Error> {
        let prefix = prefix_of::<E>(at)?;
        let keys = self.table.of::<DynamicEntity>();
        let mut of_tick =
            keys.query().partition(partition_key).row_prefix(&prefix).select_names(["RowKey"]).pages();
        let mut last = None;
        while let Some(page) = of_tick.next_page().await? {
            last = page.entities.last().map(|entity| entity.key.row_key.clone()).or(last);
        }
        let Some(last) = last else { return Ok(0) };
        let mut reader = KeyReader::new(&last);
        reader.literal(&prefix)?;
        let seq = u16::try_from(reader.padded(SEQ_DIGITS)?).unwrap_or(MAX_SEQ);
        Ok(seq + 1)
    }
}

impl<E: LogEntry> PendingEntry<E> {
    pub fn entry(&self) -> &E {
        &self.entry
    }

    /// Writes the entry, unless it is there already.
    pub async fn commit(&mut self) -> Result<ETag, Error> {
        for attempt in 0..MAX_TRIES {
            let key = self.key()?;
            let marked = Marked { entity: &self.entry, token: self.token };
            let error = match self.log.table.of().insert(&marked).await {
                Ok(etag) => {
                    self.log.load.count(&key.partition_key);
                    return Ok(etag);
                }
                Err(error) => error,
            };
            if !matches!(error.kind(), ErrorKind::AlreadyExists | ErrorKind::Unknown) {
                return Err(error);
            }
            // As long as nobody else has the key, the entry may be there or get there: no other key is tried. The lookup does
            // not replace the first error if it fails itself: the outcome stays unknown.
            match owner(&self.log.table, &key, self.token).await.unwrap_or(Owner::Nobody) {
                Owner::Us => {
                    self.log.load.count(&key.partition_key);
                    let stored = self.log.table.of::<DynamicEntity>().get(&key).await?;
                    return stored.map(|stored| stored.etag).ok_or(error);
                }
                Owner::Another => {
                    self.seq = self.log.seq_after_all(&key.partition_key, self.entry.at()).await?;
                    if self.seq > MAX_SEQ {
                        return Err(Error::new(ErrorKind::Contended, "a tick has 10,000 entries already"));
                    }
                }
                Owner::Nobody if attempt + 1 == MAX_TRIES => return Err(error.with_kind(ErrorKind::Unknown)),
                Owner::Nobody => {}
            }
            wait_after_conflict(attempt).await;
        }
        Err(Error::new(ErrorKind::Contended, "others took the number of the entry each time"))
    }

    /// The key with the number that is tried, which the entity has to agree with.
    fn key(&mut self) -> Result<EntityKey, Error> {
        self.entry.set_seq(self.seq);
        let key = self.entry.entity_key()?;
        let expected =
            KeyWriter::new().literal(&prefix_of::<E>(self.entry.at())?).padded(self.seq.into(), SEQ_DIGITS);
        if key.row_key == expected.finish()? {
            return Ok(key);
        }
        let message =
            "the row key of an entry has to be `{at:desc}_{seq:04}`, after a literal prefix if it has one";
        Err(Error::new(ErrorKind::Refused, message))
    }
}

/// What the row keys of a tick begin with.
fn prefix_of<E: LogEntry>(at: Timestamp) -> Result<String, Error> {
    Ok(KeyWriter::new().literal(E::ROW_PREFIX).descending(at).literal("_").finish()?)
}

impl<E> Clone for Log<E> {
    fn clone(&self) -> Self {
        Self { table: self.table.clone(), load: Arc::clone(&self.load) }
    }
}

impl<E> fmt::Debug for Log<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Log").field(&self.table).finish()
    }
}

impl<E> fmt::Debug for PendingEntry<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PendingEntry").field("log", &self.log).field("seq", &self.seq).finish_non_exhaustive()
    }
}
