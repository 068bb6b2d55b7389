//! Tables and their entities.
//!
//! | | |
//! | --- | --- |
//! | `write.rs` | single writes, and what becomes of one whose answer was lost |
//! | `modify.rs` | read, change, write, and again after a conflict |
//! | `query.rs`, `stream.rs` | queries by keys: pages and streams |
//! | `scan.rs` | queries that read more than they return |
//! | `fan_out.rs` | several queries at a time as one stream |
//! | `partial.rs` | parts of entities: read by a projection, and merged |
//! | `continuation.rs` | where a query goes on, as a text |
//! | `transaction.rs` | changes of one partition, together or not at all |
//! | `service_time.rs` | what time it is for the service |
//! | `bulk.rs` | many changes, each with an outcome of its own |

mod bulk;
mod continuation;
mod fan_out;
mod modify;
mod partial;
mod query;
mod scan;
mod service_time;
mod stream;
mod transaction;
mod write;

pub use bulk::{Bulk, BulkOutcome, BulkReport};
pub use continuation::{Continuation, InvalidContinuation};
pub use fan_out::{FanOut, FanOutStream};
pub(crate) use modify::{MAX_TRIES, wait_after_conflict};
pub use query::{Page, Query, QueryWithoutPartition};
pub use scan::Scan;
pub use stream::{EntityStream, Pages};
pub use transaction::Transaction;
pub(crate) use write::{Verb, WRITE_TOKEN, new_token};

use crate::core::{self, CallOptions, Core, Failure};
use crate::entity::typed::{IndexEntry, Keyed, TypedEntity};
use crate::{Account, DynamicEntity, ETag, Entity, Error, ErrorKind, StoredEntity, Timestamp, Versioned};
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;
use tepui_model::table::entity::check_key_characters;
use tepui_model::table::{Call, EntityKey, Operation, QueryTables, TableName};
use tepui_wire::address::Service;
use tepui_wire::remote::ReplyError;
use tepui_wire::table::json::RemoteEntity;
use tepui_wire::table::reply::read::{RemoteReply, read};
use tepui_wire::table::request::write::{Options, write};
use tokio::task::JoinSet;

impl Account {
    /// A table by its name, whose entities have whatever properties they have. Whether it exists is not asked.
    ///
    /// ```
    /// # let account = tepui_client::Account::from_connection_string("UseDevelopmentStorage=true").unwrap();
    /// assert!(account.table("People").is_ok());
    /// assert!(account.table("9lives").is_err());
    /// ```
    pub fn table(&self, name: &str) -> Result<Table, Error> {
        let name =
            TableName::parse(name).map_err(|error| Error::from(error).with_kind(ErrorKind::KeyInvalid))?;
        let name = Arc::from(name.as_str());
        Ok(Table { core: Arc::clone(&self.0), name, within: None, writes_tokens: false, entity: PhantomData })
    }

    /// The names of all tables, or of those that begin like this.
    ///
    /// ```
    /// # tepui_client_testing::run(async |account| {
    /// for name in ["Logins20251231", "Logins20260101", "Logins20260102"] {
    ///     account.table(name)?.create().await?;
    /// }
    /// assert_eq!(account.table_names("Logins2026").await?, ["Logins20260101", "Logins20260102"]);
    /// # Ok(()) });
    /// ```
    pub async fn table_names(&self, prefix: &str) -> Result<Vec<String>, Error> {
        self.table_names_and_date(prefix).await.map(|(names, _)| names)
    }

    /// The same, and what time it was by the service's clock when it was asked.
    pub(crate) async fn table_names_and_date(
        &self,
        prefix: &str,
    ) -> Result<(Vec<String>, Option<Timestamp>), Error> {
        let filter = crate::filter::prefix("TableName", prefix);
        let call = Call::Operation(Operation::QueryTables(QueryTables { filter, ..QueryTables::default() }));
        let (mut all, mut from, mut date) = (Vec::new(), None, None);
        loop {
            let options = Options { from: from.as_ref(), ..Options::default() };
            let take = |response: &_, reply| Ok((reply, core::date(response)));
            let how = CallOptions::default();
            let (reply, answered) = self.0.table_call_with(&call, &options, &how, take).await?;
            let RemoteReply::Tables { names, next } = reply else { return Err(Error::unexpected()) };
            all.extend(names);
            date = date.or(answered);
            from = next;
            if from.is_none() {
                return Ok((all, date));
            }
        }
    }
}

/// A table, with entities of one type. Cheap to clone.
///
/// ```
/// use tepui_client::{DynamicEntity, EntityKey, Match};
/// # tepui_client_testing::run(async |account| {
/// let people = account.table("People")?;
/// people.create_if_missing().await?;
/// people.insert(&DynamicEntity::new("Sales", "000223").with("Age", 34)).await?;
/// let key = EntityKey::new("Sales", "000223");
/// if let Some(mut found) = people.get(&key).await? {
///     found.set("Age", 35);
///     people.replace(&found, &found).await?; // Only if nobody else has changed it meanwhile.
/// }
/// assert_eq!(people.get(&key).await?.and_then(|found| found.get("Age")?.as_i32()), Some(35));
/// people.delete(&key, Match::Any).await?;
/// assert!(people.get(&key).await?.is_none());
/// # Ok(()) });
/// ```
pub struct Table<E = DynamicEntity> {
    core: Arc<Core>,
    name: Arc<str>,
    within: Option<Duration>,
    writes_tokens: bool,
    entity: PhantomData<fn() -> E>,
}

impl<E> Clone for Table<E> {
    fn clone(&self) -> Self {
        self.of()
    }
}

impl<E> fmt::Debug for Table<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Table").field(&self.name).finish()
    }
}

impl<E> Table<E> {
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The same table with entities of another type.
    pub fn of<F>(&self) -> Table<F> {
        Table {
            core: Arc::clone(&self.core),
            name: Arc::clone(&self.name),
            within: self.within,
            writes_tokens: self.writes_tokens,
            entity: PhantomData,
        }
    }

    /// The table of entries of an index: this one, whatever its name is, unless the index has its own.
    #[doc(hidden)]
    pub fn sibling_of<F: IndexEntry>(&self) -> Table<F> {
        match F::TABLE == <F::Primary as TypedEntity>::TABLE {
            true => self.of(),
            false => Table { name: Arc::from(F::TABLE), ..self.of() },
        }
    }

    /// Another table of the same account, with entities of the same type.
    pub(crate) fn beside(&self, name: &str) -> Result<Self, Error> {
        let name =
            TableName::parse(name).map_err(|error| Error::from(error).with_kind(ErrorKind::KeyInvalid))?;
        Ok(Self { name: Arc::from(name.as_str()), ..self.clone() })
    }

    /// The same table, with so much time for each call. It is also told to the service.
    #[must_use]
    pub fn within(&self, time: Duration) -> Self {
        Self { within: Some(time), ..self.clone() }
    }

    /// The same table, with a mark in each entity that says which write it is of: the property `_WriteToken`. A write whose
    /// answer was lost is then settled by reading it back, as far as that can tell. It costs some 40 bytes an entity.
    #[must_use]
    pub fn with_write_tokens(&self) -> Self {
        Self { writes_tokens: true, ..self.clone() }
    }

    #[doc(alias = "create_table")]
    pub async fn create(&self) -> Result<(), Error> {
        let name = TableName::parse(&self.name)?;
        let call = Call::Operation(Operation::CreateTable { name });
        self.call(&call, &Options::default()).await.map(drop).map_err(Failure::of_write)
    }

    /// Creates the table unless it is there. Says whether it was not.
    pub async fn create_if_missing(&self) -> Result<bool, Error> {
        let name = TableName::parse(&self.name)?;
        let call = Call::Operation(Operation::CreateTable { name });
        match self.call(&call, &Options::default()).await {
            Ok(_) => Ok(true),
            Err(Failure { error, .. }) if error.kind() == ErrorKind::AlreadyExists => Ok(false),
            Err(failure) => Err(failure.of_write()),
        }
    }

    /// Deletes the table with all that is in it.
    pub async fn delete_table(&self) -> Result<(), Error> {
        let call = Call::Operation(Operation::DeleteTable { table: self.name.to_string() });
        core::gone(self.call(&call, &Options::default()).await)
    }

    pub(crate) fn core(&self) -> &Core {
        &self.core
    }

    /// How long a call may take, all attempts together.
    pub(crate) fn longest_call(&self) -> Duration {
        self.within.unwrap_or(self.core.within)
    }

    async fn call(&self, call: &Call, options: &Options<'_>) -> Result<RemoteReply, Failure> {
        self.core.table_call(call, options, &self.call_options(None)).await
    }

    fn call_options<'a>(&self, partition: Option<&'a str>) -> CallOptions<'a> {
        CallOptions { partition, within: self.within, ..CallOptions::default() }
    }

    /// What a partition is known by among all that may be busy.
    fn busy_key(&self, partition_key: &str) -> String {
        [&self.name, "/", partition_key].concat()
    }
}

impl<E: Keyed> Table<E> {
    /// The rows of a partition, by the parts of its key: one value, or a tuple of several in the order of the template.
    /// Which of the rows is said next, by what the row key can answer; see [`Keyed`].
    ///
    /// ```
    /// use tepui_client::Entity;
    ///
    /// #[derive(Entity)]
    /// #[entity(table = "Employees")]
    /// #[key(partition = "{department}", row = "empid_{id:06}")]
    /// struct Employee {
    ///     department: String,
    ///     id: u32,
    ///     age: i32,
    /// }
    ///
    /// # tepui_client_testing::run(async |account| {
    /// let people = account.table_of::<Employee>()?;
    /// # people.create().await?;
    /// # for id in 150..250 {
    /// #     people.insert(&Employee { department: "Sales".to_owned(), id, age: id as i32 - 180 }).await?;
    /// # }
    /// let some = people.partition("Sales").id(100..=199).all().await?;
    /// let all = people.partition("Sales").all_rows().all().await?;
    /// let old = people.partition("Sales").scan().filter(Employee::AGE.gt(60)).all().await?;
    /// assert_eq!((some.len(), all.len(), old.len()), (50, 100, 9));
    /// # Ok(()) });
    /// ```
    pub fn partition(&self, parts: E::PartitionParts<'_>) -> E::Rows {
        E::partition(self, parts)
    }
}

impl<E: Entity> Table<E> {
    /// An entity by its keys; `None` if there is none.
    #[doc(alias = "get_entity")]
    pub async fn get(&self, key: &EntityKey) -> Result<Option<Versioned<E>>, Error> {
        match self.read(key, &[]).await? {
            Some(stored) => Ok(Some(Versioned::from_stored(stored)?)),
            None => Ok(None),
        }
    }

    /// Many entities by their keys, several at a time, in the order of the keys. Faster and cheaper than one query with
    /// `or`, which reads more than it returns.
    pub async fn get_many(
        &self,
        keys: impl IntoIterator<Item = EntityKey>,
    ) -> Result<Vec<Option<Versioned<E>>>, Error>
    where
        E: 'static,
    {
        let mut found = Vec::new();
        let mut under_way = JoinSet::new();
        let mut keys = keys.into_iter().enumerate();
        loop {
            // As many at a time as the account sends anyway: more would only wait.
            while under_way.len() < self.core.max_parallel
                && let Some((index, key)) = keys.next()
            {
                found.push(None);
                let table = self.clone();
                under_way.spawn(async move { (index, table.get(&key).await) });
            }
            let Some(done) = under_way.join_next().await else { return Ok(found) };
            let (index, entity) = done.map_err(panicked)?;
            found[index] = entity?;
        }
    }
}

impl<E> Table<E> {
    /// An entity as it is stored, or these properties of it.
    async fn read(&self, key: &EntityKey, select: &[&str]) -> Result<Option<StoredEntity>, Error> {
        check_key(key)?;
        let operation = Operation::GetEntity { table: self.name.to_string(), key: key.clone() };
        let call = Call::Operation(operation);
        let busy_key = self.busy_key(&key.partition_key);
        let options = Options { select, ..Options::default() };
        match self.core.table_call(&call, &options, &self.call_options(Some(&busy_key))).await {
            Ok(RemoteReply::Entity(entity)) => stored(entity, Some(key)).map(Some),
            Ok(_) => Err(Error::unexpected()),
            Err(Failure { error, .. }) if is_missing_entity(&error) => Ok(None),
            Err(failure) => Err(failure.into()),
        }
    }
}

/// Whether it is the entity that is not there, and not its table.
fn is_missing_entity(error: &Error) -> bool {
    error.kind() == ErrorKind::NotFound && error.code() != Some("TableNotFound")
}

fn stored(entity: RemoteEntity, asked: Option<&EntityKey>) -> Result<StoredEntity, Error> {
    let key = match (asked, entity.partition_key, entity.row_key) {
        (_, Some(partition_key), Some(row_key)) => EntityKey { partition_key, row_key },
        (Some(key), ..) => key.clone(),
        _ => return Err(Error::decode("an entity without its keys")),
    };
    let etag = entity.etag.ok_or_else(|| Error::decode("an entity without its ETag"))?;
    let etag = ETag::new(etag);
    Ok(StoredEntity { key, etag, timestamp: entity.timestamp, properties: entity.properties })
}

/// Whether keys can be those of an entity.
pub(crate) fn check_key(key: &EntityKey) -> Result<(), Error> {
    let invalid = |error: Error| error.with_kind(ErrorKind::KeyInvalid);
    check_key_characters(&key.partition_key, &key.row_key).map_err(|error| invalid(error.into()))?;
    key.check_lengths().map_err(|error| invalid(error.into()))
}

fn panicked(error: tokio::task::JoinError) -> Error {
    Error::new(ErrorKind::Transport, "a task of the client has ended").with_source(error)
}

impl Core {
    async fn table_call(
        &self,
        call: &Call,
        options: &Options<'_>,
        how: &CallOptions<'_>,
    ) -> Result<RemoteReply, Failure> {
        self.table_call_with(call, options, how, |_, reply| Ok(reply)).await
    }

    /// The same for callers who want more of the response than its reply.
    async fn table_call_with<T>(
        &self,
        call: &Call,
        options: &Options<'_>,
        how: &CallOptions<'_>,
        take: impl Fn(&http::Response<bytes::Bytes>, RemoteReply) -> Result<T, ReplyError>,
    ) -> Result<T, Failure> {
        let version = self.endpoint(Service::Table).map_err(Failure::of_nothing_sent)?.remote.version();
        self.table_call_reading(call, options, how, |response| take(response, read(call, version, response)?))
            .await
    }

    /// The same for callers who read the response themselves.
    async fn table_call_reading<T>(
        &self,
        call: &Call,
        options: &Options<'_>,
        how: &CallOptions<'_>,
        read: impl Fn(&http::Response<bytes::Bytes>) -> Result<T, ReplyError>,
    ) -> Result<T, Failure> {
        let endpoint = self.endpoint(Service::Table).map_err(Failure::of_nothing_sent)?;
        let request =
            write(&endpoint.remote, call, options).map_err(|error| Failure::of_nothing_sent(error.into()))?;
        self.call(endpoint, &request, how, read).await
    }
}
