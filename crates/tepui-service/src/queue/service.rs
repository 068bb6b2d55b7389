//! The Queue service of all accounts of a server.

use super::lane::{Answer, Ask, Decisions, InLane, LaneId, Lanes};
use super::round::{Queue, Round, SWEEP_LAG, Stop};
use super::{look, queues};
use crate::catalogue::Catalogue;
use crate::keyspace::{self, Incarnation};
use crate::pace::Paced;
use crate::reclaim::Reclaimer;
use crate::record::StoredQueue;
use crate::settings::Settings;
use crate::transact::{Attempt, Outcome, Space, attempt, commit, engine_error};
use std::sync::Arc;
use std::time::Duration;
use tepui_model::access_policy::SignedIdentifier;
use tepui_model::queue::{Operation, QueueName, Reply};
use tepui_model::service_properties::ServiceProperties;
use tepui_model::{Clock, ErrorCode, ServiceError};
use tepui_storage::{Engine, EngineError, ScanLimit, Snapshot};

/// How the Queue service behaves where there is a choice.
#[derive(Debug, Clone, Copy, Default)]
pub struct QueueOptions {
    /// How long the name of a deleted queue cannot be used again. Azure takes some 30 s; here it is at once.
    pub deleted_name_rests: Duration,
}

/// How often a change is decided again before the caller is told that the server is busy. Each time
/// the catalogue's row has changed.
const MAX_ATTEMPTS: u32 = 1000;
/// How often expired messages are looked for.
const SWEEP_EVERY: Duration = Duration::from_secs(15);

pub struct QueueService<E: Engine> {
    engine: Arc<E>,
    clock: Arc<dyn Clock>,
    reclaimer: Arc<Reclaimer<E>>,
    options: QueueOptions,
    catalogue: Catalogue,
    settings: Settings,
    lanes: Lanes<E::Snapshot>,
}

impl<E: Engine> QueueService<E> {
    pub fn new(
        engine: Arc<E>,
        clock: Arc<dyn Clock>,
        reclaimer: Arc<Reclaimer<E>>,
        options: QueueOptions,
    ) -> Self {
        let (catalogue, settings) = (Catalogue::default(), Settings::of_service("queue"));
        Self { engine, clock, reclaimer, options, catalogue, settings, lanes: Lanes::default() }
    }

    pub async fn execute(
        self: &Arc<Self>,
        account: &str,
        operation: &Operation,
    ) -> Result<Reply, ServiceError> {
        match operation {
            Operation::PutMessage { queue, .. }
            | Operation::GetMessages { queue, .. }
            | Operation::UpdateMessage { queue, .. }
            | Operation::DeleteMessage { queue, .. }
            | Operation::ClearMessages { queue }
            | Operation::DeleteQueue { queue } => {
                let lane = LaneId { account: account.to_owned(), queue: queue.as_str().to_owned() };
                match self.in_lane(lane, Ask::Operation(operation)).await? {
                    Answer::Reply(reply) => {
                        if matches!(reply, Reply::Cleared | Reply::QueueDeleted) {
                            self.reclaimer.wake();
                        }
                        Ok(reply)
                    }
                    Answer::Expired { .. } => Err(ErrorCode::InternalError.into()),
                }
            }
            _ => self.execute_alone(account, operation).await,
        }
    }

    /// What is stored now. Whoever reads much of it lets others run meanwhile.
    async fn snapshot(&self) -> Result<Paced<E::Snapshot>, ServiceError> {
        self.engine.snapshot().await.map(Paced::new).map_err(engine_error)
    }

    /// Carries out an operation that changes no message.
    async fn execute_alone(&self, account: &str, operation: &Operation) -> Result<Reply, ServiceError> {
        let mut attempts = 0;
        loop {
            let snapshot = self.snapshot().await?;
            let outcome = self.decide(&snapshot, account, operation).await?;
            match commit(&*self.engine, &snapshot, outcome, Space::Takes).await? {
                Attempt::Done(reply) => {
                    if matches!(operation, Operation::SetServiceProperties(_)) {
                        self.settings.forget(account);
                    }
                    return Ok(reply);
                }
                Attempt::Again if attempts == MAX_ATTEMPTS => return Err(ErrorCode::ServerBusy.into()),
                Attempt::Again => attempts += 1,
            }
        }
    }

    async fn decide(
        &self,
        snapshot: &Paced<E::Snapshot>,
        account: &str,
        operation: &Operation,
    ) -> Result<Outcome<Reply>, ServiceError> {
        let catalogue = &self.catalogue;
        match operation {
            Operation::ListQueues(query) => {
                queues::list(snapshot, account, query).await.map(Reply::Queues).map(Outcome::read)
            }
            Operation::CreateQueue { queue, metadata } => {
                queues::create(snapshot, account, queue.as_str(), metadata, self.clock.now()).await
            }
            Operation::GetMetadata { queue } => {
                let StoredQueue { incarnation, metadata, .. } = self.queue(snapshot, account, queue).await?;
                let messages = look::count(snapshot, incarnation, self.clock.tick()).await?;
                Ok(Outcome::read(Reply::Metadata { metadata, messages }))
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
                let (_, row) = queues::find(catalogue, snapshot, account, queue.as_str()).await?;
                let queue = StoredQueue::incarnation_of(&row)?;
                let peeked = look::peek(snapshot, queue, *count, self.clock.tick()).await?;
                Ok(Outcome::read(Reply::Peeked(peeked)))
            }
            Operation::GetServiceProperties => {
                let properties = self.settings.read(snapshot, account).await?;
                Ok(Outcome::read(Reply::ServiceProperties(properties)))
            }
            Operation::SetServiceProperties(change) => {
                let writes = vec![self.settings.change(snapshot, account, change).await?];
                Ok(Outcome { reply: Reply::ServicePropertiesSet, guards: Vec::new(), writes })
            }
            Operation::GetServiceStats => {
                Ok(Outcome::read(Reply::ServiceStats { last_sync: self.clock.now() }))
            }
            Operation::PutMessage { .. }
            | Operation::GetMessages { .. }
            | Operation::UpdateMessage { .. }
            | Operation::DeleteMessage { .. }
            | Operation::ClearMessages { .. }
            | Operation::DeleteQueue { .. } => {
                let error = ServiceError::new(ErrorCode::InternalError);
                Err(error.with_cause("a change of messages was executed outside its lane"))
            }
        }
    }

    async fn queue(
        &self,
        snapshot: &Paced<E::Snapshot>,
        account: &str,
        queue: &QueueName,
    ) -> Result<StoredQueue, ServiceError> {
        let (_, row) = queues::find(&self.catalogue, snapshot, account, queue.as_str()).await?;
        StoredQueue::decode(&row)
    }

    /// Waits for a change's turn in its lane, and until it is stored.
    async fn in_lane(&self, lane: LaneId, ask: Ask<'_>) -> Result<Answer, ServiceError> {
        let lane = self.lanes.enter(lane);
        for _ in 0..MAX_ATTEMPTS {
            match self.take_turn(&lane, ask).await? {
                Attempt::Done(answer) => return answer,
                Attempt::Again => {}
            }
        }
        Err(ErrorCode::ServerBusy.into())
    }

    /// Decides a change on what those before it have left. A refusal is an answer too: it must not be given
    /// before what it rests on is stored.
    async fn take_turn(
        &self,
        lane: &InLane<'_, E::Snapshot>,
        ask: Ask<'_>,
    ) -> Result<Attempt<Result<Answer, ServiceError>>, ServiceError> {
        let mut turn = lane.turn.lock().await;
        let now = self.clock.tick();
        // Taken out until the turn is decided: nobody goes on with half of it.
        let mut decisions = match turn.take() {
            Some(decisions) if decisions.go_on(now) => decisions,
            before => self.begin(&lane.id, before).await?,
        };
        let answer = match decisions.round.decide(ask, self.clock.tick()).await {
            Ok(answer) => Ok(answer),
            Err(Stop::Refused(error)) => Err(error),
            Err(Stop::Broken(error)) => return Err(error),
        };
        let (outcome, proof) = decisions.send(&*self.engine, ask.space());
        *turn = Some(decisions);
        drop(turn);
        Ok(attempt(&*self.engine, outcome.await, proof, answer).await?)
    }

    /// Begins to decide on a new snapshot, which has all that was decided before.
    async fn begin(
        &self,
        lane: &LaneId,
        before: Option<Decisions<E::Snapshot>>,
    ) -> Result<Decisions<E::Snapshot>, ServiceError> {
        if let Some(before) = before {
            before.settle(&*self.engine).await;
        }
        let snapshot = self.engine.snapshot().await.map_err(engine_error)?;
        let (key, row) = queues::find(&self.catalogue, &snapshot, &lane.account, &lane.queue).await?;
        let incarnation = StoredQueue::incarnation_of(&row)?;
        let name_rests = self.options.deleted_name_rests;
        let queue = Queue { lane: lane.clone(), key, incarnation, name_rests };
        let (at, now) = (snapshot.version(), self.clock.tick());
        Ok(Decisions::new(Round::new(snapshot, queue, now).await?, at, now))
    }

    /// Fails if there is no such queue.
    pub async fn require_queue(&self, account: &str, queue: &str) -> Result<(), ServiceError> {
        let snapshot = self.snapshot().await?;
        queues::find(&self.catalogue, &snapshot, account, queue).await.map(drop)
    }

    /// The stored access policy `id` of a queue, if there is one.
    pub async fn signed_identifier(
        &self,
        account: &str,
        queue: &str,
        id: &str,
    ) -> Result<Option<SignedIdentifier>, ServiceError> {
        let snapshot = self.snapshot().await?;
        match queues::find(&self.catalogue, &snapshot, account, queue).await {
            Ok((_, row)) => {
                let acl = StoredQueue::decode(&row)?.acl;
                Ok(acl.into_iter().find(|identifier| identifier.id == id))
            }
            Err(error) if error.code == ErrorCode::QueueNotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The service properties of an account, as they are asked for with every request: changes made
    /// by this process hold at once, those of another after a few seconds.
    pub async fn service_properties(&self, account: &str) -> Result<Arc<ServiceProperties>, ServiceError> {
        self.settings.of_account(&*self.engine, account).await
    }

    /// Whether the engine takes writes now.
    pub fn health(&self) -> Result<(), EngineError> {
        self.engine.health()
    }

    /// Removes expired messages, for ever. Run it in the background; it can be stopped at any time.
    pub async fn sweep(self: &Arc<Self>) {
        loop {
            if let Err(error) = self.sweep_once().await {
                tracing::warn!(%error, "cannot remove expired messages yet");
            }
            tokio::time::sleep(SWEEP_EVERY).await;
        }
    }

    /// Removes the messages that have expired by now, of all queues, in small steps.
    pub async fn sweep_once(self: &Arc<Self>) -> Result<(), ServiceError> {
        let mut range = keyspace::all_queues();
        loop {
            let snapshot = self.snapshot().await?;
            let limit = ScanLimit { max_rows: 100, max_bytes: 1024 * 1024 };
            let page = snapshot.scan(&range, limit).await.map_err(engine_error)?;
            let mut due = Vec::new();
            for (key, row) in &page.rows {
                if self.is_sweep_due(&snapshot, StoredQueue::incarnation_of(row)?).await?
                    && let Some((account, queue)) = keyspace::queue_of(key)
                {
                    due.push(LaneId { account: account.into_owned(), queue: queue.into_owned() });
                }
            }
            drop(snapshot);
            for lane in due {
                self.sweep_queue(lane).await?;
            }
            let Some(next) = page.next else { return Ok(()) };
            range.start = next;
        }
    }

    async fn sweep_queue(self: &Arc<Self>, lane: LaneId) -> Result<(), ServiceError> {
        loop {
            match self.in_lane(lane.clone(), Ask::Expire).await {
                Ok(Answer::Expired { more: true }) => {}
                Ok(_) => return Ok(()),
                Err(error) if error.code == ErrorCode::QueueNotFound => return Ok(()),
                Err(error) => return Err(error),
            }
        }
    }

    /// Whether a queue has expired messages, or its low-water mark lags far behind.
    async fn is_sweep_due(
        &self,
        snapshot: &Paced<E::Snapshot>,
        queue: Incarnation,
    ) -> Result<bool, ServiceError> {
        let state = look::state(snapshot, queue).await?;
        let now = self.clock.tick();
        if state.swept > state.last_expiry || state.last_expiry == 0 {
            return Ok(false);
        }
        if now.saturating_sub(SWEEP_LAG).ticks() >= state.swept {
            return Ok(true);
        }
        let range = keyspace::expiring_between(state.messages, state.swept, now.ticks());
        Ok(snapshot.first(&range).await.map_err(engine_error)?.is_some())
    }
}
