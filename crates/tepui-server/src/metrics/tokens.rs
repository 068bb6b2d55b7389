//! Bearer tokens, and the keys of those who issue them.

use super::collected::{self, Label};
use prometheus::Registry;
use std::sync::Arc;
use tepui_identity::Directory;

pub(super) fn register(registry: &Registry, tokens: Arc<Directory>) {
    collected::register(registry, move |families| {
        let counters = tokens.counters();
        let accepted = ([("outcome", "accepted")], counters.accepted() as f64);
        let refused = counters.refused().map(|(why, count)| ([("outcome", why.name())], count as f64));
        let outcomes: Vec<([Label<'_>; 1], f64)> = std::iter::once(accepted).chain(refused).collect();
        let outcomes: Vec<(&[Label<'_>], f64)> =
            outcomes.iter().map(|(label, count)| (&label[..], *count)).collect();
        families.counter(
            "tepui_tokens_total",
            "Bearer tokens, by whether they were accepted or why not.",
            &outcomes,
        );
        families.counter(
            "tepui_token_cache_hits_total",
            "Bearer tokens whose signature had been verified before.",
            &[(&[], counters.cache_hits() as f64)],
        );
        let fetches = counters.fetches();
        families.counter(
            "tepui_issuer_key_fetches_total",
            "How often issuers were asked for their keys.",
            &[
                (&[("outcome", "ok")], fetches.succeeded as f64),
                (&[("outcome", "failed")], fetches.failed as f64),
            ],
        );
    });
}
