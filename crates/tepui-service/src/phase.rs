//! Where the time of a request goes: a stopwatch that goes with the task of a request whose client wants to know.
//!
//! Services and the server say which phase begins. Without a stopwatch that is a look at a task-local variable.

use std::cell::Cell;
use std::future::Future;
use std::time::{Duration, Instant};

/// What a server does with a request, one thing after the other. A phase may be entered more than once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// Who asks, and what they may do.
    Auth,
    /// Receiving the body.
    Body,
    /// What is asked for, how it will be carried out, and waiting for the memory that its answer may take.
    Plan,
    /// Reading, and deciding what is answered or written.
    Read,
    /// Waiting until what was written is durable.
    Commit,
    /// Writing the answer.
    Reply,
}

impl Phase {
    pub const ALL: [Self; 6] = [Self::Auth, Self::Body, Self::Plan, Self::Read, Self::Commit, Self::Reply];

    pub fn name(self) -> &'static str {
        match self {
            Self::Auth => "auth",
            Self::Body => "body",
            Self::Plan => "plan",
            Self::Read => "read",
            Self::Commit => "commit",
            Self::Reply => "reply",
        }
    }
}

/// How long each phase took, all its times together.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PhaseTimes([Duration; Phase::ALL.len()]);

impl PhaseTimes {
    pub fn of(&self, phase: Phase) -> Duration {
        self.0[phase as usize]
    }
}

#[derive(Clone, Copy)]
struct Stopwatch {
    phase: Phase,
    since: Instant,
    times: PhaseTimes,
}

impl Stopwatch {
    fn enter(mut self, phase: Phase) -> Self {
        let now = Instant::now();
        self.times.0[self.phase as usize] += now.saturating_duration_since(self.since);
        Self { phase, since: now, ..self }
    }
}

tokio::task_local! {
    static STOPWATCH: Cell<Stopwatch>;
}

/// Does `work` with a stopwatch that was started before, in the first phase.
pub async fn timed<T>(started: Instant, work: impl Future<Output = T>) -> (T, PhaseTimes) {
    let stopwatch = Stopwatch { phase: Phase::Auth, since: started, times: PhaseTimes::default() };
    let work = async {
        let done = work.await;
        (done, STOPWATCH.with(|stopwatch| stopwatch.get().enter(Phase::Reply).times))
    };
    STOPWATCH.scope(Cell::new(stopwatch), work).await
}

/// The next phase of this task begins, if its phases are timed.
pub fn enter(phase: Phase) {
    let _ = STOPWATCH.try_with(|stopwatch| stopwatch.set(stopwatch.get().enter(phase)));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn all_time_belongs_to_a_phase() {
        const STEP: Duration = Duration::from_millis(5);
        let started = Instant::now();
        let work = async {
            for phase in [Phase::Plan, Phase::Read, Phase::Commit, Phase::Read, Phase::Commit, Phase::Reply] {
                enter(phase);
                tokio::time::sleep(STEP).await;
            }
            7
        };
        let (done, times) = timed(started, work).await;
        let elapsed = started.elapsed();
        assert_eq!(done, 7);
        for (phase, steps) in
            [(Phase::Body, 0), (Phase::Plan, 1), (Phase::Read, 2), (Phase::Commit, 2), (Phase::Reply, 1)]
        {
            assert!(times.of(phase) >= STEP * steps, "{phase:?}: {times:?}");
        }
        assert_eq!(times.of(Phase::Body), Duration::ZERO);
        let sum: Duration = Phase::ALL.iter().map(|phase| times.of(*phase)).sum();
        assert!(sum >= STEP * 6 && sum <= elapsed, "{times:?}");
    }

    #[tokio::test]
    async fn tasks_without_a_stopwatch_are_not_timed() {
        enter(Phase::Read);
        let (_, times) = timed(Instant::now(), std::future::ready(())).await;
        enter(Phase::Commit);
        assert_eq!(times.of(Phase::Read) + times.of(Phase::Commit), Duration::ZERO);
    }
}
