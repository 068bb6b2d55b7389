//! Lanes: all changes of one queue's messages go one after the other, as many as are waiting in one commit.
//!
//! Callers that come while a commit is under way wait for the next one together, so the more there are,
//! the more of them share a commit, and none of them ever meets a conflict with another.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, PoisonError};
use tepui_model::ServiceError;
use tepui_model::queue::{Operation, Reply};
use tokio::sync::oneshot;

/// How many changes share a commit, and about how many bytes.
const MAX_JOBS: usize = 256;
const MAX_BYTES: usize = 3 << 20;
/// What a message that is to be taken counts as.
const TAKEN_BYTES: usize = 4 << 10;

/// A queue, as its callers name it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct LaneId {
    pub(super) account: String,
    pub(super) queue: String,
}

/// What is asked for.
#[derive(Debug, Clone)]
pub(super) enum Ask {
    /// An operation that changes messages, or deletes the queue.
    Operation(Operation),
    /// Remove some of the messages that have expired.
    Expire,
}

impl Ask {
    fn bytes(&self) -> usize {
        match self {
            Self::Operation(Operation::PutMessage { text, .. }) => text.len(),
            Self::Operation(Operation::UpdateMessage { text: Some(text), .. }) => text.len(),
            Self::Operation(Operation::GetMessages { count, .. }) => count * TAKEN_BYTES,
            _ => 0,
        }
    }
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Answer {
    Reply(Reply),
    /// Whether there are more to remove.
    Expired {
        more: bool,
    },
}

pub(super) type Answered = Result<Answer, ServiceError>;

pub(super) struct Job {
    pub(super) ask: Ask,
    pub(super) answer: oneshot::Sender<Answered>,
}

/// What waits. A lane is here for as long as somebody works it off.
#[derive(Default)]
pub(super) struct Lanes {
    waiting: Mutex<HashMap<LaneId, VecDeque<Job>>>,
}

impl Lanes {
    /// Adds a job. Whoever gets `true` must see to it that the lane is worked off.
    pub(super) fn push(&self, lane: &LaneId, job: Job) -> bool {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(jobs) = waiting.get_mut(lane) {
            jobs.push_back(job);
            return false;
        }
        waiting.insert(lane.clone(), VecDeque::from([job]));
        true
    }

    /// What to do next, at least one job; `None`: nothing waits, and the lane is gone.
    pub(super) fn next_round(&self, lane: &LaneId) -> Option<Vec<Job>> {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let jobs = waiting.get_mut(lane)?;
        let mut bytes = 0;
        let mut fit = 0;
        while fit < MAX_JOBS
            && let Some(job) = jobs.get(fit)
        {
            bytes += job.ask.bytes();
            if fit > 0 && bytes > MAX_BYTES {
                break;
            }
            fit += 1;
        }
        if fit == 0 {
            waiting.remove(lane);
            return None;
        }
        Some(jobs.drain(..fit).collect())
    }

    /// Gives up a lane: who waits there is told so by the end of their channel.
    pub(super) fn abandon(&self, lane: &LaneId) {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).remove(lane);
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).is_empty()
    }
}

/// Abandons its lane when it is dropped early: the runner panicked, or its runtime ends.
pub(super) struct Running<'a> {
    pub(super) lanes: &'a Lanes,
    pub(super) lane: &'a LaneId,
    pub(super) finished: bool,
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        if !self.finished {
            self.lanes.abandon(self.lane);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use std::time::Duration;
    use tepui_model::queue::QueueName;

    fn put(bytes: usize) -> (Job, oneshot::Receiver<Answered>) {
        let (answer, answered) = oneshot::channel();
        let operation = Operation::PutMessage {
            queue: QueueName::parse("jobs").unwrap(),
            text: Bytes::from(vec![b'x'; bytes]),
            visibility: Duration::ZERO,
            lifetime: None,
        };
        (Job { ask: Ask::Operation(operation), answer }, answered)
    }

    #[test]
    fn rounds_are_bounded_and_lanes_end() {
        let lanes = Lanes::default();
        let lane = LaneId { account: "account".to_owned(), queue: "jobs".to_owned() };
        for (jobs, bytes, rounds) in [
            (1, 0, vec![1]),
            (300, 10, vec![256, 44]),
            (3, MAX_BYTES, vec![1, 1, 1]),
            (5, MAX_BYTES / 2, vec![2, 2, 1]),
        ] {
            for number in 0..jobs {
                assert_eq!(lanes.push(&lane, put(bytes).0), number == 0);
            }
            let taken: Vec<_> =
                std::iter::from_fn(|| lanes.next_round(&lane)).map(|round| round.len()).collect();
            assert_eq!(taken, rounds);
            assert!(lanes.is_empty());
        }
    }

    #[tokio::test]
    async fn a_runner_that_panics_leaves_nobody_waiting() {
        let lanes = Lanes::default();
        let lane = LaneId { account: "account".to_owned(), queue: "jobs".to_owned() };
        let (job, answered) = put(1);
        assert!(lanes.push(&lane, job));
        drop(Running { lanes: &lanes, lane: &lane, finished: false });
        assert!(answered.await.is_err());
        assert!(lanes.push(&lane, put(1).0), "the lane begins again");
    }
}
