//! Locks against other processes.

use std::{fmt, io};

/// Held for as long as it is not dropped.
pub trait Lock: Send {}

/// Why a lock was not had.
#[derive(Debug)]
pub enum LockError {
    /// Another process has it.
    Taken,
    Failed(io::Error),
}

impl fmt::Display for LockError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Taken => write!(f, "another process has it"),
            Self::Failed(error) => error.fmt(f),
        }
    }
}
