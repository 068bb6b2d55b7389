//! The contract, in memory.

#[path = "steps/engine.rs"]
mod steps;

use proptest::prelude::*;
use std::sync::Arc;
use tepui_storage::contract::engine::{Liberties, Subject, check};
use tepui_storage::dynamic::DynEngine;
use tepui_storage::rewindable::RewindableEngine;
use tepui_storage::{
    Commit, CommitError, Engine, Key, KeyRange, Limits, MemoryEngine, MemoryTransaction, ScanLimit, ScanPage,
    Snapshot, StorageError, Transaction, TransactionPipeline, Value,
};
use tokio::sync::OnceCell;

struct InMemory(MemoryEngine);

impl Subject for InMemory {
    type Engine = MemoryEngine;

    fn engine(&self) -> &MemoryEngine {
        &self.0
    }

    fn reopen(&mut self) {}
}

#[tokio::test]
async fn memory_keeps_the_contract() {
    check(&mut InMemory(MemoryEngine::new())).await;
}

/// On top of an engine in memory.
struct Rewindable(RewindableEngine<MemoryEngine>);

impl Rewindable {
    fn on() -> Self {
        Self(RewindableEngine::on(Arc::new(MemoryEngine::new())))
    }
}

impl Subject for Rewindable {
    type Engine = RewindableEngine<MemoryEngine>;

    fn engine(&self) -> &Self::Engine {
        &self.0
    }

    fn reopen(&mut self) {}
}

#[tokio::test]
async fn a_rewindable_engine_keeps_the_contract() {
    check(&mut Rewindable::on()).await;
    check(&mut Rewindable(RewindableEngine::off(Arc::new(MemoryEngine::new())))).await;
}

/// An engine in memory in a box.
struct Boxed(DynEngine);

impl Boxed {
    fn new() -> Self {
        Self(DynEngine::new(MemoryEngine::new()))
    }
}

impl Subject for Boxed {
    type Engine = DynEngine;

    fn engine(&self) -> &DynEngine {
        &self.0
    }

    fn reopen(&mut self) {}
}

#[tokio::test]
async fn an_engine_in_a_box_keeps_the_contract() {
    check(&mut Boxed::new()).await;
}

/// In memory, with pipelines and first reads as an engine behind a network has them.
struct Remote(RemoteEngine);

struct RemoteEngine(MemoryEngine);

/// A transaction that begins with its first read.
struct RemoteTransaction {
    engine: MemoryEngine,
    begun: OnceCell<MemoryTransaction>,
}

impl RemoteTransaction {
    async fn begun(&self) -> Result<&MemoryTransaction, StorageError> {
        self.begun.get_or_try_init(|| self.engine.begin()).await
    }
}

impl Engine for RemoteEngine {
    type Transaction = RemoteTransaction;
    type Pipeline = TransactionPipeline<RemoteTransaction>;

    async fn begin(&self) -> Result<RemoteTransaction, StorageError> {
        Ok(RemoteTransaction { engine: self.0.clone(), begun: OnceCell::new() })
    }

    async fn begin_pipeline(&self) -> Result<Self::Pipeline, StorageError> {
        Ok(TransactionPipeline::new(self.begin().await?, self.limits()))
    }

    async fn reclaim(&self, range: KeyRange) -> Result<(), StorageError> {
        self.0.reclaim(range).await
    }

    async fn health(&self) -> Result<(), StorageError> {
        self.0.health().await
    }

    fn limits(&self) -> Limits {
        self.0.limits()
    }
}

impl Snapshot for RemoteTransaction {
    async fn get(&self, key: &[u8]) -> Result<Option<Value>, StorageError> {
        self.begun().await?.get(key).await
    }

    async fn get_many(&self, keys: &[Key]) -> Result<Vec<Option<Value>>, StorageError> {
        self.begun().await?.get_many(keys).await
    }

    async fn scan(&self, range: &KeyRange, limit: ScanLimit) -> Result<ScanPage, StorageError> {
        self.begun().await?.scan(range, limit).await
    }
}

impl Transaction for RemoteTransaction {
    async fn commit(self, commit: Commit) -> Result<(), CommitError> {
        self.begun().await?;
        let begun = self.begun.into_inner().ok_or(CommitError::Conflict)?;
        begun.commit(commit).await
    }
}

impl Subject for Remote {
    type Engine = RemoteEngine;

    fn engine(&self) -> &RemoteEngine {
        &self.0
    }

    fn reopen(&mut self) {}

    fn liberties(&self) -> Liberties {
        Liberties { begins_with_the_first_read: true, ends_pipelines: true, ..Liberties::default() }
    }
}

#[tokio::test]
async fn pipelines_that_are_transactions_keep_the_contract() {
    check(&mut Remote(RemoteEngine(MemoryEngine::new()))).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pipelines_that_are_transactions_keep_the_contract_on_two_threads() {
    for _ in 0..5 {
        check(&mut Remote(RemoteEngine(MemoryEngine::new()))).await;
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn memory_agrees_with_the_model(steps in proptest::collection::vec(steps::step(), 1..400)) {
        steps::run(InMemory(MemoryEngine::new()), &steps);
    }

    #[test]
    fn transactions_that_begin_with_a_read_agree_with_the_model(
        steps in proptest::collection::vec(steps::step(), 1..400)
    ) {
        steps::run(Remote(RemoteEngine(MemoryEngine::new())), &steps);
    }

    #[test]
    fn a_rewindable_engine_agrees_with_the_model(steps in proptest::collection::vec(steps::step(), 1..400)) {
        steps::run(Rewindable::on(), &steps);
    }

    #[test]
    fn an_engine_in_a_box_agrees_with_the_model(steps in proptest::collection::vec(steps::step(), 1..400)) {
        steps::run(Boxed::new(), &steps);
    }
}
