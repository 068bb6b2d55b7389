//! Messages of queues, read from what the service counts.

use super::collected;
use prometheus::Registry;
use std::sync::Arc;
use tepui_service::QueueStats;

pub(super) fn register(registry: &Registry, stats: Arc<QueueStats>) {
    collected::register(registry, move |families| {
        let QueueStats { put, got, redelivered, updated, deleted, expired } = &*stats;
        families.counter(
            "tepui_queue_messages_total",
            "What has happened to messages. Redelivered ones were got before, and count as got, too.",
            &[
                (&[("event", "put")], put.get() as f64),
                (&[("event", "got")], got.get() as f64),
                (&[("event", "redelivered")], redelivered.get() as f64),
                (&[("event", "updated")], updated.get() as f64),
                (&[("event", "deleted")], deleted.get() as f64),
                (&[("event", "expired")], expired.get() as f64),
            ],
        );
    });
}
