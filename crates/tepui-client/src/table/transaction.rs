//! Entity group transactions: changes of one partition, together or not at all.

use super::write::{Prepared, Verb, is_refusal, new_token, prepare_delete};
use super::{Table, check_key};
use crate::core::Failure;
use crate::entity::Properties;
use crate::random;
use crate::{ETag, Entity, Error, ErrorKind, Match, ReplaceEntity};
use std::collections::HashSet;
use std::fmt;
use tepui_model::ErrorCode;
use tepui_model::table::change_set::MAX_CHANGES;
use tepui_model::table::{Call, ChangeSet, EntityKey, Guid};
use tepui_wire::address::Service;
use tepui_wire::remote::RequestBody;
use tepui_wire::table::batch::{Boundaries, read_reply, write_request};
use tepui_wire::table::request::write::{Options, write};

/// The most that services take in one transaction.
const MAX_BODY_BYTES: usize = 4 << 20;
/// Boundaries and headers around a change, rounded up.
const BYTES_AROUND_A_CHANGE: usize = 400;
const BYTES_AROUND_ALL: usize = 400;

/// Changes of one partition that are made together or not at all: at most 100, at most 4 MiB, each of another entity. What
/// does not fit is refused when it is added, and leaves the rest as it was. It is never split.
///
/// ```
/// use tepui_client::{DynamicEntity, EntityKey, Match};
/// # tepui_client_testing::run_with_table(async |people| {
/// # people.insert(&DynamicEntity::new("Sales", "candidate_7")).await?;
/// let mut hire = people.transaction("Sales")?;
/// hire.insert(&DynamicEntity::new("Sales", "empid_000223").with("Email", "jun@contoso.com"))?;
/// hire.insert(&DynamicEntity::new("Sales", "email_jun@contoso.com").with("Id", 223))?;
/// hire.delete(&EntityKey::new("Sales", "candidate_7"), Match::Any)?;
/// hire.commit().await?;
/// let rows: Vec<_> = people.scan().all().await?.into_iter().map(|found| found.entity.key.row_key).collect();
/// assert_eq!(rows, ["email_jun@contoso.com", "empid_000223"]);
/// # Ok(()) });
/// ```
#[must_use = "nothing is changed before it is committed"]
pub struct Transaction {
    table: Table<()>,
    partition_key: String,
    changes: Vec<Prepared>,
    rows: HashSet<String>,
    bytes: usize,
    token: Option<Guid>,
}

impl<E> Table<E> {
    /// A transaction of one partition. Its entities may be of any type.
    pub fn transaction(&self, partition_key: impl Into<String>) -> Result<Transaction, Error> {
        let partition_key = partition_key.into();
        check_key(&EntityKey::new(partition_key.as_str(), ""))?;
        Ok(Transaction {
            table: self.of(),
            partition_key,
            changes: Vec::new(),
            rows: HashSet::new(),
            bytes: BYTES_AROUND_ALL,
            token: self.writes_tokens.then(new_token),
        })
    }
}

impl Transaction {
    pub fn len(&self) -> usize {
        self.changes.len()
    }

    pub fn is_empty(&self) -> bool {
        self.changes.is_empty()
    }

    pub fn insert(&mut self, entity: &impl Entity) -> Result<(), Error> {
        self.add(Verb::Insert.prepare(entity, None, self.token)?)
    }

    pub fn merge(&mut self, entity: &impl Entity, condition: impl Into<Match>) -> Result<(), Error> {
        self.add(Verb::Merge.prepare(entity, Some(condition.into()), self.token)?)
    }

    pub fn replace(&mut self, entity: &impl ReplaceEntity, condition: impl Into<Match>) -> Result<(), Error> {
        self.add(Verb::Replace.prepare(entity, Some(condition.into()), self.token)?)
    }

    pub fn upsert_merge(&mut self, entity: &impl Entity) -> Result<(), Error> {
        self.add(Verb::UpsertMerge.prepare(entity, None, self.token)?)
    }

    pub fn upsert_replace(&mut self, entity: &impl ReplaceEntity) -> Result<(), Error> {
        self.add(Verb::UpsertReplace.prepare(entity, None, self.token)?)
    }

    pub fn delete(&mut self, key: &EntityKey, condition: impl Into<Match>) -> Result<(), Error> {
        self.add(prepare_delete(key, condition.into())?)
    }

    /// A row that is no entity of a type: a key and properties.
    pub(crate) fn row(&mut self, verb: Verb, key: EntityKey, properties: Properties) -> Result<(), Error> {
        self.add(verb.prepare_parts(key, properties, None, self.token)?)
    }

    /// Adds a change, or refuses it and stays as it was.
    pub(super) fn add(&mut self, prepared: Prepared) -> Result<(), Error> {
        let index = self.changes.len();
        let key = &prepared.change.key;
        if key.partition_key != self.partition_key {
            return Err(Error::from(ErrorCode::CommandsInBatchActOnDifferentPartitions).at_index(index));
        }
        if self.rows.contains(&key.row_key) {
            return Err(Error::from(ErrorCode::InvalidDuplicateRow).at_index(index));
        }
        if index == MAX_CHANGES {
            let message = "a transaction has at most 100 changes";
            return Err(Error::new(ErrorKind::TooLarge, message).at_index(index));
        }
        let bytes = self.bytes + self.size_of(&prepared)?;
        if bytes > MAX_BODY_BYTES {
            let message = "a transaction has at most 4 MiB";
            return Err(Error::new(ErrorKind::TooLarge, message).at_index(index));
        }
        self.bytes = bytes;
        self.rows.insert(key.row_key.clone());
        self.changes.push(prepared);
        Ok(())
    }

    /// How many bytes of the body a change takes, rounded up a little.
    fn size_of(&self, prepared: &Prepared) -> Result<usize, Error> {
        let endpoint = self.table.core.endpoint(Service::Table)?;
        let call = Call::Change { table: self.table.name.to_string(), change: prepared.change.clone() };
        let etag = prepared.etag.as_ref().map(ETag::as_str);
        let request = write(&endpoint.remote, &call, &Options { etag, ..Options::default() })?;
        let body = if let RequestBody::Whole(bytes) = request.body() { bytes.len() } else { 0 };
        let headers: usize =
            request.headers().iter().map(|(name, value)| name.as_str().len() + value.len() + 4).sum();
        let target = request.uri().to_string().len();
        Ok(BYTES_AROUND_A_CHANGE + target + headers + body)
    }

    /// Makes all changes or none. The ETags are in the order of the changes; `None` for what was deleted. An error has the
    /// [`index`](Error::index) of the change that was refused.
    pub async fn commit(self) -> Result<Vec<Option<ETag>>, Error> {
        self.commit_ref().await
    }

    pub(super) async fn commit_ref(&self) -> Result<Vec<Option<ETag>>, Error> {
        if self.changes.is_empty() {
            return Ok(Vec::new());
        }
        let changes =
            self.changes.iter().map(|prepared| (self.table.name.to_string(), prepared.change.clone()));
        let set = ChangeSet::new(changes.collect())?;
        let etags: Vec<_> =
            self.changes.iter().map(|prepared| prepared.etag.as_ref().map(ETag::as_str)).collect();
        let endpoint = self.table.core.endpoint(Service::Table)?;
        let id = || format!("{:032x}", random::bits());
        let ids = Boundaries::of_request(&id(), &id());
        let request =
            write_request(&endpoint.remote, &self.table.name, &set, &etags, &Options::default(), &ids)?;
        let busy_key = self.table.busy_key(&self.partition_key);
        let how = self.table.call_options(Some(&busy_key));
        let read = |response: &_| read_reply(&set, response);
        match self.table.core.call(endpoint, &request, &how, read).await {
            Ok(etags) => Ok(etags.into_iter().map(|etag| etag.map(ETag::new)).collect()),
            Err(failure) => self.settle(failure).await,
        }
    }

    /// Finds out what became of a transaction that did not end well: one entity with its token tells for all.
    async fn settle(&self, failure: Failure) -> Result<Vec<Option<ETag>>, Error> {
        if !failure.is_doubtful || is_refusal(&failure.error) {
            return Err(failure.error);
        }
        if let Some(token) = self.token {
            let mut etags = Vec::with_capacity(self.changes.len());
            for prepared in &self.changes {
                let key = &prepared.change.key;
                etags.push(match prepared.token {
                    Some(_) => self.table.etag_of(key, token).await.unwrap_or_default(),
                    None => None,
                });
            }
            if etags.iter().any(Option::is_some) {
                return Ok(etags);
            }
        }
        Err(failure.of_write())
    }
}

impl fmt::Debug for Transaction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let keys =
            self.changes.iter().map(|prepared| (prepared.change.action.name(), &prepared.change.key.row_key));
        f.debug_struct("Transaction")
            .field("table", &self.table)
            .field("partition_key", &self.partition_key)
            .field("changes", &keys.collect::<Vec<_>>())
            .finish()
    }
}
