//! Large entities pattern: a value that is too large for an entity is in a blob, and the entity has a link to it.
//!
//! A property has at most 64 KiB and an entity 1 MiB. [`LargeValues`] keeps one property of the entities of a table in blobs:
//! each value in a blob of its own, whose name is the value of the property. Reading the entity does not read the blob;
//! [`fetch`](LargeValues::fetch) does.
//!
//! Both change in an order that leaves no link without its blob, wherever a program ends:
//!
//! 1. The value is uploaded under a new name, which nobody knows yet.
//! 2. The link is written, if the entity is still the one that was read.
//! 3. The blob that it linked to before is deleted.
//!
//! Whoever ends between the steps leaves a blob without a link. [`collect_garbage`](LargeValues::collect_garbage) deletes
//! those. It leaves young ones alone, which may be linked any moment: a writer gives up if it could not write the link within
//! [`commit_within`](LargeValues::commit_within) after it began, and only blobs at least twice as old are deleted. How old they are is what the
//! service says; no clocks of machines are compared.
//!
//! Use it for pictures, documents and the like, up to 64 MiB. Do not use it for values that fit into an entity: each takes
//! two more requests to write and one more to read. Do not copy links from one entity to another, nor write them back
//! with `Match::Any`: a blob belongs to one entity and ends with its link.
//!
//! ```
//! use std::time::Duration;
//! use tepui_client::patterns::large_entity::LargeValues;
//! use tepui_client::{DynamicEntity, EntityKey};
//!
//! # tepui_client_testing::run(async |account| {
//! let employees = account.table("Employees")?;
//! employees.create_if_missing().await?;
//! employees.insert(&DynamicEntity::new("Sales", "000223").with("Age", 34)).await?;
//! let container = account.container("employees")?;
//! container.create_if_missing().await?;
//!
//! let photos = LargeValues::new(&employees, &container, "Photo")?;
//! let key = EntityKey::new("Sales", "000223");
//! photos.put(&key, vec![7; 100_000], "image/png").await?;
//! let photo = photos.fetch(&key).await?.ok_or("there is no photo")?;
//! assert_eq!((photo.bytes.len(), photo.content_type.as_deref()), (100_000, Some("image/png")));
//!
//! let collected = photos.collect_garbage(Duration::from_secs(3600)).await?; // Once a day, for example.
//! assert_eq!(collected.deleted, 0);
//! # Ok(()) });
//! ```

mod garbage;

pub use garbage::Collected;

use super::blob_names;
use crate::random;
use crate::table::{MAX_TRIES, wait_after_conflict};
use crate::{
    Blob, BlobContent, Container, DynamicEntity, ETag, EntityKey, Error, ErrorKind, Match, Table, Value,
    Versioned, WriteIf, filter,
};
use bytes::Bytes;
use std::time::Duration;
use tokio::time::Instant;

/// What one request reads, everywhere.
const MAX_BYTES: usize = 64 << 20;

/// A property of the entities of a table whose values are in blobs. Cheap to clone.
#[derive(Debug, Clone)]
pub struct LargeValues {
    table: Table,
    container: Container,
    property: String,
    commit_within: Duration,
}

impl LargeValues {
    /// The property of a table, with its values in a container.
    pub fn new<E>(table: &Table<E>, container: &Container, property: &str) -> Result<Self, Error> {
        filter::check_name(property)?;
        Ok(Self {
            table: table.of(),
            container: container.clone(),
            property: property.to_owned(),
            commit_within: Duration::from_secs(600),
        })
    }

    /// How long a write may take from the beginning of its upload until its link is written: ten minutes unless said
    /// otherwise. It has to be the same for all who use the property.
    #[must_use]
    pub fn commit_within(mut self, time: Duration) -> Self {
        self.commit_within = time;
        self
    }

    /// Sets the value of an entity that is there.
    ///
    /// [`Unknown`](ErrorKind::Unknown): the link may have been written or not. Everything else: it was not.
    pub async fn put(
        &self,
        key: &EntityKey,
        bytes: impl Into<Bytes>,
        content_type: &str,
    ) -> Result<(), Error> {
        let bytes = bytes.into();
        if bytes.len() > MAX_BYTES {
            return Err(Error::new(ErrorKind::TooLarge, "a large value has at most 64 MiB"));
        }
        let name = self.new_name(key)?;
        let blob = self.container.blob(&name)?;
        let began = Instant::now();
        // Nobody else writes a blob of this name, so that it can be written again. That its answer was lost does not matter:
        // without the link, nothing has happened.
        blob.put(bytes, content_type, WriteIf::Always).await.map_err(not_begun)?;
        let link = Value::from(name.as_str());
        let change = |entity: &mut DynamicEntity| entity.set(self.property.as_str(), link.clone());
        let old = self.change_link(key, Some(&name), began, change).await;
        match old {
            Ok(old) => self.delete_unlinked(old).await,
            Err(error) => {
                // The link was certainly not written. Should this fail too, the blob is garbage.
                if error.kind() != ErrorKind::Unknown {
                    let _ = blob.delete(Match::Any).await;
                }
                return Err(error);
            }
        }
        Ok(())
    }

    /// The value of an entity; `None` if the entity is not there or has none.
    pub async fn fetch(&self, key: &EntityKey) -> Result<Option<BlobContent>, Error> {
        let mut missing = None;
        for attempt in 0..MAX_TRIES {
            let Some(link) = self.table.get(key).await?.as_ref().and_then(|entity| self.link(entity)) else {
                return Ok(None);
            };
            match self.container.blob(&link)?.get().await {
                Ok(content) => return Ok(Some(content)),
                // The link was changed after it was read, and its blob deleted.
                Err(error) if error.kind() == ErrorKind::NotFound && missing.as_ref() != Some(&link) => {
                    missing = Some(link);
                }
                Err(error) if error.kind() == ErrorKind::NotFound => {
                    return Err(Error::decode(format!("there is no blob that the entity links to: {link}")));
                }
                Err(error) => return Err(error),
            }
            wait_after_conflict(attempt).await;
        }
        Err(Error::new(ErrorKind::Contended, "the value was changed by others each time"))
    }

    /// The blob that an entity links to, for reading it in ranges or for handing out its address.
    pub fn blob(&self, entity: &DynamicEntity) -> Result<Option<Blob>, Error> {
        self.link(entity).map(|link| self.container.blob(&link)).transpose()
    }

    /// Takes the value away; the entity stays.
    pub async fn remove(&self, key: &EntityKey) -> Result<(), Error> {
        let change = |entity: &mut DynamicEntity| drop(entity.remove(&self.property));
        let old = self.change_link(key, None, Instant::now(), change).await?;
        self.delete_unlinked(old).await;
        Ok(())
    }

    /// Deletes an entity together with its value. Another version than the one that was read is a
    /// [`Conflict`](ErrorKind::Conflict).
    pub async fn delete_entity(&self, entity: &Versioned<DynamicEntity>) -> Result<(), Error> {
        self.table.delete(&entity.key, entity).await?;
        self.delete_unlinked(self.link(entity)).await;
        Ok(())
    }

    /// Changes the link of an entity, and returns the one that it had.
    async fn change_link(
        &self,
        key: &EntityKey,
        new: Option<&str>,
        began: Instant,
        change: impl Fn(&mut DynamicEntity),
    ) -> Result<Option<String>, Error> {
        // The version that an attempt depended on whose answer was lost, and the link that it had.
        let mut lost: Option<(ETag, Option<String>)> = None;
        for attempt in 0..MAX_TRIES {
            let is_doubtful = lost.is_some();
            let or_unknown =
                |error: Error| if is_doubtful { error.with_kind(ErrorKind::Unknown) } else { error };
            let entity = self.table.get(key).await.map_err(or_unknown)?;
            let entity =
                entity.ok_or_else(|| Error::new(ErrorKind::NotFound, "there is no entity for the value"));
            let mut entity = entity.map_err(or_unknown)?;
            let old = self.link(&entity);
            if let Some((version, linked_before)) = &lost
                && *version != entity.etag
            {
                if old.as_deref() == new {
                    return Ok(linked_before.clone());
                }
                // Somebody has written since. If the link was there, its blob has been deleted with it: it must not come back.
                let message = "the answer was lost, and somebody has written since";
                return Err(Error::new(ErrorKind::Unknown, message));
            }
            if old.is_none() && new.is_none() {
                return Ok(None);
            }
            let Some(left) = self.commit_within.checked_sub(began.elapsed()) else {
                let late = Error::new(ErrorKind::DeadlineExceeded, "the link could not be written in time");
                return Err(or_unknown(late));
            };
            let version = entity.etag.clone();
            change(&mut entity);
            match self.table.within(left).replace(&entity, &version).await {
                Ok(_) => return Ok(old),
                Err(error) if error.kind() == ErrorKind::Unknown => lost = Some((version, old)),
                Err(error) if is_other_version(&error) => {}
                Err(error) => return Err(or_unknown(error)),
            }
            wait_after_conflict(attempt).await;
        }
        let kind = if lost.is_some() { ErrorKind::Unknown } else { ErrorKind::Contended };
        Err(Error::new(kind, "the link could not be written in any attempt"))
    }

    /// What cannot be deleted now is garbage, and deleted later.
    async fn delete_unlinked(&self, name: Option<String>) {
        if let Some(Ok(blob)) = name.map(|name| self.container.blob(&name)) {
            let _ = blob.delete(Match::Any).await;
        }
    }

    fn link(&self, entity: &DynamicEntity) -> Option<String> {
        entity.get(&self.property)?.as_str().map(str::to_owned)
    }

    /// A name that no blob had before. It says which entity it is for, so that garbage is found without a scan.
    fn new_name(&self, key: &EntityKey) -> Result<String, Error> {
        let [partition, row] = [&key.partition_key, &key.row_key].map(|key| blob_names::encode(key));
        let name = format!("{}p{partition}/r{row}/{:032x}", self.prefix(), random::bits());
        blob_names::check_length(&name)?;
        Ok(name)
    }

    fn prefix(&self) -> String {
        format!("{}/{}/", self.table.name(), blob_names::encode(&self.property))
    }

    /// The inverse of [`Self::new_name`]: `None` for blobs that are not ours.
    fn key_of(&self, name: &str) -> Option<EntityKey> {
        let mut parts = name.strip_prefix(&self.prefix())?.split('/');
        let partition_key = blob_names::decode(parts.next()?.strip_prefix('p')?)?;
        let row_key = blob_names::decode(parts.next()?.strip_prefix('r')?)?;
        let number = parts.next()?;
        let is_number = number.len() == 32 && number.bytes().all(|byte| byte.is_ascii_hexdigit());
        (is_number && parts.next().is_none()).then_some(EntityKey { partition_key, row_key })
    }
}

/// An upload that did not end well leaves the entity as it was.
fn not_begun(error: Error) -> Error {
    if error.kind() == ErrorKind::Unknown { error.with_kind(ErrorKind::Unavailable) } else { error }
}

fn is_other_version(error: &Error) -> bool {
    let is_gone = error.kind() == ErrorKind::NotFound && error.code() != Some("TableNotFound");
    error.kind() == ErrorKind::Conflict || is_gone
}
