//! The Queue service of all accounts of a server.

use super::lane::{Answer, Answered, Ask, Job, LaneId, Lanes, Running};
use super::round::{Queue, Round, SWEEP_LAG};
use super::{look, queues};
use crate::catalogue::Catalogue;
use crate::keyspace::{self, Incarnation};
use crate::reclaim::Reclaimer;
use crate::record::StoredQueue;
use crate::settings::Settings;
use crate::transact::{Attempt, Outcome, commit, engine_error};
use std::sync::Arc;
use std::time::Duration;
use tepui_engine::{Engine, EngineError, ScanLimit, Snapshot};
use tepui_model::access_policy::SignedIdentifier;
use tepui_model::queue::{Operation, QueueName, Reply};
use tepui_model::service_properties::ServiceProperties;
use tepui_model::{Clock, ErrorCode, ServiceError};
use tokio::sync::oneshot;

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

pub struct QueueService<E> {
    engine: Arc<E>,
    clock: Arc<dyn Clock>,
    reclaimer: Arc<Reclaimer<E>>,
    options: QueueOptions,
    catalogue: Catalogue,
    settings: Settings,
    lanes: Lanes,
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
                match self.in_lane(lane, Ask::Operation(operation.clone())).await? {
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

    /// Carries out an operation that changes no message.
    async fn execute_alone(&self, account: &str, operation: &Operation) -> Result<Reply, ServiceError> {
        let mut attempts = 0;
        loop {
            let snapshot = self.engine.snapshot().await.map_err(engine_error)?;
            let outcome = self.decide(&snapshot, account, operation).await?;
            match commit(&*self.engine, &snapshot, outcome).await? {
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
        snapshot: &E::Snapshot,
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
        snapshot: &E::Snapshot,
        account: &str,
        queue: &QueueName,
    ) -> Result<StoredQueue, ServiceError> {
        let (_, row) = queues::find(&self.catalogue, snapshot, account, queue.as_str()).await?;
        StoredQueue::decode(&row)
    }

    /// Waits for a change's turn in its lane, and for its commit. The work goes on if the caller goes away.
    async fn in_lane(self: &Arc<Self>, lane: LaneId, ask: Ask) -> Answered {
        let (answer, answered) = oneshot::channel();
        if self.lanes.push(&lane, Job { ask, answer }) {
            let service = Arc::clone(self);
            tokio::spawn(async move { service.run_lane(&lane).await });
        }
        answered.await.unwrap_or_else(|_| {
            Err(ServiceError::new(ErrorCode::InternalError).with_cause("the lane of a queue broke down"))
        })
    }

    /// Works off a lane until nothing waits there.
    async fn run_lane(&self, lane: &LaneId) {
        let mut running = Running { lanes: &self.lanes, lane, finished: false };
        while let Some(jobs) = self.lanes.next_round(lane) {
            let answers = self.run_round(lane, &jobs).await;
            let answers = answers.unwrap_or_else(|error| vec![Err(error); jobs.len()]);
            for (job, answer) in jobs.into_iter().zip(answers) {
                // A caller that went away wants no answer.
                let _ = job.answer.send(answer);
            }
            // Lets those who were answered come back at once, so that they share the next commit.
            tokio::task::yield_now().await;
        }
        running.finished = true;
    }

    /// Decides jobs and commits them together. An error is about all of them.
    async fn run_round(&self, lane: &LaneId, jobs: &[Job]) -> Result<Vec<Answered>, ServiceError> {
        let LaneId { account, queue } = lane;
        for _ in 0..MAX_ATTEMPTS {
            let snapshot = self.engine.snapshot().await.map_err(engine_error)?;
            let (key, row) = queues::find(&self.catalogue, &snapshot, account, queue).await?;
            let incarnation = StoredQueue::incarnation_of(&row)?;
            let name_rests = self.options.deleted_name_rests;
            let found = Queue { lane, key, incarnation, name_rests };
            let mut round = Round::new(&snapshot, found, self.clock.tick()).await?;
            let mut answers = Vec::with_capacity(jobs.len());
            for job in jobs {
                answers.push(round.decide(&job.ask).await?);
            }
            match commit(&*self.engine, &snapshot, round.finish(answers)).await? {
                Attempt::Done(answers) => return Ok(answers),
                Attempt::Again => {}
            }
        }
        Err(ErrorCode::ServerBusy.into())
    }

    /// Fails if there is no such queue.
    pub async fn require_queue(&self, account: &str, queue: &str) -> Result<(), ServiceError> {
        let snapshot = self.engine.snapshot().await.map_err(engine_error)?;
        queues::find(&self.catalogue, &snapshot, account, queue).await.map(drop)
    }

    /// The stored access policy `id` of a queue, if there is one.
    pub async fn signed_identifier(
        &self,
        account: &str,
        queue: &str,
        id: &str,
    ) -> Result<Option<SignedIdentifier>, ServiceError> {
        let snapshot = self.engine.snapshot().await.map_err(engine_error)?;
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
            let snapshot = self.engine.snapshot().await.map_err(engine_error)?;
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
    async fn is_sweep_due(&self, snapshot: &E::Snapshot, queue: Incarnation) -> Result<bool, ServiceError> {
        let state = look::state(snapshot, queue).await?;
        let now = self.clock.tick();
        if state.swept > state.last_expiry || state.last_expiry == 0 {
            return Ok(false);
        }
        if now.saturating_sub(SWEEP_LAG).ticks() >= state.swept {
            return Ok(true);
        }
        let range = keyspace::expiring_between(state.messages, state.swept, now.ticks());
        let limit = ScanLimit { max_rows: 1, max_bytes: 1024 };
        Ok(!snapshot.scan(&range, limit).await.map_err(engine_error)?.rows.is_empty())
    }
}
