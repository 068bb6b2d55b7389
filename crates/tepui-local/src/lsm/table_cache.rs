//! The table cache: which tables are open. An open table has a file descriptor and its index and Bloom filter in memory.
//! When there are too many of either, tables that were not used lately are closed (a clock cache).

use super::sorted_table::SortedTable;
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

/// How many tables may be open, and how much memory their indexes and filters may take.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TableCacheLimits {
    pub(crate) tables: usize,
    pub(crate) bytes: u64,
}

pub(super) struct TableCache {
    limits: TableCacheLimits,
    open: Arc<Open>,
    /// Tables that may be open, in the order in which they were opened or last found in use.
    queue: Mutex<VecDeque<Weak<SortedTable>>>,
}

/// What is open now, including closed tables that readers still hold.
#[derive(Default)]
struct Open {
    tables: AtomicUsize,
    bytes: AtomicU64,
}

/// Counts an open table as long as it lives.
pub(super) struct OpenGuard {
    open: Arc<Open>,
    bytes: u64,
}

impl TableCache {
    pub(super) fn new(limits: TableCacheLimits) -> Self {
        Self { limits, open: Arc::default(), queue: Mutex::default() }
    }

    /// Counts a table whose index and filter take so much memory.
    pub(super) fn count(&self, bytes: u64) -> OpenGuard {
        self.open.tables.fetch_add(1, Ordering::Relaxed);
        self.open.bytes.fetch_add(bytes, Ordering::Relaxed);
        OpenGuard { open: Arc::clone(&self.open), bytes }
    }

    /// Adds a table that was opened, and evicts others if there are too many.
    pub(super) fn opened(&self, table: &Arc<SortedTable>) {
        let mut queue = self.queue.lock();
        queue.push_back(Arc::downgrade(table));
        // Each table is visited twice at most: those in use get a second chance.
        for _ in 0..2 * queue.len() {
            if !self.is_full() {
                break;
            }
            let Some(oldest) = queue.pop_front() else { break };
            let Some(oldest) = oldest.upgrade() else { continue };
            if Arc::ptr_eq(&oldest, table) || oldest.was_used() {
                queue.push_back(Arc::downgrade(&oldest));
            } else {
                oldest.close();
            }
        }
        // Removed tables leave their entries behind.
        if queue.len() > 2 * self.open.tables.load(Ordering::Relaxed) + 16 {
            queue.retain(|table| table.upgrade().is_some_and(|table| table.is_open()));
        }
    }

    fn is_full(&self) -> bool {
        self.open.tables.load(Ordering::Relaxed) > self.limits.tables
            || self.open.bytes.load(Ordering::Relaxed) > self.limits.bytes
    }

    #[cfg(test)]
    pub(super) fn open_tables(&self) -> usize {
        self.open.tables.load(Ordering::Relaxed)
    }
}

impl Drop for OpenGuard {
    fn drop(&mut self) {
        self.open.tables.fetch_sub(1, Ordering::Relaxed);
        self.open.bytes.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}
