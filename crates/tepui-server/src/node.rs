//! How this process shares its storage with others: alone, or as one of several nodes.

use crate::config::Config;
use std::sync::Arc;
use std::time::Duration;
use tepui_model::Clock;
use tepui_model::time::SystemClock;
use tepui_service::{BlobOptions, MAX_CLOCK_SKEW, QueueOptions, StoreAccess};

/// What services have to know of other nodes.
#[derive(Clone)]
pub(crate) struct Node {
    pub(crate) access: StoreAccess,
    pub(crate) clock: Arc<dyn Clock>,
}

impl Node {
    /// Memory is this process's own, and a data directory is locked.
    pub(crate) fn alone() -> Self {
        Self { access: StoreAccess::Exclusive, clock: Arc::new(SystemClock::new()) }
    }

    /// One of several, whose clock ticks with its number.
    pub(crate) fn of_several(clock: Arc<dyn Clock>) -> Self {
        Self { access: StoreAccess::Shared, clock }
    }

    fn clock_skew(&self) -> Duration {
        match self.access {
            StoreAccess::Exclusive => Duration::ZERO,
            StoreAccess::Shared => MAX_CLOCK_SKEW,
        }
    }

    pub(crate) fn queue_options(&self) -> QueueOptions {
        QueueOptions { clock_skew: self.clock_skew(), ..QueueOptions::default() }
    }

    pub(crate) fn blob_options(&self, config: &Config) -> BlobOptions {
        let days = u64::from(config.container_retention_days);
        BlobOptions {
            container_retention: (days > 0).then(|| Duration::from_secs(days * 24 * 60 * 60)),
            versioned_accounts: config.versioned_accounts.clone(),
            rehydration: Duration::from_secs(config.rehydration_seconds),
            clock_skew: self.clock_skew(),
            ..BlobOptions::default()
        }
    }
}
