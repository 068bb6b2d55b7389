//! Guards that many commits share.
//!
//! TiKV's locks are exclusive: two transactions that lock one key and overlap in time conflict, and only one of them commits.
//! So a row that many commits guard has copies. A commit locks one of them; a write of the row writes all of them, and conflicts
//! with every commit that has locked one since. Which rows have copies is settled when a store is first used: a node that did
//! not write all the copies would not be noticed by the others.

use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};

/// Chooses a copy for each commit.
///
/// One after another: so it is the one whose last use by this process is longest ago, and commits of one process conflict
/// only if there are more of them at once than copies. Where it begins is random, and so is where it goes on after a
/// conflict, because another process may be at the same ones and just as fast.
pub(crate) struct CopyChoice {
    copies: u8,
    next: AtomicU64,
}

impl CopyChoice {
    pub(crate) fn new(copies: u8) -> Self {
        Self { copies, next: AtomicU64::new(random()) }
    }

    pub(crate) fn copies(&self) -> u8 {
        self.copies
    }

    /// The copy to lock.
    pub(crate) fn next(&self) -> u8 {
        let next = self.next.fetch_add(1, Ordering::Relaxed);
        // Fewer than 256.
        (next % u64::from(self.copies.max(1))) as u8
    }

    /// Goes on elsewhere.
    pub(crate) fn jump(&self) {
        self.next.store(random(), Ordering::Relaxed);
    }
}

/// A random number, without a crate for it: hashes are seeded at random.
pub(crate) fn random() -> u64 {
    RandomState::new().hash_one(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_copy_is_chosen_again_before_all_others_were() {
        for copies in [1, 2, 16, 128, 255] {
            let choice = CopyChoice::new(copies);
            let mut round: Vec<u8> = (0..copies).map(|_| choice.next()).collect();
            let again: Vec<u8> = (0..copies).map(|_| choice.next()).collect();
            assert_eq!(round, again);
            round.sort_unstable();
            assert!(round.into_iter().eq(0..copies));
        }
    }

    /// Commits of processes that choose on their own, on locks that conflict as TiKV's do: a commit fails if another one that
    /// locked the same copy has committed since it began.
    #[test]
    fn commits_of_several_processes_seldom_conflict() {
        const LASTS: usize = 16;
        let processes: Vec<CopyChoice> = (0..4).map(|_| CopyChoice::new(128)).collect();
        let mut locked_at = [0usize; 128];
        let (mut done, mut conflicts) = (0, 0);
        // One commit begins at each moment, by the processes in turn, and ends 16 moments later: 4 at once for each.
        let mut under_way = std::collections::VecDeque::new();
        for now in 1..20_000usize {
            let process = &processes[now % processes.len()];
            under_way.push_back((now, process, usize::from(process.next())));
            if under_way.len() <= LASTS {
                continue;
            }
            let (began, process, copy) = under_way.pop_front().unwrap();
            if locked_at[copy] > began {
                conflicts += 1;
                process.jump();
            } else {
                locked_at[copy] = now;
                done += 1;
            }
        }
        assert!(conflicts * 20 < done, "{conflicts} of {done}");
    }
}
