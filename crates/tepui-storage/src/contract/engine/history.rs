//! Random histories: the engine against a plain `BTreeMap`.

use super::{ALL, Subject};
use crate::{
    Commit, CommitError, Engine, Guard, Key, KeyRange, ScanLimit, Snapshot, StorageError, StorageErrorKind,
    Transaction, Value, Write,
};
use std::collections::BTreeMap;

/// One step of a random history. Keys and transactions are chosen by number, whatever there is.
#[derive(Debug, Clone)]
pub enum Step {
    /// The commit of a kept transaction, or of a fresh one if there is no such.
    Commit {
        on: usize,
        guards: Vec<u8>,
        writes: Vec<(u8, Option<u16>)>,
    },
    Keep,
    Release(usize),
    Get {
        on: usize,
        keys: Vec<u8>,
    },
    Scan {
        on: usize,
        from: u8,
        to: u8,
        max_rows: usize,
        max_bytes: usize,
    },
    Reopen,
}

struct KeptTransaction<T> {
    transaction: T,
    rows: BTreeMap<Key, Value>,
    commits: usize,
    is_fresh: bool,
}

/// Replays `steps` on an empty engine and on a model of it, and panics where they differ. The engine may find kept transactions
/// too old.
pub async fn follow<S: Subject>(subject: &mut S, steps: &[Step]) {
    let mut model: BTreeMap<Key, Value> = BTreeMap::new();
    let mut changed: BTreeMap<Key, usize> = BTreeMap::new();
    let mut commits = 0;
    let mut kept: Vec<KeptTransaction<<S::Engine as Engine>::Transaction>> = Vec::new();
    let is_reliable = !subject.fails_at_random();
    for (index, step) in steps.iter().enumerate() {
        let transaction = begin(subject.engine(), is_reliable).await;
        let fresh = KeptTransaction { transaction, rows: model.clone(), commits, is_fresh: is_reliable };
        match step {
            Step::Keep => {
                // Others write before it reads the next time.
                let read = match subject.liberties().begins_with_the_first_read {
                    true => fresh.transaction.get(&model_key(0)).await.map(drop),
                    false => Ok(()),
                };
                assert!(
                    read.is_ok() || (is_not_read(&read) && !is_reliable),
                    "step {index}: {step:?}: {read:?}"
                );
                kept.push(KeptTransaction { is_fresh: false, ..fresh });
            }
            Step::Release(which) if !kept.is_empty() => drop(kept.swap_remove(which % kept.len())),
            Step::Release(_) => {}
            Step::Reopen => {
                drop(fresh);
                kept.clear();
                subject.reopen();
            }
            Step::Get { on, keys } => {
                let kept = kept.get(*on).unwrap_or(&fresh);
                let keys: Vec<Key> = keys.iter().map(|key| model_key(*key)).collect();
                let expected: Vec<Option<Value>> =
                    keys.iter().map(|key| kept.rows.get(key).cloned()).collect();
                let found = kept.transaction.get_many(&keys).await;
                let is_refused = is_not_read(&found) && !kept.is_fresh;
                assert!(is_refused || found.as_ref() == Ok(&expected), "step {index}: {step:?}: {found:?}");
                for (key, expected) in keys.iter().zip(&expected) {
                    let found = kept.transaction.get(key).await;
                    let is_refused = is_not_read(&found) && !kept.is_fresh;
                    assert!(
                        is_refused || found.as_ref() == Ok(expected),
                        "step {index}: {step:?}: {found:?}"
                    );
                }
            }
            Step::Scan { on, from, to, max_rows, max_bytes } => {
                let kept = kept.get(*on).unwrap_or(&fresh);
                let range = KeyRange { start: model_key(*from), end: model_key(*to) };
                let limit = ScanLimit { max_rows: *max_rows, max_bytes: *max_bytes };
                let found = pages(&kept.transaction, range.clone(), limit).await;
                let expected: Vec<(Key, Value)> = kept
                    .rows
                    .iter()
                    .filter(|(key, _)| range.contains(key))
                    .map(|(key, value)| (key.clone(), value.clone()))
                    .collect();
                let is_refused = is_not_read(&found) && !kept.is_fresh;
                assert!(is_refused || found.as_ref() == Ok(&expected), "step {index}: {step:?}: {found:?}");
            }
            Step::Commit { on, guards, writes } => {
                let base = if *on < kept.len() { kept.swap_remove(*on) } else { fresh };
                let guard = |key: &u8| match key % 2 {
                    0 => Guard::Unchanged(model_key(*key)),
                    _ => Guard::Shared(model_key(*key)),
                };
                let writes: Vec<Write> =
                    writes.iter().map(|(key, value)| model_write(*key, *value)).collect();
                let commit = Commit::new(guards.iter().map(guard).collect(), writes.clone());
                let outdated = commit
                    .checked_keys()
                    .any(|key| changed.get(key).is_some_and(|commit| *commit > base.commits));
                let is_back = subject.liberties().forgets_what_was_changed_back
                    && commit.checked_keys().all(|key| base.rows.get(key) == model.get(key));
                let result = base.transaction.commit(commit).await;
                match result {
                    Err(CommitError::Conflict) if outdated || !base.is_fresh => {}
                    Err(CommitError::Storage(error))
                        if !is_reliable && error.kind() == StorageErrorKind::Unavailable => {}
                    Err(CommitError::Unknown(_)) if !is_reliable => {
                        commits += 1;
                        let is_there = settle(subject.engine(), &model, &writes).await;
                        // Whether a commit happened that changes nothing cannot be seen.
                        let is_seen = is_there && applied(&model, &writes) != model;
                        assert!(!is_seen || !outdated, "step {index}: {step:?}: outdated, but written");
                        changed.extend(writes.iter().map(|write| (write.key().clone(), commits)));
                        if is_there {
                            model = applied(&model, &writes);
                        }
                    }
                    Ok(()) if !outdated || is_back => {
                        commits += 1;
                        for write in writes {
                            changed.insert(write.key().clone(), commits);
                            match write {
                                Write::Put(key, value) => drop(model.insert(key, value)),
                                Write::Delete(key) => drop(model.remove(&key)),
                            }
                        }
                    }
                    other => panic!("step {index}: {step:?}: outdated: {outdated}, but {other:?}"),
                }
            }
        }
    }
    let whole = KeyRange { start: Key::new(), end: vec![0xFF; 8].into() };
    let found = loop {
        let last = begin(subject.engine(), is_reliable).await;
        match pages(&last, whole.clone(), ALL).await {
            Ok(found) => break found,
            Err(error) => assert!(!is_reliable && is_not_read::<()>(&Err(error)), "rows can be read"),
        }
    };
    assert!(found.into_iter().eq(model), "at the end");
    for kept in kept {
        let found = pages(&kept.transaction, whole.clone(), ALL).await;
        assert!(
            is_not_read(&found) || found.is_ok_and(|found| found.into_iter().eq(kept.rows)),
            "a kept transaction"
        );
    }
}

async fn begin<E: Engine>(engine: &E, is_reliable: bool) -> E::Transaction {
    loop {
        match engine.begin().await {
            Err(error) if !is_reliable && error.kind() == StorageErrorKind::Unavailable => {}
            transaction => return transaction.expect("a transaction can begin"),
        }
    }
}

/// The rows after some writes.
fn applied(rows: &BTreeMap<Key, Value>, writes: &[Write]) -> BTreeMap<Key, Value> {
    let mut rows = rows.clone();
    for write in writes {
        match write {
            Write::Put(key, value) => drop(rows.insert(key.clone(), value.clone())),
            Write::Delete(key) => drop(rows.remove(key)),
        }
    }
    rows
}

/// Settles a commit of unknown outcome, and returns whether it is there: another commit that writes its keys, as they are, makes
/// sure that it does not become so later.
async fn settle<E: Engine>(engine: &E, rows: &BTreeMap<Key, Value>, writes: &[Write]) -> bool {
    let keys: Vec<Key> = writes.iter().map(|write| write.key().clone()).collect();
    let states = |rows: &BTreeMap<Key, Value>| -> Vec<Option<Value>> {
        keys.iter().map(|key| rows.get(key).cloned()).collect()
    };
    let (before, after) = (states(rows), states(&applied(rows, writes)));
    loop {
        let transaction = begin(engine, false).await;
        let Ok(found) = transaction.get_many(&keys).await else { continue };
        assert!(found == before || found == after, "a commit of unknown outcome is there in part");
        let same = keys.iter().zip(&found).map(|(key, value)| match value {
            Some(value) => Write::Put(key.clone(), value.clone()),
            None => Write::Delete(key.clone()),
        });
        if transaction.commit(same.collect::<Vec<_>>().into()).await.is_ok() {
            return found == after;
        }
    }
}

/// Whether a transaction is too old, or storage refuses to read for now.
fn is_not_read<T>(found: &Result<T, StorageError>) -> bool {
    let temporary = [StorageErrorKind::TooOld, StorageErrorKind::Unavailable];
    found.as_ref().is_err_and(|error| temporary.contains(&error.kind()))
}

/// Keys of several lengths, some the beginning of others.
fn model_key(number: u8) -> Key {
    let mut key = vec![number >> 4; usize::from(number & 3) + 1];
    key.push(number);
    key.into()
}

fn model_write(key: u8, value: Option<u16>) -> Write {
    match value {
        Some(length) => Write::Put(model_key(key), vec![key; usize::from(length)].into()),
        None => Write::Delete(model_key(key)),
    }
}

async fn pages<S: Snapshot>(
    snapshot: &S,
    mut range: KeyRange,
    limit: ScanLimit,
) -> Result<Vec<(Key, Value)>, StorageError> {
    let mut found = Vec::new();
    loop {
        let page = snapshot.scan(&range, limit).await?;
        let bytes: usize = page.rows.iter().map(|(key, value)| key.len() + value.len()).sum();
        assert!(page.rows.len() <= limit.max_rows.max(1), "too many rows");
        assert!(page.rows.len() <= 1 || bytes <= limit.max_bytes, "too many bytes");
        assert!(!page.rows.is_empty() || page.next.is_none(), "no progress");
        found.extend(page.rows);
        match page.next {
            Some(next) => range.start = next,
            None => return Ok(found),
        }
    }
}
