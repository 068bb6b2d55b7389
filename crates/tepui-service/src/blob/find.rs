//! Find Blobs by Tags, in one container or in all of an account.
//!
//! Tags are indexed by container, key and value. For one value the index has the blobs in the order of their names,
//! which is the order of the reply. For a range of values it does not: few blobs are sorted, and if there are many, the
//! blobs of the container are scanned. A page ends after a number of examined rows, full or not.

use super::containers;
use super::cursor::RowCursor;
use super::service::Context;
use crate::MAX_PAGE_TIME;
use crate::coop::ROW_COST;
use crate::keyspace::{self, Edge, Incarnation};
use crate::record::{StoredBlob, StoredContainer};
use crate::transact::storage_error;
use tepui_model::ServiceError;
use tepui_model::blob::{
    FindBlobsByTags, FoundBlob, FoundMarker, FoundPage, Revision, TagComparison, TagFilter, Tags,
};
use tepui_model::cost::Cost;
use tepui_storage::{Key, KeyRange, Snapshot};

/// Rows examined for one page. A page that is not full then has a continuation marker.
const MAX_EXAMINED: usize = 20_000;
/// The most blobs in a range of values, and bytes of their keys, that are sorted by name, again for each page. With more,
/// the container is scanned in its order.
const MAX_SORTED: usize = 20_000;
const MAX_SORTED_BYTES: usize = 4 * 1024 * 1024;
/// The most blobs that are read at once.
const MAX_READ_AHEAD: usize = 64;

pub(super) async fn find<S: Snapshot>(
    context: &Context<'_, S>,
    query: &FindBlobsByTags,
) -> Result<FoundPage, ServiceError> {
    let page = FoundPage { cost: Cost::of_list(0), ..FoundPage::default() };
    let mut search = TagSearch { context, query, page, examined: 0 };
    match &query.container {
        Some(name) => {
            let (_, container) = containers::find(context, name).await?;
            search.search_container(name.as_str(), container.incarnation).await?;
        }
        None => search.search_account().await?,
    }
    let FoundPage { blobs, next, cost } = search.page;
    Ok(FoundPage { cost: cost.of_page(blobs.len(), next.is_some()), blobs, next })
}

/// Whether a container can match the filter by its name.
fn may_be_in(filter: &TagFilter, container: &str) -> bool {
    match filter {
        TagFilter::And(left, right) => may_be_in(left, container) && may_be_in(right, container),
        TagFilter::Or(left, right) => may_be_in(left, container) || may_be_in(right, container),
        TagFilter::Compare { .. } => true,
        TagFilter::Container(name) => name == container,
    }
}

/// The comparisons that all must hold.
fn comparisons<'a>(filter: &'a TagFilter, into: &mut Vec<(&'a str, TagComparison, &'a str)>) {
    match filter {
        TagFilter::And(left, right) => {
            comparisons(left, into);
            comparisons(right, into);
        }
        TagFilter::Compare { key, how, value } => into.push((key, *how, value)),
        TagFilter::Or(..) | TagFilter::Container(_) => {}
    }
}

#[derive(PartialEq, Eq)]
enum Capacity {
    Left,
    Full,
}

struct TagSearch<'a, S> {
    context: &'a Context<'a, S>,
    query: &'a FindBlobsByTags,
    page: FoundPage,
    examined: usize,
}

impl<S: Snapshot> TagSearch<'_, S> {
    /// Adds the matches of all containers.
    async fn search_account(&mut self) -> Result<(), ServiceError> {
        let account = self.context.account;
        let mut range = keyspace::containers(account, "");
        if let Some(from) = &self.query.from {
            range.start = keyspace::container(account, &from.container);
        }
        self.page.cost.ranges += 1;
        let mut rows = RowCursor::new(self.context.snapshot, range, 100);
        while self.page.next.is_none()
            && let Some((key, row)) = rows.next().await?
        {
            self.page.cost.look_at(key.len() + row.len());
            let Some((name, None)) = keyspace::container_name(account, &key) else { continue };
            if !may_be_in(&self.query.filter, &name) {
                continue;
            }
            if self.is_exhausted() {
                self.end_at(&name, "", Revision::Base);
                break;
            }
            self.examined += 1;
            self.search_container(&name, StoredContainer::decode(&row)?.incarnation).await?;
        }
        Ok(())
    }

    /// Adds the matches of one container.
    async fn search_container(&mut self, name: &str, container: Incarnation) -> Result<(), ServiceError> {
        let from = self.query.from.as_ref().filter(|from| from.container == name);
        let from = from.map(|from| keyspace::blob(container, &from.blob, from.revision));
        let mut all = Vec::new();
        comparisons(&self.query.filter, &mut all);
        let exact = all.iter().find(|(_, how, _)| *how == TagComparison::Equal);
        if let Some((key, _, value)) = exact {
            return self.search_value(name, container, (key, value), from).await;
        }
        match all.first() {
            Some((key, ..)) => {
                let range = bounds(container, key, &all);
                self.search_range(name, container, range, from).await
            }
            // No comparison, so the index does not help.
            None => Ok(()),
        }
    }

    /// Searches the blobs that have a tag with one value.
    async fn search_value(
        &mut self,
        name: &str,
        container: Incarnation,
        (key, value): (&str, &str),
        from: Option<Key>,
    ) -> Result<(), ServiceError> {
        let mut range = KeyRange {
            start: keyspace::tag_edge(container, key, value, Edge::Before),
            end: keyspace::tag_edge(container, key, value, Edge::After),
        };
        if let Some((blob, revision)) = from.as_deref().and_then(keyspace::blob_of) {
            range.start = keyspace::tag(container, (key, value), &blob, revision);
        }
        self.page.cost.ranges += 1;
        let mut rows = RowCursor::new(self.context.snapshot, range, 1000);
        loop {
            let page = rows.take(self.read_ahead()).await?;
            page.iter().for_each(|(row, value)| self.page.cost.look_at(row.len() + value.len()));
            let tagged = page.iter().filter_map(|(row, _)| keyspace::tagged_blob(row));
            let keys: Vec<Key> =
                tagged.map(|(blob, revision)| keyspace::blob(container, &blob, revision)).collect();
            if page.is_empty() || self.add_found(name, &keys).await? == Capacity::Full {
                return Ok(());
            }
        }
    }

    /// Searches the blobs that have a tag in a range of values, in the order of their names.
    async fn search_range(
        &mut self,
        name: &str,
        container: Incarnation,
        range: KeyRange,
        from: Option<Key>,
    ) -> Result<(), ServiceError> {
        let Some(keys) = self.keys_in(container, range, from.as_ref()).await? else {
            return self.scan_container(name, container, from).await;
        };
        let mut keys = &keys[..];
        while !keys.is_empty() {
            let (first, rest) = keys.split_at(self.read_ahead().min(keys.len()));
            if self.add_found(name, first).await? == Capacity::Full {
                return Ok(());
            }
            keys = rest;
        }
        Ok(())
    }

    /// The keys of the blobs in a range of values, sorted. `None`: too many to sort for each page.
    async fn keys_in(
        &mut self,
        container: Incarnation,
        range: KeyRange,
        from: Option<&Key>,
    ) -> Result<Option<Vec<Key>>, ServiceError> {
        let (mut keys, mut bytes) = (Vec::new(), 0);
        self.page.cost.ranges += 1;
        let mut rows = RowCursor::new(self.context.snapshot, range, 1000);
        for _ in 0..=MAX_SORTED {
            let Some((row, value)) = rows.next().await? else {
                keys.sort_unstable();
                return Ok(Some(keys));
            };
            self.page.cost.look_at(row.len() + value.len());
            let Some((blob, revision)) = keyspace::tagged_blob(&row) else { continue };
            let key = keyspace::blob(container, &blob, revision);
            self.context.coop.spend(ROW_COST).await;
            if from.is_none_or(|from| key >= *from) {
                bytes += key.len();
                keys.push(key);
            }
            if bytes > MAX_SORTED_BYTES {
                break;
            }
        }
        Ok(None)
    }

    /// Scans all blobs of a container.
    async fn scan_container(
        &mut self,
        name: &str,
        container: Incarnation,
        from: Option<Key>,
    ) -> Result<(), ServiceError> {
        let mut range = keyspace::blobs(container);
        range.start = from.map_or(range.start.clone(), |from| from.max(range.start));
        self.page.cost.ranges += 1;
        let mut rows = RowCursor::new(self.context.snapshot, range, 256);
        while let Some((key, row)) = rows.next().await? {
            self.page.cost.look_at(key.len() + row.len());
            let Some((blob, revision)) = keyspace::blob_of(&key) else { continue };
            if self.is_exhausted() {
                self.end_at(name, &blob, revision);
                return Ok(());
            }
            self.examined += 1;
            match revision {
                Revision::Base => {}
                Revision::Version(_) if self.query.with_versions => {}
                Revision::Snapshot(_) if self.query.with_versions => {
                    rows.skip_to(&keyspace::versions(container, &blob).start);
                    continue;
                }
                _ => {
                    rows.skip_to(&keyspace::blob(container, &blob, Revision::Base));
                    continue;
                }
            }
            self.context.coop.spend(ROW_COST).await;
            let stored = StoredBlob::decode(&row)?;
            if stored.deleted.is_none()
                && let Some(found) = self.matching(name, &blob, revision, &stored)
                && self.add(found, revision) == Capacity::Full
            {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Whether the page has to end because of its rows or its time.
    fn is_exhausted(&self) -> bool {
        self.examined > MAX_EXAMINED || self.examined > 0 && self.context.coop.elapsed() >= MAX_PAGE_TIME
    }

    /// Adds a match, or makes it the start of the next page.
    fn add(&mut self, found: FoundBlob, revision: Revision) -> Capacity {
        if self.page.blobs.len() == self.query.page_size {
            self.end_at(&found.container, &found.name, revision);
            return Capacity::Full;
        }
        self.page.blobs.push(found);
        Capacity::Left
    }

    /// Makes a blob the start of the next page.
    fn end_at(&mut self, container: &str, blob: &str, revision: Revision) {
        let (container, blob) = (container.to_owned(), blob.to_owned());
        self.page.next = Some(FoundMarker { container, blob, revision });
    }

    /// How many blobs to read at once.
    fn read_ahead(&self) -> usize {
        (self.query.page_size + 1 - self.page.blobs.len()).min(MAX_READ_AHEAD)
    }

    /// Reads blobs, and adds those that match.
    async fn add_found(&mut self, container: &str, keys: &[Key]) -> Result<Capacity, ServiceError> {
        let rows = self.context.snapshot.get_many(keys).await.map_err(storage_error)?;
        for (key, row) in keys.iter().zip(rows) {
            let Some((blob, revision)) = keyspace::blob_of(key) else { continue };
            if self.is_exhausted() {
                self.end_at(container, &blob, revision);
                return Ok(Capacity::Full);
            }
            self.examined += 1;
            // It was counted with its entry of the index.
            self.page.cost.bytes += row.as_ref().map_or(0, |row| (key.len() + row.len()) as u64);
            let is_wanted = revision == Revision::Base || self.query.with_versions;
            if let Some(row) = row.filter(|_| is_wanted)
                && let Some(found) = self.matching(container, &blob, revision, &StoredBlob::decode(&row)?)
                && self.add(found, revision) == Capacity::Full
            {
                return Ok(Capacity::Full);
            }
        }
        Ok(Capacity::Left)
    }

    /// The entry of a blob in the reply, if the filter matches.
    fn matching(
        &self,
        container_name: &str,
        name: &str,
        revision: Revision,
        blob: &StoredBlob,
    ) -> Option<FoundBlob> {
        if !self.query.filter.matches(container_name, &blob.tags) {
            return None;
        }
        let keys = self.query.filter.keys();
        let named = blob.tags.iter().filter(|(key, _)| keys.contains(key));
        let named = named.map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
        Some(FoundBlob {
            container: container_name.to_owned(),
            name: name.to_owned(),
            revision: match (revision, blob.version) {
                (Revision::Base, Some(version)) if self.query.with_versions => Revision::Version(version),
                (revision, _) => revision,
            },
            is_current_version: revision == Revision::Base && blob.version.is_some(),
            tags: Tags::from_stored(named),
        })
    }
}

/// The narrowest range of a key's values in which all comparisons can hold.
fn bounds(container: Incarnation, key: &str, all: &[(&str, TagComparison, &str)]) -> KeyRange {
    let mut range = keyspace::tagged(container, key);
    for (_, how, value) in all.iter().filter(|(other, ..)| *other == key) {
        let edge = |edge| keyspace::tag_edge(container, key, value, edge);
        match how {
            TagComparison::Greater => range.start = range.start.max(edge(Edge::After)),
            TagComparison::GreaterOrEqual => range.start = range.start.max(edge(Edge::Before)),
            TagComparison::Less => range.end = range.end.min(edge(Edge::Before)),
            TagComparison::LessOrEqual => range.end = range.end.min(edge(Edge::After)),
            TagComparison::Equal | TagComparison::NotEqual => {}
        }
    }
    range
}
