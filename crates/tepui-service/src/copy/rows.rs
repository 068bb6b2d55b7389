//! Copies rows, page by page, with the new names of extents in them.

use super::patience::patiently;
use super::progress::CopyProgress;
use super::read::{PAGE, RowPages, Rows, following};
use super::rename::{extents_in, with_extents};
use super::resume::ResumeState;
use super::{CopyError, Storage};
use crate::keyspace;
use crate::record::CopiedExtent;
use bytes::Bytes;
use std::collections::{BTreeSet, HashMap};
use tepui_storage::{Engine, Extent, Key, Write};

pub(super) async fn copy<E1: Engine, X1, E2: Engine, X2>(
    source: &Storage<E1, X1>,
    target: &Storage<E2, X2>,
    resume: &mut ResumeState<E2>,
    progress: &CopyProgress,
) -> Result<(), CopyError> {
    let from = resume.state().next.clone();
    // Room for the state of the copy, and for names of extents that are longer.
    let max_bytes = (target.engine.limits().max_commit_bytes / 2).min(PAGE.max_bytes);
    let mut pages = RowPages::new(&source.engine, &keyspace::portable_rows(), &from, PAGE);
    while let Some(mut page) = pages.next().await? {
        // They are copied with their extents.
        page.retain(|(key, _)| !keyspace::is_extent_count(key));
        let names = new_names(&*target.engine, &page).await?;
        let mut rows = page.into_iter().peekable();
        while let Some((first, _)) = rows.peek() {
            // Apart from the others: an engine that keeps copies of them locks whatever is committed with them.
            let is_shared = keyspace::is_guarded_by_many(first);
            let max_rows = if is_shared { keyspace::MAX_SHARED_WRITES } else { usize::MAX };
            let (mut writes, mut row_bytes) = (Vec::new(), 0);
            let mut last = Key::new();
            while let Some((key, value)) = rows.next_if(|(key, value)| {
                let fits = writes.len() < max_rows && row_bytes + key.len() + value.len() <= max_bytes;
                writes.is_empty() || (fits && keyspace::is_guarded_by_many(key) == is_shared)
            }) {
                row_bytes += key.len() + value.len();
                let value = renamed(&key, &value, &names)?;
                // Copies: the engine may have returned slices of a larger block.
                writes.push(Write::Put(Key::copy_from_slice(&key), value));
                last = key;
            }
            let (count, row_bytes) = (writes.len() as u64, row_bytes as u64);
            resume
                .commit(writes, |state| {
                    state.next = following(&last);
                    state.rows += count;
                    state.row_bytes += row_bytes;
                })
                .await?;
            progress.add_rows(count);
            progress.add_bytes(row_bytes);
        }
    }
    Ok(())
}

/// The extents of the target for those that these rows name.
async fn new_names<E: Engine>(target: &E, page: &Rows) -> Result<HashMap<Extent, Extent>, CopyError> {
    let mut named = BTreeSet::new();
    for (key, value) in page {
        named.extend(extents_in(key, value)?);
    }
    if named.is_empty() {
        return Ok(HashMap::new());
    }
    let keys: Vec<Key> = named.iter().map(|extent| keyspace::copied_extent(*extent)).collect();
    let found = patiently(|| target.get_many(&keys)).await?;
    let mut names = HashMap::new();
    for (extent, row) in named.into_iter().zip(found) {
        if let Some(row) = row {
            names.insert(extent, CopiedExtent::decode(&row)?.extent);
        }
    }
    Ok(names)
}

fn renamed(key: &Key, value: &Bytes, names: &HashMap<Extent, Extent>) -> Result<Bytes, CopyError> {
    let before = extents_in(key, value)?;
    if before.is_empty() {
        return Ok(Bytes::copy_from_slice(value));
    }
    let mut after = before.iter().map_while(|extent| names.get(extent).copied());
    with_extents(key, value, &mut after)?.ok_or_else(|| {
        CopyError::Refused(format!("a row of the source refers to an extent that is not counted: {before:?}"))
    })
}
