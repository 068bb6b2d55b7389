//! The clock: read, set, advanced, frozen, resumed.

use super::call::{self, AdminError, AnswerFuture, Area, Call, Route};
use crate::net::body::ReplyBody;
use crate::test_clock::{Reading, TestClock};
use hyper::http::Response;
use serde::Deserialize;
use std::sync::Arc;
use std::time::Duration;
use tepui_model::Timestamp;

/// What the clock may be set to. What lasts long needs some room until the year 9999.
const YEARS: std::ops::RangeInclusive<u32> = 1970..=9000;

pub(crate) struct ClockArea {
    clock: Arc<TestClock>,
}

impl ClockArea {
    pub(crate) fn new(clock: Arc<TestClock>) -> Self {
        Self { clock }
    }

    fn call(&self, call: &Call) -> Result<Response<ReplyBody>, AdminError> {
        call.only_parameters(&[])?;
        if !matches!(call.route, ("PUT", _) | ("POST", "/clock/advance")) {
            call.no_body()?;
        }
        shown(match call.route {
            ("GET", _) => self.clock.reading(),
            ("PUT", _) => self.clock.set(call.json::<SetClock>()?.time()?),
            ("DELETE", _) => self.clock.follow_machine(),
            (_, "/clock/freeze") => self.clock.freeze(),
            (_, "/clock/resume") => self.clock.resume(),
            (_, _) => {
                let by = call.json::<AdvanceClock>()?.duration()?;
                self.clock.advance(by, latest()).map_err(|_| {
                    AdminError::invalid(format!("The clock may not be set beyond the year {}.", YEARS.end()))
                })?
            }
        })
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SetClock {
    /// ISO 8601.
    now: String,
}

impl SetClock {
    fn time(&self) -> Result<Timestamp, AdminError> {
        let time = Timestamp::parse_iso(&self.now).ok_or_else(|| {
            let shown: String = self.now.chars().take(40).collect();
            AdminError::invalid(format!("now is a time such as 2030-01-01T12:00:00Z: {shown}."))
        })?;
        match YEARS.contains(&time.calendar().year) {
            true => Ok(time),
            false => {
                let (first, last) = (YEARS.start(), YEARS.end());
                Err(AdminError::invalid(format!(
                    "The clock may be set to the years {first} to {last}: {time}."
                )))
            }
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct AdvanceClock {
    seconds: f64,
}

impl AdvanceClock {
    fn duration(&self) -> Result<Duration, AdminError> {
        Duration::try_from_secs_f64(self.seconds).map_err(|_| {
            let message = "seconds is how far the clock moves on, and not negative: to set it back, use PUT";
            AdminError::invalid(format!("{message}: {}.", self.seconds))
        })
    }
}

/// The last tick that the clock may be advanced to.
fn latest() -> Timestamp {
    Timestamp::parse_iso(&format!("{}-12-31T23:59:59Z", YEARS.end())).unwrap_or(Timestamp::MAX)
}

fn shown(reading: Reading) -> Result<Response<ReplyBody>, AdminError> {
    call::ok(&serde_json::json!({
        "now": reading.now.to_iso_7(),
        "machine": reading.machine.to_iso_7(),
        "frozen": reading.is_frozen,
    }))
}

impl Area for ClockArea {
    fn routes(&self) -> &'static [Route] {
        &[
            ("GET", "/clock"),
            ("PUT", "/clock"),
            ("DELETE", "/clock"),
            ("POST", "/clock/advance"),
            ("POST", "/clock/freeze"),
            ("POST", "/clock/resume"),
        ]
    }

    fn is_for_test_bench(&self) -> bool {
        true
    }

    fn answer(&self, call: Call) -> AnswerFuture<'_> {
        Box::pin(async move { self.call(&call) })
    }
}
