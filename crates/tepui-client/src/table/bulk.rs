//! Many writes, each with an outcome of its own.

use super::write::{Prepared, Verb, check_written_alone, new_token};
use super::{Table, Transaction, panicked};
use crate::{ETag, Entity, Error, ErrorKind, ReplaceEntity};
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

/// Many writes that are **not** atomic: each entity is written or not for itself, and the report says which.
///
/// Entities of one partition go together in transactions, one after the other in the order they were given; partitions go
/// in parallel. An entity that is refused does not keep the others of its transaction back.
///
/// ```
/// use tepui_client::{BulkOutcome, DynamicEntity, ErrorKind};
/// # tepui_client_testing::run_with_table(async |people| {
/// people.insert(&DynamicEntity::new("7", "000007")).await?;
/// let staff = (0..500).map(|id| DynamicEntity::new(format!("{}", id % 16), format!("{id:06}")));
/// let report = people.bulk().parallel(8).insert(staff).await;
/// for (index, outcome) in report.outcomes.iter().enumerate() {
///     if let BulkOutcome::Refused(error) | BulkOutcome::Unknown(error) = outcome {
///         assert_eq!((index, error.kind()), (7, ErrorKind::AlreadyExists));
///     }
/// }
/// assert_eq!(report.written(), 499);
/// # Ok(()) });
/// ```
#[must_use]
pub struct Bulk<E> {
    table: Table<E>,
    chunk: usize,
    parallel: usize,
}

/// What became of each entity, in the order they were given.
///
/// ```
/// use tepui_client::{BulkOutcome, BulkReport};
/// let report = BulkReport { outcomes: vec![BulkOutcome::Written(None)] };
/// assert!(report.is_all_written());
/// ```
#[derive(Debug)]
pub struct BulkReport {
    pub outcomes: Vec<BulkOutcome>,
}

/// What became of one entity of a [`Bulk`].
#[derive(Debug)]
pub enum BulkOutcome {
    /// Without an ETag if somebody has changed the entity since.
    Written(Option<ETag>),
    /// It was not written.
    Refused(Error),
    /// It may have been written or not.
    Unknown(Error),
}

impl BulkReport {
    pub fn written(&self) -> usize {
        self.outcomes.iter().filter(|outcome| matches!(outcome, BulkOutcome::Written(_))).count()
    }

    pub fn is_all_written(&self) -> bool {
        self.written() == self.outcomes.len()
    }
}

impl<E> Table<E> {
    pub fn bulk(&self) -> Bulk<E> {
        Bulk { table: self.clone(), chunk: 100, parallel: 8 }
    }
}

impl<E> fmt::Debug for Bulk<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Bulk").field("table", &self.table).finish_non_exhaustive()
    }
}

impl<E: Entity> Bulk<E> {
    /// At most so many entities in one transaction: 1 to 100.
    pub fn chunk(mut self, entities: usize) -> Self {
        self.chunk = entities.clamp(1, 100);
        self
    }

    /// At most so many partitions at a time.
    pub fn parallel(mut self, partitions: usize) -> Self {
        self.parallel = partitions.max(1);
        self
    }

    pub async fn insert(self, entities: impl IntoIterator<Item = E>) -> BulkReport {
        self.run(Verb::Insert, entities).await
    }

    pub async fn upsert_merge(self, entities: impl IntoIterator<Item = E>) -> BulkReport {
        self.run(Verb::UpsertMerge, entities).await
    }

    pub async fn upsert_replace(self, entities: impl IntoIterator<Item = E>) -> BulkReport
    where
        E: ReplaceEntity,
    {
        self.run(Verb::UpsertReplace, entities).await
    }

    async fn run(self, verb: Verb, entities: impl IntoIterator<Item = E>) -> BulkReport {
        const { check_written_alone::<E>() };
        let mut outcomes: Vec<Option<BulkOutcome>> = Vec::new();
        let mut partitions: HashMap<String, Vec<Part>> = HashMap::new();
        for (index, entity) in entities.into_iter().enumerate() {
            let token = self.table.writes_tokens.then(new_token);
            outcomes.push(match verb.prepare(&entity, None, token) {
                Ok(prepared) => {
                    let partition_key = prepared.change.key.partition_key.clone();
                    partitions.entry(partition_key).or_default().push(Part { index, prepared });
                    None
                }
                Err(error) => Some(BulkOutcome::Refused(error)),
            });
        }
        let permits = Arc::new(Semaphore::new(self.parallel));
        let mut under_way = JoinSet::new();
        for (partition_key, parts) in partitions {
            let (table, chunk, permits) = (self.table.of::<()>(), self.chunk, Arc::clone(&permits));
            under_way.spawn(async move {
                let _permit = permits.acquire().await;
                write_partition(&table, &partition_key, parts, chunk).await
            });
        }
        let mut lost = None;
        while let Some(done) = under_way.join_next().await {
            match done {
                Ok(done) => {
                    for (index, outcome) in done {
                        outcomes[index] = Some(outcome);
                    }
                }
                Err(error) => lost = Some(panicked(error).to_string()),
            }
        }
        let unsaid = || {
            let message = lost.clone().unwrap_or_default();
            BulkOutcome::Unknown(Error::new(ErrorKind::Unknown, message))
        };
        BulkReport { outcomes: outcomes.into_iter().map(|outcome| outcome.unwrap_or_else(unsaid)).collect() }
    }
}

/// An entity that is still to be written, and where it stood.
#[derive(Clone)]
struct Part {
    index: usize,
    prepared: Prepared,
}

type Outcomes = Vec<(usize, BulkOutcome)>;

async fn write_partition(table: &Table<()>, partition_key: &str, parts: Vec<Part>, chunk: usize) -> Outcomes {
    let mut outcomes = Vec::with_capacity(parts.len());
    let mut left = parts.into_iter().peekable();
    while left.peek().is_some() {
        // As many as fit: a row that is there twice begins a new one, so that the order stays.
        let mut group: Vec<Part> = Vec::new();
        let mut transaction = match table.transaction(partition_key) {
            Ok(transaction) => transaction,
            Err(error) => {
                outcomes.extend(left.by_ref().map(|part| (part.index, refused(&error))));
                break;
            }
        };
        while group.len() < chunk
            && let Some(part) = left.peek()
        {
            match transaction.add(part.prepared.clone()) {
                Ok(()) => group.extend(left.next()),
                Err(_) if !group.is_empty() => break,
                Err(error) => outcomes.extend(left.next().map(|part| (part.index, refused(&error)))),
            }
        }
        write_group(table, partition_key, transaction, group, &mut outcomes).await;
    }
    outcomes
}

/// Writes a group; without those that are refused, if there are any.
async fn write_group(
    table: &Table<()>,
    partition_key: &str,
    transaction: Transaction,
    group: Vec<Part>,
    outcomes: &mut Outcomes,
) {
    // In the order they are to be written: halves of a group whose offender is not named.
    let mut groups = vec![(Some(transaction), group)];
    while let Some((transaction, mut group)) = groups.pop() {
        let result = match transaction {
            Some(transaction) => transaction.commit_ref().await,
            None => match regroup(table, partition_key, &group) {
                Ok(transaction) => transaction.commit_ref().await,
                Err(error) => Err(error),
            },
        };
        match result {
            Ok(etags) => {
                let written =
                    group.iter().zip(etags).map(|(part, etag)| (part.index, BulkOutcome::Written(etag)));
                outcomes.extend(written);
            }
            Err(error) if error.kind() == ErrorKind::Unknown => {
                outcomes
                    .extend(group.iter().map(|part| (part.index, BulkOutcome::Unknown(error.for_another()))));
            }
            // It is not about one of them.
            Err(error) if !is_about_an_entity(&error) => {
                outcomes.extend(group.iter().map(|part| (part.index, refused(&error))));
            }
            Err(error) => match error.index().filter(|index| *index < group.len()) {
                Some(index) => {
                    let offender = group.remove(index);
                    outcomes.push((offender.index, BulkOutcome::Refused(error)));
                    if !group.is_empty() {
                        groups.push((None, group));
                    }
                }
                None if group.len() <= 1 => {
                    outcomes.extend(group.iter().map(|part| (part.index, refused(&error))));
                }
                None => {
                    let second = group.split_off(group.len() / 2);
                    groups.extend([(None, second), (None, group)]);
                }
            },
        }
    }
}

fn regroup(table: &Table<()>, partition_key: &str, group: &[Part]) -> Result<Transaction, Error> {
    let mut transaction = table.transaction(partition_key)?;
    group.iter().try_for_each(|part| transaction.add(part.prepared.clone()))?;
    Ok(transaction)
}

/// Whether the same request without one of its entities could succeed.
fn is_about_an_entity(error: &Error) -> bool {
    use ErrorKind::*;
    let is_refusal =
        matches!(error.kind(), NotFound | AlreadyExists | Conflict | Refused | TooLarge | KeyInvalid);
    is_refusal && error.code() != Some("TableNotFound")
}

fn refused(error: &Error) -> BulkOutcome {
    BulkOutcome::Refused(error.for_another())
}
