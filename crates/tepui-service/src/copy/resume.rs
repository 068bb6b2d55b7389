//! How far a copy is: a row of the target that every commit of the copy writes, so that its commits are in one order, and that
//! of two processes that copy to one target only the last one goes on.

use super::CopyError;
use super::patience::{Patience, may_pass, patiently};
use super::read::PAGE;
use crate::keyspace;
use crate::record::{StorageCopy, StorageCopyPhase};
use std::sync::Arc;
use tepui_storage::{CommitError, Engine, Key, KeyRange, Snapshot, StorageError, Transaction, Value, Write};

pub(super) struct ResumeState<E> {
    engine: Arc<E>,
    state: StorageCopy,
}

/// The state of a copy that was begun. `None`: the target is empty. Another target is refused.
pub(super) async fn find<E: Engine>(engine: &E) -> Result<Option<StorageCopy>, CopyError> {
    let keys = [keyspace::copy_state()];
    if let Some(row) = patiently(|| engine.get_many(&keys)).await?.into_iter().flatten().next() {
        return Ok(Some(StorageCopy::decode(&row)?));
    }
    match patiently(|| async { first_row(&engine.begin().await?).await }).await? {
        None => Ok(None),
        Some(_) => Err(CopyError::Refused(
            "the target is not empty, and has no copy that could be continued (`tepui storage verify` says whether it equals the source)".to_owned(),
        )),
    }
}

/// A row that is not about those who used the storage before.
async fn first_row<S: Snapshot>(snapshot: &S) -> Result<Option<Key>, StorageError> {
    for range in keyspace::portable_rows() {
        if let Some((key, _)) = snapshot.first(&range).await? {
            return Ok(Some(key));
        }
    }
    let garbage = keyspace::all_free_extents();
    Ok(snapshot.first(&garbage).await?.map(|(key, _)| key))
}

impl<E: Engine> ResumeState<E> {
    /// Begins a copy, or takes over the one that was begun.
    pub(super) async fn begin(engine: &Arc<E>, source: [u8; 32], run: u128) -> Result<Self, CopyError> {
        // A process that was killed may have left a commit that happens only now. Once this one has begun, none does any more.
        for _ in 0..MAX_TAKE_OVERS {
            let before = find(&**engine).await?;
            let state = match &before {
                Some(before) if before.source != source => {
                    let why = "the target has an unfinished copy of another source, or the source has changed since: begin with an empty target";
                    return Err(CopyError::Refused(why.to_owned()));
                }
                Some(before) => StorageCopy { run, commits: before.commits + 1, ..before.clone() },
                None => StorageCopy {
                    source,
                    run,
                    commits: 0,
                    phase: StorageCopyPhase::Extents,
                    next: Key::new(),
                    rows: 0,
                    row_bytes: 0,
                    extents: 0,
                    extent_bytes: 0,
                },
            };
            let before = before.map(|before| before.encode());
            let after = state.encode();
            match commit(&**engine, before.as_ref(), Some(&after), Vec::new()).await? {
                Committed::Done => return Ok(Self { engine: Arc::clone(engine), state }),
                Committed::StateIsAnother => {}
            }
        }
        Err(taken_over())
    }

    /// Whether an earlier process has begun it.
    pub(super) fn is_continued(&self) -> bool {
        self.state.commits > 0
    }

    pub(super) fn state(&self) -> &StorageCopy {
        &self.state
    }

    pub(super) fn phase(&self) -> StorageCopyPhase {
        self.state.phase
    }

    /// Writes rows, and how far the copy is with them. `change` does not touch the number of commits.
    pub(super) async fn commit(
        &mut self,
        writes: Vec<Write>,
        change: impl FnOnce(&mut StorageCopy),
    ) -> Result<(), CopyError> {
        let mut after = self.state.clone();
        change(&mut after);
        after.commits += 1;
        match commit(&*self.engine, Some(&self.state.encode()), Some(&after.encode()), writes).await? {
            Committed::Done => self.state = after,
            Committed::StateIsAnother => return Err(taken_over()),
        }
        Ok(())
    }

    /// Begins the next phase.
    pub(super) async fn enter(&mut self, phase: StorageCopyPhase) -> Result<(), CopyError> {
        self.commit(Vec::new(), |state| {
            state.phase = phase;
            state.next = Key::new();
        })
        .await
    }

    /// Removes the state. A target to which nothing was copied yet is as it was before.
    pub(super) async fn forget(self) -> Result<(), CopyError> {
        match commit(&*self.engine, Some(&self.state.encode()), None, Vec::new()).await? {
            Committed::Done => Ok(()),
            Committed::StateIsAnother => Err(taken_over()),
        }
    }

    /// Removes what the copy has kept about itself. The target is ready then.
    pub(super) async fn finish(mut self) -> Result<(), CopyError> {
        let mut left = Some(keyspace::copied_extents());
        while let Some(range) = left {
            let scan = || async { self.engine.begin().await?.scan_some(&range, PAGE).await };
            let page = patiently(scan).await?;
            left = page.next.map(|start| KeyRange { start, end: range.end });
            let writes: Vec<Write> = page.rows.into_iter().map(|(key, _)| Write::Delete(key)).collect();
            if !writes.is_empty() {
                self.commit(writes, |_| {}).await?;
            }
        }
        self.forget().await
    }
}

/// How often another process may change the state while this one begins.
const MAX_TAKE_OVERS: u32 = 10;

/// What became of a commit.
enum Committed {
    Done,
    /// It was not made: the state is neither the one before nor the one after.
    StateIsAnother,
}

fn taken_over() -> CopyError {
    CopyError::Refused("another process copies to the target: it goes on, and this one stops".to_owned())
}

fn is_repeatable(error: &CommitError) -> bool {
    match error {
        CommitError::Conflict | CommitError::Unknown(_) => true,
        CommitError::Storage(error) => may_pass(error),
    }
}

/// Writes rows and replaces the state `before` by `after` in one commit. It is made until it is known to have happened: one
/// whose outcome is unknown has happened if the state is `after`; if it is still `before`, the next attempt writes the same, and
/// once that has happened the one before cannot happen any more.
async fn commit<E: Engine>(
    engine: &E,
    before: Option<&Value>,
    after: Option<&Value>,
    writes: Vec<Write>,
) -> Result<Committed, CopyError> {
    debug_assert!(keyspace::may_be_one_commit(&writes), "too many rows that many commits guard");
    let key = keyspace::copy_state();
    let mut patience = Patience::default();
    loop {
        let attempt = async {
            let transaction = engine.begin().await?;
            let found = transaction.get(&key).await?;
            Ok((transaction, found))
        };
        let (transaction, found) = match attempt.await {
            Ok(began) => began,
            Err(error) if may_pass(&error) && patience.wait().await => continue,
            Err(error) => return Err(error.into()),
        };
        if found.as_ref() == after {
            return Ok(Committed::Done);
        }
        if found.as_ref() != before {
            return Ok(Committed::StateIsAnother);
        }
        let mut writes = writes.clone();
        writes.push(match after {
            Some(after) => Write::Put(key.clone(), after.clone()),
            None => Write::Delete(key.clone()),
        });
        match transaction.commit(writes.into()).await {
            Ok(()) => return Ok(Committed::Done),
            Err(error) if is_repeatable(&error) && patience.wait().await => {}
            Err(error) => return Err(CopyError::Commit(error)),
        }
    }
}
