//! Find Blobs by Tags, in one container or in all of an account.
//!
//! Tags are indexed by container, key and value. A value that is asked for leads to its blobs in the order of
//! their names, which is the order of the answer. A range of values does not: few blobs are sorted, and if there
//! are many, those of the container are looked at one by one. A page ends after so many looks, full or not.

use super::containers;
use super::edit::Rows;
use super::service::Context;
use crate::MAX_PAGE_TIME;
use crate::keyspace::{self, Edge, Incarnation};
use crate::pace::ROW_WORK;
use crate::record::{StoredBlob, StoredContainer};
use crate::transact::engine_error;
use tepui_model::ServiceError;
use tepui_model::blob::{
    FindBlobsByTags, FoundBlob, FoundMarker, FoundPage, Revision, TagComparison, TagFilter, Tags,
};
use tepui_storage::{Key, KeyRange, Snapshot};

/// How many rows are looked at for one page. A page that is not full then says where to go on.
const MAX_LOOKS: usize = 20_000;
/// How many blobs in a range of values are sorted by their names, for each page again, and how long their keys may be
/// together. If there are more, all blobs of the container are looked at in their order.
const MAX_SORTED: usize = 20_000;
const MAX_SORTED_BYTES: usize = 4 * 1024 * 1024;

pub(super) async fn find<S: Snapshot>(
    context: &Context<'_, S>,
    query: &FindBlobsByTags,
) -> Result<FoundPage, ServiceError> {
    let mut finding = Finding { context, query, page: FoundPage::default(), looks: 0 };
    if let Some(name) = &query.container {
        let (_, container) = containers::find(context, name).await?;
        finding.look_in(name.as_str(), container.incarnation).await?;
        return Ok(finding.page);
    }
    let mut range = keyspace::containers(context.account, "");
    if let Some(from) = &query.from {
        range.start = keyspace::container(context.account, &from.container);
    }
    let mut rows = Rows::of(context.snapshot, range, 100);
    while finding.page.next.is_none()
        && let Some((key, row)) = rows.next().await?
    {
        let Some((name, None)) = keyspace::container_name(context.account, &key) else { continue };
        if !may_be_in(&query.filter, &name) {
            continue;
        }
        if finding.is_spent() {
            finding.end_at(&name, "", Revision::Base);
            break;
        }
        finding.looks += 1;
        finding.look_in(&name, StoredContainer::decode(&row)?.incarnation).await?;
    }
    Ok(finding.page)
}

/// Whether the filter does not rule out a container by its name.
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

/// Whether a page has room for a blob.
#[derive(PartialEq, Eq)]
enum Room {
    Some,
    None,
}

struct Finding<'a, S> {
    context: &'a Context<'a, S>,
    query: &'a FindBlobsByTags,
    page: FoundPage,
    looks: usize,
}

impl<S: Snapshot> Finding<'_, S> {
    /// Adds what is found in one container.
    async fn look_in(&mut self, name: &str, container: Incarnation) -> Result<(), ServiceError> {
        let from = self.query.from.as_ref().filter(|from| from.container == name);
        let from = from.map(|from| keyspace::blob(container, &from.blob, from.revision));
        let mut all = Vec::new();
        comparisons(&self.query.filter, &mut all);
        let exact = all.iter().find(|(_, how, _)| *how == TagComparison::Equal);
        if let Some((key, _, value)) = exact {
            return self.look_for(name, container, (key, value), from).await;
        }
        match all.first() {
            Some((key, ..)) => {
                let range = bounds(container, key, &all);
                self.look_through(name, container, range, from).await
            }
            // Nothing that an index could help with.
            None => Ok(()),
        }
    }

    /// Looks at the blobs that have a tag with one value.
    async fn look_for(
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
        let mut rows = Rows::of(self.context.snapshot, range, 1000);
        while let Some((row, _)) = rows.next().await? {
            let Some((blob, revision)) = keyspace::tagged_blob(&row) else { continue };
            if self.is_spent() {
                self.end_at(name, &blob, revision);
                return Ok(());
            }
            self.looks += 1;
            let found = self.found(name, container, &blob, revision).await?;
            if let Some(found) = found
                && self.add(found, revision) == Room::None
            {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Looks at the blobs in a range of values, in the order of their names.
    async fn look_through(
        &mut self,
        name: &str,
        container: Incarnation,
        range: KeyRange,
        from: Option<Key>,
    ) -> Result<(), ServiceError> {
        let Some(keys) = self.keys_in(container, range, from.as_ref()).await? else {
            return self.look_at_all(name, container, from).await;
        };
        for key in keys {
            let Some((blob, revision)) = keyspace::blob_of(&key) else { continue };
            if self.is_spent() {
                self.end_at(name, &blob, revision);
                return Ok(());
            }
            self.looks += 1;
            let found = self.found(name, container, &blob, revision).await?;
            if let Some(found) = found
                && self.add(found, revision) == Room::None
            {
                return Ok(());
            }
        }
        Ok(())
    }

    /// The keys of the blobs in a range of values, sorted. `None`: there are too many to sort for each page.
    async fn keys_in(
        &mut self,
        container: Incarnation,
        range: KeyRange,
        from: Option<&Key>,
    ) -> Result<Option<Vec<Key>>, ServiceError> {
        let (mut keys, mut bytes) = (Vec::new(), 0);
        let mut rows = Rows::of(self.context.snapshot, range, 1000);
        for _ in 0..=MAX_SORTED {
            let Some((row, _)) = rows.next().await? else {
                keys.sort_unstable();
                return Ok(Some(keys));
            };
            let Some((blob, revision)) = keyspace::tagged_blob(&row) else { continue };
            let key = keyspace::blob(container, &blob, revision);
            self.context.pace.work(ROW_WORK).await;
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

    /// Looks at one blob of a container after the other.
    async fn look_at_all(
        &mut self,
        name: &str,
        container: Incarnation,
        from: Option<Key>,
    ) -> Result<(), ServiceError> {
        let mut range = keyspace::blobs(container);
        range.start = from.map_or(range.start.clone(), |from| from.max(range.start));
        let mut rows = Rows::of(self.context.snapshot, range, 256);
        while let Some((key, row)) = rows.next().await? {
            let Some((blob, revision)) = keyspace::blob_of(&key) else { continue };
            if self.is_spent() {
                self.end_at(name, &blob, revision);
                return Ok(());
            }
            self.looks += 1;
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
            self.context.pace.work(ROW_WORK).await;
            let stored = StoredBlob::decode(&row)?;
            if stored.deleted.is_none()
                && let Some(found) = self.matching(name, &blob, revision, &stored)
                && self.add(found, revision) == Room::None
            {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Whether enough was done for one page, whatever was found.
    fn is_spent(&self) -> bool {
        self.looks > MAX_LOOKS || self.looks > 0 && self.context.pace.elapsed() >= MAX_PAGE_TIME
    }

    /// Adds a blob, or else the next page begins with it.
    fn add(&mut self, found: FoundBlob, revision: Revision) -> Room {
        if self.page.blobs.len() == self.query.page_size {
            self.end_at(&found.container, &found.name, revision);
            return Room::None;
        }
        self.page.blobs.push(found);
        Room::Some
    }

    /// The next page begins with a blob.
    fn end_at(&mut self, container: &str, blob: &str, revision: Revision) {
        let (container, blob) = (container.to_owned(), blob.to_owned());
        self.page.next = Some(FoundMarker { container, blob, revision });
    }

    /// A blob, if it is what is looked for.
    async fn found(
        &self,
        container_name: &str,
        container: Incarnation,
        name: &str,
        revision: Revision,
    ) -> Result<Option<FoundBlob>, ServiceError> {
        if revision != Revision::Base && !self.query.with_versions {
            return Ok(None);
        }
        let key = keyspace::blob(container, name, revision);
        let Some(row) = self.context.snapshot.get(&key).await.map_err(engine_error)? else { return Ok(None) };
        Ok(self.matching(container_name, name, revision, &StoredBlob::decode(&row)?))
    }

    /// What is answered of a blob, if the filter matches.
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
