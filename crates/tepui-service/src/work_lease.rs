//! Leases on background work: of the nodes that share a store, one at a time collects garbage or sweeps queues.
//!
//! A lease is a row with its owner and its end, taken and renewed by commits that conflict with those of other nodes. It saves
//! work, and nothing rests on it: a node that was suspended and goes on after its lease has expired does no harm, because
//! every step of background work is a commit that checks what it rests on.

use crate::MAX_CLOCK_SKEW;
use crate::keyspace;
use crate::record::WorkLease;
use crate::transact::{Attempt, Outcome, SpaceUse, commit, retry, storage_error};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;
use tepui_model::{Clock, ServiceError, Timestamp};
use tepui_storage::{Engine, Snapshot, Write};

/// How long a node does work after it has taken or renewed the lease on it, and how often it is renewed.
const LEASE: Duration = Duration::from_secs(30);
const RENEW_INTERVAL: Duration = Duration::from_secs(10);

/// Who uses a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StoreAccess {
    /// Only this process, as a data directory that is locked: it needs no leases, and what it finds of work under way was left
    /// behind by processes that do not run any more.
    Exclusive,
    /// Several nodes.
    Shared,
}

/// A piece of background work that one node does at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Work {
    /// Collecting the rows of dropped tables and messages.
    CollectRanges,
    /// Removing expired messages.
    SweepQueues,
    /// Collecting what is left of deleted blobs, and deleting what has expired.
    CollectBlobs,
    /// Writing metrics of hours without requests, and deleting metrics that are too old.
    KeepMetrics,
    /// Counting what accounts store.
    MeasureCapacity,
    /// Deleting what is in deleted accounts.
    DeleteAccounts,
}

impl Work {
    fn name(self) -> &'static str {
        match self {
            Self::CollectRanges => "collect-ranges",
            Self::SweepQueues => "sweep-queues",
            Self::CollectBlobs => "collect-blobs",
            Self::KeepMetrics => "keep-metrics",
            Self::MeasureCapacity => "measure-capacity",
            Self::DeleteAccounts => "delete-accounts",
        }
    }
}

/// The leases of one node.
pub struct WorkLeases<E> {
    engine: Arc<E>,
    clock: Arc<dyn Clock>,
    access: StoreAccess,
    /// Names this process.
    owner: u128,
    /// The ends of the leases that it holds.
    held: Mutex<HashMap<Work, Timestamp>>,
}

impl<E: Engine> WorkLeases<E> {
    /// `owner` is random.
    pub fn new(engine: Arc<E>, clock: Arc<dyn Clock>, access: StoreAccess, owner: u128) -> Self {
        Self { engine, clock, access, owner, held: Mutex::default() }
    }

    pub(crate) fn access(&self) -> StoreAccess {
        self.access
    }

    /// Does the work, if no other node does it. `None` if one does, or has taken it over meanwhile.
    pub async fn run<T>(&self, work: Work, job: impl Future<Output = T>) -> Option<T> {
        if self.access == StoreAccess::Exclusive {
            return Some(job.await);
        }
        match self.hold(work).await {
            Ok(true) => {}
            Ok(false) => return None,
            Err(error) => {
                tracing::warn!(%error, work = work.name(), "cannot take the lease on background work yet");
                return None;
            }
        }
        tokio::select! {
            done = job => Some(done),
            () = self.keep(work) => None,
        }
    }

    /// Renews a lease until that fails.
    async fn keep(&self, work: Work) {
        loop {
            tokio::time::sleep(RENEW_INTERVAL).await;
            match self.hold(work).await {
                Ok(true) => {}
                Ok(false) => return,
                Err(error) => {
                    tracing::warn!(%error, work = work.name(), "cannot renew the lease on background work");
                    if self.left(work) < MAX_CLOCK_SKEW {
                        return;
                    }
                }
            }
        }
    }

    /// Gives back what is held, so that another node can go on at once. Nothing may run any more.
    pub async fn give_back(&self) -> Result<(), ServiceError> {
        let held = std::mem::take(&mut *self.held.lock());
        for work in held.into_keys() {
            retry(|()| async move {
                let transaction = self.engine.begin().await.map_err(storage_error)?;
                let key = keyspace::work_lease(work.name());
                let row = transaction.get(&key).await.map_err(storage_error)?;
                let before = row.map(|row| WorkLease::decode(&row)).transpose()?;
                if before.is_none_or(|lease| lease.owner != self.owner) {
                    return Ok(Attempt::Done(()));
                }
                let outcome = Outcome { reply: (), guards: Vec::new(), writes: vec![Write::Delete(key)] };
                commit(&*self.engine, transaction, outcome, SpaceUse::Frees).await.map_err(ServiceError::from)
            })
            .await?;
        }
        Ok(())
    }

    /// How long the lease on some work is still held.
    fn left(&self, work: Work) -> Duration {
        self.held.lock().get(&work).map_or(Duration::ZERO, |until| until.since(self.clock.now()))
    }

    /// Takes or renews a lease, unless much of it is left. Returns whether it is held.
    async fn hold(&self, work: Work) -> Result<bool, ServiceError> {
        if self.left(work) > LEASE.saturating_sub(RENEW_INTERVAL) {
            return Ok(true);
        }
        let taken = retry(|()| async move {
            let snapshot = self.engine.begin().await.map_err(storage_error)?;
            let now = self.clock.tick();
            let key = keyspace::work_lease(work.name());
            let row = snapshot.get(&key).await.map_err(storage_error)?;
            let before = row.map(|row| WorkLease::decode(&row)).transpose()?;
            let is_free = |lease: WorkLease| {
                lease.owner == self.owner || lease.until.saturating_add(MAX_CLOCK_SKEW) <= now
            };
            if !before.is_none_or(is_free) {
                return Ok(Attempt::Done(None));
            }
            let lease = WorkLease { owner: self.owner, until: now.saturating_add(LEASE) };
            let writes = vec![Write::Put(key, lease.encode())];
            let outcome = Outcome { reply: Some(lease.until), guards: Vec::new(), writes };
            commit(&*self.engine, snapshot, outcome, SpaceUse::Frees).await.map_err(ServiceError::from)
        });
        let taken = taken.await?;
        let mut held = self.held.lock();
        match taken {
            Some(until) => held.insert(work, until),
            None => held.remove(&work),
        };
        Ok(taken.is_some())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU32, Ordering};
    use tepui_model::time::{ManualClock, NodeNumber};
    use tepui_storage::MemoryEngine;

    fn nodes(access: StoreAccess) -> (Vec<WorkLeases<MemoryEngine>>, Vec<Arc<ManualClock>>) {
        let engine = Arc::new(MemoryEngine::new());
        let now = Timestamp::parse_iso("2026-03-10").unwrap();
        let clock = |number| Arc::new(ManualClock::at(now).of_node(NodeNumber::new(number).unwrap()));
        let clocks = vec![clock(1), clock(2)];
        let node = |(owner, clock): (u128, &Arc<ManualClock>)| {
            WorkLeases::new(Arc::clone(&engine), Arc::<ManualClock>::clone(clock), access, owner)
        };
        ((1..).zip(&clocks).map(node).collect(), clocks)
    }

    #[tokio::test(start_paused = true)]
    async fn one_node_works_until_it_stops_and_then_another() {
        let (nodes, clocks) = nodes(StoreAccess::Shared);
        let work = Work::CollectBlobs;
        assert_eq!(nodes[0].run(work, async { 1 }).await, Some(1));
        assert_eq!(nodes[1].run(work, async { 2 }).await, None);
        assert_eq!(nodes[1].run(Work::SweepQueues, async { 2 }).await, Some(2), "another piece of work");
        // Node 1 is gone. Its lease has expired by the clock of the other, but perhaps not by its own.
        clocks[1].advance(LEASE);
        assert_eq!(nodes[1].run(work, async { 2 }).await, None);
        clocks[1].advance(MAX_CLOCK_SKEW);
        assert_eq!(nodes[1].run(work, async { 2 }).await, Some(2));
        clocks[0].advance(LEASE);
        assert_eq!(nodes[0].run(work, async { 1 }).await, None);
    }

    #[tokio::test(start_paused = true)]
    async fn a_lease_is_kept_during_long_work_and_work_ends_with_it() {
        let (nodes, clocks) = nodes(StoreAccess::Shared);
        let (work, seconds) = (Work::CollectRanges, AtomicU32::new(0));
        let time = async {
            for second in 0..200 {
                tokio::time::sleep(Duration::from_secs(1)).await;
                clocks.iter().for_each(|clock| clock.advance(Duration::from_secs(1)));
                if second == 100 {
                    // The clock of the other is wrong.
                    clocks[1].advance(2 * LEASE);
                }
                let is_taken_over = nodes[1].run(work, async {}).await.is_some();
                assert_eq!(is_taken_over, second >= 100, "{second}");
            }
        };
        let long = nodes[0].run(work, async {
            loop {
                tokio::time::sleep(Duration::from_secs(1)).await;
                seconds.fetch_add(1, Ordering::Relaxed);
            }
        });
        let (ended, ()): (Option<()>, ()) = tokio::join!(long, time);
        assert_eq!(ended, None);
        let seconds = seconds.into_inner();
        assert!((100..=100 + LEASE.as_secs() as u32).contains(&seconds), "{seconds}");
    }

    #[tokio::test]
    async fn what_is_given_back_is_free_at_once() {
        let (nodes, _) = nodes(StoreAccess::Shared);
        for work in [Work::CollectBlobs, Work::SweepQueues] {
            assert_eq!(nodes[0].run(work, async { 1 }).await, Some(1));
            assert_eq!(nodes[1].run(work, async { 2 }).await, None);
        }
        nodes[1].give_back().await.unwrap();
        assert_eq!(nodes[1].run(Work::CollectBlobs, async { 2 }).await, None, "it had none of them");
        nodes[0].give_back().await.unwrap();
        for work in [Work::CollectBlobs, Work::SweepQueues] {
            assert_eq!(nodes[1].run(work, async { 2 }).await, Some(2));
            assert_eq!(nodes[0].run(work, async { 1 }).await, None);
        }
    }

    #[tokio::test]
    async fn a_process_that_is_alone_needs_no_leases() {
        let (nodes, _) = nodes(StoreAccess::Exclusive);
        for node in &nodes {
            assert_eq!(node.run(Work::CollectBlobs, async { 1 }).await, Some(1));
        }
        let snapshot = nodes[0].engine.begin().await.unwrap();
        assert_eq!(snapshot.first(&keyspace::everything()).await, Ok(None));
    }
}
