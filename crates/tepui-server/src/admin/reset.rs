//! Reset: of the whole server, of an account, of a service, or of one service of one account.

use super::call::{self, AdminError, AnswerFuture, Area, Call, Route};
use crate::accounts::AccountDirectory;
use crate::analytics::Analytics;
use crate::net::body::ReplyBody;
use hyper::http::Response;
use serde::Deserialize;
use serde_json::json;
use std::sync::Arc;
use tepui_service::test_bench::{BenchError, ResetScope, ServiceKind, TestBench};
use tepui_storage::{Engine, Extents};

pub(crate) struct ResetArea<E: Engine, X: Extents> {
    bench: Arc<TestBench<E, X>>,
    analytics: Arc<Analytics>,
    accounts: Arc<AccountDirectory>,
}

/// What is reset. What is not said is not limited.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Reset {
    account: Option<String>,
    service: Option<Service>,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Service {
    Blob,
    Queue,
    Table,
}

impl<E: Engine, X: Extents> ResetArea<E, X> {
    pub(crate) fn new(
        bench: Arc<TestBench<E, X>>,
        analytics: Arc<Analytics>,
        accounts: Arc<AccountDirectory>,
    ) -> Self {
        Self { bench, analytics, accounts }
    }

    async fn call(&self, call: &Call) -> Result<Response<ReplyBody>, AdminError> {
        call.only_parameters(&[])?;
        let reset: Reset = if call.body.is_empty() { Reset::default() } else { call.json()? };
        if let Some(account) = &reset.account
            && !self.accounts.current().serves(account)
        {
            let shown: String = account.chars().take(63).collect();
            return Err(AdminError::not_found(format!("This server has no such account: {shown}.")));
        }
        let service = reset.service.map(|service| match service {
            Service::Blob => ServiceKind::Blob,
            Service::Queue => ServiceKind::Queue,
            Service::Table => ServiceKind::Table,
        });
        let scope = ResetScope { account: reset.account, service };
        let (bench, dropped) = (Arc::clone(&self.bench), scope.clone());
        let counts = self.analytics.reset(scope, async move { bench.reset(&dropped).await }).await;
        let counts = counts.map_err(|error| match error {
            BenchError::Failed(error) => AdminError::from(error),
            error => AdminError::internal(&format!("{error:?}")),
        })?;
        call::ok(&json!({"tables": counts.tables, "queues": counts.queues, "containers": counts.containers}))
    }
}

impl<E: Engine, X: Extents> Area for ResetArea<E, X> {
    fn routes(&self) -> &'static [Route] {
        &[("POST", "/reset")]
    }

    fn is_for_test_bench(&self) -> bool {
        true
    }

    fn answer(&self, call: Call) -> AnswerFuture<'_> {
        Box::pin(async move { self.call(&call).await })
    }
}
