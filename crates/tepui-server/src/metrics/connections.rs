//! Connections, whether the server is ready, and the memory of bodies and answers: read from the server's own counts when they
//! are asked for.

use super::collected::{self, Label};
use crate::net::accept::{ListenerCounts, Shared};
use crate::pipeline::ReplyMemory;
use parking_lot::Mutex;
use prometheus::Registry;
use std::sync::{Arc, Weak};
use tepui_wire::address::Service;

/// What there is of one kind for each port.
type ByPort<T> = Arc<Mutex<Vec<(&'static str, T)>>>;

/// What is watched, and grows while the server starts.
#[derive(Clone, Default)]
pub(super) struct Watched {
    listeners: ByPort<Arc<ListenerCounts>>,
    replies: ByPort<Weak<ReplyMemory>>,
}

impl Watched {
    pub(super) fn watch_listener(&self, port: &'static str) -> Arc<ListenerCounts> {
        let counts = Arc::default();
        self.listeners.lock().push((port, Arc::clone(&counts)));
        counts
    }

    pub(super) fn watch_replies(&self, service: Service, replies: &Arc<ReplyMemory>) {
        self.replies.lock().push((service.name(), Arc::downgrade(replies)));
    }

    /// How many handshakes of each port have come about, and how many have not.
    fn handshakes(&self) -> Vec<([Label<'static>; 2], f64)> {
        let listeners = self.listeners.lock();
        let of_port = |(port, counts): &(&'static str, Arc<ListenerCounts>)| {
            let outcomes = [("ok", &counts.handshakes), ("failed", &counts.failed_handshakes)];
            outcomes.map(|(outcome, count)| ([("service", *port), ("outcome", outcome)], count.get() as f64))
        };
        listeners.iter().flat_map(of_port).collect()
    }

    /// How many connections of a port were refused, which is one that throttles.
    pub(super) fn refused(&self) -> Vec<(&'static str, u64)> {
        self.listeners.lock().iter().map(|(port, counts)| (*port, counts.refused.get())).collect()
    }
}

pub(super) fn register(registry: &Registry, shared: &Arc<Shared>, watched: &Watched) {
    let (shared, watched) = (Arc::downgrade(shared), watched.clone());
    collected::register(registry, move |families| {
        let of_ports = |value: &dyn Fn(&ListenerCounts) -> u64| -> Vec<([Label<'static>; 1], f64)> {
            let listeners = watched.listeners.lock();
            listeners.iter().map(|(port, counts)| ([("service", *port)], value(counts) as f64)).collect()
        };
        let open = of_ports(&ListenerCounts::open);
        families.gauge("tepui_connections", "Open connections.", &borrowed(&open));
        let accepted = of_ports(&|counts| counts.accepted.get());
        families.counter(
            "tepui_connections_accepted_total",
            "Connections that were accepted.",
            &borrowed(&accepted),
        );
        let handshakes: Vec<([Label<'static>; 2], f64)> = match shared.upgrade() {
            Some(shared) if shared.tls().is_some() => watched.handshakes(),
            _ => Vec::new(),
        };
        let handshakes: Vec<(&[Label<'_>], f64)> =
            handshakes.iter().map(|(labels, value)| (&labels[..], *value)).collect();
        families.counter("tepui_tls_handshakes_total", "TLS handshakes with clients.", &handshakes);
        let replies = watched.replies.lock();
        let replies: Vec<([Label<'_>; 1], f64)> = replies
            .iter()
            .filter_map(|(service, memory)| {
                Some(([("service", *service)], memory.upgrade()?.used_bytes() as f64))
            })
            .collect();
        families.gauge(
            "tepui_reply_memory_bytes",
            "Memory that answers hold that are made or wait to be read.",
            &borrowed(&replies),
        );
        if let Some(shared) = shared.upgrade() {
            let bytes = shared.body_memory.used_bytes() + shared.slow_body_memory.used_bytes();
            families.gauge(
                "tepui_body_memory_bytes",
                "Memory that bodies of requests hold.",
                &[(&[], bytes as f64)],
            );
            let expiry = shared.tls().map(|tls| (&[][..], tls.expiry().unix_seconds() as f64));
            families.gauge(
                "tepui_tls_certificate_expiry_seconds",
                "When the certificate of the server ends, since 1970.",
                expiry.as_slice(),
            );
        }
    });
}

fn borrowed<'a>(series: &'a [([Label<'a>; 1], f64)]) -> Vec<(&'a [Label<'a>], f64)> {
    series.iter().map(|(labels, value)| (&labels[..], *value)).collect()
}
