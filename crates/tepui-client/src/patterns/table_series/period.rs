//! Periods of the calendar, and the names of their tables.

use crate::Timestamp;
use std::time::Duration;
use tepui_model::time::Calendar;

const HOUR: Duration = Duration::from_secs(3600);
const DAY: Duration = Duration::from_secs(24 * 3600);

/// How much time one table of a series is for, in UTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Period {
    Hour,
    Day,
    Month,
}

impl Period {
    /// When the period that a time is in began.
    pub fn start(self, at: Timestamp) -> Timestamp {
        let Calendar { year, month, day, hour, .. } = at.calendar();
        let (day, hour) = match self {
            Self::Hour => (day, hour),
            Self::Day => (day, 0),
            Self::Month => (1, 0),
        };
        // Each of these is a time: `at` is one.
        Timestamp::from_calendar(Calendar { year, month, day, hour, minute: 0, second: 0, ticks: 0 })
            .unwrap_or(at)
    }

    /// When the period after that of a time begins. There is none after the year 9999, whose last one is its own.
    pub(super) fn after(self, at: Timestamp) -> Timestamp {
        let start = self.start(at);
        match self {
            Self::Hour => self.start(start.saturating_add(HOUR)),
            Self::Day => self.start(start.saturating_add(DAY)),
            // No month has more than 31 days, and none fewer than 28.
            Self::Month => self.start(start.saturating_add(31 * DAY)),
        }
    }

    /// When the period began that is so many before that of a time. What was before the year 1 is its beginning.
    pub(super) fn before(self, at: Timestamp, periods: u32) -> Timestamp {
        let start = self.start(at);
        match self {
            Self::Hour => start.saturating_sub(HOUR.saturating_mul(periods)),
            Self::Day => start.saturating_sub(DAY.saturating_mul(periods)),
            Self::Month => {
                let Calendar { year, month, .. } = start.calendar();
                let Some(months) = (year * 12 + month - 1).checked_sub(periods) else {
                    return Timestamp::MIN;
                };
                let calendar = Calendar {
                    year: months / 12,
                    month: months % 12 + 1,
                    day: 1,
                    hour: 0,
                    minute: 0,
                    second: 0,
                    ticks: 0,
                };
                Timestamp::from_calendar(calendar).unwrap_or(Timestamp::MIN)
            }
        }
    }

    pub(super) fn table_name(self, prefix: &str, at: Timestamp) -> String {
        let Calendar { year, month, day, hour, .. } = at.calendar();
        match self {
            Self::Hour => format!("{prefix}{year:04}{month:02}{day:02}{hour:02}"),
            Self::Day => format!("{prefix}{year:04}{month:02}{day:02}"),
            Self::Month => format!("{prefix}{year:04}{month:02}"),
        }
    }

    /// The beginning of the period that a table is for; `None` if it is no table of the series.
    pub(super) fn parse(self, prefix: &str, name: &str) -> Option<Timestamp> {
        let (found, digits) = name.split_at_checked(prefix.len())?;
        let length = match self {
            Self::Hour => 10,
            Self::Day => 8,
            Self::Month => 6,
        };
        // Services do not tell names apart by case.
        let fits = found.eq_ignore_ascii_case(prefix) && digits.len() == length;
        if !fits || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        let part = |range| digits.get(range).map_or(Some(0), |part: &str| part.parse::<u32>().ok());
        let day = if self == Self::Month { 1 } else { part(6..8)? };
        let calendar = Calendar {
            year: part(0..4)?,
            month: part(4..6)?,
            day,
            hour: part(8..10)?,
            minute: 0,
            second: 0,
            ticks: 0,
        };
        Timestamp::from_calendar(calendar)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_one_series_and_read_back() {
        let at = Timestamp::parse_iso("2026-01-15T07:59:59Z").unwrap();
        for (period, name, start) in [
            (Period::Hour, "Logins2026011507", "2026-01-15T07:00:00Z"),
            (Period::Day, "Logins20260115", "2026-01-15T00:00:00Z"),
            (Period::Month, "Logins202601", "2026-01-01T00:00:00Z"),
        ] {
            assert_eq!(period.table_name("Logins", at), name);
            assert_eq!(period.parse("logins", name).map(|start| start.to_string()).as_deref(), Some(start));
            assert_eq!(period.start(at).to_string(), start);
            for other in
                [Period::Hour, Period::Day, Period::Month].into_iter().filter(|other| *other != period)
            {
                assert_eq!(other.parse("Logins", name), None);
            }
        }
        for name in [
            "Logins",
            "Logins2026131",
            "Logins20261315",
            "Logins2026011x",
            "Other20260115",
            "Log",
            "LoginsX20260115",
        ] {
            assert_eq!(Period::Day.parse("Logins", name), None, "{name}");
        }
    }

    #[test]
    fn periods_follow_each_other() {
        let mut random = fastrand::Rng::with_seed(1);
        for _ in 0..20_000 {
            let at = Timestamp::UNIX_EPOCH.saturating_add(Duration::from_secs(random.u64(0..8_000_000_000)));
            for period in [Period::Hour, Period::Day, Period::Month] {
                let next = period.after(at);
                assert!(period.start(at) <= at && at < next && period.start(next) == next);
                assert_eq!(period.before(next, 1), period.start(at));
                assert_eq!(period.before(at, 0), period.start(at));
            }
        }
        assert_eq!(Period::Month.before(Timestamp::MIN, 1), Timestamp::MIN);
        assert_eq!(Period::Day.after(Timestamp::MAX), Period::Day.start(Timestamp::MAX));
    }
}
