//! Commits whose outcome was left open, and that happen some calls later.

use crate::Faults;
use parking_lot::Mutex;
use std::future::Future;
use std::pin::Pin;

/// The calls of the engine before such a commit happens, at most.
const MAX_CALLS: u32 = 60;

/// The commits of one engine that have not happened yet.
#[derive(Default)]
pub(crate) struct LateCommits(Mutex<Vec<LateCommit>>);

struct LateCommit {
    calls_left: u32,
    commit: Pin<Box<dyn Future<Output = ()> + Send>>,
}

impl LateCommits {
    pub(crate) fn add(&self, faults: &Faults, commit: impl Future<Output = ()> + Send + 'static) {
        let calls_left = faults.below(MAX_CALLS);
        self.0.lock().push(LateCommit { calls_left, commit: Box::pin(commit) });
    }

    /// Called with every call of the engine: lets those happen whose time has come.
    pub(crate) async fn advance(&self) {
        let due = {
            let mut late = self.0.lock();
            late.iter_mut().for_each(|commit| commit.calls_left = commit.calls_left.saturating_sub(1));
            let (due, rest) = std::mem::take(&mut *late).into_iter().partition(|late| late.calls_left == 0);
            *late = rest;
            due
        };
        run(due).await;
    }

    /// Lets all of them happen now.
    pub(crate) async fn finish(&self) {
        let all = std::mem::take(&mut *self.0.lock());
        run(all).await;
    }
}

async fn run(commits: Vec<LateCommit>) {
    for late in commits {
        late.commit.await;
    }
}
