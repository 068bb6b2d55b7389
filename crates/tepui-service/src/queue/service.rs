//! The Queue service of all accounts of a server.

use super::inspect::{self, MessageCursor, MessagePage};
use super::messages::{PendingView, QueueTarget, SWEEP_LAG, Spread, StepError, StoredStates};
use super::sequencer::{Command, CommandReply, PendingCommits, QueueId, QueueSequencer, QueueSequencers};
use super::{queues, read};
use crate::catalogue::CatalogueCache;
use crate::coop::CoopSnapshot;
use crate::gc::GarbageCollector;
use crate::keyspace;
use crate::phase::{self, Phase};
use crate::record::{QueueState, StoredQueue};
use crate::settings::Settings;
use crate::stats::QueueStats;
use crate::transact::{Attempt, Outcome, SpaceUse, attempt, commit, restart, retry, storage_error, wait};
use crate::work_lease::{Work, WorkLeases};
use std::sync::Arc;
use std::time::Duration;
use tepui_model::access_policy::SignedIdentifier;
use tepui_model::queue::{Call, Operation, QueueName, Reply, SequencedOperation};
use tepui_model::service_properties::ServiceProperties;
use tepui_model::{Clock, ErrorCode, ServiceError, Throttle};
use tepui_storage::{Engine, Key, KeyRange, ScanLimit, Snapshot, StorageError, Value};

/// How the Queue service behaves where there is a choice.
#[derive(Debug, Clone, Copy, Default)]
pub struct QueueOptions {
    /// How long the name of a deleted queue stays reserved. Azure takes some 30 s; the default is zero.
    pub deleted_name_reserved_for: Duration,
    /// How far the clocks of the nodes that share the store may be apart, up to [`MAX_CLOCK_SKEW`](crate::MAX_CLOCK_SKEW).
    /// Messages stay hidden so much longer. Zero, the default, if no other node uses the store.
    pub clock_skew: Duration,
}

/// The time between two sweeps of expired messages.
const SWEEP_INTERVAL: Duration = Duration::from_secs(15);

pub struct QueueService<E: Engine> {
    engine: Arc<E>,
    clock: Arc<dyn Clock>,
    collector: Arc<GarbageCollector<E>>,
    options: QueueOptions,
    catalogue: CatalogueCache,
    settings: Settings,
    sequencers: QueueSequencers<E::Pipeline>,
    stats: Arc<QueueStats>,
}

impl<E: Engine> QueueService<E> {
    pub fn new(
        engine: Arc<E>,
        clock: Arc<dyn Clock>,
        collector: Arc<GarbageCollector<E>>,
        options: QueueOptions,
    ) -> Self {
        let (catalogue, settings) = (CatalogueCache::default(), Settings::of_service("queue"));
        let sequencers = QueueSequencers::default();
        let stats = Arc::default();
        Self { engine, clock, collector, options, catalogue, settings, sequencers, stats }
    }

    /// What has happened to messages since the service was made.
    pub fn stats(&self) -> &Arc<QueueStats> {
        &self.stats
    }

    pub async fn execute(self: &Arc<Self>, account: &str, call: &Call) -> Result<Reply, ServiceError> {
        match call {
            Call::Operation(operation) => self.execute_unsequenced(account, operation).await,
            Call::Sequenced(operation) => self.execute_sequenced(account, operation).await,
        }
    }

    async fn execute_sequenced(
        &self,
        account: &str,
        operation: &SequencedOperation,
    ) -> Result<Reply, ServiceError> {
        let queue = QueueId { account: account.to_owned(), queue: operation.queue().as_str().to_owned() };
        match self.sequence(queue, Command::Operation(operation)).await? {
            CommandReply::Reply(reply) => {
                self.stats.count(&reply);
                if matches!(reply, Reply::Cleared | Reply::QueueDeleted) {
                    self.collector.wake();
                }
                Ok(reply)
            }
            CommandReply::Expired { .. } => Err(ErrorCode::InternalError.into()),
        }
    }

    /// Begins a transaction, whose reads yield when they take long.
    async fn begin(&self) -> Result<CoopSnapshot<E::Transaction>, ServiceError> {
        self.engine.begin().await.map(CoopSnapshot::new).map_err(storage_error)
    }

    /// Executes an operation that changes no message.
    async fn execute_unsequenced(&self, account: &str, operation: &Operation) -> Result<Reply, ServiceError> {
        let reply = retry(|()| async move {
            phase::enter(Phase::Read);
            let snapshot = self.begin().await?;
            let outcome = self.decide(&snapshot, account, operation).await?;
            let transaction = snapshot.into_inner();
            commit(&*self.engine, transaction, outcome, SpaceUse::Consumes).await.map_err(ServiceError::from)
        });
        let reply = reply.await?;
        if matches!(operation, Operation::SetServiceProperties(_)) {
            self.settings.invalidate(account);
        }
        Ok(reply)
    }

    async fn decide(
        &self,
        snapshot: &CoopSnapshot<E::Transaction>,
        account: &str,
        operation: &Operation,
    ) -> Result<Outcome<Reply>, ServiceError> {
        let catalogue = &self.catalogue;
        match operation {
            Operation::ListQueues(query) => {
                queues::list(snapshot, account, query).await.map(Reply::Queues).map(Outcome::read)
            }
            Operation::CreateQueue { queue, metadata } => {
                queues::create(snapshot, account, queue.as_str(), metadata, self.clock.tick()).await
            }
            Operation::GetMetadata { queue } => {
                let (key, now) = (keyspace::queue(account, queue.as_str()), self.clock.tick());
                let read = |row: Option<Value>| async move {
                    let queue = StoredQueue::decode(&row.ok_or(ErrorCode::QueueNotFound)?)?;
                    let messages = read::count(snapshot, queue.incarnation, now).await?;
                    Ok(Reply::Metadata { metadata: queue.metadata, messages })
                };
                catalogue.get_with(snapshot, &key, read).await.map(Outcome::read)
            }
            Operation::SetMetadata { queue, metadata } => {
                let set = |stored: &mut StoredQueue| stored.metadata = metadata.clone();
                queues::change(catalogue, snapshot, account, queue.as_str(), Reply::MetadataSet, set).await
            }
            Operation::GetAcl { queue } => {
                let queue = self.queue(snapshot, account, queue).await?;
                Ok(Outcome::read(Reply::Acl(queue.acl)))
            }
            Operation::SetAcl { queue, identifiers } => {
                let set = |stored: &mut StoredQueue| stored.acl = identifiers.clone();
                queues::change(catalogue, snapshot, account, queue.as_str(), Reply::AclSet, set).await
            }
            Operation::PeekMessages { queue, count } => {
                let (key, now) = (keyspace::queue(account, queue.as_str()), self.clock.tick());
                let read = |row: Option<Value>| async move {
                    let queue = StoredQueue::incarnation_of(&row.ok_or(ErrorCode::QueueNotFound)?)?;
                    read::peek(snapshot, queue, *count, now).await
                };
                let peeked = catalogue.get_with(snapshot, &key, read).await?;
                Ok(Outcome::read(Reply::Peeked(peeked)))
            }
            Operation::GetServiceProperties => {
                let properties = self.settings.read(snapshot, account).await?;
                Ok(Outcome::read(Reply::ServiceProperties(properties)))
            }
            Operation::SetServiceProperties(change) => {
                let (now, mut writes) = (self.clock.now(), Vec::new());
                let guard = self.settings.change(snapshot, account, change, now, &mut writes).await?;
                Ok(Outcome { reply: Reply::ServicePropertiesSet, guards: vec![guard], writes })
            }
            Operation::GetServiceStats => {
                Ok(Outcome::read(Reply::ServiceStats { last_sync: self.clock.now() }))
            }
        }
    }

    async fn queue(
        &self,
        snapshot: &CoopSnapshot<E::Transaction>,
        account: &str,
        queue: &QueueName,
    ) -> Result<StoredQueue, ServiceError> {
        let (_, row) = queues::find(&self.catalogue, snapshot, account, queue.as_str()).await?;
        StoredQueue::decode(&row)
    }

    /// Executes a command in the order of its queue. Returns when it is durable.
    async fn sequence(&self, queue: QueueId, command: Command<'_>) -> Result<CommandReply, ServiceError> {
        let sequencer = self.sequencers.acquire(queue);
        retry(|()| self.step(&sequencer, command)).await?
    }

    /// Decides a command on the state that the commands before it leave behind. An error for the caller depends on
    /// that state, too, so it is not returned before that is durable.
    async fn step(
        &self,
        sequencer: &QueueSequencer<E::Pipeline>,
        command: Command<'_>,
    ) -> Result<Attempt<Result<CommandReply, ServiceError>>, ServiceError> {
        phase::enter(Phase::Read);
        let is_shared = self.clock.node().is_some();
        let waiting = is_shared.then(|| sequencer.waiting.announce(command));
        let mut pending = sequencer.pending.lock().await;
        let now = self.clock.tick();
        // Taken out while the step is decided, so that one that is cancelled half-way is never continued.
        let (mut commits, mut is_new) = match pending.take() {
            Some(commits) if commits.can_continue(now) => (commits, false),
            before => (self.begin_pipeline(sequencer, before).await?, true),
        };
        drop(waiting);
        let reply = loop {
            let reply = match commits.view.decide(command, self.clock.tick()).await {
                Ok(reply) => Ok(reply),
                Err(StepError::Rejected(error)) => Err(error),
                // The engine has ended the pipeline while this step was decided.
                Err(StepError::Failed(error)) if error.is_outdated && !is_new => {
                    commits = self.begin_pipeline(sequencer, Some(commits)).await?;
                    is_new = true;
                    continue;
                }
                Err(StepError::Failed(error)) => return Err(error),
            };
            // Nothing is committed that would conflict with what another node has written since the snapshot, or nothing
            // that would conflict with a message that it has put.
            let may_be_outdated = commits.view.is_unchanged() || is_shared && is_short(command, &reply);
            if is_new || !may_be_outdated {
                break reply;
            }
            commits = self.begin_pipeline(sequencer, Some(commits)).await?;
            is_new = true;
        };
        let (expired, began) = (commits.view.expired(), commits.began);
        let (outcome, proof) = commits.submit(command.space());
        *pending = Some(commits);
        drop(pending);
        phase::enter(Phase::Commit);
        let outcome = outcome.await;
        phase::enter(Phase::Read);
        let attempt = attempt(&*self.engine, outcome, proof, reply).await?;
        match &attempt {
            Attempt::Done(_) => {
                sequencer.no_conflict();
                self.stats.expired.add(expired as u64);
            }
            // The next pipeline waits, for all its steps, so this one need not.
            Attempt::Retry(()) if sequencer.conflict(began) => return Ok(Attempt::Continue(())),
            Attempt::Retry(()) | Attempt::Continue(()) => {
                return Err(ServiceError::new(ErrorCode::ServerBusy).with_throttle(Throttle::Conflicts));
            }
        }
        Ok(attempt)
    }

    /// Begins a new pipeline, whose state contains all that was decided before.
    async fn begin_pipeline(
        &self,
        sequencer: &QueueSequencer<E::Pipeline>,
        before: Option<PendingCommits<E::Pipeline>>,
    ) -> Result<PendingCommits<E::Pipeline>, ServiceError> {
        if let Some(before) = before {
            before.drain().await;
        }
        let (time, spread) = sequencer.before_pipeline();
        wait(time).await;
        let id = &sequencer.id;
        let pipeline = self.engine.begin_pipeline().await.map_err(storage_error)?;
        let (key, node) = (keyspace::queue(&id.account, &id.queue), self.clock.node());
        // A node that is alone keeps the order.
        let spread = if node.is_some() { spread } else { Spread::default() };
        let waiting = node.map(|_| Arc::clone(&sequencer.waiting));
        let messages = waiting.as_ref().map(|waiting| waiting.take_messages()).unwrap_or_default();
        let (base, messages) = (&pipeline, &messages);
        let read = |row: Option<Value>| async move {
            let incarnation = StoredQueue::incarnation_of(&row.ok_or(ErrorCode::QueueNotFound)?)?;
            Ok((incarnation, StoredStates::read(base, incarnation, node, messages).await?))
        };
        let (incarnation, stored) = self.catalogue.get_with(&pipeline, &key, read).await?;
        let name_reserved_for = self.options.deleted_name_reserved_for;
        let clock_skew = self.options.clock_skew;
        let queue = QueueTarget { id: id.clone(), key, incarnation, name_reserved_for, clock_skew };
        let now = self.clock.tick();
        Ok(PendingCommits::new(PendingView::new(pipeline, queue, stored, (spread, waiting), now)?, now))
    }

    /// The catalogue row of a queue.
    async fn find(&self, account: &str, queue: &str) -> Result<Value, ServiceError> {
        let find = || async {
            queues::find(&self.catalogue, &self.begin().await?, account, queue).await.map(|(_, row)| row)
        };
        restart(find).await
    }

    /// Fails if there is no such queue.
    pub async fn require_queue(&self, account: &str, queue: &str) -> Result<(), ServiceError> {
        self.find(account, queue).await.map(drop)
    }

    /// The messages of a queue from a place on, `count` at most, also those that are hidden. Nothing changes by it.
    pub async fn all_messages(
        &self,
        account: &str,
        queue: &QueueName,
        from: Option<MessageCursor>,
        count: usize,
    ) -> Result<MessagePage, ServiceError> {
        let read = || async {
            let snapshot = self.begin().await?;
            let (_, row) = queues::find(&self.catalogue, &snapshot, account, queue.as_str()).await?;
            let queue = StoredQueue::incarnation_of(&row)?;
            inspect::all_messages(&snapshot, queue, from, count, self.clock.tick()).await
        };
        restart(read).await
    }

    /// The stored access policy `id` of a queue, if there is one.
    pub async fn signed_identifier(
        &self,
        account: &str,
        queue: &str,
        id: &str,
    ) -> Result<Option<SignedIdentifier>, ServiceError> {
        match self.find(account, queue).await {
            Ok(row) => {
                let acl = StoredQueue::decode(&row)?.acl;
                Ok(acl.into_iter().find(|identifier| identifier.id == id))
            }
            Err(error) if error.code == ErrorCode::QueueNotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The service properties of an account, cached: changes made by this process are visible at once, those of
    /// another process after a few seconds.
    pub async fn service_properties(&self, account: &str) -> Result<Arc<ServiceProperties>, ServiceError> {
        self.settings.of_account(&*self.engine, account).await
    }

    /// The service properties that were cached last, however long ago. Waits for nothing.
    pub fn cached_properties(&self, account: &str) -> Option<Arc<ServiceProperties>> {
        self.settings.cached(account)
    }

    /// Drops the cached service properties of all accounts: they were changed by something else than requests.
    pub(crate) fn forget_settings(&self) {
        self.settings.invalidate_all();
    }

    /// Whether the engine takes writes now.
    pub async fn health(&self) -> Result<(), StorageError> {
        self.engine.health().await
    }

    /// Removes expired messages until it is dropped. For a background task.
    pub async fn sweep(self: &Arc<Self>, leases: &WorkLeases<E>) {
        loop {
            let clock_set = self.clock.changed();
            if let Some(Err(error)) = leases.run(Work::SweepQueues, self.sweep_once()).await {
                tracing::warn!(%error, "cannot remove expired messages yet");
            }
            tokio::select! {
                () = tokio::time::sleep(SWEEP_INTERVAL) => {}
                () = clock_set => {}
            }
        }
    }

    /// Removes the expired messages of all queues, in small steps.
    pub async fn sweep_once(self: &Arc<Self>) -> Result<(), ServiceError> {
        let mut range = keyspace::all_queues();
        loop {
            let (due, next) = restart(|| self.queues_to_sweep(&range)).await?;
            for queue in due {
                self.sweep_queue(queue).await?;
            }
            let Some(next) = next else { return Ok(()) };
            range.start = next;
        }
    }

    /// The queues that have to be swept, of the first ones of a range, and where the next ones are.
    async fn queues_to_sweep(&self, range: &KeyRange) -> Result<(Vec<QueueId>, Option<Key>), ServiceError> {
        let snapshot = self.begin().await?;
        let limit = ScanLimit { max_rows: 100, max_bytes: 1024 * 1024 };
        let page = snapshot.scan(range, limit).await.map_err(storage_error)?;
        let queues = page.rows.iter().map(|(_, row)| StoredQueue::incarnation_of(row));
        let states = read::states(&snapshot, &queues.collect::<Result<Vec<_>, _>>()?).await?;
        let mut due = Vec::new();
        for ((key, _), state) in page.rows.iter().zip(states) {
            if self.is_sweep_due(&snapshot, &state).await?
                && let Some((account, queue)) = keyspace::queue_of(key)
            {
                due.push(QueueId { account: account.into_owned(), queue: queue.into_owned() });
            }
        }
        Ok((due, page.next))
    }

    async fn sweep_queue(self: &Arc<Self>, queue: QueueId) -> Result<(), ServiceError> {
        loop {
            match self.sequence(queue.clone(), Command::Expire).await {
                Ok(CommandReply::Expired { more: true }) => {}
                Ok(_) => return Ok(()),
                Err(error) if error.code == ErrorCode::QueueNotFound => return Ok(()),
                Err(error) => return Err(error),
            }
        }
    }

    /// Whether a queue has expired messages, or its low-water mark lags far behind.
    async fn is_sweep_due(
        &self,
        snapshot: &CoopSnapshot<E::Transaction>,
        state: &QueueState,
    ) -> Result<bool, ServiceError> {
        let now = self.clock.tick();
        if state.swept > state.last_expiry || state.last_expiry == 0 {
            return Ok(false);
        }
        if now.saturating_sub(SWEEP_LAG).ticks() >= state.swept {
            return Ok(true);
        }
        let range = keyspace::expiring_between(state.messages, state.swept, now.ticks());
        Ok(snapshot.first(&range).await.map_err(storage_error)?.is_some())
    }
}

/// Whether a command has found fewer messages than it wanted.
fn is_short(command: Command<'_>, reply: &Result<CommandReply, ServiceError>) -> bool {
    match (command, reply) {
        (
            Command::Operation(SequencedOperation::GetMessages { count, .. }),
            Ok(CommandReply::Reply(Reply::Messages(messages))),
        ) => messages.len() < *count,
        _ => false,
    }
}
