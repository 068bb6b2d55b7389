//! Dates of ISO 8601 and of HTTP.

use tepui_model::Timestamp;

pub(super) const WORDS: &[&str] = &[
    "2026-03-10T08:15:30.5Z",
    "0001-01-01",
    "9999-12-31",
    "T23:59:59.9999999",
    "T",
    "t",
    " ",
    "Z",
    "z",
    "+14:00",
    "-14:00",
    "+0530",
    "+00",
    "-",
    ":",
    ".",
    "02-29",
    "Tue, 10 Mar 2026 08:15:30 GMT",
    ", ",
    "GMT",
    "Dec",
    "4294967296",
];

/// A date is the same once printed and read again, in each of the forms.
pub fn date(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    for time in [Timestamp::parse_iso(text), Timestamp::parse_http(text)].into_iter().flatten() {
        assert!(time <= Timestamp::MAX && Timestamp::from_ticks(time.ticks()) == Some(time));
        assert_eq!(Timestamp::from_calendar(time.calendar()), Some(time));
        for printed in [time.to_string(), time.to_iso_7()] {
            assert_eq!(Timestamp::parse_iso(&printed), Some(time), "{printed}");
        }
        let whole = Timestamp::parse_http(&time.to_http()).expect("a date of HTTP");
        assert!(whole <= time && time.since(whole).as_secs() == 0, "{whole} {time}");
    }
}
