//! The worker's side: takes messages, and brings up to date what their authors have left.

use super::follow::{BoxFuture, is_changed};
use super::message::Task;
use super::rows::{ABORTED, COMMITTED, STATE, marker, marker_key};
use super::{Outbox, poison};
use crate::{Entity, Error, ErrorKind, Message, Queue};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;
use tokio::task::JoinSet;
use tokio::time::timeout;

/// As many as services give at a time.
const MESSAGES_AT_A_TIME: usize = 32;
const SHORTEST_POLL: Duration = Duration::from_secs(1);
const LONGEST_POLL: Duration = Duration::from_secs(30);
const LONGEST_DELAY: Duration = Duration::from_secs(300);

/// Takes the messages of a queue and does what their authors have left. Any number may run at a time, in any number of processes.
#[derive(Clone)]
pub struct Worker {
    pub(super) queue: Queue,
    pub(super) poison: Result<Queue, Arc<str>>,
    outboxes: Vec<Arc<dyn Serve>>,
    pub(super) lease: Duration,
    max_attempts: u32,
    first_delay: Duration,
}

/// What became of the messages that a worker took.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Worked {
    /// Committed changes that were followed.
    pub done: usize,
    /// Changes that were never committed, or were done before.
    pub dropped: usize,
    /// Left for another time.
    pub failed: usize,
    /// Put into the poison queue.
    pub poisoned: usize,
}

impl Worked {
    pub fn total(&self) -> usize {
        self.done + self.dropped + self.failed + self.poisoned
    }

    fn add(&mut self, other: Self) {
        self.done += other.done;
        self.dropped += other.dropped;
        self.failed += other.failed;
        self.poisoned += other.poisoned;
    }
}

/// An outbox, whatever its entities are.
trait Serve: Send + Sync {
    fn name(&self) -> &str;
    /// Whether the change of the task was committed; it is then followed.
    fn serve<'a>(&'a self, task: &'a Task) -> BoxFuture<'a, Result<bool, Error>>;
}

impl<E: Entity + Sync + 'static> Serve for Outbox<E> {
    fn name(&self) -> &str {
        &self.name
    }

    fn serve<'a>(&'a self, task: &'a Task) -> BoxFuture<'a, Result<bool, Error>> {
        Box::pin(self.work_on(task))
    }
}

impl<E: Entity + Sync + 'static> Outbox<E> {
    async fn work_on(&self, task: &Task) -> Result<bool, Error> {
        let key = marker_key(&task.primary.partition_key, &task.id);
        // From here on the author cannot commit any more, if it has not.
        match self.rows.insert(&marker(key.clone(), ABORTED)?).await {
            Ok(_) => return Ok(false),
            Err(error) if is_changed(&error) => {}
            Err(error) => return Err(error),
        }
        match self.rows.get(&key).await? {
            Some(marker) if marker.text(STATE) == Some(COMMITTED) => {}
            // Aborted, or taken away by another worker that was done with it.
            _ => return Ok(false),
        }
        self.apply(&task.primary, &task.places).await?;
        self.delete_marker(task).await?;
        Ok(true)
    }
}

impl Worker {
    /// A worker for the messages of one outbox, with five attempts for each, and half a minute for an attempt before it says that it
    /// takes longer.
    pub fn of<E: Entity + Sync + 'static>(outbox: &Outbox<E>) -> Self {
        let queue = outbox.queue.clone();
        let poison =
            queue.beside(&format!("{}-poison", queue.name())).map_err(|error| error.to_string().into());
        Self {
            queue,
            poison,
            outboxes: vec![Arc::new(outbox.clone())],
            lease: Duration::from_secs(30),
            max_attempts: 5,
            first_delay: Duration::from_secs(2),
        }
    }

    /// Works for another outbox of the same queue as well.
    pub fn and<E: Entity + Sync + 'static>(mut self, outbox: &Outbox<E>) -> Result<Self, Error> {
        if outbox.queue.name() != self.queue.name() {
            return Err(Error::new(ErrorKind::Configuration, "the outboxes of a worker have the same queue"));
        }
        if self.outboxes.iter().any(|known| known.name() == &*outbox.name) {
            let message = format!("two outboxes of a worker have the same name: {}", outbox.name);
            return Err(Error::new(ErrorKind::Configuration, message));
        }
        self.outboxes.push(Arc::new(outbox.clone()));
        Ok(self)
    }

    /// Where messages go that fail again and again. `{queue}-poison` unless said otherwise.
    pub fn poison_queue(mut self, queue: Queue) -> Self {
        self.poison = Ok(queue);
        self
    }

    /// How often a message is tried before it goes to the poison queue. 5 unless said otherwise.
    pub fn attempts(mut self, attempts: u32) -> Self {
        self.max_attempts = attempts.max(1);
        self
    }

    /// How long a message is held before it is held on for longer. Whole seconds, at least two.
    pub fn lease(mut self, lease: Duration) -> Self {
        self.lease = lease.max(Duration::from_secs(2));
        self
    }

    /// How long a message waits after it failed. Doubled each time, up to five minutes. Whole seconds.
    pub fn delay(mut self, first: Duration) -> Self {
        self.first_delay = first;
        self
    }

    /// Works until `stop` is there. What is being worked on then is done to its end. While there is nothing to do it asks less and
    /// less often, from every second to every half a minute. Errors of the queue itself are waited out in the same way.
    pub async fn run(&self, stop: impl Future<Output = ()>) -> Result<Worked, Error> {
        self.poison()?;
        let mut stop = pin!(stop);
        let (mut all, mut wait) = (Worked::default(), SHORTEST_POLL);
        loop {
            match self.work_once().await {
                Ok(worked) if worked.total() > 0 => {
                    all.add(worked);
                    wait = SHORTEST_POLL;
                    if is_there(stop.as_mut()).await {
                        return Ok(all);
                    }
                }
                Err(error) if matches!(error.kind(), ErrorKind::Denied | ErrorKind::Configuration) => {
                    return Err(error);
                }
                _ => {
                    if timeout(wait, stop.as_mut()).await.is_ok() {
                        return Ok(all);
                    }
                    wait = (wait * 2).min(LONGEST_POLL);
                }
            }
        }
    }

    /// Works until there is no message that can be seen. Those that wait for another attempt, or that authors still hide, are left.
    pub async fn drain(&self) -> Result<Worked, Error> {
        let mut all = Worked::default();
        loop {
            let worked = self.work_once().await?;
            if worked.total() == 0 {
                return Ok(all);
            }
            all.add(worked);
        }
    }

    /// Takes up to 32 messages and works on all of them at the same time.
    pub async fn work_once(&self) -> Result<Worked, Error> {
        self.poison()?;
        let messages = self.queue.get(MESSAGES_AT_A_TIME, self.lease).await?;
        let mut under_way = JoinSet::new();
        for message in messages {
            let worker = self.clone();
            under_way.spawn(async move { worker.work_on(message).await });
        }
        let mut all = Worked::default();
        while let Some(done) = under_way.join_next().await {
            // A panic of a follower leaves its message to be seen again.
            all.add(done.unwrap_or(Worked { failed: 1, ..Worked::default() }));
        }
        Ok(all)
    }

    pub(super) fn poison(&self) -> Result<&Queue, Error> {
        self.poison.as_ref().map_err(|error| Error::new(ErrorKind::Configuration, &**error))
    }

    async fn work_on(&self, mut message: Message) -> Worked {
        let one = |poisoned, failed| Worked { poisoned, failed, ..Worked::default() };
        let Some(mut task) = Task::parse(&message.text) else {
            return match poison::put_foreign(self, &mut message).await {
                Ok(true) => one(1, 0),
                _ => one(0, 1),
            };
        };
        if task.is_poisoned || message.dequeue_count > self.max_attempts {
            let is_put = poison::put_task(self, &mut message, &mut task).await;
            return if is_put.unwrap_or(false) { one(1, 0) } else { one(0, 1) };
        }
        let outcome = match self.outboxes.iter().find(|outbox| outbox.name() == task.outbox) {
            Some(outbox) => self.holding(&mut message, outbox.serve(&task)).await,
            None => {
                let message = format!("no outbox of this worker has this name: {}", task.outbox);
                Err(Error::new(ErrorKind::Configuration, message))
            }
        };
        match outcome {
            Ok(was_committed) => {
                // Should this fail, the message comes back, and is found to be done.
                let _ = self.queue.delete(&message).await;
                let was_committed = usize::from(was_committed);
                Worked { done: was_committed, dropped: 1 - was_committed, ..Worked::default() }
            }
            Err(error) => {
                task.note(&error);
                let delay =
                    self.first_delay * 2_u32.saturating_pow(message.dequeue_count.saturating_sub(1).min(16));
                let text = task.to_text().ok();
                let _ = self.queue.update(&mut message, delay.min(LONGEST_DELAY), text.as_deref()).await;
                one(0, 1)
            }
        }
    }

    /// Holds a message for as long as the work on it takes. A lease that is lost does no harm: the work can be done twice.
    async fn holding<T>(&self, message: &mut Message, work: BoxFuture<'_, T>) -> T {
        let mut work = work;
        loop {
            match timeout(self.lease / 2, &mut work).await {
                Ok(done) => return done,
                Err(_) => {
                    let _ = self.queue.update(message, self.lease, None).await;
                }
            }
        }
    }
}

/// Whether a future is ready now.
async fn is_there(mut future: Pin<&mut impl Future<Output = ()>>) -> bool {
    std::future::poll_fn(|context| Poll::Ready(future.as_mut().poll(context).is_ready())).await
}
