//! What follows entities, and the copies that do.

use super::message::Place;
use super::rows::{DELETED, FORMER, PRIMARY_PARTITION, PRIMARY_ROW, Row, VERSION, tombstone_key};
use super::rows::{MOVING_TO, entity_of};
use crate::entity::Properties;
use crate::patterns::copies::{Copies, CopyRow};
use crate::{Entity, EntityKey, Error, ErrorKind, Match, Table, Value, Versioned};
use serde_json::{Value as Json, json};
use std::pin::Pin;

/// What an async function of a trait object returns.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// What follows the entities of an [`Outbox`](super::Outbox): copies, lists, views.
pub trait Follower<E>: Send + Sync {
    /// Tells the followers of one outbox apart. It is in messages: while there are any, it must stay the same.
    fn name(&self) -> &str;

    /// Where the entity has to be followed.
    fn places(&self, entity: &E) -> Result<Vec<Place>, Error>;

    /// Rows in the partition of the entity, which are written in its own transaction.
    fn rows_beside(&self, entity: &E) -> Result<Vec<CopyRow>, Error> {
        let _ = entity;
        Ok(Vec::new())
    }

    /// Makes a place what the entity says. It may be called again for the same, and late: what follows from a later version of the
    /// entity must stay.
    fn follow<'a>(&'a self, place: &'a Place, seen: &'a Seen<E>) -> BoxFuture<'a, Result<Followed, Error>>;
}

/// An entity as it was read.
#[derive(Debug, Clone, PartialEq)]
pub struct Seen<E> {
    pub key: EntityKey,
    /// Rises with each change of the entity.
    pub version: i64,
    /// `None`: it was deleted.
    pub entity: Option<E>,
}

/// What became of a place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Followed {
    /// It is what the entity says.
    Done,
    /// Somebody else has changed it meanwhile: everything has to be read again.
    Changed,
    /// It follows from a later version of the entity.
    Later,
}

impl Followed {
    /// The outcome of a write that depends on what was read.
    pub(crate) fn of_write<T>(outcome: Result<T, Error>) -> Result<Self, Error> {
        match outcome {
            Ok(_) => Ok(Self::Done),
            // A write whose answer was lost is found, or not, when it is read again. So is one that met a conflict.
            Err(error) if is_changed(&error) => Ok(Self::Changed),
            Err(error) => Err(error),
        }
    }
}

/// Whether a conditional write tells to read again.
pub(crate) fn is_changed(error: &Error) -> bool {
    match error.kind() {
        ErrorKind::Conflict | ErrorKind::AlreadyExists | ErrorKind::Unknown => true,
        ErrorKind::NotFound => error.code() != Some("TableNotFound"),
        _ => false,
    }
}

/// The name of what follows by [`Copies`].
pub(crate) const COPIES: &str = "copies";

/// The rows that [`Copies`] says, elsewhere than in the partition of the entity.
pub(crate) struct FollowingCopies<E> {
    table: Table<E>,
}

impl<E: Copies> FollowingCopies<E> {
    pub(crate) fn new(table: Table<E>) -> Self {
        Self { table }
    }

    /// Those in the partition of the entity, and those elsewhere.
    fn split(&self, entity: &E) -> Result<(Vec<CopyRow>, Vec<CopyRow>), Error> {
        let own = entity.entity_key()?;
        let is_beside = |copy: &CopyRow| {
            copy.key.partition_key == own.partition_key
                && copy.table.as_deref().is_none_or(|table| table.eq_ignore_ascii_case(self.table.name()))
        };
        Ok(entity.copies()?.into_iter().partition(is_beside))
    }

    fn table_of(&self, place: &Place) -> Result<Table<Row>, Error> {
        match &place.table {
            Some(name) => Ok(self.table.beside(name)?.of()),
            None => Ok(self.table.of()),
        }
    }

    /// The copy at a place that the entity wants.
    fn wanted(&self, entity: Option<&E>, place: &Place) -> Result<Option<Properties>, Error> {
        let Some(entity) = entity else { return Ok(None) };
        let (_, elsewhere) = self.split(entity)?;
        let here = |copy: &CopyRow| copy.key == place.key && copy.table == place.table;
        Ok(elsewhere.into_iter().find(here).map(|copy| copy.properties))
    }

    async fn bring(&self, place: &Place, seen: &Seen<E>) -> Result<Followed, Error> {
        let table = self.table_of(place)?;
        let wanted = |entity: Option<&E>| self.wanted(entity, place);
        let stored = table.get(&place.key).await?;
        match next_copy(&self.table, &place.key, stored.as_ref(), seen, &wanted).await? {
            Next::Keep => Ok(Followed::Done),
            Next::Later => Ok(Followed::Later),
            Next::Write(row) => Followed::of_write(write(&table, &row, stored.as_ref()).await),
        }
    }
}

/// What is to be done about a copy.
pub(crate) enum Next {
    Keep,
    Later,
    Write(Row),
}

/// What an entity wants a copy to be; `None`: it does not want it.
pub(crate) type Wanted<'a, E> = dyn Fn(Option<&E>) -> Result<Option<Properties>, Error> + Sync + 'a;

/// What the copy with this key, of which `stored` was read, becomes for an entity of `primaries`.
pub(crate) async fn next_copy<E: Entity>(
    primaries: &Table<E>,
    key: &EntityKey,
    stored: Option<&Versioned<Row>>,
    seen: &Seen<E>,
    wanted_by: &Wanted<'_, E>,
) -> Result<Next, Error> {
    let wanted = wanted_by(seen.entity.as_ref())?;
    let mut current = stored.map(|row| Holder::of(row)).transpose()?;
    if let Some(holder) = &mut current
        && holder.primary != seen.key
        && !holder.is_tombstone
        && wanted.is_some()
    {
        match version_if_released(&primaries.of(), holder, wanted_by).await? {
            Some(version) => (holder.version, holder.is_tombstone) = (version, true),
            None => return Err(taken_twice(key, &holder.primary, &seen.key)),
        }
    }
    let next = match decide(current.as_ref(), &seen.key, seen.version, wanted.is_some()) {
        Decision::Keep => return Ok(Next::Keep),
        Decision::Later => return Ok(Next::Later),
        Decision::Write(next) => next,
    };
    // If it is still somebody else's, only the note of our version is new.
    let properties = match (wanted, stored) {
        (Some(wanted), _) if next.primary == seen.key => wanted,
        (_, Some(stored)) if next.primary != seen.key => stored.properties.clone(),
        _ => Properties::default(),
    };
    Ok(Next::Write(next.to_row(key.clone(), &properties)?))
}

/// What another entity, whose copy it is, says to that now: `None` if it wants it to be there, or else its version.
async fn version_if_released<E: Entity>(
    primaries: &Table<Row>,
    holder: &Holder,
    wanted_by: &Wanted<'_, E>,
) -> Result<Option<i64>, Error> {
    if let Some(row) = primaries.get(&holder.primary).await? {
        let is_leaving = row.text(MOVING_TO).is_some();
        if !is_leaving && wanted_by(Some(&entity_of(&row)?))?.is_some() {
            return Ok(None);
        }
        return Ok(Some(row.version().unwrap_or(holder.version).max(holder.version)));
    }
    let tombstone = primaries.get(&tombstone_key(&holder.primary)).await?;
    let version = tombstone.and_then(|row| row.version());
    Ok(Some(version.unwrap_or(holder.version).max(holder.version)))
}

/// Over what was read, and nothing else.
pub(crate) async fn write(
    table: &Table<Row>,
    row: &Row,
    over: Option<&Versioned<Row>>,
) -> Result<crate::ETag, Error> {
    match over {
        Some(stored) => table.replace(row, Match::ETag(stored.etag.clone())).await,
        None => table.insert(row).await,
    }
}

fn taken_twice(copy: &EntityKey, holder: &EntityKey, other: &EntityKey) -> Error {
    let text = |key: &EntityKey| format!("{:?} {:?}", key.partition_key, key.row_key);
    let (copy, holder, other) = (text(copy), text(holder), text(other));
    let message = format!("two entities want the same copy {copy}: {holder} has it, {other} wants it");
    Error::new(ErrorKind::Conflict, message)
}

/// Whose a copy is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Holder {
    pub(crate) primary: EntityKey,
    pub(crate) version: i64,
    pub(crate) is_tombstone: bool,
    /// Other entities that had it, or did not want it, with the version of which that was known. The oldest first.
    pub(crate) former: Vec<(EntityKey, i64)>,
}

/// Beyond this the oldest are forgotten. A worker would have to be later than as many changes of hands.
const MAX_FORMER: usize = 100;

impl Holder {
    pub(crate) fn of(row: &Row) -> Result<Self, Error> {
        let (Some(primary), Some(version)) = (row.primary(), row.version()) else {
            let message = format!("a row that is no copy is where one should be: {:?}", row.key);
            return Err(Error::new(ErrorKind::Conflict, message));
        };
        let former = row.text(FORMER).and_then(former_from).unwrap_or_default();
        Ok(Self { primary, version, is_tombstone: row.is_tombstone(), former })
    }

    fn to_row(&self, key: EntityKey, properties: &Properties) -> Result<Row, Error> {
        let mut own: Vec<(&str, Value)> = vec![
            (VERSION, self.version.into()),
            (PRIMARY_PARTITION, self.primary.partition_key.as_str().into()),
            (PRIMARY_ROW, self.primary.row_key.as_str().into()),
        ];
        if self.is_tombstone {
            own.push((DELETED, true.into()));
        }
        if !self.former.is_empty() {
            own.push((FORMER, former_text(&self.former).into()));
        }
        Row::new(key, properties, &own)
    }

    /// The version of an entity for which it is known what it says to this place.
    fn version_of(&self, primary: &EntityKey) -> Option<i64> {
        if self.primary == *primary {
            return Some(self.version);
        }
        self.former.iter().find(|(key, _)| key == primary).map(|(_, version)| *version)
    }

    fn note(&mut self, primary: EntityKey, version: i64) {
        self.former.retain(|(key, _)| *key != primary);
        self.former.push((primary, version));
        let surplus = self.former.len().saturating_sub(MAX_FORMER);
        self.former.drain(..surplus);
    }
}

fn former_text(former: &[(EntityKey, i64)]) -> String {
    let one = |(key, version): &(EntityKey, i64)| json!([key.partition_key, key.row_key, version]);
    Json::Array(former.iter().map(one).collect()).to_string()
}

fn former_from(text: &str) -> Option<Vec<(EntityKey, i64)>> {
    let one =
        |entry: &Json| Some((EntityKey::new(entry[0].as_str()?, entry[1].as_str()?), entry[2].as_i64()?));
    serde_json::from_str::<Json>(text).ok()?.as_array()?.iter().map(one).collect()
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Decision {
    Keep,
    Later,
    Write(Holder),
}

/// What a place becomes for one version of an entity. This is `write_copy` of the model in `tests/models/`, with one thing more: a
/// place can pass from one entity to another, so what is known of each is kept.
fn decide(current: Option<&Holder>, primary: &EntityKey, version: i64, is_wanted: bool) -> Decision {
    let ours = Holder { primary: primary.clone(), version, is_tombstone: !is_wanted, former: Vec::new() };
    let Some(current) = current else { return Decision::Write(ours) };
    let known = current.version_of(primary);
    if known.is_some_and(|known| known > version) {
        return Decision::Later;
    }
    if current.primary == *primary {
        let is_same = known == Some(version) && current.is_tombstone != is_wanted;
        return if is_same {
            Decision::Keep
        } else {
            Decision::Write(Holder { former: current.former.clone(), ..ours })
        };
    }
    if is_wanted {
        // The other has left it.
        let mut next = Holder { former: current.former.clone(), ..ours };
        next.former.retain(|(key, _)| key != primary);
        next.note(current.primary.clone(), current.version);
        return Decision::Write(next);
    }
    if known == Some(version) {
        return Decision::Keep;
    }
    // It stays what it is, and a late worker of ours finds that it is too late.
    let mut next = current.clone();
    next.note(primary.clone(), version);
    Decision::Write(next)
}

impl<E: Copies + Sync + 'static> Follower<E> for FollowingCopies<E> {
    fn name(&self) -> &str {
        COPIES
    }

    fn places(&self, entity: &E) -> Result<Vec<Place>, Error> {
        let (_, elsewhere) = self.split(entity)?;
        Ok(elsewhere.into_iter().map(|copy| Place { table: copy.table, key: copy.key }).collect())
    }

    fn rows_beside(&self, entity: &E) -> Result<Vec<CopyRow>, Error> {
        Ok(self.split(entity)?.0)
    }

    fn follow<'a>(&'a self, place: &'a Place, seen: &'a Seen<E>) -> BoxFuture<'a, Result<Followed, Error>> {
        Box::pin(self.bring(place, seen))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_follow_only_older_versions() {
        let (a, b) = (EntityKey::new("p", "a"), EntityKey::new("p", "b"));
        let holder = |primary: &EntityKey, version, is_tombstone, former: &[(&EntityKey, i64)]| Holder {
            primary: primary.clone(),
            version,
            is_tombstone,
            former: former.iter().map(|(key, version)| ((*key).clone(), *version)).collect(),
        };
        let write = Decision::Write;
        for (case, current, version, is_wanted, expected) in [
            ("nothing, wanted", None, 1, true, write(holder(&a, 1, false, &[]))),
            ("nothing, not wanted", None, 1, false, write(holder(&a, 1, true, &[]))),
            ("older", Some(holder(&a, 1, false, &[])), 2, false, write(holder(&a, 2, true, &[]))),
            ("older tombstone", Some(holder(&a, 1, true, &[])), 2, true, write(holder(&a, 2, false, &[]))),
            ("same", Some(holder(&a, 2, false, &[])), 2, true, Decision::Keep),
            ("same tombstone", Some(holder(&a, 2, true, &[])), 2, false, Decision::Keep),
            ("later", Some(holder(&a, 3, true, &[])), 2, true, Decision::Later),
            (
                "another's tombstone",
                Some(holder(&b, 9, true, &[])),
                2,
                true,
                write(holder(&a, 2, false, &[(&b, 9)])),
            ),
            (
                "another's, and ours before",
                Some(holder(&b, 9, true, &[(&a, 1)])),
                2,
                true,
                write(holder(&a, 2, false, &[(&b, 9)])),
            ),
            ("another's, and ours later", Some(holder(&b, 9, true, &[(&a, 3)])), 2, true, Decision::Later),
            (
                "another's, not wanted",
                Some(holder(&b, 9, false, &[])),
                2,
                false,
                write(holder(&b, 9, false, &[(&a, 2)])),
            ),
            ("another's, known", Some(holder(&b, 9, false, &[(&a, 2)])), 2, false, Decision::Keep),
        ] {
            assert_eq!(decide(current.as_ref(), &a, version, is_wanted), expected, "{case}");
        }
    }

    #[test]
    fn rows_of_copies_are_read_as_they_were_written() {
        let former = vec![(EntityKey::new("\"x", "é"), 7)];
        let holder = Holder { primary: EntityKey::new("p", "a"), version: 3, is_tombstone: true, former };
        let row = holder.to_row(EntityKey::new("k", "k"), &Properties::default()).unwrap();
        assert_eq!(Holder::of(&row).unwrap(), holder);
    }
}
