//! The author's side: a message, then the change together with its marker, in one transaction.

use super::follow::is_changed;
use super::message::{Place, Task};
use super::rows::{
    COMMITTED, MOVE, MOVING_TO, Row, STATE, VERSION, entity_of, marker, marker_key, tombstone, tombstone_key,
    with_own,
};
use super::{Committed, Outbox};
use crate::entity::Properties;
use crate::patterns::copies::CopyRow;
use crate::table::check_key;
use crate::{
    ETag, Entity, EntityKey, Error, ErrorKind, Match, Message, PutMessage, Transaction, Value, Versioned,
};
use std::time::Duration;
use tokio::time::{Instant, sleep};

pub(super) const MAX_TRIES: u32 = 8;
const FIRST_WAIT: Duration = Duration::from_millis(10);

/// What is stored of an entity.
pub(super) struct Primary {
    pub(super) row: Option<Versioned<Row>>,
    /// Only looked for if there is no entity.
    pub(super) tombstone: Option<Versioned<Row>>,
}

impl Primary {
    pub(super) fn version(&self) -> Option<i64> {
        self.row.as_ref().or(self.tombstone.as_ref()).and_then(|row| row.version())
    }

    /// Refuses what is on its way to somewhere else.
    pub(super) fn check_is_staying(&self) -> Result<(), Error> {
        match self.row.as_ref().and_then(|row| row.text(MOVING_TO)) {
            Some(_) => Err(Error::new(ErrorKind::Conflict, "the entity that is there is itself on its way")),
            None => Ok(()),
        }
    }

    /// The entity, if it is there and as the condition wants it.
    pub(super) fn matching(&self, condition: &Match) -> Result<&Versioned<Row>, Error> {
        let row =
            self.row.as_ref().ok_or_else(|| Error::new(ErrorKind::NotFound, "there is no such entity"))?;
        match condition {
            Match::ETag(etag) if *etag != row.etag => {
                Err(Error::new(ErrorKind::Conflict, "the entity was changed by somebody else"))
            }
            _ => Ok(row),
        }
    }
}

/// What an entity is to become.
pub(super) struct After {
    pub(super) properties: Properties,
    /// Where it moves from here, and the id of that move.
    pub(super) moving_to: Option<(String, String)>,
    /// The move that brought it here.
    pub(super) moved: Option<String>,
}

impl After {
    pub(super) fn new(properties: Properties) -> Self {
        Self { properties, moving_to: None, moved: None }
    }
}

/// How an attempt ended, other than by an error to report.
enum Attempt {
    Committed(Committed),
    /// Nothing was changed, because somebody else was faster.
    Again,
}

/// Which change of a transaction is refused matters: these are about the entity itself.
struct Prepared {
    transaction: Transaction,
    /// How many changes, from the first, are about the entity and its marker.
    own_changes: usize,
}

impl<E: Entity + Sync + 'static> Outbox<E> {
    pub(super) async fn read_primary(&self, key: &EntityKey) -> Result<Primary, Error> {
        let row = self.rows.get(key).await?;
        let tombstone = match &row {
            Some(_) => None,
            None => self.rows.get(&tombstone_key(key)).await?,
        };
        Ok(Primary { row, tombstone })
    }

    /// Reads an entity, lets `decide` say what it becomes (`None`: it is deleted), and commits that; again if somebody else
    /// was faster.
    pub(super) async fn change(
        &self,
        key: &EntityKey,
        mut decide: impl FnMut(&Primary) -> Result<Option<After>, Error> + Send,
    ) -> Result<Committed, Error> {
        for attempt in 0..MAX_TRIES {
            let before = self.read_primary(key).await?;
            if let Some(row) = &before.row
                && row.text(MOVING_TO).is_some()
            {
                // It is on its way to somewhere else, which comes first.
                Box::pin(self.carry_out_move(row)).await?;
                continue;
            }
            let after = decide(&before)?;
            match self.commit(key, &before, after.as_ref()).await? {
                Attempt::Committed(committed) => return Ok(committed),
                Attempt::Again => pause(attempt).await,
            }
        }
        Err(Error::new(ErrorKind::Contended, "the entity was changed by others each time"))
    }

    async fn commit(
        &self,
        key: &EntityKey,
        before: &Primary,
        after: Option<&After>,
    ) -> Result<Attempt, Error> {
        let old = before.row.as_ref().map(entity_of::<E>).transpose()?;
        let new = match after {
            Some(after) => {
                let row = Row { key: key.clone(), properties: after.properties.clone() };
                Some(entity_of::<E>(&Versioned { entity: row, etag: ETag::new(""), timestamp: None })?)
            }
            None => None,
        };
        let places = self.places(old.as_ref(), new.as_ref())?;
        let task = Task::new(&self.name, key.clone(), places);
        let started = Instant::now();
        let is_moving = after.is_some_and(|after| after.moving_to.is_some());
        let message = if task.places.is_empty() && !is_moving {
            None
        } else {
            let message = PutMessage::new(task.to_text()?).visible_after(self.hidden).never_expires();
            Some(self.queue.put(message).await.map_err(not_begun)?)
        };
        let version = match (before.version(), &message) {
            (Some(version), _) => version + 1,
            // Later than any that an entity with this key had before: those have begun with an earlier time.
            (None, Some(message)) => ticks(message.inserted),
            (None, None) => ticks(self.rows.service_time().await?),
        };
        let marker_id = message.as_ref().map(|_| task.id.as_str());
        let prepared = self.transaction(key, before, after, version, marker_id);
        let prepared = match prepared {
            Ok(prepared) => self.with_rows_beside(prepared, old.as_ref(), new.as_ref()).await,
            Err(error) => Err(error),
        };
        let Prepared { transaction, own_changes } = match prepared {
            Ok(prepared) => prepared,
            Err(error) => return self.withdraw(message, Err(error)).await,
        };
        let etag = match transaction.commit().await {
            Ok(etags) => etags.into_iter().next().flatten(),
            Err(error) if error.kind() == ErrorKind::Unknown => {
                match self.settle(key, marker_id, started).await {
                    Ok(Some(true)) => self.rows.get(key).await.ok().flatten().map(|row| row.etag),
                    Ok(Some(false)) => return self.withdraw(message, Ok(Attempt::Again)).await,
                    _ => return Err(error),
                }
            }
            Err(error) if is_changed(&error) && error.index().is_none_or(|index| index < own_changes) => {
                return self.withdraw(message, Ok(Attempt::Again)).await;
            }
            Err(error) => return self.withdraw(message, Err(error)).await,
        };
        let pending = match message {
            Some(message) => self.follow_up(&task, message).await.err(),
            None => None,
        };
        Ok(Attempt::Committed(Committed { etag, version, pending }))
    }

    /// Where the entity has to be followed, as it was and as it will be, each once.
    fn places(&self, old: Option<&E>, new: Option<&E>) -> Result<Vec<(String, Place)>, Error> {
        let mut places = Vec::new();
        for follower in &self.followers {
            for entity in [old, new].into_iter().flatten() {
                for place in follower.places(entity)? {
                    // What can never be followed must not be committed.
                    check_key(&place.key)?;
                    let named = (follower.name().to_owned(), place);
                    if !places.contains(&named) {
                        places.push(named);
                    }
                }
            }
        }
        Ok(places)
    }

    fn transaction(
        &self,
        key: &EntityKey,
        before: &Primary,
        after: Option<&After>,
        version: i64,
        marker_id: Option<&str>,
    ) -> Result<Prepared, Error> {
        let mut transaction = self.rows.transaction(key.partition_key.as_str())?;
        match (after, &before.row) {
            (Some(after), row) => {
                let mut own: Vec<(&str, Value)> = vec![(VERSION, version.into())];
                let kept = row.as_ref().and_then(|row| row.text(MOVE)).filter(|_| after.moving_to.is_none());
                match (&after.moving_to, after.moved.as_deref().or(kept)) {
                    (Some((to, id)), _) => {
                        own.extend([(MOVING_TO, to.as_str().into()), (MOVE, id.as_str().into())])
                    }
                    (None, Some(id)) => own.push((MOVE, id.into())),
                    (None, None) => {}
                }
                let properties = with_own(&after.properties, &own)?;
                let new = Row { key: key.clone(), properties };
                match row {
                    Some(row) => transaction.replace(&new, row)?,
                    None => transaction.insert(&new)?,
                }
                if let Some(tombstone) = &before.tombstone {
                    transaction.delete(&tombstone.key, tombstone)?;
                }
            }
            (None, Some(row)) => {
                transaction.delete(key, row)?;
                transaction.upsert_replace(&tombstone(key, version)?)?;
            }
            (None, None) => return Err(Error::new(ErrorKind::NotFound, "there is no such entity")),
        }
        if let Some(id) = marker_id {
            transaction.insert(&marker(marker_key(&key.partition_key, id), COMMITTED)?)?;
        }
        Ok(Prepared { own_changes: transaction.len(), transaction })
    }

    /// Adds the rows of the same partition. They change only together with the entity, so its ETag guards them all.
    async fn with_rows_beside(
        &self,
        mut prepared: Prepared,
        old: Option<&E>,
        new: Option<&E>,
    ) -> Result<Prepared, Error> {
        let (old, new) = (self.rows_beside(old)?, self.rows_beside(new)?);
        for copy in &new {
            let row = Row { key: copy.key.clone(), properties: copy.properties.clone() };
            if old.iter().any(|old| old.key == copy.key) {
                prepared.transaction.upsert_replace(&row)?;
            } else {
                // Refused if it is another entity's.
                prepared.transaction.insert(&row)?;
            }
        }
        self.add_deletions(&mut prepared.transaction, &old, &new).await?;
        Ok(prepared)
    }

    pub(super) fn rows_beside(&self, entity: Option<&E>) -> Result<Vec<CopyRow>, Error> {
        let Some(entity) = entity else { return Ok(Vec::new()) };
        let rows = self.followers.iter().map(|follower| follower.rows_beside(entity));
        Ok(rows.collect::<Result<Vec<_>, _>>()?.into_iter().flatten().collect())
    }

    /// Deletes those of the old rows that are there and not among the new ones.
    pub(super) async fn add_deletions(
        &self,
        transaction: &mut Transaction,
        old: &[CopyRow],
        new: &[CopyRow],
    ) -> Result<(), Error> {
        for copy in old.iter().filter(|old| new.iter().all(|new| new.key != old.key)) {
            if let Some(stored) = self.rows.get(&copy.key).await? {
                transaction.delete(&copy.key, &stored)?;
            }
        }
        Ok(())
    }

    /// Takes back the message of a change that was not made. If that fails, a worker finds no marker and drops it.
    async fn withdraw(
        &self,
        message: Option<Message>,
        outcome: Result<Attempt, Error>,
    ) -> Result<Attempt, Error> {
        if let Some(message) = message {
            let _ = self.queue.delete(&message).await;
        }
        outcome
    }

    /// Whether a transaction was carried out whose answer was lost. `None`: nobody can tell any more.
    async fn settle(
        &self,
        key: &EntityKey,
        marker_id: Option<&str>,
        started: Instant,
    ) -> Result<Option<bool>, Error> {
        let Some(id) = marker_id else { return Ok(None) };
        let marker_key = marker_key(&key.partition_key, id);
        for _ in 0..MAX_TRIES {
            if let Some(marker) = self.rows.get(&marker_key).await? {
                return Ok(Some(marker.text(STATE) == Some(COMMITTED)));
            }
            // Workers do not see the message yet, so they cannot have taken the marker away.
            let is_hidden = started.elapsed() < self.hidden;
            // After this it cannot be carried out any more, should it still be under way.
            match self.rows.insert(&marker(marker_key.clone(), super::rows::ABORTED)?).await {
                Ok(_) if is_hidden => return Ok(Some(false)),
                Ok(_) => return Ok(None),
                Err(error) if is_changed(&error) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(None)
    }

    /// Brings everything up to date that follows, or lets workers do it.
    async fn follow_up(&self, task: &Task, mut message: Message) -> Result<(), Error> {
        if self.leaves_it_to_workers {
            return self.queue.update(&mut message, Duration::ZERO, None).await;
        }
        self.apply(&task.primary, &task.places).await?;
        self.delete_marker(task).await?;
        self.queue.delete(&message).await
    }

    /// Deletes the marker of a task that is done.
    pub(super) async fn delete_marker(&self, task: &Task) -> Result<(), Error> {
        match self.rows.delete(&marker_key(&task.primary.partition_key, &task.id), Match::Any).await {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }
}

/// It is not in doubt whether the change was made if there was not even a message.
fn not_begun(error: Error) -> Error {
    if error.kind() != ErrorKind::Unknown {
        return error;
    }
    let message = "the queue cannot be reached, so nothing was changed";
    Error::new(ErrorKind::Unavailable, message).with_source(error)
}

/// A version that comes after all that were given before this time: one that begins at an earlier time cannot have risen by more than
/// the ticks that have passed.
pub(super) fn ticks(time: crate::Timestamp) -> i64 {
    i64::try_from(time.ticks()).unwrap_or(i64::MAX)
}

/// Anything up to the longest: those who met here must not meet again.
pub(super) async fn pause(attempt: u32) {
    sleep((FIRST_WAIT * 2_u32.pow(attempt.min(6))).mul_f64(crate::random::fraction())).await;
}
