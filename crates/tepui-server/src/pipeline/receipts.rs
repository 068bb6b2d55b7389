//! The headers that say what an answer cost, and where its time went.

use crate::config::Receipts;
use hyper::header::{HeaderMap, HeaderName, HeaderValue};
use std::fmt::Write as _;
use std::time::Duration;
use tepui_model::cost::{Cost, Receipt};
use tepui_service::phase::{Phase, PhaseTimes};

/// The header of receipts, in answers and in requests that ask for them. A name without `x-ms-` is in no signature.
const RECEIPT: HeaderName = HeaderName::from_static("tepui-receipt");
/// See the W3C's Server Timing.
const SERVER_TIMING: HeaderName = HeaderName::from_static("server-timing");

/// What a client is told of the cost of its request.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct WantedReceipt {
    pub(super) cost: bool,
    pub(super) timing: bool,
}

impl WantedReceipt {
    /// By what the server gives, and what the request asks for: `want`, `timing`, or both with a comma between.
    pub(super) fn of(receipts: Receipts, headers: &HeaderMap) -> Self {
        if receipts == Receipts::Never {
            return Self::default();
        }
        let mut wanted = Self { cost: receipts == Receipts::Always, timing: false };
        for value in headers.get_all(RECEIPT) {
            for word in value.as_bytes().split(|byte| *byte == b',').map(<[u8]>::trim_ascii) {
                wanted.cost |= word == b"want";
                wanted.timing |= word == b"timing";
            }
        }
        wanted
    }

    /// Adds what is wanted to the headers of an answer that was ready after `time`.
    pub(super) fn add(self, headers: &mut HeaderMap, cost: Cost, time: Duration, phases: Option<PhaseTimes>) {
        if self.cost
            && let Ok(value) = HeaderValue::try_from(Receipt { cost, time }.to_text())
        {
            headers.insert(RECEIPT, value);
        }
        if let Some(phases) = phases
            && let Ok(value) = HeaderValue::try_from(server_timing(&phases))
        {
            headers.insert(SERVER_TIMING, value);
        }
    }
}

fn server_timing(phases: &PhaseTimes) -> String {
    let mut text = String::new();
    for phase in Phase::ALL {
        let separator = if text.is_empty() { "" } else { ", " };
        let milliseconds = phases.of(phase).as_secs_f64() * 1000.0;
        let _ = write!(text, "{separator}{};dur={milliseconds:.3}", phase.name());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_asks_for_what_it_wants() {
        use Receipts::*;
        let wants = |cost, timing| WantedReceipt { cost, timing };
        for (receipts, asked, expected) in [
            (Always, &[][..], wants(true, false)),
            (Always, &["timing"], wants(true, true)),
            (Asked, &[], wants(false, false)),
            (Asked, &["want"], wants(true, false)),
            (Asked, &["timing"], wants(false, true)),
            (Asked, &["want, timing"], wants(true, true)),
            (Asked, &["timing ,,\twant"], wants(true, true)),
            (Asked, &["want", "timing"], wants(true, true)),
            (Asked, &["wants", "TIMING", "", "want timing"], wants(false, false)),
            (Never, &["want, timing"], wants(false, false)),
        ] {
            let mut headers = HeaderMap::new();
            for value in asked {
                headers.append(RECEIPT, HeaderValue::from_static(value));
            }
            assert_eq!(WantedReceipt::of(receipts, &headers), expected, "{receipts:?} {asked:?}");
        }
    }

    #[test]
    fn phases_are_metrics_of_server_timing() {
        let text = server_timing(&PhaseTimes::default());
        assert_eq!(
            text,
            "auth;dur=0.000, body;dur=0.000, plan;dur=0.000, read;dur=0.000, commit;dur=0.000, reply;dur=0.000"
        );
    }
}
