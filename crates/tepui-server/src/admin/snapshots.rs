//! Named snapshots of everything that is stored: taken, listed, restored, deleted.

use super::call::{self, AdminError, AnswerFuture, Area, Call, Route};
use crate::accounts::AccountEditor;
use crate::analytics::Analytics;
use crate::net::body::ReplyBody;
use hyper::http::{Response, StatusCode};
use serde_json::json;
use std::sync::Arc;
use tepui_service::test_bench::{BenchError, ResetScope, SnapshotName, TestBench};
use tepui_storage::rewindable::{MAX_SNAPSHOTS, RewindableEngine};
use tepui_storage::{Engine, Extents};

pub(crate) struct SnapshotsArea<E: Engine, X: Extents> {
    bench: Arc<TestBench<E, X>>,
    analytics: Arc<Analytics>,
    accounts: Arc<AccountEditor<RewindableEngine<E>>>,
}

impl<E: Engine, X: Extents> SnapshotsArea<E, X> {
    pub(crate) fn new(
        bench: Arc<TestBench<E, X>>,
        analytics: Arc<Analytics>,
        accounts: Arc<AccountEditor<RewindableEngine<E>>>,
    ) -> Self {
        Self { bench, analytics, accounts }
    }

    async fn call(&self, call: &Call) -> Result<Response<ReplyBody>, AdminError> {
        call.only_parameters(&[])?;
        call.no_body()?;
        let name = call.parts.first().map(|name| parse_name(name)).transpose()?;
        let Some(name) = name else { return self.list() };
        match call.route {
            ("PUT", _) => {
                self.bench.take_snapshot(&name).await.map_err(|error| refusal(error, &name))?;
                call::json(StatusCode::CREATED, &json!({"name": name.as_str()}))
            }
            ("DELETE", _) => {
                self.bench.delete_snapshot(&name).await.map_err(|error| refusal(error, &name))?;
                call::nothing()
            }
            _ => {
                let (bench, restored) = (Arc::clone(&self.bench), name.clone());
                let restore = async move { bench.restore_snapshot(&restored).await };
                let rows = self.analytics.reset(ResetScope::default(), restore).await;
                let rows = rows.map_err(|error| refusal(error, &name))?;
                self.accounts.restored().await?;
                call::ok(&json!({"name": name.as_str(), "changedRows": rows}))
            }
        }
    }

    fn list(&self) -> Result<Response<ReplyBody>, AdminError> {
        let snapshots = self.bench.snapshots().into_iter();
        let snapshots =
            snapshots.map(|snapshot| json!({"name": snapshot.name, "writtenRows": snapshot.written_keys}));
        call::ok(&json!({"snapshots": snapshots.collect::<Vec<_>>()}))
    }
}

fn parse_name(name: &str) -> Result<SnapshotName, AdminError> {
    SnapshotName::parse(name).ok_or_else(|| {
        let shown: String = name.chars().take(64).collect();
        AdminError::invalid(format!(
            "The name of a snapshot has 1 to 64 letters, digits, dots, hyphens and underscores: {shown}."
        ))
    })
}

/// The answer to what the test bench refuses.
fn refusal(error: BenchError, name: &SnapshotName) -> AdminError {
    let name = name.as_str();
    match error {
        BenchError::NoSuchSnapshot => AdminError::not_found(format!("There is no such snapshot: {name}.")),
        BenchError::SnapshotExists => {
            AdminError::conflict(format!("There is a snapshot of this name already: {name}."))
        }
        BenchError::TooManySnapshots => AdminError::conflict(format!(
            "There are {MAX_SNAPSHOTS} snapshots, which is as many as there may be: delete one."
        )),
        BenchError::Failed(error) => error.into(),
    }
}

impl<E: Engine, X: Extents> Area for SnapshotsArea<E, X> {
    fn routes(&self) -> &'static [Route] {
        &[
            ("GET", "/snapshots"),
            ("PUT", "/snapshots/{}"),
            ("POST", "/snapshots/{}/restore"),
            ("DELETE", "/snapshots/{}"),
        ]
    }

    fn is_for_test_bench(&self) -> bool {
        true
    }

    fn answer(&self, call: Call) -> AnswerFuture<'_> {
        Box::pin(async move { self.call(&call).await })
    }
}
