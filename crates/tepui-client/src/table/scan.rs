//! Queries that read more than they return: filters on properties, whole tables.

use super::stream::{EntityStream, Pages};
use super::{Continuation, FanOut, Page, Query, Table};
use crate::entity::ReadEntity;
use crate::entity::typed::{Keyed, Projection};
use crate::key::KeyRange;
use crate::{Error, Versioned, filter};
use std::fmt;
use tepui_model::table::{Explanation, Filter};

/// A query that reads a table or a partition, and returns what its filter finds. The rest is read, paid for and thrown away:
/// what is asked for often should be in a key.
///
/// ```
/// use tepui_client::filter::property;
/// # tepui_client_testing::run_with_table(async |people| {
/// # for (department, age) in [("Sales", 34), ("Marketing", 51), ("Sales", 28)] {
/// #     people.insert(&tepui_client::DynamicEntity::new(department, age.to_string()).with("Age", age)).await?;
/// # }
/// let of_a_partition = people.partition("Sales").scan().filter(property("Age").gt(30)).all().await?;
/// let of_all = people.scan().filter(property("Age").gt(30)).all().await?;
/// assert_eq!((of_a_partition.len(), of_all.len()), (1, 2));
/// # Ok(()) });
/// ```
///
/// An account with [`Scans::Refuse`](crate::Scans::Refuse) refuses those of tables and of ranges of partitions.
#[must_use]
pub struct Scan<E> {
    query: Query<E>,
}

impl<E: Keyed> Table<E> {
    /// Everything in the table that is of this type, as far as keys begin with what tells it apart, to be filtered. For all that
    /// is there, of whatever type, scan a table of [`DynamicEntity`](crate::DynamicEntity).
    pub fn scan(&self) -> Scan<E> {
        let mut query = Query::of_table(self).row_prefix(E::SCANNED_ROWS);
        query.filters.extend(filter::prefix("PartitionKey", E::SCANNED_PARTITIONS));
        Scan { query }
    }
}

impl<E> Scan<E> {
    pub(super) fn of(query: Query<E>) -> Self {
        Self { query }
    }

    fn with(self, change: impl FnOnce(Query<E>) -> Query<E>) -> Self {
        Self { query: change(self.query) }
    }

    /// Only those that meet the condition, and all that were given before. One on keys alone is an index again, and as
    /// good as a [`Query`].
    pub fn filter(mut self, filter: Filter) -> Self {
        self.query.filters.push(filter);
        self
    }

    /// Only the properties of a struct that derives [`Projection`].
    pub fn select<P: Projection<Of = E>>(self) -> Scan<P> {
        Scan { query: self.query.select::<P>() }
    }

    /// Only these properties. The keys and the timestamp are always there.
    pub fn select_names<S: Into<String>>(self, names: impl IntoIterator<Item = S>) -> Self {
        self.with(|query| query.select_names(names))
    }

    /// At most so many entities in all, over as many pages as it takes.
    pub fn take(self, entities: usize) -> Self {
        self.with(|query| query.take(entities))
    }

    /// At most so many entities in one page: 1 to 1000, which is what services send by themselves.
    pub fn page_size(self, entities: usize) -> Self {
        self.with(|query| query.page_size(entities))
    }

    /// Goes on where a page of the same scan ended.
    pub fn resume(self, from: Continuation) -> Self {
        self.with(|query| query.resume(from))
    }

    /// What the service will read for it. Nothing is sent.
    pub fn explain(&self) -> Explanation {
        self.query.explain()
    }

    /// Reads several ranges of partition keys at a time. Entities come in no order; each range has its own pages, and
    /// [`resume`](Self::resume) is not used.
    ///
    /// ```
    /// use tepui_client::key::KeyRange;
    /// # tepui_client_testing::run_with_table(async |people| {
    /// # for department in ["Finance", "Sales"] {
    /// #     people.insert(&tepui_client::DynamicEntity::new(department, "1")).await?;
    /// # }
    /// let halves = KeyRange::split_at(["M"]);
    /// let mut everybody = people.scan().parallel_by(halves).stream();
    /// let mut count = 0;
    /// while everybody.next_entity().await?.is_some() {
    ///     count += 1;
    /// }
    /// assert_eq!(count, 2);
    /// # Ok(()) });
    /// ```
    pub fn parallel_by(self, partitions: impl IntoIterator<Item = KeyRange>) -> FanOut<E> {
        let of_range = |range: KeyRange| {
            let mut query = self.query.clone();
            if !range.is_all() {
                query.filters.push(range.filter("PartitionKey"));
            }
            query
        };
        FanOut::as_they_come(partitions.into_iter().map(of_range).collect(), self.query.take)
    }
}

impl<E: ReadEntity> Scan<E> {
    /// The first page, or the one from where the scan resumes. It may be empty and not be the last.
    pub async fn page(&self) -> Result<Page<E>, Error> {
        self.query.page().await
    }

    /// All pages, one after the other.
    pub fn pages(self) -> Pages<E> {
        self.query.pages()
    }

    /// All entities, page by page as they are needed.
    pub fn stream(self) -> EntityStream<E> {
        self.query.stream()
    }

    /// All entities at once: for scans that are known to find few.
    pub async fn all(self) -> Result<Vec<Versioned<E>>, Error>
    where
        E: 'static,
    {
        self.query.all().await
    }
}

impl<E> From<Scan<E>> for Query<E> {
    fn from(scan: Scan<E>) -> Self {
        scan.query
    }
}

impl<E> Clone for Scan<E> {
    fn clone(&self) -> Self {
        Self { query: self.query.clone() }
    }
}

impl<E> fmt::Debug for Scan<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Scan").field(&self.query).finish()
    }
}
