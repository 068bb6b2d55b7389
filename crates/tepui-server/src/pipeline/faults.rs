//! Where requests meet the faults of a test bench: before their work, once it is known who asks for what, and after it.

use super::Front;
use super::exchange::{Outcome, Received};
use crate::faults::{Fault, When};
use crate::net::accept::CutConnection;
use crate::net::body::ReplyBody;
use hyper::http::Response;
use tepui_model::{ErrorCode, ServiceError};

/// Meets the fault that is chosen for a request, if it comes before the work. Otherwise it is kept for [`after_work`].
pub(super) async fn before_work(
    front: &Front,
    received: &Received,
    outcome: &mut Outcome,
) -> Result<(), ServiceError> {
    let Some(faults) = front.faults.as_ref().filter(|faults| faults.exist()) else { return Ok(()) };
    let (Some(operation), Ok(target)) = (outcome.operation, &received.target) else { return Ok(()) };
    let Some(fault) = faults.choose(front.service, operation, target) else { return Ok(()) };
    tracing::debug!(request_id = received.request_id, ?fault, "a fault of the test bench");
    let fault = &*outcome.fault.insert(Box::new(fault));
    if fault.when == When::After {
        return Ok(());
    }
    // Boxed: rare, and the future of every request would be larger.
    Box::pin(tokio::time::sleep(fault.delay)).await;
    match &fault.error {
        Some(error) => Err(error.clone()),
        // Seen by nobody.
        None if fault.cut => Err(ErrorCode::InternalError.into()),
        None => Ok(()),
    }
}

/// The answer to a request that has met a fault. `None`: there is to be none.
pub(super) async fn after_work(
    fault: Box<Fault>,
    answered: Result<Response<ReplyBody>, ServiceError>,
) -> Option<Result<Response<ReplyBody>, ServiceError>> {
    if fault.when == When::After {
        tokio::time::sleep(fault.delay).await;
    }
    match fault.error {
        _ if fault.cut => None,
        Some(error) if fault.when == When::After => Some(Err(error)),
        _ => Some(answered),
    }
}

/// Stands for an answer: the connection is closed without one.
pub(super) fn cut_connection() -> Response<ReplyBody> {
    let mut response = Response::new(ReplyBody::empty());
    response.extensions_mut().insert(CutConnection);
    response
}
