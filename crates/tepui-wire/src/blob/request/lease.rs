//! What a request asks of a lease.

use crate::blob::headers::{self, invalid, required_word, word};
use crate::request_headers::RequestHeaders;
use std::time::Duration;
use tepui_model::ServiceError;
use tepui_model::blob::lease::MAX_BREAK_SECONDS;
use tepui_model::blob::{LeaseAction, LeaseDuration, LeaseId};

pub(super) fn action(headers: &RequestHeaders<'_>) -> Result<LeaseAction, ServiceError> {
    let known = ["acquire", "renew", "change", "release", "break"];
    let action = required_word(headers, headers::LEASE_ACTION, |text| {
        known.into_iter().find(|known| text.eq_ignore_ascii_case(known))
    })?;
    let id = || required_word(headers, headers::LEASE_ID, LeaseId::parse);
    let proposed = word(headers, headers::PROPOSED_LEASE_ID, LeaseId::parse)?;
    Ok(match action {
        "acquire" => LeaseAction::Acquire { duration: duration(headers)?, proposed },
        "renew" => LeaseAction::Renew(id()?),
        "change" => LeaseAction::Change {
            from: id()?,
            to: proposed.ok_or_else(|| headers::missing(headers::PROPOSED_LEASE_ID))?,
        },
        "release" => LeaseAction::Release(id()?),
        _ => LeaseAction::Break { period: break_period(headers)? },
    })
}

fn duration(headers: &RequestHeaders<'_>) -> Result<LeaseDuration, ServiceError> {
    required_word(headers, headers::LEASE_DURATION, |text| LeaseDuration::from_seconds(text.parse().ok()?))
}

fn break_period(headers: &RequestHeaders<'_>) -> Result<Option<Duration>, ServiceError> {
    match headers::number(headers, headers::LEASE_BREAK_PERIOD)? {
        Some(seconds) if seconds > MAX_BREAK_SECONDS => Err(invalid(headers, headers::LEASE_BREAK_PERIOD)),
        seconds => Ok(seconds.map(Duration::from_secs)),
    }
}
