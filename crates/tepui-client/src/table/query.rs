//! Queries for entities by their keys: everything that is read is returned.

use super::continuation::fingerprint;
use super::stream::{EntityStream, Pages};
use super::{Continuation, Scan, Table, stored};
use crate::entity::ReadEntity;
use crate::entity::typed::Projection;
use crate::key::KeyRange;
use crate::{Error, ErrorKind, Scans, Versioned, core, filter};
use std::fmt;
use std::sync::Arc;
use tepui_model::cost::Receipt;
use tepui_model::table::{Call, Explanation, Filter, PageSize, PlanKind, QueryEntities, explain};
use tepui_wire::table::filter_text;
use tepui_wire::table::reply::read::read_page;
use tepui_wire::table::request::write::Options;

/// What is always read, so that it is known which entity it is.
const ALWAYS_SELECTED: [&str; 3] = ["PartitionKey", "RowKey", "Timestamp"];

/// A query that has not yet said what it reads: a partition, or what a scan finds.
///
/// ```compile_fail,E0599
/// # async fn example(people: tepui_client::Table) -> Result<(), tepui_client::Error> {
/// people.query().all().await?; // All of the table: that is `people.scan()`.
/// # Ok(())
/// # }
/// ```
#[must_use]
pub struct QueryWithoutPartition<E> {
    table: Table<E>,
}

/// A query for the rows of one partition, carried out when its pages or entities are asked for. It can ask for keys only,
/// which are what a table has an index of. Filters are those of a [`Scan`].
///
/// ```
/// use futures_util::TryStreamExt;
/// use tepui_client::DynamicEntity;
/// # tepui_client_testing::run_with_table(async |people| {
/// for (row, age) in [("000223", 34), ("000224", 28), ("000225", 51)] {
///     people.insert(&DynamicEntity::new("Sales", row).with("Age", age)).await?;
/// }
/// let mut sales = people.partition("Sales").row_prefix("0002").select_names(["Age"]).stream();
/// let mut ages = Vec::new();
/// while let Some(employee) = sales.try_next().await? {
///     ages.extend(employee.get("Age").and_then(|age| age.as_i32()));
/// }
/// assert_eq!(ages, [34, 28, 51]);
/// # Ok(()) });
/// ```
///
/// ```compile_fail,E0277
/// use tepui_client::filter::property;
/// # fn example(people: tepui_client::Table) {
/// people.partition("Sales").filter(property("Age").gt(30)); // The whole partition is read: write `.scan()` before it.
/// # }
/// ```
#[must_use]
pub struct Query<E> {
    pub(super) table: Table<E>,
    pub(super) filters: Vec<Filter>,
    /// Properties to read; `None`: all.
    select: Option<Vec<String>>,
    pub(super) page_size: PageSize,
    pub(super) take: Option<usize>,
    from: Option<Continuation>,
    /// Why it cannot be sent: a key of it cannot be written.
    invalid: Option<Arc<Error>>,
}

/// What can have a filter. Only to tell what is missing: nothing else asks for it.
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "a query by keys has no filter: all that it reads, it returns",
    label = "write `.scan()` before `.filter(…)`",
    note = "a filter reads everything before it and throws away what does not match: what is asked for often should be in a key, or \
            in an index",
    note = "for a range of row keys write `.rows(…)`, `.row_prefix(…)`, or the method of the key's part"
)]
pub trait SaysScan {}

impl<E> SaysScan for Scan<E> {}

/// A page of a query. It may have no entities and still a next one.
///
/// ```
/// # tepui_client_testing::run_with_table(async |people| {
/// # let staff = (0..25).map(|id| tepui_client::DynamicEntity::new("Sales", format!("{id:06}")));
/// # people.bulk().insert(staff).await;
/// let query = people.partition("Sales").page_size(10); // There are 25.
/// let page = query.page().await?;
/// let stored = page.next.expect("ten of 25").to_string(); // In a link, a message, a file: for another day or machine.
/// let rest = query.resume(stored.parse()?).all().await?;
/// assert_eq!((page.entities.len(), rest.len()), (10, 15));
/// # Ok(()) });
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Page<E> {
    pub entities: Vec<Versioned<E>>,
    /// Where the next page begins; `None`: this is the last.
    pub next: Option<Continuation>,
    /// What the page cost, where the service says so: Tepui does.
    pub receipt: Option<Receipt>,
}

impl<E> Table<E> {
    /// A query by keys as they are stored, for entities of any type. Types that are derived have
    /// [`partition`](Self::partition), which takes the parts of a key.
    pub fn query(&self) -> QueryWithoutPartition<E> {
        QueryWithoutPartition { table: self.clone() }
    }
}

impl<E> QueryWithoutPartition<E> {
    /// The rows of this partition.
    pub fn partition(self, partition_key: impl Into<String>) -> Query<E> {
        Query::of_partition(&self.table, Ok(partition_key.into()))
    }

    /// Whatever is in the table. See [`Table::scan`].
    pub fn scan(self) -> Scan<E> {
        Scan::of(Query::of_table(&self.table))
    }

    /// Never there: says what to write.
    #[doc(hidden)]
    pub fn filter(self, filter: Filter) -> Scan<E>
    where
        Self: SaysScan,
    {
        self.scan().filter(filter)
    }
}

impl<E> Query<E> {
    /// Everything, which is not for callers to say without the word "scan".
    pub(super) fn of_table(table: &Table<E>) -> Self {
        Self {
            table: table.clone(),
            filters: Vec::new(),
            select: None,
            page_size: PageSize::MAX,
            take: None,
            from: None,
            invalid: None,
        }
    }

    /// The rows of a partition whose key was made of parts. One that cannot be made is an error when the query is sent.
    #[doc(hidden)]
    pub fn of_partition(table: &Table<E>, partition_key: Result<String, Error>) -> Self {
        let mut query = Self::of_table(table);
        match partition_key {
            Ok(key) => query.filters.push(filter::property("PartitionKey").eq(key)),
            Err(error) => query.invalid = Some(Arc::new(error)),
        }
        query
    }

    /// The same with a range that was made of parts.
    #[doc(hidden)]
    pub fn rows_of_parts(mut self, rows: Result<KeyRange, Error>) -> Self {
        match rows {
            Ok(rows) => self.rows(rows),
            Err(error) => {
                self.invalid.get_or_insert(Arc::new(error));
                self
            }
        }
    }

    /// The row with a key that was made of parts.
    #[doc(hidden)]
    pub fn row_of_parts(mut self, row_key: Result<String, Error>) -> Self {
        match row_key {
            Ok(key) => self.filters.push(filter::property("RowKey").eq(key)),
            Err(error) => {
                self.invalid.get_or_insert(Arc::new(error));
            }
        }
        self
    }

    /// The same question to a table of another type, for rows that follow from these.
    #[doc(hidden)]
    pub fn of<F>(self) -> Query<F> {
        let Self { table, filters, select, page_size, take, from, invalid } = self;
        Query { table: table.of(), filters, select, page_size, take, from, invalid }
    }

    /// Only those with a row key in this range.
    ///
    /// ```
    /// use tepui_client::PlanKind;
    /// use tepui_client::key::KeyRange;
    /// # let account = tepui_client::Account::from_connection_string("UseDevelopmentStorage=true").unwrap();
    /// # let people = account.table("People").unwrap();
    /// let query = people.partition("Sales").rows(KeyRange::prefixes("empid_000100", "empid_000199"));
    /// assert_eq!(query.explain().plan, PlanKind::RowRange);
    /// ```
    pub fn rows(mut self, rows: KeyRange) -> Self {
        if !rows.is_all() {
            self.filters.push(rows.filter("RowKey"));
        }
        self
    }

    /// Only those whose row key begins like this.
    pub fn row_prefix(self, prefix: &str) -> Self {
        self.rows(KeyRange::prefix(prefix))
    }

    /// Reads the rows so far, and returns those that a filter finds: whatever else is read is paid for and thrown away.
    pub fn scan(self) -> Scan<E> {
        Scan::of(self)
    }

    /// Never there: says what to write.
    #[doc(hidden)]
    pub fn filter(self, filter: Filter) -> Scan<E>
    where
        Self: SaysScan,
    {
        self.scan().filter(filter)
    }

    /// Only the properties of a struct that derives [`Projection`].
    pub fn select<P: Projection<Of = E>>(mut self) -> Query<P> {
        self.select = Some(P::properties().into_iter().map(str::to_owned).collect());
        self.of()
    }

    /// Only these properties. The keys and the timestamp are always there.
    pub fn select_names<S: Into<String>>(mut self, names: impl IntoIterator<Item = S>) -> Self {
        self.select.get_or_insert_default().extend(names.into_iter().map(Into::into));
        self
    }

    /// At most so many entities in all, over as many pages as it takes.
    pub fn take(mut self, entities: usize) -> Self {
        self.take = Some(entities);
        self
    }

    /// At most so many entities in one page: 1 to 1000, which is what services send by themselves.
    pub fn page_size(mut self, entities: usize) -> Self {
        self.page_size = PageSize::new(entities.clamp(1, PageSize::MAX.get())).unwrap_or_default();
        self
    }

    /// Goes on where a page of the same query ended.
    pub fn resume(mut self, from: Continuation) -> Self {
        self.from = Some(from);
        self
    }

    /// What the service will read for it. Nothing is sent.
    ///
    /// ```
    /// # let account = tepui_client::Account::from_connection_string("UseDevelopmentStorage=true").unwrap();
    /// # let people = account.table("People").unwrap();
    /// assert_eq!(people.partition("Sales").explain().plan.name(), "partition");
    /// assert_eq!(people.scan().explain().plan.name(), "table");
    /// ```
    pub fn explain(&self) -> Explanation {
        match self.invalid {
            Some(_) => explain(Some(&Filter::Constant(false))),
            None => explain(self.whole_filter().as_ref()),
        }
    }

    fn whole_filter(&self) -> Option<Filter> {
        (!self.filters.is_empty()).then(|| filter::all(self.filters.iter().cloned()))
    }

    /// Refuses what cannot be sent, or must not be.
    fn check(&self, filter: Option<&Filter>) -> Result<(), Error> {
        if let Some(invalid) = &self.invalid {
            return Err(invalid.for_another());
        }
        filter.map_or(Ok(()), filter::check)?;
        self.select.iter().flatten().try_for_each(|name| filter::check_name(name))?;
        let reads_partitions = || {
            let kind = explain(filter).plan;
            matches!(kind, PlanKind::PartitionRange | PlanKind::Table)
        };
        if self.table.core.scans == Scans::Refuse && reads_partitions() {
            let message = "the query reads more than single partitions, which this account refuses";
            return Err(Error::new(ErrorKind::Refused, message));
        }
        Ok(())
    }

    /// The number of entities that are still wanted.
    pub(super) fn left(&self) -> Option<usize> {
        self.take
    }

    /// What remains to be asked for after a page.
    pub(super) fn advance(&mut self, received: usize, next: Continuation) {
        self.from = Some(next);
        self.take = self.take.map(|left| left.saturating_sub(received));
    }
}

impl<E: ReadEntity> Query<E> {
    /// The first page, or the one from where the query resumes.
    pub async fn page(&self) -> Result<Page<E>, Error> {
        let filter = self.whole_filter();
        self.check(filter.as_ref())?;
        let table = &self.table;
        let text = filter.as_ref().map(filter_text::print).unwrap_or_default();
        let select = self.select.as_ref().map(|names| names.join(","));
        let fingerprint =
            fingerprint(&[&table.name.to_ascii_lowercase(), &text, select.as_deref().unwrap_or_default()]);
        let from = self.from.as_ref().map(|from| from.token(fingerprint)).transpose()?;
        let wanted = self.take.map_or(self.page_size, |left| {
            PageSize::new(left.min(self.page_size.get())).unwrap_or(self.page_size)
        });
        let selected: Vec<&str> = match &self.select {
            None => Vec::new(),
            Some(names) => {
                let named = names.iter().map(String::as_str).filter(|name| !ALWAYS_SELECTED.contains(name));
                ALWAYS_SELECTED.into_iter().chain(named).collect()
            }
        };
        let options = Options { select: &selected, from: from.as_ref(), ..Options::default() };
        let query = QueryEntities { table: table.name.to_string(), filter, page_size: wanted, from: None };
        let call = Call::Query(query);
        let read = |response: &_| {
            let (mut entities, mut wrong) = (Vec::new(), None);
            let next = read_page(response, |entity| {
                if wrong.is_none() {
                    match stored(entity, None).and_then(Versioned::from_stored) {
                        Ok(entity) => entities.push(entity),
                        Err(error) => wrong = Some(error),
                    }
                }
            })?;
            let next = next.and_then(|token| Continuation::new(fingerprint, token));
            let page = Page { entities, next, receipt: core::receipt(response) };
            Ok(wrong.map_or(Ok(page), Err))
        };
        let how = table.call_options(None);
        table.core.table_call_reading(&call, &options, &how, read).await?
    }

    /// All pages, one after the other.
    pub fn pages(self) -> Pages<E> {
        Pages::new(self)
    }

    /// All entities, page by page as they are needed.
    pub fn stream(self) -> EntityStream<E> {
        EntityStream::new(self.pages())
    }

    /// All entities at once: for queries that are known to find few.
    pub async fn all(self) -> Result<Vec<Versioned<E>>, Error>
    where
        E: 'static,
    {
        let mut pages = self.pages();
        let mut all = Vec::new();
        while let Some(page) = pages.next_page().await? {
            all.extend(page.entities);
        }
        Ok(all)
    }
}

impl<E> Clone for Query<E> {
    fn clone(&self) -> Self {
        Self {
            table: self.table.clone(),
            filters: self.filters.clone(),
            select: self.select.clone(),
            page_size: self.page_size,
            take: self.take,
            from: self.from.clone(),
            invalid: self.invalid.clone(),
        }
    }
}

impl<E> fmt::Debug for Query<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Query")
            .field("table", &self.table)
            .field("filters", &self.filters)
            .finish_non_exhaustive()
    }
}

impl<E> fmt::Debug for QueryWithoutPartition<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("QueryWithoutPartition").field("table", &self.table).finish()
    }
}
