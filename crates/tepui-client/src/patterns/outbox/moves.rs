//! Entities that move to another partition or table: insert or replace there, then delete here.
//!
//! The commit point is a change of the entity itself, which says where it goes. From then on whoever meets it, an author or
//! a worker, carries the move out: what arrives carries the id of the move, so that it arrives once; what is deleted is what was
//! read.

use super::commit::{After, MAX_TRIES, pause, ticks};
use super::follow::is_changed;
use super::rows::{MOVE, MOVING_TO, Row, entity_of, tombstone};
use super::{Committed, Outbox};
use crate::{Entity, EntityKey, Error, ErrorKind, Match, Versioned, random};
use serde_json::{Value as Json, json};

/// Where an entity goes.
struct Destination {
    is_archive: bool,
    key: EntityKey,
}

impl Destination {
    fn to_text(&self) -> String {
        json!([self.is_archive, self.key.partition_key, self.key.row_key]).to_string()
    }

    fn parse(text: &str) -> Option<Self> {
        let json: Json = serde_json::from_str(text).ok()?;
        let key = EntityKey::new(json[1].as_str()?, json[2].as_str()?);
        Some(Self { is_archive: json[0].as_bool()?, key })
    }
}

impl<E: Entity + Sync + 'static> Outbox<E> {
    /// Moves an entity to another partition of the same table, which no transaction can do. What is there is replaced. For a moment
    /// it is in both places; never in none.
    ///
    /// To a place whose entity is itself on its way it is refused. Two that are put on their way to each other's place at the very
    /// same time wait for each other, and their messages end in the poison queue: replace one of them without the outbox, which ends its
    /// move, and requeue the other's message.
    pub async fn move_to(
        &self,
        from: &EntityKey,
        condition: impl Into<Match>,
        to: &EntityKey,
    ) -> Result<Committed, Error> {
        if from.partition_key == to.partition_key {
            let message = "to move an entity within its partition is a matter of one transaction";
            return Err(Error::new(ErrorKind::Refused, message));
        }
        self.start_move(from, &condition.into(), Destination { is_archive: false, key: to.clone() }).await
    }

    /// Moves an entity to the table of the outbox that was given to [`archive_to`](Self::archive_to), with the same keys.
    pub async fn archive(&self, key: &EntityKey, condition: impl Into<Match>) -> Result<Committed, Error> {
        self.start_move(key, &condition.into(), Destination { is_archive: true, key: key.clone() }).await
    }

    async fn start_move(
        &self,
        from: &EntityKey,
        condition: &Match,
        to: Destination,
    ) -> Result<Committed, Error> {
        // If two are put on their way to each other's place at the same time, neither gets there.
        self.destination(&to)?.read_primary(&to.key).await?.check_is_staying()?;
        let id = format!("{:032x}", random::bits());
        let committed = self
            .change(from, |before| {
                let row = before.matching(condition)?;
                // It must still be an entity of its type over there.
                let arrived = Row { key: to.key.clone(), properties: row.properties.clone() };
                let arrived = Versioned { entity: arrived, etag: row.etag.clone(), timestamp: None };
                entity_of::<E>(&arrived)?;
                let moving_to = Some((to.to_text(), id.clone()));
                Ok(Some(After { moving_to, ..After::new(row.properties.clone()) }))
            })
            .await?;
        Ok(Committed { etag: None, ..committed })
    }

    fn destination(&self, to: &Destination) -> Result<&Self, Error> {
        if !to.is_archive {
            return Ok(self);
        }
        self.archive.as_deref().ok_or_else(|| {
            let message = format!("the outbox {} has no archive: give it one by archive_to", self.name);
            Error::new(ErrorKind::Configuration, message)
        })
    }

    /// Carries out the move of an entity that says so. May be called by several at a time, and again.
    pub(super) async fn carry_out_move(&self, row: &Versioned<Row>) -> Result<(), Error> {
        let to = row.text(MOVING_TO).and_then(Destination::parse);
        let (Some(to), Some(id)) = (to, row.text(MOVE)) else {
            return Err(Error::decode("an entity moves to nobody knows where"));
        };
        self.destination(&to)?.receive(&to.key, row, id, self).await?;
        let version = match row.version() {
            Some(version) => version + 1,
            None => ticks(self.rows.service_time().await?),
        };
        let mut leave = self.rows.transaction(row.key.partition_key.as_str())?;
        leave.delete(&row.key, row)?;
        leave.upsert_replace(&tombstone(&row.key, version)?)?;
        let beside = self.rows_beside(Some(&entity_of(row)?))?;
        self.add_deletions(&mut leave, &beside, &[]).await?;
        match leave.commit().await {
            // Somebody else has done it, or it will be seen when it is read again.
            Err(error) if !is_changed(&error) => Err(error),
            _ => Ok(()),
        }
    }

    async fn receive(
        &self,
        key: &EntityKey,
        from: &Versioned<Row>,
        id: &str,
        sender: &Self,
    ) -> Result<(), Error> {
        let source = from.key.clone();
        let (etag, properties) = (from.etag.clone(), from.properties.clone());
        for attempt in 0..MAX_TRIES {
            let before = self.read_primary(key).await?;
            if before
                .row
                .as_ref()
                .is_some_and(|row| row.text(MOVE) == Some(id) && row.text(MOVING_TO).is_none())
            {
                return Ok(());
            }
            // Not carried out from here: it might wait for this one.
            before.check_is_staying()?;
            // Only now it is certain that what was read here is from before the end of the move.
            let still = sender.rows.get(&source).await?;
            if still.is_none_or(|still| still.etag != etag) {
                return Ok(());
            }
            let expected = before.row.as_ref().map(|row| row.etag.clone());
            let arrival = self.change(key, |before| {
                if before.row.as_ref().map(|row| row.etag.clone()) != expected {
                    return Err(Error::new(ErrorKind::Conflict, "changed since it was read"));
                }
                let moved = Some(id.to_owned());
                Ok(Some(After { moved, ..After::new(properties.clone()) }))
            });
            match arrival.await {
                Ok(_) => return Ok(()),
                Err(error) if error.kind() == ErrorKind::Conflict => pause(attempt).await,
                Err(error) => return Err(error),
            }
        }
        Err(Error::new(ErrorKind::Contended, "where the entity moves to was changed by others each time"))
    }
}
