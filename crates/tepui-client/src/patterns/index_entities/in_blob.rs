//! A list for each value, in a blob.
//!
//! An entity and a blob cannot change together. So an entity is added to the list of its new value before it is written, and
//! taken out of the list of its old value after that: a list has every entity of its value at any time, and may have more.
//!
//! Each addition has a number of its own, and only what was seen before the entity was written is taken out after it. Otherwise a
//! slow writer would take out what somebody else has added meanwhile, who changed the value back.

use super::{ListIndex, Listed, check_same_key, contended, is_conflict, missing, with_value};
use crate::patterns::blob_names;
use crate::table::{MAX_TRIES, wait_after_conflict};
use crate::{
    Blob, Container, ETag, EntityKey, Error, ErrorKind, Match, Table, Timestamp, Versioned, WriteIf, random,
};
use std::collections::{BTreeSet, HashSet};
use std::fmt;
use std::time::Duration;

/// What one request reads, everywhere.
const MAX_BYTES: usize = 64 << 20;

/// An index over all partitions of a table: a blob for each value, with the keys of all entities that have it.
pub struct InBlob<E> {
    table: Table<E>,
    container: Container,
    prefix: String,
}

/// One addition: its number, and the keys of the entity. No key holds a slash or a line's end.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Entry {
    partition_key: String,
    row_key: String,
    number: u128,
}

/// A list as it was read.
struct List {
    entries: BTreeSet<Entry>,
    /// `None`: there is no blob.
    etag: Option<ETag>,
    last_modified: Timestamp,
}

impl<E: Listed> InBlob<E> {
    /// An index of a table, in blobs whose names begin like this, such as `last-names/`.
    pub fn new(table: &Table<E>, container: &Container, prefix: &str) -> Self {
        // Marks say what became of a write whose answer was lost.
        Self { table: table.with_write_tokens(), container: container.clone(), prefix: prefix.to_owned() }
    }

    /// Takes out of a list what has no entity with its value, which somebody left there who ended in between. Says how many
    /// there were; `None`: the list was changed within this time, and whoever did it may still be at work.
    ///
    /// The time has to be at least twice that of the longest call of any writer: see
    /// [`AccountBuilder::within`](crate::AccountBuilder::within). It is measured by the clock of the service.
    pub async fn repair(&self, value: &str, unchanged_for: Duration) -> Result<Option<usize>, Error> {
        // Whoever has added a key longer ago has written its entity by now, or never will.
        if unchanged_for < 2 * self.table.longest_call() {
            let message =
                "a list is repaired when it was unchanged for at least twice the time of the longest call";
            return Err(Error::new(ErrorKind::Refused, message));
        }
        let blob = self.blob(value)?;
        let list = read(&blob).await?;
        let Some(etag) = list.etag.clone() else { return Ok(Some(0)) };
        let page = self.container.list_page(blob.name(), None).await?;
        let now = page.date.ok_or_else(|| Error::decode("the service does not say what time it is"))?;
        if now.since(list.last_modified) <= unchanged_for {
            return Ok(None);
        }
        let found = self.table.get_many(keys(&list.entries)).await?;
        let with_value = with_value(found, value);
        let members: HashSet<_> =
            with_value.iter().map(|entity| entity.entity_key()).collect::<Result<_, _>>()?;
        let kept: BTreeSet<_> =
            list.entries.iter().filter(|entry| members.contains(&entry.key())).cloned().collect();
        let stale = list.entries.len() - kept.len();
        if stale == 0 {
            return Ok(Some(0));
        }
        match write(&blob, &kept, Some(etag)).await {
            Ok(()) => Ok(Some(stale)),
            Err(error) if matches!(error.kind(), ErrorKind::Conflict | ErrorKind::NotFound) => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn blob(&self, value: &str) -> Result<Blob, Error> {
        // The letter is there for the empty value.
        let name = format!("{}v{}", self.prefix, blob_names::encode(value));
        blob_names::check_length(&name)?;
        self.container.blob(&name)
    }

    /// Adds a key to the list of a value, under a number of its own.
    async fn add(&self, value: Option<&str>, key: &EntityKey) -> Result<Option<Entry>, Error> {
        let Some(value) = value else { return Ok(None) };
        let entry = Entry {
            partition_key: key.partition_key.clone(),
            row_key: key.row_key.clone(),
            number: random::bits(),
        };
        self.update(value, |entries| entries.insert(entry.clone())).await?;
        Ok(Some(entry))
    }

    async fn take_out(&self, value: Option<&str>, out: &BTreeSet<Entry>) -> Result<(), Error> {
        let Some(value) = value.filter(|_| !out.is_empty()) else { return Ok(()) };
        let take = |entries: &mut BTreeSet<Entry>| {
            let before = entries.len();
            entries.retain(|entry| !out.contains(entry));
            entries.len() != before
        };
        self.update(value, take).await
    }

    /// What a list has of an entity now.
    async fn entries(&self, value: Option<&str>, key: &EntityKey) -> Result<BTreeSet<Entry>, Error> {
        let Some(value) = value else { return Ok(BTreeSet::new()) };
        let mut entries = read(&self.blob(value)?).await?.entries;
        entries.retain(|entry| entry.key() == *key);
        Ok(entries)
    }

    /// Changes a list in the version that was read; again if somebody else was faster. `change` says whether there is anything to
    /// write. After a lost answer, it is asked again: numbers say whether it was done.
    async fn update(&self, value: &str, change: impl Fn(&mut BTreeSet<Entry>) -> bool) -> Result<(), Error> {
        let blob = self.blob(value)?;
        for attempt in 0..2 * MAX_TRIES {
            let List { mut entries, etag, .. } = read(&blob).await?;
            if !change(&mut entries) {
                return Ok(());
            }
            match write(&blob, &entries, etag).await {
                Ok(()) => return Ok(()),
                Err(error) if is_conflict(&error) || error.kind() == ErrorKind::Unknown => {
                    wait_after_conflict(attempt).await;
                }
                Err(error) => return Err(error),
            }
        }
        Err(contended())
    }
}

impl<E: Listed> ListIndex<E> for InBlob<E> {
    async fn insert(&self, entity: &E) -> Result<(), Error> {
        let entry = self.add(entity.listed_under(), &entity.entity_key()?).await?;
        let written = self.table.insert(entity).await.map(drop);
        if let Err(error) = &written
            && error.kind() != ErrorKind::Unknown
        {
            // Should this fail too, the list has a key too many.
            let _ = self.take_out(entity.listed_under(), &entry.into_iter().collect()).await;
        }
        written
    }

    async fn change(&self, key: &EntityKey, mut change: impl FnMut(&mut E) + Send) -> Result<(), Error> {
        for attempt in 0..MAX_TRIES {
            let mut entity = self.table.get(key).await?.ok_or_else(missing)?;
            let before = entity.listed_under().map(str::to_owned);
            change(&mut entity);
            check_same_key(&entity.entity, key)?;
            if before.as_deref() == entity.listed_under() {
                match self.table.replace(&entity.entity, &entity).await {
                    Ok(_) => return Ok(()),
                    Err(error) if is_conflict(&error) => wait_after_conflict(attempt).await,
                    Err(error) => return Err(error),
                }
                continue;
            }
            // The entity has the value before in this version: what its list has now was not added by somebody who
            // changes it back after this.
            let outdated = self.entries(before.as_deref(), key).await?;
            let entry = self.add(entity.listed_under(), key).await?;
            match self.table.replace(&entity.entity, &entity).await {
                // The entity is changed. What remains in the list if this fails is left out by readers.
                Ok(_) => return self.take_out(before.as_deref(), &outdated).await.or(Ok(())),
                Err(error) if error.kind() == ErrorKind::Unknown => return Err(error),
                Err(error) => {
                    let _ = self.take_out(entity.listed_under(), &entry.into_iter().collect()).await;
                    if !is_conflict(&error) {
                        return Err(error);
                    }
                    wait_after_conflict(attempt).await;
                }
            }
        }
        Err(contended())
    }

    async fn remove(&self, key: &EntityKey) -> Result<(), Error> {
        for attempt in 0..MAX_TRIES {
            let entity = self.table.get(key).await?.ok_or_else(missing)?;
            let outdated = self.entries(entity.listed_under(), key).await?;
            match self.table.delete(key, &entity).await {
                Ok(()) => return self.take_out(entity.listed_under(), &outdated).await.or(Ok(())),
                Err(error) if is_conflict(&error) => wait_after_conflict(attempt).await,
                Err(error) => return Err(error),
            }
        }
        Err(contended())
    }

    /// With those of entities that are not there, or have another value: see [`InBlob`].
    async fn keys(&self, value: &str) -> Result<Vec<EntityKey>, Error> {
        Ok(keys(&read(&self.blob(value)?).await?.entries))
    }

    async fn find(&self, value: &str) -> Result<Vec<Versioned<E>>, Error> {
        Ok(with_value(self.table.get_many(self.keys(value).await?).await?, value))
    }
}

impl Entry {
    fn key(&self) -> EntityKey {
        EntityKey::new(self.partition_key.as_str(), self.row_key.as_str())
    }

    fn parse(line: &str) -> Option<Self> {
        let mut parts = line.split('/');
        let (partition_key, row_key) = (parts.next()?.to_owned(), parts.next()?.to_owned());
        let number = u128::from_str_radix(parts.next()?, 16).ok()?;
        parts.next().is_none().then_some(Self { partition_key, row_key, number })
    }
}

impl fmt::Display for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}/{}/{:032x}", self.partition_key, self.row_key, self.number)
    }
}

/// Each once.
fn keys(entries: &BTreeSet<Entry>) -> Vec<EntityKey> {
    let mut keys: Vec<_> = entries.iter().map(Entry::key).collect();
    keys.dedup();
    keys
}

async fn read(blob: &Blob) -> Result<List, Error> {
    let content = match blob.get().await {
        Ok(content) => content,
        Err(error) if error.kind() == ErrorKind::NotFound && error.code() != Some("ContainerNotFound") => {
            return Ok(List { entries: BTreeSet::new(), etag: None, last_modified: Timestamp::MIN });
        }
        Err(error) => return Err(error),
    };
    let other = || Error::decode(format!("the blob is no list of keys: {}", blob.name()));
    let text = std::str::from_utf8(&content.bytes).map_err(|_| other())?;
    let entries = text.lines().map(|line| Entry::parse(line).ok_or_else(other)).collect::<Result<_, _>>()?;
    Ok(List { entries, etag: Some(content.etag), last_modified: content.last_modified })
}

/// Puts a list in the place of what was read. An empty one is deleted.
async fn write(blob: &Blob, entries: &BTreeSet<Entry>, read: Option<ETag>) -> Result<(), Error> {
    let text: String = entries.iter().map(Entry::to_string).collect();
    if text.len() > MAX_BYTES {
        let message = "the list of keys is larger than 64 MiB: use MemberRows, which has no limit";
        return Err(Error::new(ErrorKind::TooLarge, message));
    }
    match read {
        Some(etag) if entries.is_empty() => blob.delete(Match::ETag(etag)).await,
        Some(etag) => blob.put(text, "text/plain", WriteIf::ETag(etag)).await.map(drop),
        None => blob.put(text, "text/plain", WriteIf::Absent).await.map(drop),
    }
}

impl<E> fmt::Debug for InBlob<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InBlob")
            .field("table", &self.table)
            .field("prefix", &self.prefix)
            .finish_non_exhaustive()
    }
}
