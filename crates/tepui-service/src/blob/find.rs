//! Find Blobs by Tags, in one container or in all of an account.
//!
//! Tags are indexed by container, key and value. A value that is asked for leads to its blobs in the order of
//! their names, which is the order of the answer. A range of values does not, so all that is in it is looked
//! at for each page.

use super::containers;
use super::edit::Rows;
use super::service::Context;
use crate::keyspace::{self, Edge, Incarnation};
use crate::record::{StoredBlob, StoredContainer};
use crate::transact::engine_error;
use std::collections::BTreeMap;
use tepui_engine::{Key, KeyRange, Snapshot};
use tepui_model::ServiceError;
use tepui_model::blob::{
    FindBlobsByTags, FoundBlob, FoundMarker, FoundPage, Revision, TagComparison, TagFilter, Tags,
};

/// How many rows are looked at for one page. A page that is not full then says where to go on.
const MAX_LOOKS: usize = 20_000;

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
            self.looks += 1;
            let full = self.page.blobs.len() == self.query.page_size || self.looks > MAX_LOOKS;
            if full {
                let (container, blob) = (name.to_owned(), blob.into_owned());
                self.page.next = Some(FoundMarker { container, blob, revision });
                return Ok(());
            }
            let found = self.found(name, container, &blob, revision).await?;
            self.page.blobs.extend(found);
        }
        Ok(())
    }

    /// Looks at all blobs in a range of values, and keeps those with the first names.
    async fn look_through(
        &mut self,
        name: &str,
        container: Incarnation,
        range: KeyRange,
        from: Option<Key>,
    ) -> Result<(), ServiceError> {
        let most = self.query.page_size + 1 - self.page.blobs.len();
        let mut first: BTreeMap<Key, FoundBlob> = BTreeMap::new();
        let mut rows = Rows::of(self.context.snapshot, range, 1000);
        while let Some((row, _)) = rows.next().await? {
            let Some((blob, revision)) = keyspace::tagged_blob(&row) else { continue };
            let key = keyspace::blob(container, &blob, revision);
            let too_late = first.len() == most && first.last_key_value().is_some_and(|(last, _)| *last < key);
            if too_late || from.as_ref().is_some_and(|from| key < *from) {
                continue;
            }
            if let Some(found) = self.found(name, container, &blob, revision).await? {
                first.insert(key, found);
                if first.len() > most {
                    first.pop_last();
                }
            }
        }
        for blob in first.into_values() {
            if self.page.blobs.len() == self.query.page_size {
                let FoundBlob { container, name, revision, .. } = blob;
                self.page.next = Some(FoundMarker { container, blob: name, revision });
                break;
            }
            self.page.blobs.push(blob);
        }
        Ok(())
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
        let blob = StoredBlob::decode(&row)?;
        if !self.query.filter.matches(container_name, &blob.tags) {
            return Ok(None);
        }
        let keys = self.query.filter.keys();
        let named = blob.tags.iter().filter(|(key, _)| keys.contains(key));
        let named = named.map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
        Ok(Some(FoundBlob {
            container: container_name.to_owned(),
            name: name.to_owned(),
            revision: match (revision, blob.version) {
                (Revision::Base, Some(version)) if self.query.with_versions => Revision::Version(version),
                (revision, _) => revision,
            },
            is_current_version: revision == Revision::Base && blob.version.is_some(),
            tags: Tags::from_stored(named),
        }))
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
