//! The store that the tests run on. By default it is memory and one node. Each suite runs once more on an engine that waits,
//! conflicts and leaves outcomes open at random, with one node and with two, and once more with two nodes on a database: PostgreSQL,
//! or TiKV where tepui-tikv runs them.

#![allow(dead_code, reason = "not every suite needs all of it")]

#[path = "tested.rs"]
mod tested;

use crate::engine::TestEngine;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use tepui_model::{ErrorCode, ServiceError};
use tepui_storage::{Engine, Extents};
use tepui_storage_faulty::{AT_RANDOM, Faults, FaultyExtents, Rates};
pub(crate) use tested::{TestedEngine, database};

/// An engine that fails at random, if this is such a run.
pub(crate) type FaultyEngine<E = TestedEngine> = tepui_storage_faulty::FaultyEngine<E>;

/// Says on what the tests of a suite run: see [`Course`].
const VARIABLE: &str = "TEPUI_TEST_STORE";

/// On what the tests of a suite run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Course {
    Memory,
    /// One node on a faulty store.
    Faulty,
    /// Two nodes on a faulty store. Requests go to them in turn.
    TwoNodes,
    /// Two nodes on a database over a network that the tests start. Requests go to them in turn.
    Database,
}

impl Course {
    fn name(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Faulty => "faulty",
            Self::TwoNodes => "two-nodes",
            Self::Database => database::NAME,
        }
    }

    pub(crate) fn current() -> Self {
        let given = std::env::var(VARIABLE).unwrap_or_default();
        let all = [Self::Faulty, Self::TwoNodes, Self::Database];
        all.into_iter().find(|course| course.name() == given).unwrap_or(Self::Memory)
    }

    /// Runs the suite again.
    pub(crate) fn run(self) {
        if Self::current() != Self::Memory {
            return; // This is such a run.
        }
        if self == Self::Database && database::is_skipped() {
            return;
        }
        let suite = std::env::current_exe().expect("a test knows where it is");
        let mut command = Command::new(suite);
        // They bring an engine of their own that does what they are about, or take long anyway.
        let skipped = ["sequencer::", "forgets", "all_of_it", "as_many_blocks"];
        command.args(skipped.iter().flat_map(|name| ["--skip", name]));
        if self == Self::Database {
            let skipped = ON_PAUSED_CLOCKS.iter().chain(&database::TOO_LONG);
            command.args(skipped.flat_map(|name| ["--skip", name]));
            command.args(database::ARGUMENTS);
        }
        let run = command.env(VARIABLE, self.name()).output().expect("the suite can be started");
        let told = String::from_utf8_lossy(&run.stdout);
        assert!(run.status.success(), "on {self:?} ({VARIABLE}={}):\n{told}", self.name());
    }
}

/// Tests on a clock that goes on when nothing happens in this process: every answer of a server would be too late.
const ON_PAUSED_CLOCKS: [&str; 6] = [
    "everything_counts_once",
    "more_blobs_than_a_page_and_logs_on_their_own",
    "a_copy_goes_on_while_another_node_cleans_up",
    "the_copy_of_a_dead_node_fails_after_its_lease",
    "a_copy_is_aborted_on_another_node",
    "nothing_is_left_of_what_was_dropped",
];

/// How many nodes there are.
pub(crate) fn nodes() -> usize {
    match Course::current() {
        Course::TwoNodes | Course::Database => 2,
        Course::Memory | Course::Faulty => 1,
    }
}

/// How many random histories there are, of so many in memory.
pub(crate) fn cases(in_memory: u32) -> u32 {
    if Course::current() == Course::Database { in_memory.div_ceil(10) } else { in_memory }
}

/// How much many clients do at once, of so much in memory.
pub(crate) fn crowd(in_memory: usize) -> usize {
    if Course::current() == Course::Database { in_memory / database::SLOWER } else { in_memory }
}

/// An empty store without faults.
pub(crate) fn tested() -> TestedEngine {
    match Course::current() {
        Course::Database => TestedEngine::in_database(),
        Course::Memory | Course::Faulty | Course::TwoNodes => TestedEngine::in_memory(),
    }
}

/// What goes wrong for tests that expect one answer, and ask again until they get it: see [`Repeated`]. No commit happens later:
/// one that happens before the request is repeated makes the repetition the second of two, which is answered otherwise. One
/// that does not is refused, because the repetition has written its keys; so it is as good as lost.
const REPEATED: Rates = Rates { unknown_late: 0, ..Rates::ALL };
/// What goes wrong for tests with many clients at once: they overwrite what would show that a commit has happened, so that
/// it is repeated though it has.
pub(crate) const CROWDED: Rates = Rates { unknown_kept: 0, ..REPEATED };

/// What goes wrong for tests with a model of the states that are possible: all of it, and often.
const OPEN: Rates = Rates { unknown_kept: 24, unknown_lost: 24, unknown_late: 12, ..Rates::ALL };

pub(crate) fn engine() -> FaultyEngine {
    on(tested())
}

pub(crate) fn on<E: Engine>(engine: E) -> FaultyEngine<E> {
    FaultyEngine::new(engine, faults(REPEATED))
}

pub(crate) fn for_many<E: Engine>(engine: E) -> FaultyEngine<E> {
    FaultyEngine::new(engine, faults(CROWDED))
}

/// For tests that find out what became of a request whose answer leaves it open.
pub(crate) fn with_open_outcomes<E: Engine>(engine: E) -> FaultyEngine<E> {
    FaultyEngine::new(engine, faults(OPEN))
}

pub(crate) fn extents<X: Extents>(extents: X) -> FaultyExtents<X> {
    FaultyExtents::new(extents, faults(REPEATED))
}

/// Whether an error was made up by the store: it says nothing about the request.
pub(crate) fn is_made_up(error: &ServiceError) -> bool {
    error.cause.as_ref().is_some_and(|cause| cause.contains(AT_RANDOM))
}

/// Whether an error leaves open what became of the request.
pub(crate) fn is_open(error: &ServiceError) -> bool {
    error.cause.as_ref().is_some_and(|cause| cause.contains("unknown outcome"))
}

/// The answer to a request that was repeated, as clients do, until the store did not make up an error.
pub(crate) struct Repeated<T> {
    pub(crate) answer: Result<T, ServiceError>,
    /// Whether an answer before left open what became of the request: this one may be to the second of two.
    pub(crate) is_open: bool,
}

impl<T> Repeated<T> {
    /// The answer, where a refusal may be due to the request itself. `done` says what the answer would have been.
    pub(crate) fn unless_done(self, done: impl FnOnce(ErrorCode) -> Option<T>) -> Result<T, ServiceError> {
        match self.answer {
            Err(error) if self.is_open => done(error.code).ok_or(error),
            answer => answer,
        }
    }
}

/// Repeats a request as long as the store makes up errors.
pub(crate) async fn repeat<T, F>(mut request: impl FnMut() -> F) -> Repeated<T>
where
    F: Future<Output = Result<T, ServiceError>>,
{
    let mut is_open = false;
    for _ in 0..100 {
        match request().await {
            Err(error) if is_made_up(&error) => {
                is_open |= self::is_open(&error);
            }
            answer => return Repeated { answer, is_open },
        }
    }
    panic!("a request does not succeed");
}

/// Repeats a request as long as the store makes up errors, unless one leaves open what became of the request.
pub(crate) async fn repeat_unless_open<T, F>(mut request: impl FnMut() -> F) -> Result<T, ServiceError>
where
    F: Future<Output = Result<T, ServiceError>>,
{
    loop {
        match request().await {
            Err(error) if is_made_up(&error) && !is_open(&error) => {}
            answer => return answer,
        }
    }
}

/// An engine whose commits of unknown outcome can be settled.
pub(crate) trait Settle {
    /// Lets every commit happen now that would happen later.
    async fn settle(&self);
}

impl<E: Engine> Settle for FaultyEngine<E> {
    async fn settle(&self) {
        Self::settle(self).await;
    }
}

impl Settle for TestEngine {
    async fn settle(&self) {}
}

/// For work that can be repeated whatever became of it.
pub(crate) async fn repeat_until_done<T, F>(work: impl FnMut() -> F) -> T
where
    F: Future<Output = Result<T, ServiceError>>,
{
    repeat(work).await.answer.expect("it can be done")
}

fn faults(rates: Rates) -> Faults {
    match Course::current() {
        Course::Memory | Course::Database => Faults::new(Rates::NONE, 0),
        Course::Faulty | Course::TwoNodes => Faults::from_environment(rates),
    }
}

/// Services of several nodes, which take turns.
pub(crate) struct Nodes<T> {
    all: Vec<T>,
    turn: AtomicUsize,
}

impl<T> Nodes<T> {
    pub(crate) fn new(count: usize, node: impl FnMut(usize) -> T) -> Self {
        Self { all: (0..count).map(node).collect(), turn: AtomicUsize::new(0) }
    }

    pub(crate) fn next(&self) -> &T {
        let turn = self.turn.fetch_add(1, Ordering::Relaxed);
        &self.all[turn % self.all.len()]
    }

    pub(crate) fn first(&self) -> &T {
        &self.all[0]
    }
}
