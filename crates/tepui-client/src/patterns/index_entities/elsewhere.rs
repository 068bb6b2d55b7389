//! Index entities in another partition or table: one entity holds the list of all that have a value in common.
//!
//! To find all employees of a name, an entity with the name as its key holds a list of their keys. It is in another partition than the
//! employees, so that it can list those of all departments. Lists follow by way of the [`outbox`](crate::patterns::outbox).
//!
//! # When to use it
//! - Many entities share a value, and are wanted all together.
//! - The list covers several partitions, or the partition of the entities would have to bear too much.
//!
//! # When not
//! - The list gets long. Each change reads and writes it whole, and an entity holds at most 1 MiB: then a row for each member, which
//!   is a copy ([`Copies`](crate::patterns::copies::Copies)) without properties, or a blob, is better.
//!
//! # Example
//! ```
//! use tepui_client::patterns::index_entities::elsewhere::Elsewhere;
//! use tepui_client::patterns::outbox::Outbox;
//! use tepui_client::{Entity, EntityKey, Error};
//!
//! #[derive(Entity, Clone)]
//! #[entity(table = "Staff", closed)]
//! #[key(partition = "{department}", row = "{id:06}")]
//! struct Employee {
//!     department: String,
//!     id: u32,
//!     last_name: String,
//! }
//!
//! # tepui_client_testing::run(async |account| {
//! # account.table("Staff")?.create().await?;
//! # account.queue("staff")?.create_if_missing().await?;
//! let by_name = Elsewhere::new("by_name", account.table("Staff")?, |employee: &Employee| {
//!     Ok(vec![EntityKey::new("last_name", employee.last_name.as_str())])
//! });
//! let staff = account.table_of::<Employee>()?;
//! let outbox = Outbox::without_copies(staff, account.queue("staff")?).with(by_name.clone());
//! outbox.insert(&Employee { department: "Sales".to_owned(), id: 223, last_name: "Jones".to_owned() }).await?;
//! let list = by_name.members(&EntityKey::new("last_name", "Jones")).await?;
//! assert_eq!(list, [Employee::key("Sales", 223)?]);
//! # Ok(()) });
//! ```

use crate::entity::{Properties, PropertiesBuilder, ValueRef};
use crate::patterns::outbox::{BoxFuture, Followed, Follower, Place, Row, Seen, is_changed, write};
use crate::{Entity, EntityKey, Error, ErrorKind, Match, Table, Versioned};
use serde_json::{Value as Json, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

const MEMBERS: &str = "Members";
/// A property holds 32 Ki characters of UTF-16; these are ASCII.
const MAX_PART_BYTES: usize = 30_000;
const SHORTEST_AGE: Duration = Duration::from_secs(60 * 60);

type Lists<E> = dyn Fn(&E) -> Result<Vec<EntityKey>, Error> + Send + Sync;

/// Lists of the keys of entities, each an entity of its own. Give it to an outbox by [`with`](crate::patterns::outbox::Outbox::with).
pub struct Elsewhere<E> {
    name: Arc<str>,
    rows: Table<Row>,
    lists: Arc<Lists<E>>,
}

impl<E> Clone for Elsewhere<E> {
    fn clone(&self) -> Self {
        Self { name: Arc::clone(&self.name), rows: self.rows.clone(), lists: Arc::clone(&self.lists) }
    }
}

/// A member of a list, or one that was and might be put back by somebody who is late.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Member {
    version: i64,
    state: State,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Listed,
    Gone,
    /// Gone at least since then, in ticks of the service's clock.
    GoneSince(u64),
}

type Members = BTreeMap<(String, String), Member>;

impl<E: Entity + Sync + 'static> Elsewhere<E> {
    /// Lists in a table, whose keys follow from the entities. `name` tells it from other things that follow from them.
    pub fn new<T>(
        name: &str,
        table: Table<T>,
        lists: impl Fn(&E) -> Result<Vec<EntityKey>, Error> + Send + Sync + 'static,
    ) -> Self {
        Self { name: format!("list {name}").into(), rows: table.of(), lists: Arc::new(lists) }
    }

    /// The keys of all entities in a list, in their order.
    pub async fn members(&self, list: &EntityKey) -> Result<Vec<EntityKey>, Error> {
        let Some(row) = self.rows.get(list).await? else { return Ok(Vec::new()) };
        let listed = parse(&row)?.into_iter().filter(|(_, member)| member.state == State::Listed);
        Ok(listed.map(|((partition_key, row_key), _)| EntityKey { partition_key, row_key }).collect())
    }

    /// Forgets members of a list that have been gone for so long: a week is a good age, an hour the least. The age is that of the
    /// service's clock, counted from the first sweep that finds them gone. Says how many were forgotten.
    pub async fn sweep(&self, list: &EntityKey, older_than: Duration) -> Result<usize, Error> {
        if older_than < SHORTEST_AGE {
            let message = "what is younger than an hour may still be needed by somebody who is late";
            return Err(Error::new(ErrorKind::Refused, message));
        }
        let now = self.rows.service_time().await?;
        let Some(row) = self.rows.get(list).await? else { return Ok(0) };
        let before = parse(&row)?;
        let limit = now.saturating_sub(older_than).ticks();
        let mut after = before.clone();
        after.retain(|_, member| !matches!(member.state, State::GoneSince(since) if since < limit));
        for member in after.values_mut().filter(|member| member.state == State::Gone) {
            member.state = State::GoneSince(now.ticks());
        }
        let outcome = match after.is_empty() {
            true => self.rows.delete(list, Match::ETag(row.etag.clone())).await,
            false if after == before => return Ok(0),
            false => write(&self.rows, &to_row(list, &after)?, Some(&row)).await.map(drop),
        };
        match outcome {
            Ok(()) => Ok(before.len() - after.len()),
            Err(error) if is_changed(&error) => Ok(0),
            Err(error) => Err(error),
        }
    }

    async fn bring(&self, list: &EntityKey, seen: &Seen<E>) -> Result<Followed, Error> {
        let is_wanted = match &seen.entity {
            Some(entity) => (self.lists)(entity)?.contains(list),
            None => false,
        };
        let stored = self.rows.get(list).await?;
        let mut members = stored.as_ref().map(parse).transpose()?.unwrap_or_default();
        let key = (seen.key.partition_key.clone(), seen.key.row_key.clone());
        if let Some(known) = members.get(&key) {
            if known.version > seen.version {
                return Ok(Followed::Later);
            }
            if known.version == seen.version && (known.state == State::Listed) == is_wanted {
                return Ok(Followed::Done);
            }
        }
        let state = if is_wanted { State::Listed } else { State::Gone };
        members.insert(key, Member { version: seen.version, state });
        let row = to_row(list, &members)?;
        Followed::of_write(write(&self.rows, &row, stored.as_ref()).await)
    }
}

impl<E: Entity + Sync + 'static> Follower<E> for Elsewhere<E> {
    fn name(&self) -> &str {
        &self.name
    }

    fn places(&self, entity: &E) -> Result<Vec<Place>, Error> {
        let place = |key| Place { table: Some(self.rows.name().to_owned()), key };
        Ok((self.lists)(entity)?.into_iter().map(place).collect())
    }

    fn follow<'a>(&'a self, place: &'a Place, seen: &'a Seen<E>) -> BoxFuture<'a, Result<Followed, Error>> {
        Box::pin(self.bring(&place.key, seen))
    }
}

/// The list as text, in as many properties as it takes.
fn to_row(key: &EntityKey, members: &Members) -> Result<Row, Error> {
    let one = |((partition_key, row_key), member): (&(String, String), &Member)| {
        let state = match member.state {
            State::Listed => json!(true),
            State::Gone => json!(false),
            State::GoneSince(ticks) => json!(ticks),
        };
        json!([partition_key, row_key, member.version, state])
    };
    let text = crate::patterns::outbox::ascii(&Json::Array(members.iter().map(one).collect()));
    let mut properties = PropertiesBuilder::new();
    for (index, part) in text.as_bytes().chunks(MAX_PART_BYTES).enumerate() {
        // All of it is ASCII.
        let part = std::str::from_utf8(part).map_err(|_| Error::decode("a list that is not ASCII"))?;
        properties.push(&name_of(index), ValueRef::string(part))?;
    }
    let properties: Properties = properties.finish();
    if properties.check_entity(&key.partition_key, &key.row_key).is_err() {
        let message =
            "the list is too long for one entity: keep a row for each member, or the list in a blob";
        return Err(Error::new(ErrorKind::TooLarge, message));
    }
    Ok(Row { key: key.clone(), properties })
}

fn name_of(index: usize) -> String {
    if index == 0 { MEMBERS.to_owned() } else { format!("{MEMBERS}{index}") }
}

fn parse(row: &Versioned<Row>) -> Result<Members, Error> {
    let parts = (0..).map_while(|index| row.text(&name_of(index)));
    let text: String = parts.collect();
    let one = |member: &Json| {
        let state = match &member[3] {
            Json::Bool(true) => State::Listed,
            Json::Bool(false) => State::Gone,
            since => State::GoneSince(since.as_u64()?),
        };
        let key = (member[0].as_str()?.to_owned(), member[1].as_str()?.to_owned());
        Some((key, Member { version: member[2].as_i64()?, state }))
    };
    let json: Option<Json> = serde_json::from_str(&text).ok();
    let members = json.as_ref().and_then(Json::as_array).and_then(|all| all.iter().map(one).collect());
    members
        .ok_or_else(|| Error::decode(format!("a row that is no list is where one should be: {:?}", row.key)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ETag;

    #[test]
    fn lists_are_read_as_they_were_written_until_they_are_too_long() {
        let list = |count: usize| -> Members {
            let states = [State::Listed, State::Gone, State::GoneSince(638_000_000_000_000_000)];
            let member = |number: usize| Member { version: number as i64, state: states[number % 3] };
            (0..count).map(|number| ((format!("é{number}"), "k".repeat(100)), member(number))).collect()
        };
        let key = EntityKey::new("ln", "Jones");
        for count in [0, 1, 3_000] {
            let row = to_row(&key, &list(count)).unwrap();
            let row = Versioned { entity: row, etag: ETag::new(""), timestamp: None };
            assert_eq!(parse(&row).unwrap(), list(count));
        }
        assert_eq!(to_row(&key, &list(10_000)).unwrap_err().kind(), ErrorKind::TooLarge);
    }
}
