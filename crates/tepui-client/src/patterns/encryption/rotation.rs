//! Key rotation: content keys are wrapped with the key of today. Properties stay as they are, so that nothing is decrypted and
//! little is written.

use super::EncryptedTable;
use super::at_once::several_at_once;
use super::metadata::DETAILS;
use super::table::{Sealed, contended, tries, wait_after_conflict};
use crate::entity::{PropertiesBuilder, ValueRef};
use crate::{EntityKey, Error, ErrorKind, Filter, Versioned};

/// What became of the key of one entity.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rotated {
    /// It is wrapped with the key of the policy now.
    Wrapped,
    /// It was already.
    Current,
    /// The entity is not encrypted, or not there.
    Nothing,
}

/// What became of the keys of many entities.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RotationReport {
    pub wrapped: u64,
    pub current: u64,
    /// Entities that are not encrypted, or were deleted meanwhile.
    pub nothing: u64,
}

impl RotationReport {
    fn count(&mut self, outcome: Rotated) {
        match outcome {
            Rotated::Wrapped => self.wrapped += 1,
            Rotated::Current => self.current += 1,
            Rotated::Nothing => self.nothing += 1,
        }
    }
}

impl<E> EncryptedTable<E> {
    /// Wraps the content key of an entity with the key of the policy. To do so twice does no harm: so if the outcome is
    /// [`Unknown`](ErrorKind::Unknown), do it again.
    pub async fn rotate(&self, key: &EntityKey) -> Result<Rotated, Error> {
        for attempt in tries() {
            let Some(found) = self.details_of(key).await? else { return Ok(Rotated::Nothing) };
            match self.rotate_found(found).await {
                Err(error) if error.kind() == ErrorKind::Conflict => wait_after_conflict(attempt).await,
                Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Rotated::Nothing),
                outcome => return outcome,
            }
        }
        Err(contended())
    }

    /// The same for all entities that meet the condition, or for all there are. They are read page by page, keys and wrapped
    /// keys only. After an error, or to be sure, do it again: what is done is passed over.
    pub async fn rotate_all(&self, filter: Option<Filter>) -> Result<RotationReport, Error> {
        let mut query = self.table.query().scan().select_names([DETAILS]);
        if let Some(filter) = filter {
            query = query.filter(filter);
        }
        let mut report = RotationReport::default();
        let mut pages = query.pages();
        while let Some(page) = pages.next_page().await? {
            for outcome in several_at_once(page.entities, |found| self.rotate_listed(found)).await {
                report.count(outcome?);
            }
        }
        Ok(report)
    }

    async fn rotate_listed(&self, found: Versioned<Sealed>) -> Result<Rotated, Error> {
        let key = found.key.clone();
        match self.rotate_found(found).await {
            // Somebody was faster: as they left it.
            Err(error) if matches!(error.kind(), ErrorKind::Conflict | ErrorKind::NotFound) => {
                self.rotate(&key).await
            }
            outcome => outcome,
        }
    }

    async fn details_of(&self, key: &EntityKey) -> Result<Option<Versioned<Sealed>>, Error> {
        let equals = |name: &str, value: &str| crate::filter::property(name).eq(value);
        let query = self.table.query().scan().select_names([DETAILS]).take(1);
        let query = query.filter(equals("PartitionKey", &key.partition_key));
        let found = query.filter(equals("RowKey", &key.row_key)).all().await?;
        Ok(found.into_iter().next())
    }

    /// Only under the ETag that was read: whoever wrote since has given the entity another content key.
    async fn rotate_found(&self, found: Versioned<Sealed>) -> Result<Rotated, Error> {
        let Some(ValueRef::String(details)) = found.properties.get(DETAILS) else {
            return Ok(Rotated::Nothing);
        };
        let Some(details) = self.policy.wrap_again(details.as_str()).await? else {
            return Ok(Rotated::Current);
        };
        let mut properties = PropertiesBuilder::new();
        properties.push(DETAILS, ValueRef::string(&details))?;
        let sealed = Sealed { key: found.key.clone(), properties: properties.finish() };
        self.table.merge(&sealed, &found).await?;
        Ok(Rotated::Wrapped)
    }
}
