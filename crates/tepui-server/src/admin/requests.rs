//! Requests as they end, as server-sent events.

use super::call::{AdminError, AnswerFuture, Area, Call, Route};
use crate::net::body::ReplyBody;
use crate::tail::{StatusFilter, Tail, TailFilter};
use hyper::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderValue};
use hyper::http::{Response, StatusCode};
use std::sync::Arc;

pub(crate) struct RequestsArea {
    tail: Arc<Tail>,
}

impl RequestsArea {
    pub(crate) fn new(tail: Arc<Tail>) -> Self {
        Self { tail }
    }

    fn listen(&self, call: &Call) -> Result<Response<ReplyBody>, AdminError> {
        call.no_body()?;
        let Some(stream) = self.tail.listen(filter(call)?) else {
            let message = format!("{} listen already, or the server is about to stop.", Tail::MAX_LISTENERS);
            return Err(AdminError::new(StatusCode::SERVICE_UNAVAILABLE, "TooManyListeners", message));
        };
        let mut response = Response::new(ReplyBody::open_ended(Box::new(stream)));
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        Ok(response)
    }
}

fn filter(call: &Call) -> Result<TailFilter, AdminError> {
    call.only_parameters(&["service", "account", "operation", "status"])?;
    let text = |name| call.parameter(name).map(str::to_owned);
    let service = text("service");
    if let Some(service) = service.as_deref().filter(|service| !["table", "queue", "blob"].contains(service))
    {
        return Err(AdminError::invalid(format!("service is table, queue or blob: {service}.")));
    }
    let operation = text("operation");
    if let Some(operation) = &operation {
        crate::faults::check_operation(service.as_deref(), operation).map_err(AdminError::invalid)?;
    }
    let status = match call.parameter("status") {
        Some(text) => Some(StatusFilter::parse(text).ok_or_else(|| {
            AdminError::invalid(format!(
                "status is a number such as 503, a class such as 5xx, or none: {text}."
            ))
        })?),
        None => None,
    };
    Ok(TailFilter { service, account: text("account"), operation, status })
}

impl Area for RequestsArea {
    fn routes(&self) -> &'static [Route] {
        &[("GET", "/requests")]
    }

    fn is_for_test_bench(&self) -> bool {
        false
    }

    fn answer(&self, call: Call) -> AnswerFuture<'_> {
        Box::pin(async move { self.listen(&call) })
    }
}
