//! The store that the tests run on. By default it is memory and one node. Each suite runs once more on an engine that waits,
//! conflicts and leaves outcomes open at random, with one node and with two.

#![allow(dead_code, reason = "not every suite needs all of it")]

use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use tepui_storage::Extents;
use tepui_storage_faulty::{Faults, FaultyEngine, FaultyExtents, Rates};

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
}

impl Course {
    fn name(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Faulty => "faulty",
            Self::TwoNodes => "two-nodes",
        }
    }

    pub(crate) fn current() -> Self {
        let given = std::env::var(VARIABLE).unwrap_or_default();
        let all = [Self::Faulty, Self::TwoNodes];
        all.into_iter().find(|course| course.name() == given).unwrap_or(Self::Memory)
    }

    /// Runs the suite again.
    pub(crate) fn run(self) {
        if Self::current() != Self::Memory {
            return; // This is such a run.
        }
        let suite = std::env::current_exe().expect("a test knows where it is");
        let mut command = Command::new(suite);
        // They bring a store of their own, or take long anyway.
        let skipped = ["on_disk", "two_nodes::", "sequencer::", "forgets", "all_of_it", "as_many_blocks"];
        command.args(skipped.iter().flat_map(|name| ["--skip", name]));
        let run = command.env(VARIABLE, self.name()).output().expect("the suite can be started");
        let told = String::from_utf8_lossy(&run.stdout);
        assert!(run.status.success(), "on {self:?} ({VARIABLE}={}):\n{told}", self.name());
    }
}

/// How many nodes there are.
pub(crate) fn nodes() -> usize {
    if Course::current() == Course::TwoNodes { 2 } else { 1 }
}

/// What goes wrong for tests that expect every answer to be right. A commit that is lost, or happens later, or only deletes,
/// cannot be told from one that never was: the answer is an error that leaves it open.
const SETTLED: Rates = Rates { unknown_lost: 0, unknown_deletions: false, ..Rates::ALL };
/// What goes wrong for tests with many clients at once: they overwrite what would show that a commit has happened.
const CERTAIN: Rates = Rates { unknown_kept: 0, ..SETTLED };

pub(crate) fn engine() -> FaultyEngine {
    FaultyEngine::in_memory(faults(SETTLED))
}

pub(crate) fn engine_for_many() -> FaultyEngine {
    FaultyEngine::in_memory(faults(CERTAIN))
}

/// For tests that find out what became of a request whose answer leaves it open.
pub(crate) fn engine_with_open_outcomes() -> FaultyEngine {
    FaultyEngine::in_memory(faults(Rates::ALL))
}

pub(crate) fn extents<X: Extents>(extents: X) -> FaultyExtents<X> {
    FaultyExtents::new(extents, faults(SETTLED))
}

fn faults(rates: Rates) -> Faults {
    match Course::current() {
        Course::Memory => Faults::new(Rates::NONE, 0),
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
