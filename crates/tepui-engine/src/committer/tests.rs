//! Faults below the committer.
