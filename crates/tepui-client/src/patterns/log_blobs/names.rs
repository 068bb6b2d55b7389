//! The names of the blobs of a log.

use crate::Timestamp;
use std::time::Duration;
use tepui_model::time::Calendar;

const HOUR: Duration = Duration::from_secs(3600);
/// Up to so many hours are listed one by one, more of them by their days.
const MAX_HOURS: u64 = 24;
/// Up to so many days are listed one by one, more of them all together.
const MAX_DAYS: u64 = 62;

/// What the names of an hour begin with: `service/2026/03/10/08/`.
pub(super) fn hour_prefix(service: &str, at: Timestamp) -> String {
    let Calendar { hour, .. } = at.calendar();
    format!("{}{hour:02}/", day_prefix(service, at))
}

fn day_prefix(service: &str, at: Timestamp) -> String {
    let Calendar { year, month, day, .. } = at.calendar();
    format!("{service}/{year:04}/{month:02}/{day:02}/")
}

/// What the names of a span of time begin with, and perhaps some others.
pub(super) fn prefixes(service: &str, from: Timestamp, to: Timestamp) -> Vec<String> {
    let hour = |at: Timestamp| at.seconds() / HOUR.as_secs();
    let (first, last) = (hour(from), hour(to));
    let (first_day, last_day) = (first / 24, last / 24);
    let each = |range: std::ops::RangeInclusive<u64>, unit: u64, name: fn(&str, Timestamp) -> String| {
        range
            .map(|number| name(service, Timestamp::MIN.saturating_add(HOUR * unit as u32 * number as u32)))
            .collect()
    };
    if last < first {
        Vec::new()
    } else if last - first < MAX_HOURS {
        each(first..=last, 1, hour_prefix)
    } else if last_day - first_day < MAX_DAYS {
        each(first_day..=last_day, 24, day_prefix)
    } else {
        vec![format!("{service}/")]
    }
}

pub(super) fn blob_name(hour: &str, number: u32) -> String {
    format!("{hour}{number}.log")
}

/// The hour and the number of a blob; `None` if it is not one of the log.
pub(super) fn parse(service: &str, name: &str) -> Option<(String, u32)> {
    let rest = name.strip_prefix(service)?.strip_prefix('/')?;
    let (hour, number) = rest.split_at_checked("yyyy/mm/dd/hh/".len())?;
    let fits = hour.bytes().zip(b"0000/00/00/00/".iter()).all(|(found, expected)| match expected {
        b'0' => found.is_ascii_digit(),
        _ => found == *expected,
    });
    let number = number.strip_suffix(".log")?.parse().ok()?;
    fits.then(|| (format!("{service}/{hour}"), number))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_lists_of_prefixes() {
        let at = |text| Timestamp::parse_iso(text).unwrap();
        let (from, to) = (at("2026-03-10T22:59:59Z"), at("2026-03-11T00:00:00Z"));
        assert_eq!(
            prefixes("a/b", from, to),
            ["a/b/2026/03/10/22/", "a/b/2026/03/10/23/", "a/b/2026/03/11/00/"]
        );
        assert_eq!(prefixes("s", from, from), ["s/2026/03/10/22/"]);
        assert_eq!(prefixes("s", to, from), [""; 0]);
        assert_eq!(prefixes("s", from, at("2026-03-11T23:00:00Z")), ["s/2026/03/10/", "s/2026/03/11/"]);
        assert_eq!(prefixes("s", from, at("2027-03-11T23:00:00Z")), ["s/"]);
        assert_eq!(prefixes("s", Timestamp::MAX, Timestamp::MAX), ["s/9999/12/31/23/"]);
    }

    #[test]
    fn names_are_read_back() {
        let name = blob_name(&hour_prefix("a/b", Timestamp::parse_iso("2026-03-10T08:15:30Z").unwrap()), 12);
        assert_eq!(name, "a/b/2026/03/10/08/12.log");
        assert_eq!(parse("a/b", &name), Some(("a/b/2026/03/10/08/".to_owned(), 12)));
        for name in [
            "a/b/2026/03/10/08/x.log",
            "a/b/2026/03/10/08/1.txt",
            "a/b/2026-03/10/08/1.log",
            "a/c/2026/03/10/08/1.log",
            "a/b/",
        ] {
            assert_eq!(parse("a/b", name), None, "{name}");
        }
    }
}
