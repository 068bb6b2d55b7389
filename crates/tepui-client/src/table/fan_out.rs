//! Several queries of one table at a time, as one stream.

use super::stream::EntityStream;
use super::{Query, Table};
use crate::entity::ReadEntity;
use crate::key::KeyRange;
use crate::{Entity, Error, ErrorKind, Versioned};
use futures_core::Stream;
use std::cmp::Ordering;
use std::fmt;
use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll};
use tepui_model::table::EntityKey;
use tepui_model::text::utf16_cmp;

/// Entities of all pages that are held at a time, about.
const HELD_ENTITIES: usize = 4000;
/// More queries than load is ever spread over.
const MAX_QUERIES: usize = 1000;

/// Reads of several partitions, or of several ranges of them, that run at the same time and make one stream.
///
/// Load that is spread over partitions by `{user:hash16}` or `{at:seconds}` is read back by one read of each. The rows come
/// in the order of their row keys over all partitions; those with the same one in the order of partition keys.
///
/// ```
/// use tepui_client::key::Buckets;
/// # tepui_client_testing::run_with_table(async |logins| {
/// # for (row, bucket) in ["3", "1", "2"].into_iter().zip(Buckets::new(16)?.prefixes()) {
/// #     logins.insert(&tepui_client::DynamicEntity::new(bucket, row)).await?;
/// # }
/// let mut newest = logins.fan_out(Buckets::new(16)?.prefixes()).take(2).stream();
/// let mut rows = Vec::new();
/// while let Some(login) = newest.next_entity().await? {
///     rows.push(login.entity.key.row_key);
/// }
/// assert_eq!(rows, ["1", "2"]); // Of three, in different partitions.
/// # Ok(()) });
/// ```
#[must_use]
pub struct FanOut<E> {
    queries: Vec<Query<E>>,
    take: Option<usize>,
    order: Order<E>,
}

/// In which order entities come.
enum Order<E> {
    /// By row keys, which are those of the entities.
    ByRow(fn(&E) -> Result<EntityKey, Error>),
    AsTheyCome,
}

impl<E: Entity> Table<E> {
    /// Reads several partitions at the same time, in the order of row keys. There can be 1,000 of them.
    pub fn fan_out<S: Into<String>>(&self, partition_keys: impl IntoIterator<Item = S>) -> FanOut<E> {
        let of_partition = |key: S| Query::of_partition(self, Ok(key.into()));
        let queries = partition_keys.into_iter().map(of_partition).collect();
        FanOut::new(queries, None, Order::ByRow(E::entity_key))
    }
}

impl<E> FanOut<E> {
    fn new(queries: Vec<Query<E>>, take: Option<usize>, order: Order<E>) -> Self {
        // One page of each is held, so that the next row is known.
        let page_size = (HELD_ENTITIES / queries.len().max(1)).max(10);
        let limit = |query: Query<E>| match query.page_size.get() > page_size {
            true => query.page_size(page_size),
            false => query,
        };
        Self { queries: queries.into_iter().map(limit).collect(), take, order }
    }

    pub(super) fn as_they_come(queries: Vec<Query<E>>, take: Option<usize>) -> Self {
        Self::new(queries, take, Order::AsTheyCome)
    }

    fn with(self, change: impl Fn(Query<E>) -> Query<E>) -> Self {
        Self { queries: self.queries.into_iter().map(change).collect(), ..self }
    }

    /// Only those with a row key in this range.
    pub fn rows(self, rows: KeyRange) -> Self {
        self.with(|query| query.rows(rows.clone()))
    }

    /// At most so many entities in all.
    pub fn take(self, entities: usize) -> Self {
        // No partition has to give more than all are asked for.
        let fan_out = self.with(|query| query.take(entities));
        Self { take: Some(entities), ..fan_out }
    }
}

impl<E: ReadEntity> FanOut<E> {
    pub fn stream(self) -> FanOutStream<E> {
        let too_many = self.queries.len() > MAX_QUERIES;
        let lanes = self.queries.into_iter().map(|query| Lane { stream: query.stream(), head: Head::Wanted });
        FanOutStream {
            lanes: if too_many { Vec::new() } else { lanes.collect() },
            left: self.take,
            order: self.order,
            error: too_many
                .then(|| Error::new(ErrorKind::TooLarge, "more than 1000 queries cannot run as one")),
        }
    }

    /// All entities at once: for queries that are known to find few.
    pub async fn all(self) -> Result<Vec<Versioned<E>>, Error>
    where
        E: 'static,
    {
        let mut stream = self.stream();
        let mut all = Vec::new();
        while let Some(entity) = stream.next_entity().await? {
            all.push(entity);
        }
        Ok(all)
    }
}

/// The entities of a [`FanOut`]. Ends after an error.
#[must_use]
pub struct FanOutStream<E> {
    lanes: Vec<Lane<E>>,
    left: Option<usize>,
    order: Order<E>,
    error: Option<Error>,
}

/// One query, and its next entity.
struct Lane<E> {
    stream: EntityStream<E>,
    head: Head<E>,
}

enum Head<E> {
    Wanted,
    /// With its key, if the order depends on it.
    Ready(Option<EntityKey>, Box<Versioned<E>>),
    Done,
}

/// Nothing in it is ever pinned in place.
impl<E> Unpin for FanOutStream<E> {}

impl<E: ReadEntity + 'static> FanOutStream<E> {
    /// The next entity; `None` after the last.
    pub async fn next_entity(&mut self) -> Result<Option<Versioned<E>>, Error> {
        poll_fn(|context| Pin::new(&mut *self).poll_next(context)).await.transpose()
    }

    /// Asks every lane without a head for one. Whether all have one, or are done.
    fn fill(&mut self, context: &mut Context<'_>) -> Result<bool, Error> {
        let mut is_full = true;
        for lane in &mut self.lanes {
            if !matches!(lane.head, Head::Wanted) {
                continue;
            }
            match Pin::new(&mut lane.stream).poll_next(context) {
                Poll::Pending => is_full = false,
                Poll::Ready(None) => lane.head = Head::Done,
                Poll::Ready(Some(entity)) => {
                    let entity = entity?;
                    let key = match self.order {
                        Order::ByRow(key_of) => Some(key_of(&entity)?),
                        Order::AsTheyCome => None,
                    };
                    lane.head = Head::Ready(key, Box::new(entity));
                }
            }
        }
        Ok(is_full)
    }

    /// The lane whose head comes next.
    fn next_lane(&mut self) -> Option<&mut Lane<E>> {
        let mut ready = self.lanes.iter_mut().filter(|lane| matches!(lane.head, Head::Ready(..)));
        match self.order {
            Order::AsTheyCome => ready.next(),
            Order::ByRow(_) => ready.min_by(|a, b| match (&a.head, &b.head) {
                (Head::Ready(Some(a), _), Head::Ready(Some(b), _)) => by_row(a, b),
                _ => Ordering::Equal,
            }),
        }
    }
}

fn by_row(a: &EntityKey, b: &EntityKey) -> Ordering {
    let compare = |a: &str, b: &str| utf16_cmp(a.as_bytes(), b.as_bytes());
    compare(&a.row_key, &b.row_key).then_with(|| compare(&a.partition_key, &b.partition_key))
}

impl<E: ReadEntity + 'static> Stream for FanOutStream<E> {
    type Item = Result<Versioned<E>, Error>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if let Some(error) = self.error.take() {
            return Poll::Ready(Some(Err(error)));
        }
        if self.left == Some(0) {
            self.lanes.clear();
        }
        let is_full = match self.fill(context) {
            Ok(is_full) => is_full,
            Err(error) => {
                self.lanes.clear();
                return Poll::Ready(Some(Err(error)));
            }
        };
        // In order, the next is known only once all have theirs.
        if !is_full && matches!(self.order, Order::ByRow(_)) {
            return Poll::Pending;
        }
        let Some(lane) = self.next_lane() else {
            return if is_full { Poll::Ready(None) } else { Poll::Pending };
        };
        let Head::Ready(_, entity) = std::mem::replace(&mut lane.head, Head::Wanted) else {
            return Poll::Ready(None);
        };
        self.left = self.left.map(|left| left.saturating_sub(1));
        Poll::Ready(Some(Ok(*entity)))
    }
}

impl<E> fmt::Debug for FanOut<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FanOut").field("queries", &self.queries.len()).finish_non_exhaustive()
    }
}
