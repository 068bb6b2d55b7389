//! What a program can see of its own requests.

use std::time::Duration;
use tepui_model::cost::Receipt;

pub(crate) type Observer = dyn Fn(&SentRequest<'_>) + Send + Sync;

/// One request that was sent, for [`AccountBuilder::observe`](crate::AccountBuilder::observe). A call that is retried has
/// several.
///
/// ```
/// use tepui_client::SentRequest;
/// fn print(request: &SentRequest<'_>) {
///     let cost = request.receipt.map(|receipt| receipt.to_string()).unwrap_or_default();
///     println!("{} {:?} {:?} {cost}", request.method, request.status, request.time);
/// }
/// ```
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct SentRequest<'a> {
    /// `table`, `queue` or `blob`.
    pub service: &'a str,
    pub method: &'a str,
    /// Counted from 1.
    pub attempt: u32,
    /// `None`: there was no answer.
    pub status: Option<u16>,
    /// Until the answer was there whole.
    pub time: Duration,
    /// What it cost, where the service says so: Tepui does.
    pub receipt: Option<Receipt>,
}
