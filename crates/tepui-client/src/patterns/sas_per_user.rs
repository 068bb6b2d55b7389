//! Shared access signatures for single users. The guide's section: Controlling access with shared access signatures.
//!
//! A service that has the key of the account hands each user a signature for the user's own entities. The user then asks the
//! Table service itself, which lets nothing else through: no proxy is needed, and the key stays where it is.
//!
//! ```
//! use std::time::Duration;
//! use tepui_client::{Account, AccountBuilder, Entity};
//!
//! #[derive(Entity)]
//! #[entity(table = "Notes")]
//! #[key(partition = "{team}", row = "{user}_{id:06}")]
//! struct Note {
//!     team: String,
//!     user: String,
//!     id: u32,
//!     text: String,
//! }
//!
//! # tepui_client_testing::run_with_connection_string(async |connection_string| {
//! # let account = Account::from_connection_string(&connection_string)?;
//! let notes = account.table_of::<Note>()?;
//! # notes.create().await?;
//! # for user in ["user1", "user10"] {
//! #     notes.insert(&Note { team: "red".into(), user: user.into(), id: 1, text: "x".into() }).await?;
//! # }
//! let sas = notes.sas().partition("red").rows(Note::rows_with_user("user1")?).read().for_(Duration::from_secs(1800))?;
//!
//! // At the user's.
//! let theirs = AccountBuilder::from_connection_string(&connection_string)?.sas(sas.as_str()).build()?;
//! let notes = theirs.table_of::<Note>()?;
//! assert!(notes.get(&Note::key("red", "user1", 1)?).await?.is_some());
//! // The range ends with the separator, so it is that of user1 and not of user10.
//! assert!(notes.get(&Note::key("red", "user10", 1)?).await.is_err());
//! # Ok(()) });
//! ```
//!
//! # When to use it
//!
//! Where many users read and write entities of their own, and each user's entities are one range of one partition. To sign takes
//! a few microseconds and no request; [`SasCache`] saves even that.
//!
//! # When not
//!
//! - Where a user's entities are in several ranges: one signature is for one range. [`UserSas::reaching`] refuses an entity whose
//!   copies are in others, and lists them. Give the user several signatures, or other keys to the entities.
//! - Where access must end at once: a signature is good until its time has passed. Keep that short.
//! - Where users may write what others trust: inside the range, a user with rights to write can write anything.
//!
//! # Bounds
//!
//! The service compares tuples of PartitionKey and RowKey, both ends included. A [`KeyRange`] does not include its end, so the
//! last row that a signature allows is the greatest that sorts before that. A row key that goes on with U+FFFF, which
//! is no character, may be refused although it is inside; what is outside is always refused.

mod cache;
#[cfg(test)]
mod tests;

pub use cache::SasCache;

use super::copies::Copies;
use crate::credential::Credential;
use crate::key::KeyRange;
use crate::{EntityKey, Error, ErrorKind, Table, Timestamp};
use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;
use tepui_model::Clock as _;
use tepui_model::grant::KeyBounds;
use tepui_model::permissions::Permissions;
use tepui_model::table::entity::{check_key_characters, is_key_character};
use tepui_model::text::utf16_cmp;
use tepui_wire::address::Service;
use tepui_wire::auth::{SasLimits, SasResource, ServiceSas};

/// Sorts after every character.
const LAST_CHARACTER: char = '\u{FFFF}';

impl<E> Table<E> {
    /// A shared access signature for one user. The account must have its key.
    pub fn sas(&self) -> NewSas<E> {
        NewSas { table: self.clone() }
    }
}

/// A signature that does not say for what yet.
#[must_use]
pub struct NewSas<E> {
    table: Table<E>,
}

impl<E> NewSas<E> {
    /// For this partition, and no other.
    pub fn partition(self, partition_key: impl Into<String>) -> UserSas<E> {
        let partition_key = partition_key.into();
        UserSas { table: self.table, partition_key, rows: KeyRange::prefix(""), rights: Permissions::NONE }
    }
}

impl<E> fmt::Debug for NewSas<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("NewSas").field(&self.table).finish()
    }
}

/// What a signature for one user allows: some of the rows of one partition.
#[must_use]
pub struct UserSas<E> {
    table: Table<E>,
    partition_key: String,
    rows: KeyRange,
    rights: Permissions,
}

impl<E> UserSas<E> {
    /// Only these rows: what `rows_with_…` and its like of a derived entity return, or [`KeyRange::prefix`] of a whole part.
    pub fn rows(mut self, rows: KeyRange) -> Self {
        self.rows = rows;
        self
    }

    /// Entities may be read.
    pub fn read(self) -> Self {
        self.and(Permissions::READ)
    }

    /// Entities may be inserted.
    pub fn add(self) -> Self {
        self.and(Permissions::ADD)
    }

    /// Entities may be replaced and merged. To do so with one that may not be there takes the right to insert, too.
    pub fn update(self) -> Self {
        self.and(Permissions::UPDATE)
    }

    /// Entities may be deleted.
    pub fn delete(self) -> Self {
        self.and(Permissions::DELETE)
    }

    fn and(mut self, right: Permissions) -> Self {
        self.rights = self.rights | right;
        self
    }

    /// Refuses an entity of the user's that lies outside, or whose copies do, and lists the ranges in which its rows are. Without
    /// those rows, the user could read but not find it, or change it but not its copies.
    pub fn reaching(self, entity: &impl Copies) -> Result<Self, Error> {
        let own = self.table.name();
        let mut rows = vec![(own.to_owned(), entity.entity_key()?)];
        for copy in entity.copies()? {
            rows.push((copy.table.unwrap_or_else(|| own.to_owned()), copy.key));
        }
        let is_inside = |(table, key): &(String, EntityKey)| {
            table.eq_ignore_ascii_case(own)
                && key.partition_key == self.partition_key
                && self.rows.contains(&key.row_key)
        };
        if rows.iter().all(is_inside) {
            return Ok(self);
        }
        let message =
            format!("one signature is for one range, but the rows of the entity are in {}", list(rows));
        Err(Error::new(ErrorKind::Refused, message))
    }

    /// The signature, good from now on for so long. Nothing is sent.
    pub fn for_(&self, life: Duration) -> Result<Sas, Error> {
        self.sign(self.table.core().clock.now().saturating_add(life), life)
    }

    fn sign(&self, expires: Timestamp, life: Duration) -> Result<Sas, Error> {
        let refused = |message: &str| Err(Error::new(ErrorKind::Refused, message));
        if self.rights.is_empty() {
            return refused("the signature allows nothing: say read(), add(), update() or delete()");
        }
        if life < Duration::from_secs(1) {
            return refused("the signature would have expired when it arrives");
        }
        let core = self.table.core();
        let Credential::SharedKey(signer) = &core.credential else {
            let message = "signatures are made with the key of the account, which this one has not";
            return Err(Error::new(ErrorKind::Configuration, message));
        };
        let mut limits = SasLimits::until(expires);
        limits.https_only = core.endpoint(Service::Table)?.remote.is_secure();
        let bounds = self.bounds()?;
        let sas = ServiceSas {
            resource: SasResource::Table { name: self.table.name(), bounds: &bounds },
            permissions: self.rights,
            policy_id: None,
            limits,
        };
        let token = signer.service_sas(&sas);
        let token = token.ok_or_else(|| Error::new(ErrorKind::Refused, "there is no such signature"))?;
        Ok(Sas { token, expires })
    }

    /// What the signature says.
    fn bounds(&self) -> Result<KeyBounds, Error> {
        let invalid = |message: &str| Err(Error::new(ErrorKind::KeyInvalid, message));
        let KeyRange { start, end } = &self.rows;
        check_key_characters(&self.partition_key, start)?;
        check_key_characters("", end.as_deref().unwrap_or_default())?;
        if self.partition_key.is_empty() {
            // To services, a bound that is empty is none at all.
            return invalid("a signature cannot be for the partition whose key is empty");
        }
        let end_row = end.as_deref().map(last_before);
        let is_reversed = |last: &String| utf16_cmp(last.as_bytes(), start.as_bytes()).is_lt();
        if end_row.as_ref().is_some_and(|last| last.is_empty() || is_reversed(last)) {
            return invalid("there are no rows in the range");
        }
        Ok(KeyBounds {
            start_partition: Some(self.partition_key.clone()),
            start_row: Some(start.clone()).filter(|start| !start.is_empty()),
            end_partition: Some(self.partition_key.clone()),
            end_row,
        })
    }
}

/// The greatest row key before this one, but for keys that go on with U+FFFF. Empty if there is none.
fn last_before(end: &str) -> String {
    let mut last = end.to_owned();
    if let Some(character) = last.pop()
        && let Some(previous) = previous_key_character(character)
    {
        last.extend([previous, LAST_CHARACTER]);
    }
    last
}

/// The character before this one in UTF-16, of those that keys may have.
fn previous_key_character(character: char) -> Option<char> {
    let mut previous = character;
    loop {
        previous = match previous {
            '\u{E000}' => '\u{10FFFF}',
            '\u{10000}' => '\u{D7FF}',
            '\0' => return None,
            other => char::from_u32(u32::from(other) - 1)?,
        };
        if is_key_character(previous) {
            return Some(previous);
        }
    }
}

/// The ranges in which rows are, one for each partition.
fn list(rows: Vec<(String, EntityKey)>) -> String {
    let mut ranges: BTreeMap<(String, String), Vec<String>> = BTreeMap::new();
    for (table, key) in rows {
        ranges.entry((table, key.partition_key)).or_default().push(key.row_key);
    }
    let ranges = ranges.into_iter().map(|((table, partition_key), mut rows)| {
        rows.sort_by(|a, b| utf16_cmp(a.as_bytes(), b.as_bytes()));
        match (rows.first(), rows.last()) {
            (Some(first), Some(last)) if first != last => {
                format!("{table}, {partition_key:?}, {first:?} to {last:?}")
            }
            (first, _) => format!("{table}, {partition_key:?}, {:?}", first.map_or("", String::as_str)),
        }
    });
    ranges.collect::<Vec<_>>().join("; and ")
}

impl<E> fmt::Debug for UserSas<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UserSas")
            .field("table", &self.table)
            .field("partition_key", &self.partition_key)
            .field("rows", &self.rows)
            .field("rights", &self.rights)
            .finish()
    }
}

/// A shared access signature, as it stands in a URL: what [`AccountBuilder::sas`](crate::AccountBuilder::sas) takes. Who has it can
/// do what it allows, so it is never printed.
#[derive(Clone, PartialEq, Eq)]
pub struct Sas {
    token: String,
    expires: Timestamp,
}

impl Sas {
    pub fn as_str(&self) -> &str {
        &self.token
    }

    pub fn expires(&self) -> Timestamp {
        self.expires
    }
}

impl fmt::Debug for Sas {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sas").field("expires", &self.expires).finish_non_exhaustive()
    }
}
