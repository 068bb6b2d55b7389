//! Queries for encrypted entities.

use super::at_once::several_at_once;
use super::metadata::{DETAILS, LIST};
use super::table::Sealed;
use super::{EncryptedEntity, EncryptedTable};
use crate::key::KeyRange;
use crate::table::Scan;
use crate::{Continuation, Error, ErrorKind, Explanation, Filter, Page, Versioned};
use std::fmt;
use std::marker::PhantomData;

/// A query for the rows of one partition, by their keys.
#[derive(Debug, Clone, Copy)]
pub struct ByKeys;

/// A query that reads more than it returns. It can have a filter.
#[derive(Debug, Clone, Copy)]
pub struct Scanning;

/// A query for encrypted entities. Only what is not encrypted can be compared, and only after it was said that the query
/// is a scan.
///
/// ```
/// # use tepui_client::DynamicEntity;
/// # use tepui_client::patterns::encryption::{AesKey, Policy};
/// # tepui_client_testing::run_with_table(async |people| {
/// let people = people.encrypted(Policy::new(AesKey::new("2026-11", &[7; 32])?).encrypt(["Salary"]));
/// for (row, age) in [("1", 34), ("2", 28)] {
///     people.insert(&DynamicEntity::new("Sales", row).with("Age", age).with("Salary", 71_000)).await?;
/// }
/// let all = people.partition("Sales").select(["Salary"]).all().await?;
/// assert_eq!(all[1].get("Salary"), Some(&71_000.into()));
/// let older = people.partition("Sales").scan().filter(tepui_client::filter::property("Age").gt(30)).all().await?;
/// assert_eq!(older.len(), 1);
/// # Ok(()) });
/// ```
#[must_use]
pub struct EncryptedQuery<E, S = ByKeys> {
    table: EncryptedTable<E>,
    query: Scan<Sealed>,
    /// What was asked for; empty: all.
    selected: Vec<String>,
    filters: Vec<Filter>,
    take: Option<usize>,
    state: PhantomData<S>,
}

impl<E: EncryptedEntity> EncryptedTable<E> {
    /// A query for rows of a partition.
    pub fn partition(&self, partition_key: impl Into<String>) -> EncryptedQuery<E> {
        EncryptedQuery::new(self.clone(), self.table.query().partition(partition_key).scan())
    }

    /// Everything in the table, to be filtered.
    pub fn scan(&self) -> EncryptedQuery<E, Scanning> {
        EncryptedQuery::new(self.clone(), self.table.query().scan())
    }
}

impl<E: EncryptedEntity> EncryptedQuery<E> {
    /// Only those with a row key in this range.
    pub fn rows(mut self, rows: KeyRange) -> Self {
        if !rows.is_all() {
            self.query = self.query.filter(rows.filter("RowKey"));
        }
        self
    }

    /// Only those whose row key begins like this.
    pub fn row_prefix(self, prefix: &str) -> Self {
        self.rows(KeyRange::prefix(prefix))
    }

    /// Reads the rows so far, and returns those that a filter finds.
    pub fn scan(self) -> EncryptedQuery<E, Scanning> {
        let Self { table, query, selected, filters, take, state: _ } = self;
        EncryptedQuery { table, query, selected, filters, take, state: PhantomData }
    }
}

impl<E: EncryptedEntity> EncryptedQuery<E, Scanning> {
    /// Only those that meet the condition, and all that were given before. Properties that are known to be encrypted are refused
    /// when the query is carried out.
    pub fn filter(mut self, filter: Filter) -> Self {
        self.filters.push(filter.clone());
        self.query = self.query.filter(filter);
        self
    }
}

impl<E: EncryptedEntity, S> EncryptedQuery<E, S> {
    fn new(table: EncryptedTable<E>, query: Scan<Sealed>) -> Self {
        Self { table, query, selected: Vec::new(), filters: Vec::new(), take: None, state: PhantomData }
    }

    /// Only these properties, and what it takes to decrypt them. The keys and the timestamp are always there.
    pub fn select<N: Into<String>>(mut self, names: impl IntoIterator<Item = N>) -> Self {
        let is_first = self.selected.is_empty();
        let before = self.selected.len();
        self.selected.extend(names.into_iter().map(Into::into));
        let new = self.selected.iter().skip(before).cloned();
        let needed = [DETAILS, LIST].into_iter().map(str::to_owned).filter(|_| is_first);
        self.query = self.query.select_names(new.chain(needed));
        self
    }

    /// At most so many entities in all, over as many pages as it takes.
    pub fn take(mut self, entities: usize) -> Self {
        self.take = Some(entities);
        self.query = self.query.take(entities);
        self
    }

    /// At most so many entities in one page: 1 to 1000.
    pub fn page_size(mut self, entities: usize) -> Self {
        self.query = self.query.page_size(entities);
        self
    }

    /// Goes on where a page of the same query ended.
    pub fn resume(mut self, from: Continuation) -> Self {
        self.query = self.query.resume(from);
        self
    }

    /// What the service will read for it. Nothing is sent.
    pub fn explain(&self) -> Explanation {
        self.query.explain()
    }

    /// The first page, or the one from where the query resumes.
    pub async fn page(&self) -> Result<Page<E>, Error> {
        self.check()?;
        let Page { entities, next, receipt } = self.query.page().await?;
        let selected = Some(self.selected.as_slice()).filter(|names| !names.is_empty());
        let opened = several_at_once(entities, |found| self.table.open(found, selected)).await;
        Ok(Page { entities: opened.into_iter().collect::<Result<_, _>>()?, next, receipt })
    }

    /// All pages, one after the other.
    pub fn pages(self) -> EncryptedPages<E, S> {
        EncryptedPages { query: Some(self) }
    }

    /// All entities at once: for queries that are known to find few.
    pub async fn all(self) -> Result<Vec<Versioned<E>>, Error> {
        let mut pages = self.pages();
        let mut all = Vec::new();
        while let Some(page) = pages.next_page().await? {
            all.extend(page.entities);
        }
        Ok(all)
    }

    /// What remains to be asked for after a page.
    fn after(mut self, received: usize, next: Continuation) -> Option<Self> {
        self.take = self.take.map(|left| left.saturating_sub(received));
        self.query = self.query.resume(next);
        if let Some(left) = self.take {
            self.query = self.query.take(left);
        }
        (self.take != Some(0)).then_some(self)
    }

    /// To the service, encrypted properties are bytes: a comparison would find nothing, without an error.
    fn check(&self) -> Result<(), Error> {
        let is_encrypted = |name: &str| {
            let mut known = E::ENCRYPTED.iter().copied().chain(self.table.policy.names());
            known.any(|known| known == name)
        };
        match self.filters.iter().find_map(|filter| first_name(filter, &is_encrypted)) {
            Some(name) => {
                let message = format!("the property is encrypted, so it cannot be compared: {name}");
                Err(Error::new(ErrorKind::Refused, message))
            }
            None => Ok(()),
        }
    }
}

/// The first property in a filter for which it holds.
fn first_name<'a>(filter: &'a Filter, holds: &impl Fn(&str) -> bool) -> Option<&'a str> {
    match filter {
        Filter::Constant(_) => None,
        Filter::IsTrue(name) | Filter::Compare { property: name, .. } => {
            Some(name.as_ref()).filter(|name| holds(name))
        }
        Filter::And(filters) | Filter::Or(filters) => {
            filters.iter().find_map(|filter| first_name(filter, holds))
        }
        Filter::Not(inner) => first_name(inner, holds),
    }
}

/// The pages of a query, each asked for when it is wanted. Ends after an error; to go on, resume from the page before.
#[must_use]
pub struct EncryptedPages<E, S = ByKeys> {
    /// For the next page.
    query: Option<EncryptedQuery<E, S>>,
}

impl<E: EncryptedEntity, S> EncryptedPages<E, S> {
    /// The next page; `None` after the last.
    pub async fn next_page(&mut self) -> Result<Option<Page<E>>, Error> {
        let Some(query) = self.query.take().filter(|query| query.take != Some(0)) else { return Ok(None) };
        let page = query.page().await?;
        self.query = page.next.clone().and_then(|next| query.after(page.entities.len(), next));
        Ok(Some(page))
    }
}

impl<E, S> fmt::Debug for EncryptedPages<E, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("EncryptedPages").field(&self.query).finish()
    }
}

impl<E, S> fmt::Debug for EncryptedQuery<E, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EncryptedQuery").field("query", &self.query).finish_non_exhaustive()
    }
}
