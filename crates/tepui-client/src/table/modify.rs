//! Read, change, write, and again after a conflict.

use super::Table;
use super::write::{Verb, check_written_alone, new_token};
use crate::random;
use crate::{Entity, Error, ErrorKind, ReplaceEntity, Versioned};
use std::time::Duration;
use tepui_model::table::EntityKey;
use tokio::time::sleep;

/// How often a write that depends on what was read is tried in all.
pub(crate) const MAX_TRIES: u32 = 8;
/// The longest wait after the first conflict; each further one doubles it.
const FIRST_WAIT: Duration = Duration::from_millis(10);

impl<E: Entity> Table<E> {
    /// Changes an entity, and puts it in the place of what was read. If somebody else was faster, it is read and changed
    /// again: `change` may be called several times. After eight conflicts it is
    /// [`Contended`](ErrorKind::Contended).
    ///
    /// ```
    /// use tepui_client::{DynamicEntity, EntityKey};
    /// # tepui_client_testing::run_with_table(async |visits| {
    /// visits.insert(&DynamicEntity::new("pages", "home").with("Count", 41_i64)).await?;
    /// let home = visits
    ///     .modify(&EntityKey::new("pages", "home"), |page| {
    ///         let count = page.get("Count").and_then(|count| count.as_i64()).unwrap_or(0);
    ///         page.set("Count", count + 1);
    ///     })
    ///     .await?;
    /// assert_eq!(home.get("Count").and_then(|count| count.as_i64()), Some(42));
    /// # Ok(()) });
    /// ```
    pub async fn modify(&self, key: &EntityKey, change: impl FnMut(&mut E)) -> Result<Versioned<E>, Error>
    where
        E: ReplaceEntity,
    {
        self.modify_by(key, change, Verb::Replace).await
    }

    /// The same for entities that do not know all properties that are stored: those stay.
    pub async fn modify_merging(
        &self,
        key: &EntityKey,
        change: impl FnMut(&mut E),
    ) -> Result<Versioned<E>, Error> {
        self.modify_by(key, change, Verb::Merge).await
    }

    async fn modify_by(
        &self,
        key: &EntityKey,
        mut change: impl FnMut(&mut E),
        verb: Verb,
    ) -> Result<Versioned<E>, Error> {
        const { check_written_alone::<E>() };
        for attempt in 0..MAX_TRIES {
            let mut found = self
                .get(key)
                .await?
                .ok_or_else(|| Error::new(ErrorKind::NotFound, "there is no entity to modify"))?;
            change(&mut found);
            let token = self.writes_tokens.then(new_token);
            let prepared = verb.prepare(&found.entity, Some((&found).into()), token)?;
            if prepared.change.key != *key {
                return Err(Error::new(ErrorKind::Refused, "to modify an entity cannot change its keys"));
            }
            match self.write(&prepared).await {
                Ok(etag) => {
                    let etag = etag.ok_or_else(|| Error::decode("a write was answered without an ETag"))?;
                    return Ok(Versioned { entity: found.entity, etag, timestamp: None });
                }
                Err(error) if error.kind() == ErrorKind::Conflict => {
                    wait_after_conflict(attempt).await;
                }
                Err(error) => return Err(error),
            }
        }
        Err(Error::new(ErrorKind::Contended, "the entity was changed by others each time"))
    }
}

/// Waits after the conflict of an attempt, counted from 0.
pub(crate) async fn wait_after_conflict(attempt: u32) {
    // Anything up to the longest: those who met here must not meet again.
    let longest = FIRST_WAIT * 2_u32.pow(attempt.min(MAX_TRIES));
    sleep(longest.mul_f64(random::fraction())).await;
}
