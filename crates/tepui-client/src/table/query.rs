//! Queries for entities.

use super::continuation::fingerprint;
use super::stream::{EntityStream, Pages};
use super::{Continuation, Table, stored};
use crate::{Entity, Error, ErrorKind, Scans, Versioned, core, filter};
use std::fmt;
use tepui_model::cost::Receipt;
use tepui_model::table::{Call, Explanation, Filter, PageSize, PlanKind, QueryEntities, explain};
use tepui_wire::table::filter_text;
use tepui_wire::table::reply::read::RemoteReply;
use tepui_wire::table::request::write::Options;

/// What is always read, so that it is known which entity it is.
const ALWAYS_SELECTED: [&str; 3] = ["PartitionKey", "RowKey", "Timestamp"];

/// A query for entities, which is carried out when its pages or entities are asked for.
///
/// ```
/// use futures_util::TryStreamExt;
/// use tepui_client::DynamicEntity;
/// use tepui_client::filter::property;
/// # tepui_client_testing::run_with_table(async |people| {
/// for (row, age) in [("000223", 34), ("000224", 28), ("000225", 51)] {
///     people.insert(&DynamicEntity::new("Sales", row).with("Age", age)).await?;
/// }
/// let mut sales = people.query().partition("Sales").filter(property("Age").gt(30)).select(["Age"]).stream();
/// let mut ages = Vec::new();
/// while let Some(employee) = sales.try_next().await? {
///     ages.extend(employee.get("Age").and_then(|age| age.as_i32()));
/// }
/// assert_eq!(ages, [34, 51]);
/// # Ok(()) });
/// ```
#[must_use]
pub struct Query<E> {
    table: Table<E>,
    filters: Vec<Filter>,
    select: Vec<String>,
    page_size: PageSize,
    take: Option<usize>,
    from: Option<Continuation>,
}

/// A page of a query. It may have no entities and still a next one.
///
/// ```
/// # tepui_client_testing::run_with_table(async |people| {
/// # let staff = (0..25).map(|id| tepui_client::DynamicEntity::new("Sales", format!("{id:06}")));
/// # people.bulk().insert(staff).await;
/// let query = people.query().partition("Sales").page_size(10); // There are 25.
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
    /// A query for all entities, to be narrowed.
    pub fn query(&self) -> Query<E> {
        Query {
            table: self.clone(),
            filters: Vec::new(),
            select: Vec::new(),
            page_size: PageSize::MAX,
            take: None,
            from: None,
        }
    }
}

impl<E> Query<E> {
    /// Only of this partition.
    pub fn partition(self, partition_key: impl Into<String>) -> Self {
        self.filter(filter::property("PartitionKey").eq(partition_key.into()))
    }

    /// Only those whose row key begins like this.
    pub fn row_prefix(mut self, prefix: &str) -> Self {
        self.filters.extend(filter::prefix("RowKey", prefix));
        self
    }

    /// Only those that meet the condition, and all that were given before.
    pub fn filter(mut self, filter: Filter) -> Self {
        self.filters.push(filter);
        self
    }

    /// Only these properties. The keys and the timestamp are always there.
    pub fn select<S: Into<String>>(mut self, names: impl IntoIterator<Item = S>) -> Self {
        self.select.extend(names.into_iter().map(Into::into));
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
    /// assert_eq!(people.query().partition("Sales").explain().plan.name(), "partition");
    /// ```
    pub fn explain(&self) -> Explanation {
        explain(self.whole_filter().as_ref())
    }

    fn whole_filter(&self) -> Option<Filter> {
        (!self.filters.is_empty()).then(|| filter::all(self.filters.iter().cloned()))
    }

    /// Refuses what cannot be sent, or must not be.
    fn check(&self, filter: Option<&Filter>) -> Result<(), Error> {
        filter.map_or(Ok(()), filter::check)?;
        self.select.iter().try_for_each(|name| filter::check_name(name))?;
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
}

impl<E: Entity> Query<E> {
    /// The first page, or the one from where the query resumes.
    pub async fn page(&self) -> Result<Page<E>, Error> {
        let filter = self.whole_filter();
        self.check(filter.as_ref())?;
        let table = &self.table;
        let text = filter.as_ref().map(filter_text::print).unwrap_or_default();
        let select = self.select.join(",");
        let fingerprint = fingerprint(&[&table.name.to_ascii_lowercase(), &text, &select]);
        let from = self.from.as_ref().map(|from| from.token(fingerprint)).transpose()?;
        let wanted = self.take.map_or(self.page_size, |left| {
            PageSize::new(left.min(self.page_size.get())).unwrap_or(self.page_size)
        });
        let selected: Vec<&str> = match self.select.as_slice() {
            [] => Vec::new(),
            names => {
                let named = names.iter().map(String::as_str).filter(|name| !ALWAYS_SELECTED.contains(name));
                ALWAYS_SELECTED.into_iter().chain(named).collect()
            }
        };
        let options = Options { select: &selected, from: from.as_ref(), ..Options::default() };
        let query = QueryEntities { table: table.name.to_string(), filter, page_size: wanted, from: None };
        let call = Call::Query(query);
        let take = |response: &_, reply| Ok((reply, core::receipt(response)));
        let how = table.call_options(None);
        let (reply, receipt) = table.core.table_call_with(&call, &options, &how, take).await?;
        let RemoteReply::Entities { entities, next } = reply else { return Err(Error::unexpected()) };
        let entities = entities.into_iter().map(|entity| Versioned::from_stored(&stored(entity, None)?));
        let next = next.and_then(|token| Continuation::new(fingerprint, token));
        Ok(Page { entities: entities.collect::<Result<_, _>>()?, next, receipt })
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

impl<E> Clone for Query<E> {
    fn clone(&self) -> Self {
        Self {
            table: self.table.clone(),
            filters: self.filters.clone(),
            select: self.select.clone(),
            page_size: self.page_size,
            take: self.take,
            from: self.from.clone(),
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
