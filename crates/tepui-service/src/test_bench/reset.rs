//! Reset: every table, queue and container of a scope is dropped in a few commits, and service properties are deleted.

use crate::catalogue::add_versions;
use crate::drops::{catalogue_ranges, drop_rows};
use crate::transact::storage_error;
use tepui_model::{ErrorCode, ServiceError, Timestamp};
use tepui_storage::rewindable::Exclusive;
use tepui_storage::{Commit, CommitError, Engine, KeyRange, ScanLimit, Snapshot};

/// The rows of one commit. One of a table takes two writes.
const PAGE: ScanLimit = ScanLimit { max_rows: 4096, max_bytes: 8 << 20 };

pub use crate::drops::DropCounts as ResetCounts;
/// A service whose data can be reset.
pub use tepui_model::Service as ServiceKind;

/// What is reset: everything, or what is of an account, of a service, or of both.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ResetScope {
    pub account: Option<String>,
    pub service: Option<ServiceKind>,
}

pub(super) async fn reset<E: Engine>(
    alone: &Exclusive<E>,
    scope: &ResetScope,
    now: Timestamp,
) -> Result<ResetCounts, ServiceError> {
    let mut counts = ResetCounts::default();
    for range in catalogue_ranges(scope.account.as_deref(), scope.service) {
        let mut left = Some(range);
        while let Some(range) = left {
            let transaction = alone.begin().await.map_err(storage_error)?;
            let page = transaction.scan_some(&range, PAGE).await.map_err(storage_error)?;
            let mut writes = drop_rows(&transaction, page.rows, scope.service, now, &mut counts).await?;
            add_versions(&transaction, &mut writes).await?;
            if !writes.is_empty() {
                let commit = Commit::from(writes).with_frees_space(true);
                alone.commit(transaction, commit).await.map_err(commit_error)?;
            }
            left = page.next.map(|start| KeyRange { start, end: range.end });
        }
    }
    Ok(counts)
}

fn commit_error(error: CommitError) -> ServiceError {
    match error {
        CommitError::Storage(error) => storage_error(error),
        error => ServiceError::new(ErrorCode::InternalError).with_cause(error),
    }
}
