//! Signatures that were made before.

use super::{Sas, UserSas};
use crate::{Error, ErrorKind, Table, Timestamp};
use std::collections::HashMap;
use std::fmt;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use tepui_model::Clock as _;

pub(super) const MAX_CACHED: usize = 10_000;

impl<E> Table<E> {
    /// Keeps signatures that are good for so long, and hands each out until half of that has passed.
    pub fn sas_cache(&self, life: Duration) -> SasCache<E> {
        SasCache { table: self.clone(), life, made: Mutex::new(HashMap::new()) }
    }
}

/// Signatures that were made before, by user and rights.
///
/// ```
/// use std::time::Duration;
/// # let account = tepui_client::Account::from_connection_string("UseDevelopmentStorage=true")?;
/// let notes = account.table("Notes")?;
/// let signatures = notes.sas_cache(Duration::from_secs(3600));
/// // Good for half an hour at least.
/// let one = signatures.get(notes.sas().partition("user1").read())?;
/// assert_eq!(signatures.get(notes.sas().partition("user1").read())?, one);
/// assert_ne!(signatures.get(notes.sas().partition("user1").read().add())?, one);
/// # Ok::<(), tepui_client::Error>(())
/// ```
pub struct SasCache<E> {
    table: Table<E>,
    life: Duration,
    made: Mutex<HashMap<CacheKey, (Timestamp, Sas)>>,
}

/// The table, the partition, the rows and the rights.
type CacheKey = (String, String, String, Option<String>, String);

impl<E> SasCache<E> {
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.made.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// A signature that is good for half the life at least. Refused for another account's table.
    pub fn get(&self, wanted: UserSas<E>) -> Result<Sas, Error> {
        self.get_at(&wanted, self.table.core().clock.now())
    }

    pub(super) fn get_at(&self, wanted: &UserSas<E>, now: Timestamp) -> Result<Sas, Error> {
        if !std::ptr::eq(wanted.table.core(), self.table.core()) {
            let message = "the signatures of this cache are made for another account";
            return Err(Error::new(ErrorKind::Configuration, message));
        }
        let half = self.life / 2;
        // If the clock was set back, it is not known how long they are good.
        let is_fresh = |made: Timestamp| made <= now && now.since(made) < half;
        let UserSas { table, partition_key, rows, rights } = wanted;
        let key = (
            table.name().to_ascii_lowercase(),
            partition_key.clone(),
            rows.start.clone(),
            rows.end.clone(),
            rights.to_string(),
        );
        let mut all = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((made, sas)) = all.get(&key)
            && is_fresh(*made)
        {
            return Ok(sas.clone());
        }
        let sas = wanted.sign(now.saturating_add(self.life), self.life)?;
        if all.len() >= MAX_CACHED {
            all.retain(|_, (made, _)| is_fresh(*made));
        }
        if all.len() >= MAX_CACHED {
            // To make them anew is cheap.
            all.clear();
        }
        all.insert(key, (now, sas.clone()));
        Ok(sas)
    }
}

impl<E> fmt::Debug for SasCache<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SasCache")
            .field("table", &self.table)
            .field("life", &self.life)
            .finish_non_exhaustive()
    }
}
