//! A small table in memory.

use crate::{Entity, EntityKey, Error, ErrorKind, Scan};
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Mutex;
use tokio::time::Instant;

/// More is no small table.
const MAX_ENTITIES: usize = 10_000;

/// The entities of a small table, or of a part of it, held in memory and read again when they are too old. Only one read is
/// under way at a time; who asks meanwhile waits for it.
pub struct Cached<T> {
    scan: Scan<T>,
    max_age: Duration,
    max_entities: usize,
    held: Mutex<Option<Held<T>>>,
}

struct Held<T> {
    entities: Arc<HashMap<EntityKey, Arc<T>>>,
    read_at: Instant,
}

impl<T: Entity + Sync + 'static> Cached<T> {
    /// What the scan finds, at most so old. Nothing is read yet.
    pub fn new(scan: Scan<T>, max_age: Duration) -> Self {
        Self { scan, max_age, max_entities: MAX_ENTITIES, held: Mutex::new(None) }
    }

    /// At most so many entities; more are a [`TooLarge`](ErrorKind::TooLarge). 10,000 if not said.
    pub fn max_entities(self, max_entities: usize) -> Self {
        Self { max_entities, ..self }
    }

    /// An entity by its key; `None` if it was not there when the table was read.
    pub async fn get(&self, key: &EntityKey) -> Result<Option<Arc<T>>, Error> {
        Ok(self.all().await?.get(key).cloned())
    }

    /// All of them.
    pub async fn all(&self) -> Result<Arc<HashMap<EntityKey, Arc<T>>>, Error> {
        let mut held = self.held.lock().await;
        if let Some(held) = &*held
            && held.read_at.elapsed() < self.max_age
        {
            return Ok(Arc::clone(&held.entities));
        }
        // What is read is at least as new as this.
        let read_at = Instant::now();
        let entities = Arc::new(self.read().await?);
        *held = Some(Held { entities: Arc::clone(&entities), read_at });
        Ok(entities)
    }

    /// Forgets what is held: the next one who asks reads it again.
    pub async fn forget(&self) {
        *self.held.lock().await = None;
    }

    async fn read(&self) -> Result<HashMap<EntityKey, Arc<T>>, Error> {
        let mut entities = HashMap::new();
        let mut stream = self.scan.clone().stream();
        while let Some(found) = stream.next_entity().await? {
            if entities.len() == self.max_entities {
                let message = format!("the table has more than {} entities to hold", self.max_entities);
                return Err(Error::new(ErrorKind::TooLarge, message));
            }
            entities.insert(found.entity_key()?, Arc::new(found.into_inner()));
        }
        Ok(entities)
    }
}

impl<T> fmt::Debug for Cached<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Cached").field(&self.scan).finish()
    }
}
