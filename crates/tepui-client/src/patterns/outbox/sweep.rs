//! What the protocol leaves behind is swept when nobody can be so late any more.

use super::Outbox;
use super::rows::{ABORTED, DELETED, FORMER, Row, STATE};
use crate::filter::{all, any, property};
use crate::{Entity, Error, ErrorKind, Filter, Table};
use std::time::Duration;

/// A worker or an author may be late by as much: requests are signed, and signatures are good for a quarter of an hour.
const SHORTEST_AGE: Duration = Duration::from_secs(60 * 60);

/// How many rows were swept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Swept {
    /// Markers of changes that were never committed, or were done twice.
    pub markers: usize,
    /// Tombstones, of entities and of copies.
    pub tombstones: usize,
    /// Copies that knew of former holders.
    pub former: usize,
}

impl<E: Entity + Sync + 'static> Outbox<E> {
    /// Deletes markers of aborted changes and tombstones that are older than this, in the table of the entities: a week is a good
    /// age, an hour the least. The age is that of the service's clock.
    ///
    /// It reads the whole table, so it is for quiet times. Rows that somebody changes meanwhile are left. Messages that are
    /// older still find their way: an entity that has no tombstone any more gets a new one.
    pub async fn sweep(&self, older_than: Duration) -> Result<Swept, Error> {
        sweep(&self.rows, older_than).await
    }

    /// The same for another table that copies are in.
    pub async fn sweep_copies(&self, table: &str, older_than: Duration) -> Result<Swept, Error> {
        sweep(&self.rows.beside(table)?, older_than).await
    }
}

async fn sweep(table: &Table<Row>, older_than: Duration) -> Result<Swept, Error> {
    if older_than < SHORTEST_AGE {
        let message = "what is younger than an hour may still be needed by somebody who is late";
        return Err(Error::new(ErrorKind::Refused, message));
    }
    let before = table.service_time().await?.saturating_sub(older_than);
    let is_old: Filter = property("Timestamp").lt(before);
    let is_left_behind =
        any([property(DELETED).eq(true), property(STATE).eq(ABORTED), property(FORMER).gt("")]);
    let mut rows = table.query().scan().filter(all([is_old, is_left_behind])).stream();
    let mut swept = Swept::default();
    while let Some(row) = rows.next_entity().await? {
        let is_marker = row.text(STATE).is_some();
        let is_tombstone = row.is_tombstone();
        let outcome = if is_marker || is_tombstone {
            table.delete(&row.key, &row).await
        } else {
            let mut properties = crate::entity::PropertiesBuilder::new();
            for (name, value) in row.properties.iter().filter(|(name, _)| *name != FORMER) {
                properties.push(name, value)?;
            }
            let next = Row { key: row.key.clone(), properties: properties.finish() };
            table.replace(&next, &row).await.map(drop)
        };
        match outcome {
            Ok(()) if is_marker => swept.markers += 1,
            Ok(()) if is_tombstone => swept.tombstones += 1,
            Ok(()) => swept.former += 1,
            Err(error) if super::follow::is_changed(&error) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(swept)
}
