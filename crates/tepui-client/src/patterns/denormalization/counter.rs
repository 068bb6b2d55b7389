//! Counts that change in the same transaction as what they count.

use super::super::outbox::Row;
use crate::entity::{PropertiesBuilder, ValueRef};
use crate::{Entity, EntityKey, Error, ErrorKind, Match, Table, Transaction, Versioned, random};
use std::time::Duration;
use tokio::time::sleep;

const MAX_TRIES: u32 = 12;

/// The number of members of a partition, kept in an entity of the same partition: at every moment it is the number of members.
///
/// All members have to be inserted and deleted through it. As each of that changes one entity, they do so one after the other: for some
/// changes a second, not for hundreds. A change whose answer was lost while others changed the count may be
/// [`Unknown`](ErrorKind::Unknown); the count is right all the same.
///
/// ```
/// use tepui_client::patterns::denormalization::Counter;
/// use tepui_client::{DynamicEntity, EntityKey, Match};
/// # tepui_client_testing::run(async |account| {
/// let staff = account.table("Staff")?;
/// # staff.create().await?;
/// // In the entity `department` of each partition.
/// let employees = Counter::new(staff, "department", "EmployeeCount");
/// employees.insert(&DynamicEntity::new("Sales", "000223").with("Name", "Jun Cao")).await?;
/// employees.insert(&DynamicEntity::new("Sales", "000224").with("Name", "Ken Kwok")).await?;
/// employees.delete(&EntityKey::new("Sales", "000223"), Match::Any).await?;
/// assert_eq!(employees.count("Sales").await?, 1);
/// # Ok(()) });
/// ```
pub struct Counter<M> {
    members: Table<M>,
    /// With tokens: whether a transaction was carried out can be read from the entity that has the count.
    rows: Table<Row>,
    row_key: String,
    property: String,
}

impl<M: Entity> Counter<M> {
    /// The count is a property of the entity with this row key, in the partition of the members. Its other properties stay.
    pub fn new(members: Table<M>, row_key: impl Into<String>, property: impl Into<String>) -> Self {
        let rows = members.of::<Row>().with_write_tokens();
        Self { members, rows, row_key: row_key.into(), property: property.into() }
    }

    /// How many members a partition has.
    pub async fn count(&self, partition_key: &str) -> Result<i64, Error> {
        let row = self.rows.get(&self.key(partition_key)).await?;
        row.as_ref().map_or(Ok(0), |row| self.count_of(row))
    }

    /// Adds a member.
    pub async fn insert(&self, member: &M) -> Result<(), Error> {
        let key = member.entity_key()?;
        self.change(&key, 1, |transaction| transaction.insert(member)).await
    }

    /// Takes a member away.
    pub async fn delete(&self, key: &EntityKey, condition: impl Into<Match>) -> Result<(), Error> {
        let condition = condition.into();
        self.change(key, -1, |transaction| transaction.delete(key, condition.clone())).await
    }

    fn key(&self, partition_key: &str) -> EntityKey {
        EntityKey::new(partition_key, self.row_key.as_str())
    }

    fn count_of(&self, row: &Versioned<Row>) -> Result<i64, Error> {
        match row.properties.get(&self.property) {
            Some(ValueRef::Int64(count)) => Ok(count),
            Some(ValueRef::Int32(count)) => Ok(count.into()),
            None => Ok(0),
            Some(_) => Err(Error::decode(format!("the count is no number: {}", self.property))),
        }
    }

    async fn change(
        &self,
        member: &EntityKey,
        by: i64,
        add: impl Fn(&mut Transaction) -> Result<(), Error>,
    ) -> Result<(), Error> {
        if member.row_key == self.row_key {
            return Err(Error::new(ErrorKind::Refused, "the entity that has the count cannot be a member"));
        }
        for attempt in 0..MAX_TRIES {
            let key = self.key(&member.partition_key);
            let stored = self.rows.get(&key).await?;
            let count = stored.as_ref().map_or(Ok(0), |row| self.count_of(row))? + by;
            let mut changed = PropertiesBuilder::new();
            changed.push(&self.property, ValueRef::Int64(count))?;
            let changed = changed.finish();
            let mut transaction = self.rows.transaction(member.partition_key.as_str())?;
            add(&mut transaction)?;
            match &stored {
                Some(stored) => {
                    let properties = stored.properties.merged_with(&changed);
                    transaction.replace(&Row { key, properties }, stored)?;
                }
                None => transaction.insert(&Row { key, properties: changed })?,
            }
            match transaction.commit().await {
                Ok(_) => return Ok(()),
                // The count was changed by somebody else. What is refused about the member itself is told.
                Err(error) if error.index() != Some(0) && is_conflict(&error) => {
                    let wait = Duration::from_millis(10) * 2_u32.pow(attempt.min(6));
                    sleep(wait.mul_f64(random::fraction())).await;
                }
                Err(error) => return Err(error),
            }
        }
        Err(Error::new(ErrorKind::Contended, "the count was changed by others each time"))
    }

    /// The table of the members, for reading.
    pub fn members(&self) -> &Table<M> {
        &self.members
    }
}

fn is_conflict(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Conflict | ErrorKind::AlreadyExists)
        || error.kind() == ErrorKind::NotFound && error.code() != Some("TableNotFound")
}
