//! How requests pass the targets, if there are any, and what is told to partition heat.
//!
//! A request is let in twice: by its account, once it is known what is asked for and before its body is read; and by its
//! partition, queue or blob, before anything is stored or read. It pays what is known of its cost then, and the rest in
//! [`Front::settle`].

use super::Front;
use super::exchange::{Authorized, Outcome, Received};
use crate::net::body::Body;
use crate::targets::{Heat, Scope, Spent, Targets};
use hyper::ext::ReasonPhrase;
use hyper::http::Response;
use std::sync::Arc;
use std::time::Instant;
use tepui_model::ServiceError;
use tepui_model::table::{Action, Change, QueryEntities, QueryPlan};
use tepui_wire::error_body;

/// What limits and watches the load. Both are `None` unless they are asked for.
#[derive(Clone, Default)]
pub struct Load {
    pub(crate) targets: Option<Arc<Targets>>,
    pub(crate) heat: Option<Arc<Heat>>,
}

impl Load {
    fn is_watched(&self) -> bool {
        self.targets.is_some() || self.heat.is_some()
    }
}

impl Front {
    /// The same with targets, or with partition heat.
    pub fn with_load(self, load: Load) -> Self {
        Self { load, ..self }
    }

    /// Lets a request in by its account.
    pub(super) fn admit_request(
        &self,
        authorized: &Authorized<'_>,
        outcome: &mut Outcome,
        body: Option<&Body>,
    ) -> Result<(), ServiceError> {
        let Some(targets) = &self.load.targets else { return Ok(()) };
        let declared = body.and_then(Body::declared_bytes).unwrap_or(0);
        outcome.admission = Some(targets.admit(authorized.account(), declared, Instant::now())?);
        Ok(())
    }

    /// Lets it in where it belongs. `units`: what is known of its cost.
    pub(super) fn admit_to(
        &self,
        authorized: &Authorized<'_>,
        outcome: &mut Outcome,
        scope: Scope<'_>,
        units: u64,
    ) -> Result<(), ServiceError> {
        let (Some(targets), Some(admission)) = (&self.load.targets, &mut outcome.admission) else {
            return Ok(());
        };
        Ok(targets.admit_to(admission, scope, units, authorized.time, Instant::now())?)
    }

    /// Lets in a part of a batch of blobs, which counts as a request of its own.
    pub(super) fn admit_part(
        &self,
        authorized: &Authorized<'_>,
        scope: Scope<'_>,
    ) -> Result<(), ServiceError> {
        self.record(authorized, scope, 1);
        let Some(targets) = &self.load.targets else { return Ok(()) };
        let now = Instant::now();
        let mut admission = targets.admit(authorized.account(), 0, now)?;
        Ok(targets.admit_to(&mut admission, scope, 1, authorized.time, now)?)
    }

    /// A table was created.
    pub(super) fn table_created(&self, outcome: &Outcome, table: &str) {
        if let (Some(targets), Some(admission)) = (&self.load.targets, &outcome.admission) {
            targets.table_created(admission, table, Instant::now());
        }
    }

    /// Charges what a request has cost beyond what was known before.
    pub(super) fn settle(&self, received: &Received, outcome: &Outcome, bytes_out: u64) {
        if let (Some(targets), Some(admission)) = (&self.load.targets, &outcome.admission) {
            let spent = Spent {
                units: outcome.cost.map_or(0, |cost| cost.units),
                bytes_in: received.body.bytes(),
                bytes_out,
            };
            targets.settle(admission, spent, Instant::now());
        }
    }

    /// Tells partition heat what something has cost.
    pub(super) fn record(&self, authorized: &Authorized<'_>, scope: Scope<'_>, units: u64) {
        if let Some(heat) = &self.load.heat {
            heat.record(authorized.account(), scope, units, std::iter::empty());
        }
    }

    /// Tells it of changes of entities, which are of one partition.
    pub(super) fn record_changes(
        &self,
        authorized: &Authorized<'_>,
        scope: Scope<'_>,
        changes: &[Change],
        units: u64,
    ) {
        if let Some(heat) = &self.load.heat {
            let inserted = changes.iter().filter(|change| inserts(&change.action));
            let row_keys = inserted.map(|change| &*change.key.row_key);
            heat.record(authorized.account(), scope, units, row_keys);
        }
    }

    /// The partition that a query reads, if it is one and somebody wants to know.
    pub(super) fn partition_of(&self, query: &QueryEntities) -> Option<String> {
        if !self.load.is_watched() {
            return None;
        }
        let plan = QueryPlan::of_entities(query.filter.as_ref());
        let (first, others) = plan.boxes.split_first()?;
        let key = first.first.point()?;
        others.iter().all(|other| other.first.point() == Some(key)).then(|| key.to_owned())
    }
}

/// The scope of a query: one partition, or a table.
pub(super) fn scope_of<'a>(table: &'a str, partition: Option<&'a str>) -> Scope<'a> {
    match partition {
        Some(key) => Scope::Partition { table, key },
        None => Scope::Table(table),
    }
}

fn inserts(action: &Action) -> bool {
    matches!(action, Action::Insert(_) | Action::InsertOrReplace(_) | Action::InsertOrMerge(_))
}

/// Makes an answer look like one of the front door, which has told no service of the request.
///
/// Fidelity: the text of the status is the message, and clients show it.
pub(super) fn mark_front_door(response: &mut Response<Vec<u8>>, error: &ServiceError) {
    error_body::mark_http_layer(response.headers_mut());
    if let Ok(reason) = ReasonPhrase::try_from(error.message().as_bytes()) {
        response.extensions_mut().insert(reason);
    }
}
