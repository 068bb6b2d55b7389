//! How to reach a store, and what it is used for.

use std::time::Duration;
use tepui_storage::KeyRange;

/// How to open a [`TikvEngine`](crate::TikvEngine).
#[derive(Debug, Clone)]
pub struct TikvOptions {
    /// The addresses of PD, `host:port` each.
    pub endpoints: Vec<String>,
    /// What all keys begin with, so that several servers can share a store: at most 64 bytes.
    pub prefix: String,
    /// How long a call may take before it fails.
    pub timeout: Duration,
    /// The keys that many commits guard at once. The rows of these ranges have copies, so they should be few and seldom
    /// written. All nodes have to have the same; what a store is first opened with is kept in it, and others are refused.
    pub shared_ranges: Vec<KeyRange>,
    /// How many copies such a row has. Commits of one process conflict if there are more of them at once. All nodes have to
    /// have the same.
    pub shared_copies: u8,
    /// How long old states are kept, and how long a transaction can read. All nodes have to have the same.
    pub history: Duration,
    /// Whether this engine moves the GC safepoint of the cluster, if no other node does. Without that, TiKV never removes what
    /// was overwritten or deleted. Not where something else moves it, such as TiDB.
    pub moves_safepoint: bool,
}

impl TikvOptions {
    /// The defaults for the PDs at `endpoints`.
    pub fn new(endpoints: Vec<String>) -> Self {
        Self {
            endpoints,
            prefix: "tepui".to_owned(),
            timeout: Duration::from_secs(10),
            shared_ranges: Vec::new(),
            shared_copies: 128,
            history: Duration::from_secs(10 * 60),
            moves_safepoint: true,
        }
    }
}
