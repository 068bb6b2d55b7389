//! Deletes blobs that no entity links to.

use super::LargeValues;
use crate::{Error, ErrorKind, ListedBlob};
use std::time::Duration;

/// What [`LargeValues::collect_garbage`] has done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Collected {
    /// Blobs without a link, which were deleted.
    pub deleted: usize,
    /// Blobs that are linked.
    pub linked: usize,
    /// Blobs that are too young to tell.
    pub young: usize,
    /// Blobs that are not values of this property, though they are named alike.
    pub foreign: usize,
}

impl LargeValues {
    /// Deletes the blobs without a link that are older than this: at least twice [`commit_within`](Self::commit_within). It
    /// can be done while others write, and at several places at a time.
    pub async fn collect_garbage(&self, older_than: Duration) -> Result<Collected, Error> {
        // The link of a younger blob may be under way.
        if older_than < 2 * self.commit_within {
            let message = "garbage has to be at least twice as old as a write may take (commit_within)";
            return Err(Error::new(ErrorKind::Refused, message));
        }
        let prefix = self.prefix();
        let mut collected = Collected::default();
        let mut from = None;
        loop {
            let page = self.container.list_page(&prefix, from.as_deref()).await?;
            let now = page.date.ok_or_else(|| Error::decode("the service does not say what time it is"))?;
            let (mut old, mut keys) = (Vec::new(), Vec::new());
            for blob in page.blobs {
                // Both times are the service's own.
                if now.since(blob.last_modified) <= older_than {
                    collected.young += 1;
                } else if let Some(key) = self.key_of(&blob.name) {
                    keys.push(key);
                    old.push(blob);
                } else {
                    collected.foreign += 1;
                }
            }
            let entities = self.table.get_many(keys).await?;
            for (blob, entity) in old.iter().zip(entities) {
                let link = entity.as_ref().and_then(|entity| self.link(entity));
                if link.as_deref() == Some(blob.name.as_str()) {
                    collected.linked += 1;
                } else {
                    collected.deleted += usize::from(self.delete_garbage(blob).await?);
                }
            }
            match page.next {
                Some(next) => from = Some(next),
                None => return Ok(collected),
            }
        }
    }

    /// Deletes a blob, if it is still the one that was listed. Says whether it was.
    async fn delete_garbage(&self, blob: &ListedBlob) -> Result<bool, Error> {
        match self.container.blob(&blob.name)?.delete(&blob.etag).await {
            Ok(()) => Ok(true),
            // Somebody else was faster, or the answer was lost: the next collection will see.
            Err(error)
                if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::Conflict | ErrorKind::Unknown) =>
            {
                Ok(false)
            }
            Err(error) => Err(error),
        }
    }
}
