//! Deleting what is in an account: its tables, queues, containers, settings, and the roles that were assigned in it.
//!
//! Step by step, each a commit that rests on the account's being deleted, so it may be ended at any time and begun again, on any
//! node. Nothing is added meanwhile: see `account_guard`. The account is deleted when one transaction has found nothing any more.

use super::{AccountRecord, AccountStage, IdentityStore, accounts, assignments, next_version};
use crate::drops::{DropCounts, catalogue_ranges, drop_rows};
use crate::keyspace;
use crate::transact::{Attempt, CommitFailure, Outcome, SpaceUse, commit, retry, storage_error};
use tepui_model::ServiceError;
use tepui_storage::{Engine, Guard, ScanLimit, Snapshot, Write};

/// The rows of the catalogue of one commit. With one of a queue its state is deleted, which many commits guard as well.
const PAGE: ScanLimit = ScanLimit { max_rows: keyspace::MAX_SHARED_WRITES / 2, max_bytes: 1 << 20 };
/// The role assignments of one commit.
const MAX_ASSIGNMENTS: usize = 256;

impl<E: Engine> IdentityStore<E> {
    /// Deletes what is in an account that is [marked](Self::begin_deletion). Returns what there was.
    pub async fn finish_deletion(&self, name: &str) -> Result<DropCounts, ServiceError> {
        let mut counts = DropCounts::default();
        loop {
            let step = retry(|()| self.delete_some(name)).await.map_err(ServiceError::from)?;
            match step {
                Some(dropped) => {
                    counts.tables += dropped.tables;
                    counts.queues += dropped.queues;
                    counts.containers += dropped.containers;
                }
                None => return Ok(counts),
            }
        }
    }

    /// Deletes a part. `None`: nothing is left.
    async fn delete_some(&self, name: &str) -> Result<Attempt<Option<DropCounts>>, CommitFailure> {
        let transaction = self.engine.begin().await.map_err(storage_error)?;
        let record = match accounts::account(&transaction, name).await? {
            Some(record) if record.stage == AccountStage::Deleting => record,
            // Another node was faster.
            _ => return Ok(Attempt::Done(None)),
        };
        let now = self.clock.tick();
        let mut counts = DropCounts::default();
        let mut writes = Vec::new();
        for range in catalogue_ranges(Some(name), None) {
            let page = transaction.scan_some(&range, PAGE).await.map_err(storage_error)?;
            writes = drop_rows(&transaction, page.rows, None, now, &mut counts).await?;
            if !writes.is_empty() {
                break;
            }
        }
        let mut reply = Some(counts);
        if writes.is_empty() {
            let stored = assignments::read(&transaction).await?;
            let in_it = stored.iter().filter(|stored| stored.assignment.scope.is_in(name));
            let removals = in_it.map(|stored| Write::Delete(keyspace::role_assignment(stored.id)));
            writes.extend(removals.take(MAX_ASSIGNMENTS));
        }
        if writes.is_empty() {
            reply = None;
            let deleted = AccountRecord { stage: AccountStage::Deleted, changed: now, ..record };
            writes.push(next_version(&transaction).await?);
            writes.push(Write::Put(keyspace::account(name), deleted.encode()));
        }
        let guards = match reply {
            Some(_) => vec![Guard::Unchanged(keyspace::account(name))],
            None => Vec::new(),
        };
        let outcome = Outcome { reply, guards, writes };
        commit(&*self.engine, transaction, outcome, SpaceUse::Frees).await
    }
}
