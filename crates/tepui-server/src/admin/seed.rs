//! Seeds by the API: a tar archive of what a directory for `--seed` holds.

use super::call::{self, AdminError, AnswerFuture, Area, Call, Route};
use crate::net::body::ReplyBody;
use crate::seed::{SeedError, SeedSource, Seeder};
use hyper::http::Response;
use tepui_storage::{Engine, Extents};

/// The longest archive. What is larger can be there from the start (`--seed`), or come in parts.
const MAX_BYTES: usize = 128 << 20;

pub(crate) struct SeedArea<E: Engine, X: Extents> {
    seeder: Seeder<E, X>,
}

impl<E: Engine, X: Extents> SeedArea<E, X> {
    pub(crate) fn new(seeder: Seeder<E, X>) -> Self {
        Self { seeder }
    }

    async fn call(&self, call: &Call) -> Result<Response<ReplyBody>, AdminError> {
        call.only_parameters(&["account"])?;
        let account = match call.parameter("account") {
            Some(account) => account.to_owned(),
            None => self.seeder.default_account.clone(),
        };
        if !self.seeder.accounts.current().serves(&account) {
            let shown: String = account.chars().take(63).collect();
            return Err(AdminError::not_found(format!("This server has no such account: {shown}.")));
        }
        if call.body.is_empty() {
            return Err(AdminError::invalid("The body is a tar archive of a seed, and it is empty."));
        }
        let source = SeedSource::Archive(call.body.clone());
        // First all of it is read, so that nothing changes if something is wrong with it.
        self.seeder.check(source.clone(), &account).await.map_err(refusal)?;
        call::ok(&self.seeder.apply(source, &account).await.map_err(refusal)?)
    }
}

fn refusal(error: SeedError) -> AdminError {
    match error.is_internal {
        true => AdminError::internal(&error),
        false => AdminError::invalid(error.to_string()),
    }
}

impl<E: Engine, X: Extents> Area for SeedArea<E, X> {
    fn routes(&self) -> &'static [Route] {
        &[("POST", "/seed")]
    }

    fn is_for_test_bench(&self) -> bool {
        true
    }

    fn max_body_bytes(&self) -> usize {
        MAX_BYTES
    }

    fn answer(&self, call: Call) -> AnswerFuture<'_> {
        Box::pin(async move { self.call(&call).await })
    }
}
