//! Single writes of entities, and what becomes of one whose answer was lost.
//!
//! A write that is sent again after a lost answer can fail because it worked the first time. An upsert, or a write of
//! whatever is there, does the same twice and can be repeated in silence. An insert, or a write that depends on an ETag,
//! cannot: that somebody else's content looks the same proves nothing. So its outcome is
//! [`Unknown`](crate::ErrorKind::Unknown), unless a write token says whose the stored entity is.

use super::{Table, check_key, is_missing_entity};
use crate::core::Failure;
use crate::random;
use crate::{ETag, Entity, Error, Match, ReplaceEntity};
use tepui_model::condition::Condition;
use tepui_model::table::{Action, Call, Change, EntityKey, Guid, Properties, PropertiesBuilder, ValueRef};
use tepui_wire::table::reply::read::RemoteReply;
use tepui_wire::table::request::write::Options;

/// The property that says which write an entity is of.
pub(crate) const WRITE_TOKEN: &str = "_WriteToken";

/// Runs when a program is built: an entity with indexes cannot be written like others.
pub(super) const fn check_written_alone<E: Entity>() {
    assert!(
        !E::IS_WRITTEN_WITH_OTHERS,
        "the entity has an #[index(…)], or is an entry of one: written alone, the index would be wrong. Use `table.indexed()`, \
         which writes both together"
    );
}

/// A mark that no other write has.
pub(crate) fn new_token() -> Guid {
    Guid(random::bits().to_be_bytes())
}

/// One change, ready to be sent.
#[derive(Clone)]
pub(super) struct Prepared {
    pub(super) change: Change,
    /// What it depends on, as the service spelled it.
    pub(super) etag: Option<ETag>,
    pub(super) token: Option<Guid>,
}

/// The kinds of writes, before their entity is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verb {
    Insert,
    Merge,
    Replace,
    UpsertMerge,
    UpsertReplace,
}

impl Verb {
    /// Checks everything that can be known without asking the service. `token`: marks the entity.
    pub(super) fn prepare(
        self,
        entity: &impl Entity,
        condition: Option<Match>,
        token: Option<Guid>,
    ) -> Result<Prepared, Error> {
        self.prepare_parts(entity.entity_key()?, entity.to_properties()?, condition, token)
    }

    /// The same for a key and properties.
    pub(super) fn prepare_parts(
        self,
        key: EntityKey,
        properties: Properties,
        condition: Option<Match>,
        token: Option<Guid>,
    ) -> Result<Prepared, Error> {
        check_key(&key)?;
        let properties = marked(properties, token)?;
        properties.check_entity(&key.partition_key, &key.row_key)?;
        let (when, etag) = condition.map_or((Condition::Any, None), split);
        let action = match self {
            Self::Insert => Action::Insert(properties),
            Self::Merge => Action::Merge(when, properties),
            Self::Replace => Action::Update(when, properties),
            Self::UpsertMerge => Action::InsertOrMerge(properties),
            Self::UpsertReplace => Action::InsertOrReplace(properties),
        };
        Ok(Prepared { change: Change { key, action }, etag, token })
    }
}

pub(super) fn prepare_delete(key: &EntityKey, condition: Match) -> Result<Prepared, Error> {
    check_key(key)?;
    let (when, etag) = split(condition);
    Ok(Prepared { change: Change { key: key.clone(), action: Action::Delete(when) }, etag, token: None })
}

/// The ETag goes along as the service spelled it; what the model makes of it does not count.
fn split(condition: Match) -> (Condition, Option<ETag>) {
    match condition {
        Match::Any => (Condition::Any, None),
        Match::ETag(etag) => (Condition::Never, Some(etag)),
    }
}

/// The properties with this token and no other.
fn marked(properties: Properties, token: Option<Guid>) -> Result<Properties, Error> {
    let Some(token) = token else { return Ok(properties) };
    let mut marked = PropertiesBuilder::with_capacity(properties.bytes().len() + 32);
    for (name, value) in properties.iter().filter(|(name, _)| *name != WRITE_TOKEN) {
        marked.push(name, value)?;
    }
    marked.push(WRITE_TOKEN, ValueRef::Guid(token))?;
    Ok(marked.finish())
}

// Not `async`, so that what cannot be built is told where it is called.
impl<E: Entity> Table<E> {
    /// Adds an entity that is not there. One that is there is an [`AlreadyExists`](crate::ErrorKind::AlreadyExists).
    #[doc(alias = "insert_entity")]
    pub fn insert(&self, entity: &E) -> impl Future<Output = Result<ETag, Error>> {
        const { check_written_alone::<E>() };
        self.put(Verb::Insert, entity, None)
    }

    /// Sets the properties of an entity that is there; others that it has stay.
    #[doc(alias = "merge_entity")]
    pub fn merge(
        &self,
        entity: &E,
        condition: impl Into<Match>,
    ) -> impl Future<Output = Result<ETag, Error>> {
        const { check_written_alone::<E>() };
        self.put(Verb::Merge, entity, Some(condition.into()))
    }

    /// Sets the properties of an entity, which is inserted if it is not there.
    #[doc(alias = "insert_or_merge_entity")]
    #[doc(alias = "upsert_entity")]
    pub fn upsert_merge(&self, entity: &E) -> impl Future<Output = Result<ETag, Error>> {
        const { check_written_alone::<E>() };
        self.put(Verb::UpsertMerge, entity, None)
    }

    async fn put(&self, verb: Verb, entity: &E, condition: Option<Match>) -> Result<ETag, Error> {
        let token = self.writes_tokens.then(new_token);
        let etag = self.write(&verb.prepare(entity, condition, token)?).await?;
        etag.ok_or_else(|| Error::decode("a write was answered without an ETag"))
    }
}

impl<E: Entity> Table<E> {
    /// Puts an entity in the place of the one that is there: properties that it does not have are gone.
    #[doc(alias = "update_entity")]
    pub fn replace(
        &self,
        entity: &E,
        condition: impl Into<Match>,
    ) -> impl Future<Output = Result<ETag, Error>>
    where
        E: ReplaceEntity,
    {
        const { check_written_alone::<E>() };
        self.put(Verb::Replace, entity, Some(condition.into()))
    }

    /// Puts an entity in the place of the one that is there, or inserts it.
    #[doc(alias = "insert_or_replace_entity")]
    #[doc(alias = "upsert_entity")]
    pub fn upsert_replace(&self, entity: &E) -> impl Future<Output = Result<ETag, Error>>
    where
        E: ReplaceEntity,
    {
        const { check_written_alone::<E>() };
        self.put(Verb::UpsertReplace, entity, None)
    }
}

impl<E: Entity> Table<E> {
    /// Deletes an entity. One that is not there is a [`NotFound`](crate::ErrorKind::NotFound).
    #[doc(alias = "delete_entity")]
    pub fn delete(
        &self,
        key: &EntityKey,
        condition: impl Into<Match>,
    ) -> impl Future<Output = Result<(), Error>> {
        const { check_written_alone::<E>() };
        let prepared = prepare_delete(key, condition.into());
        async { self.write(&prepared?).await.map(drop) }
    }
}

impl<E> Table<E> {
    pub(super) async fn write(&self, prepared: &Prepared) -> Result<Option<ETag>, Error> {
        let Prepared { change, etag, .. } = prepared;
        let call = Call::Change { table: self.name.to_string(), change: change.clone() };
        let options = Options { etag: etag.as_ref().map(ETag::as_str), ..Options::default() };
        let busy_key = self.busy_key(&change.key.partition_key);
        let how = self.call_options(Some(&busy_key));
        match self.core.table_call(&call, &options, &how).await {
            Ok(RemoteReply::Written { etag }) => Ok(etag.map(ETag::new)),
            Ok(_) => Err(Error::unexpected()),
            Err(failure) => self.settle(prepared, failure).await,
        }
    }

    /// Finds out what became of a write that did not end well.
    async fn settle(&self, prepared: &Prepared, failure: Failure) -> Result<Option<ETag>, Error> {
        let Failure { error, is_doubtful } = &failure;
        if !is_doubtful {
            return Err(failure.error);
        }
        // Whatever was there is gone, which is what was asked for.
        let deletes_any = matches!(prepared.change.action, Action::Delete(_)) && prepared.etag.is_none();
        if deletes_any && is_missing_entity(error) {
            return Ok(None);
        }
        if is_refusal(error) {
            return Err(failure.error);
        }
        if let Some(token) = prepared.token
            && let Ok(Some(etag)) = self.etag_of(&prepared.change.key, token).await
        {
            return Ok(Some(etag));
        }
        Err(failure.of_write())
    }

    /// The ETag of an entity, if it is of the write with this token.
    pub(super) async fn etag_of(&self, key: &EntityKey, token: Guid) -> Result<Option<ETag>, Error> {
        let stored = self.read(key, &[WRITE_TOKEN]).await?;
        let is_ours = |value: Option<ValueRef<'_>>| value == Some(ValueRef::Guid(token));
        Ok(stored.filter(|stored| is_ours(stored.properties.get(WRITE_TOKEN))).map(|stored| stored.etag))
    }
}

/// Whether a service refused a request for what it is: then none of the attempts can have worked. Other refusals depend on
/// what is stored, and so on the attempts before.
pub(super) fn is_refusal(error: &Error) -> bool {
    matches!(error.status(), Some(400 | 413))
}
