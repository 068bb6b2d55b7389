//! The time, and the three ways in which the protocols write it. Computed here by hand because the
//! runner shares no code with the server.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Seconds since 1970, UTC.
pub(crate) fn now() -> i64 {
    i64::try_from(since_epoch().as_secs()).unwrap_or(i64::MAX)
}

/// For names and ids that must not repeat from run to run.
pub(crate) fn nanoseconds() -> u128 {
    since_epoch().as_nanos()
}

#[expect(clippy::disallowed_methods, reason = "a client of the server under test has a clock of its own")]
fn since_epoch() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

const DAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/// `Tue, 10 Mar 2026 08:15:30 GMT`, for `x-ms-date` and `Date`.
pub(crate) fn rfc1123(seconds: i64) -> String {
    let (year, month, day) = civil(seconds.div_euclid(86_400));
    let weekday = DAYS[usize::try_from(seconds.div_euclid(86_400).rem_euclid(7)).unwrap_or(0)];
    let name = MONTHS[usize::try_from(month - 1).unwrap_or(0)];
    format!("{weekday}, {day:02} {name} {year:04} {} GMT", time_of_day(seconds))
}

/// `2026-03-10T08:15:30Z`, for shared access signatures.
pub(crate) fn iso(seconds: i64) -> String {
    format!("{}T{}Z", day(seconds), time_of_day(seconds))
}

/// `2026-03-10`.
pub(crate) fn day(seconds: i64) -> String {
    let (year, month, day) = civil(seconds.div_euclid(86_400));
    format!("{year:04}-{month:02}-{day:02}")
}

fn time_of_day(seconds: i64) -> String {
    let second = seconds.rem_euclid(86_400);
    format!("{:02}:{:02}:{:02}", second / 3600, second / 60 % 60, second % 60)
}

/// Year, month and day of a count of days since 1970-01-01. The year is taken to start in March,
/// which puts the leap day at its end.
fn civil(days: i64) -> (i64, i64, i64) {
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let day_of_era = shifted.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let march_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * march_month + 2) / 5 + 1;
    let month = if march_month < 10 { march_month + 3 } else { march_month - 9 };
    (year_of_era + era * 400 + i64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_known_dates() {
        for (seconds, date, text) in [
            (0, "Thu, 01 Jan 1970 00:00:00 GMT", "1970-01-01T00:00:00Z"),
            (1_773_130_530, "Tue, 10 Mar 2026 08:15:30 GMT", "2026-03-10T08:15:30Z"),
            (951_782_399, "Mon, 28 Feb 2000 23:59:59 GMT", "2000-02-28T23:59:59Z"),
            (951_782_400, "Tue, 29 Feb 2000 00:00:00 GMT", "2000-02-29T00:00:00Z"),
        ] {
            assert_eq!(rfc1123(seconds), date);
            assert_eq!(iso(seconds), text);
        }
    }
}
