//! What author and worker do alike once a change is committed: everything that follows is brought up to date.
//!
//! The entity is read, each place is made what it says, and the entity is read again. If it has changed, all is done once more.

use super::Outbox;
use super::commit::{pause, ticks};
use super::follow::{Followed, Follower, Seen, is_changed, write};
use super::message::Place;
use super::rows::{MOVING_TO, Row, VERSION, entity_of, tombstone};
use crate::entity::PropertiesBuilder;
use crate::{Entity, EntityKey, Error, ErrorKind, Value};

/// How often an entity may change while it is followed. After that its message waits for another time.
const MAX_ROUNDS: u32 = 12;

impl<E: Entity + Sync + 'static> Outbox<E> {
    pub(crate) async fn apply(&self, primary: &EntityKey, places: &[(String, Place)]) -> Result<(), Error> {
        for attempt in 0..MAX_ROUNDS {
            let seen = self.see(primary).await?;
            let mut outcome = Followed::Done;
            for (name, place) in places {
                outcome = self.follower(name)?.follow(place, &seen).await?;
                if outcome != Followed::Done {
                    break;
                }
            }
            let is_unchanged = self.read_primary(primary).await?.version() == Some(seen.version);
            match outcome {
                Followed::Done if is_unchanged => return Ok(()),
                // The entity was written by something else than an outbox, and has lost its count.
                Followed::Later if is_unchanged => self.renumber(primary).await?,
                _ => pause(attempt).await,
            }
        }
        Err(Error::new(ErrorKind::Contended, "the entity was changed by others while it was followed"))
    }

    fn follower(&self, name: &str) -> Result<&dyn Follower<E>, Error> {
        let found = self.followers.iter().find(|follower| follower.name() == name);
        found.map(|follower| &**follower).ok_or_else(|| {
            let message = format!("the outbox {} has nothing that follows by this name: {name}", self.name);
            Error::new(ErrorKind::Configuration, message)
        })
    }

    /// An entity as it is, with a version in any case.
    pub(crate) async fn see(&self, key: &EntityKey) -> Result<Seen<E>, Error> {
        for attempt in 0..MAX_ROUNDS {
            let primary = self.read_primary(key).await?;
            if let Some(row) = &primary.row {
                if row.text(MOVING_TO).is_some() {
                    Box::pin(self.carry_out_move(row)).await?;
                } else if let Some(version) = row.version() {
                    let entity = Some(entity_of(row)?);
                    return Ok(Seen { key: key.clone(), version, entity });
                } else {
                    self.renumber(key).await?;
                }
            } else if let Some(version) = primary.version() {
                return Ok(Seen { key: key.clone(), version, entity: None });
            } else {
                // Its tombstone was swept, or it was deleted by something else than an outbox.
                let version = ticks(self.rows.service_time().await?);
                Followed::of_write(self.rows.insert(&tombstone(key, version)?).await)?;
            }
            if attempt > 0 {
                pause(attempt).await;
            }
        }
        Err(Error::new(ErrorKind::Contended, "the entity was changed by others each time it was read"))
    }

    /// Gives an entity a version that comes after all that it had.
    pub(crate) async fn renumber(&self, key: &EntityKey) -> Result<(), Error> {
        let now = ticks(self.rows.service_time().await?);
        let primary = self.read_primary(key).await?;
        let Some(row) = primary.row.as_ref().or(primary.tombstone.as_ref()) else { return Ok(()) };
        let version = primary.version().map_or(now, |version| now.max(version + 1));
        let mut changed = PropertiesBuilder::new();
        changed.push(VERSION, Value::from(version).as_ref())?;
        let properties = row.properties.merged_with(&changed.finish());
        let next = Row { key: row.key.clone(), properties };
        match write(&self.rows, &next, Some(row)).await {
            Err(error) if !is_changed(&error) => Err(error),
            _ => Ok(()),
        }
    }
}
