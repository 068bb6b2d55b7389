//! Points in time as the service counts them: ticks of 100 ns, and clocks that hand them out.
//!
//! This is the one place that reads the machine's clock. Everything else is given a [`Clock`].

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

const TICKS_PER_SECOND: u64 = 10_000_000;
const SECONDS_PER_DAY: u64 = 86_400;
/// Days from 0001-01-01 to 1970-01-01.
const DAYS_TO_UNIX_EPOCH: u64 = 719_162;
const MAX_TICKS: u64 = 3_155_378_975_999_999_999;

/// A point in time in UTC, in ticks of 100 ns since 0001-01-01T00:00:00Z, up to the end of the year 9999.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Timestamp(u64);

/// The calendar fields of a [`Timestamp`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Calendar {
    pub year: u32,
    pub month: u32,
    pub day: u32,
    pub hour: u32,
    pub minute: u32,
    pub second: u32,
    /// What is left of the second, in ticks.
    pub ticks: u32,
}

impl Timestamp {
    pub const MIN: Self = Self(0);
    pub const MAX: Self = Self(MAX_TICKS);
    /// 1601-01-01, the earliest time that a DateTime property may hold.
    pub const EARLIEST_STORABLE: Self = Self(584_388 * SECONDS_PER_DAY * TICKS_PER_SECOND);

    /// 1970-01-01.
    pub const UNIX_EPOCH: Self = Self(DAYS_TO_UNIX_EPOCH * SECONDS_PER_DAY * TICKS_PER_SECOND);

    /// `None` beyond the year 9999.
    pub fn from_ticks(ticks: u64) -> Option<Self> {
        (ticks <= MAX_TICKS).then_some(Self(ticks))
    }

    pub fn ticks(self) -> u64 {
        self.0
    }

    /// The next tick; the last one stays.
    pub fn next(self) -> Self {
        Self((self.0 + 1).min(MAX_TICKS))
    }

    /// This timestamp if it is later than `other`, or else the first later one that the same node may use: see
    /// [`MAX_NODES`].
    pub fn later_than(self, other: Self) -> Self {
        if self > other { self } else { Self(first_of_node(other.0 + 1, self.0).min(MAX_TICKS)) }
    }

    pub fn saturating_add(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(duration_ticks(duration)).min(MAX_TICKS))
    }

    pub fn saturating_sub(self, duration: Duration) -> Self {
        Self(self.0.saturating_sub(duration_ticks(duration)))
    }

    /// The time from `earlier` to this one; zero if it is not earlier.
    pub fn since(self, earlier: Self) -> Duration {
        let ticks = self.0.saturating_sub(earlier.0);
        Duration::new(ticks / TICKS_PER_SECOND, (ticks % TICKS_PER_SECOND) as u32 * 100)
    }

    /// Whole seconds since 1970-01-01, 0 before.
    pub fn unix_seconds(self) -> u64 {
        self.seconds().saturating_sub(DAYS_TO_UNIX_EPOCH * SECONDS_PER_DAY)
    }

    /// `None` if there is no such time.
    pub fn from_calendar(calendar: Calendar) -> Option<Self> {
        let Calendar { year, month, day, hour, minute, second, ticks } = calendar;
        let fits = (1..=9999).contains(&year)
            && (1..=12).contains(&month)
            && (1..=days_in_month(year, month)).contains(&day)
            && hour < 24
            && minute < 60
            && second < 60
            && u64::from(ticks) < TICKS_PER_SECOND;
        if !fits {
            return None;
        }
        let days = days_before(year, month) + u64::from(day) - 1;
        let seconds = days * SECONDS_PER_DAY + u64::from(hour * 3600 + minute * 60 + second);
        Self::from_ticks(seconds * TICKS_PER_SECOND + u64::from(ticks))
    }

    /// Whole seconds since 0001-01-01.
    pub fn seconds(self) -> u64 {
        self.0 / TICKS_PER_SECOND
    }

    pub fn calendar(self) -> Calendar {
        let (seconds, ticks) = (self.seconds(), self.0 % TICKS_PER_SECOND);
        let (days, second_of_day) = (seconds / SECONDS_PER_DAY, (seconds % SECONDS_PER_DAY) as u32);
        let (year, month, day) = date_of(days);
        Calendar {
            year,
            month,
            day,
            hour: second_of_day / 3600,
            minute: second_of_day / 60 % 60,
            second: second_of_day % 60,
            ticks: ticks as u32,
        }
    }

    /// Parses ISO 8601 as clients write it: a date, `T`, a time with or without seconds and fraction
    /// (7 digits count, further ones are dropped), then `Z`, an offset, or nothing, which means UTC.
    /// A date alone is its midnight.
    ///
    /// ```
    /// use tepui_model::Timestamp;
    /// let parsed = Timestamp::parse_iso("2026-03-10T10:15:30.5+02:00").unwrap();
    /// assert_eq!(parsed.to_string(), "2026-03-10T08:15:30.5Z");
    /// ```
    pub fn parse_iso(text: &str) -> Option<Self> {
        Self::parse_canonical(text.as_bytes()).or_else(|| Self::parse_any_iso(text))
    }

    /// The form that nearly all clients write: `2026-03-10T08:15:30Z`, with or without a fraction.
    fn parse_canonical(text: &[u8]) -> Option<Self> {
        let (clock, rest) = text.split_first_chunk::<19>()?;
        let [fraction @ .., b'Z'] = rest else { return None };
        if [clock[4], clock[7], clock[10], clock[13], clock[16]] != *b"--T::" {
            return None;
        }
        let ticks = match fraction {
            [] => 0,
            [b'.', digits @ ..] if (1..=7).contains(&digits.len()) => {
                number(digits)? * 10u32.pow(7 - digits.len() as u32)
            }
            _ => return None,
        };
        Self::from_calendar(Calendar {
            year: number(&clock[0..4])?,
            month: number(&clock[5..7])?,
            day: number(&clock[8..10])?,
            hour: number(&clock[11..13])?,
            minute: number(&clock[14..16])?,
            second: number(&clock[17..19])?,
            ticks,
        })
    }

    fn parse_any_iso(text: &str) -> Option<Self> {
        let (date, rest) = text.split_at_checked(10)?;
        let mut parts = date.split('-');
        let (year, month, day) =
            (digits(parts.next()?, 4)?, digits(parts.next()?, 2)?, digits(parts.next()?, 2)?);
        let mut calendar = Calendar { year, month, day, hour: 0, minute: 0, second: 0, ticks: 0 };
        if rest.is_empty() || rest == "Z" {
            return Self::from_calendar(calendar);
        }
        let rest = rest.strip_prefix(['T', 't', ' '])?;
        let zone_at = rest.find(['Z', 'z', '+', '-']).unwrap_or(rest.len());
        let (clock, zone) = rest.split_at(zone_at);
        let (clock, fraction) = clock.split_once('.').unwrap_or((clock, "0"));
        let mut parts = clock.split(':');
        calendar.hour = digits(parts.next()?, 2)?;
        calendar.minute = digits(parts.next()?, 2)?;
        if let Some(second) = parts.next() {
            calendar.second = digits(second, 2)?;
        }
        if parts.next().is_some() || fraction.is_empty() || !fraction.bytes().all(|b| b.is_ascii_digit()) {
            return None;
        }
        calendar.ticks = fraction
            .bytes()
            .chain(std::iter::repeat(b'0'))
            .take(7)
            .fold(0, |ticks, digit| ticks * 10 + u32::from(digit - b'0'));
        let local = Self::from_calendar(calendar)?;
        local.minus_zone(zone)
    }

    fn minus_zone(self, zone: &str) -> Option<Self> {
        if matches!(zone, "" | "Z" | "z") {
            return Some(self);
        }
        let (sign, offset) = zone.split_at_checked(1)?;
        let (hours, minutes) = match offset.split_once(':') {
            Some(pair) => pair,
            None => offset.split_at_checked(2)?,
        };
        let (hours, minutes) = (digits(hours, 2)?, if minutes.is_empty() { 0 } else { digits(minutes, 2)? });
        if hours > 14 || minutes > 59 {
            return None;
        }
        let offset = u64::from(hours * 3600 + minutes * 60) * TICKS_PER_SECOND;
        match sign {
            "+" => self.0.checked_sub(offset).map(Self),
            "-" => Self::from_ticks(self.0 + offset),
            _ => None,
        }
    }

    /// Parses a date of HTTP: `Tue, 10 Mar 2026 08:15:30 GMT`, or one of the two older forms that are still to be
    /// read, `Tuesday, 10-Mar-26 08:15:30 GMT` and `Tue Mar 10 08:15:30 2026`.
    pub fn parse_http(text: &str) -> Option<Self> {
        Self::parse_usual_http(text.as_bytes())
            .or_else(|| Self::parse_standard_http(text))
            .or_else(|| Self::parse_any_http(text))
    }

    /// The form that every request is dated in, exactly as [`Self::to_http`] writes it.
    fn parse_usual_http(text: &[u8]) -> Option<Self> {
        let text: &[u8; 29] = text.try_into().ok()?;
        let marks = [text[3], text[4], text[7], text[11], text[16], text[19], text[22]];
        if marks != *b",    ::" || text[25..] != *b" GMT" || !text[..3].iter().all(u8::is_ascii_alphabetic) {
            return None;
        }
        let month = MONTHS.iter().position(|name| *name.as_bytes() == text[8..11])? as u32 + 1;
        Self::from_calendar(Calendar {
            year: number(&text[12..16])?,
            month,
            day: number(&text[5..7])?,
            hour: number(&text[17..19])?,
            minute: number(&text[20..22])?,
            second: number(&text[23..25])?,
            ticks: 0,
        })
    }

    /// Any of the three forms of RFC 9110.
    fn parse_standard_http(text: &str) -> Option<Self> {
        let since_epoch =
            httpdate::parse_http_date(text.trim()).ok()?.duration_since(SystemTime::UNIX_EPOCH).ok()?;
        Some(Self::UNIX_EPOCH.saturating_add(since_epoch))
    }

    /// The usual form as it is written carelessly.
    fn parse_any_http(text: &str) -> Option<Self> {
        let (_, rest) = text.trim().split_once(", ")?;
        let mut parts = rest.split([' ', '-']).filter(|part| !part.is_empty());
        let day = parts.next()?.parse().ok()?;
        let month = parts.next()?;
        let month = MONTHS.iter().position(|name| name.eq_ignore_ascii_case(month))? as u32 + 1;
        let year = digits(parts.next()?, 4)?;
        let mut clock = parts.next()?.split(':');
        let mut field = || digits(clock.next()?, 2);
        let (hour, minute, second) = (field()?, field()?, field()?);
        if parts.next()? != "GMT" {
            return None;
        }
        Self::from_calendar(Calendar { year, month, day, hour, minute, second, ticks: 0 })
    }

    /// The time as a date of HTTP: `Tue, 10 Mar 2026 08:15:30 GMT`.
    pub fn to_http(self) -> String {
        String::from_utf8_lossy(&self.http_bytes()).into_owned()
    }

    /// The same in bytes, for answers that hold many.
    pub fn http_bytes(self) -> [u8; 29] {
        let Calendar { year, month, day, hour, minute, second, .. } = self.calendar();
        let weekday = WEEKDAYS[(self.seconds() / SECONDS_PER_DAY % 7) as usize];
        let mut text = *b"Mon, 01 Jan 0001 00:00:00 GMT";
        text[0..3].copy_from_slice(weekday.as_bytes());
        text[5..7].copy_from_slice(&two_digits(day));
        text[8..11].copy_from_slice(MONTHS[month as usize - 1].as_bytes());
        text[12..14].copy_from_slice(&two_digits(year / 100));
        text[14..16].copy_from_slice(&two_digits(year % 100));
        text[17..19].copy_from_slice(&two_digits(hour));
        text[20..22].copy_from_slice(&two_digits(minute));
        text[23..25].copy_from_slice(&two_digits(second));
        text
    }

    /// With all seven digits of the fraction, as error messages and policies have it.
    pub fn to_iso_7(self) -> String {
        let Calendar { year, month, day, hour, minute, second, ticks } = self.calendar();
        format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{ticks:07}Z")
    }

    /// Appends the time as entities have it: trailing zeros of the fraction cut off, `:` written as `colon`.
    pub fn write_iso(self, out: &mut Vec<u8>, colon: &[u8]) {
        // Every entity of every page has one: it is put together in one place and copied once.
        let Calendar { year, month, day, hour, minute, second, ticks } = self.calendar();
        let mut text = [b'-'; 16];
        text[0..2].copy_from_slice(&two_digits(year / 100));
        text[2..4].copy_from_slice(&two_digits(year % 100));
        text[5..7].copy_from_slice(&two_digits(month));
        text[8..10].copy_from_slice(&two_digits(day));
        text[10] = b'T';
        text[11..13].copy_from_slice(&two_digits(hour));
        out.reserve(40);
        out.extend_from_slice(&text[..13]);
        out.extend_from_slice(colon);
        out.extend_from_slice(&two_digits(minute));
        out.extend_from_slice(colon);
        text[0..2].copy_from_slice(&two_digits(second));
        text[2] = b'.';
        text[3] = b'0' + (ticks / 1_000_000) as u8;
        text[4..6].copy_from_slice(&two_digits(ticks / 10_000 % 100));
        text[6..8].copy_from_slice(&two_digits(ticks / 100 % 100));
        text[8..10].copy_from_slice(&two_digits(ticks % 100));
        let mut length = if ticks == 0 { 2 } else { 10 };
        while ticks != 0 && text[length - 1] == b'0' {
            length -= 1;
        }
        text[length] = b'Z';
        out.extend_from_slice(&text[..=length]);
    }
}

/// As entities have it: `2026-03-10T08:15:30.5Z`.
impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = Vec::with_capacity(28);
        self.write_iso(&mut text, b":");
        f.write_str(std::str::from_utf8(&text).map_err(|_| fmt::Error)?)
    }
}

const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
/// 0001-01-01 was a Monday.
const WEEKDAYS: [&str; 7] = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"];

fn duration_ticks(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos() / 100).unwrap_or(u64::MAX)
}

fn two_digits(number: u32) -> [u8; 2] {
    [b'0' + (number / 10) as u8, b'0' + (number % 10) as u8]
}

/// Of a few digits and nothing else.
fn number(digits: &[u8]) -> Option<u32> {
    digits.iter().try_fold(0, |sum, digit| digit.is_ascii_digit().then(|| sum * 10 + u32::from(digit - b'0')))
}

fn digits(text: &str, count: usize) -> Option<u32> {
    (text.len() == count && text.bytes().all(|byte| byte.is_ascii_digit())).then(|| text.parse().ok())?
}

fn is_leap(year: u32) -> bool {
    year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
}

fn days_in_month(year: u32, month: u32) -> u32 {
    match month {
        2 if is_leap(year) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Days from 0001-01-01 to the first of the month. Counts years from March, so that the leap day ends one.
fn days_before(year: u32, month: u32) -> u64 {
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let (year, month) = (u64::from(year), u64::from(month));
    // 306 days lie between 0000-03-01 and 0001-01-01.
    year * 365 + year / 4 - year / 100 + year / 400 + (153 * month + 2) / 5 - 306
}

/// The inverse of [`days_before`] with a day.
fn date_of(days: u64) -> (u32, u32, u32) {
    const DAYS_IN_400_YEARS: u64 = 146_097;
    let days = days + 306;
    let (era, day_of_era) = (days / DAYS_IN_400_YEARS, days % DAYS_IN_400_YEARS);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day = (day_of_year - (153 * month + 2) / 5 + 1) as u32;
    let year = (era * 400 + year_of_era) as u32;
    if month < 10 { (year, month as u32 + 3, day) } else { (year + 1, month as u32 - 9, day) }
}

/// The most nodes that share a store. The ticks of a node are congruent to its number modulo this, so that no two nodes hand
/// out the same timestamp, however their clocks differ: ETags are timestamps.
pub const MAX_NODES: u64 = 64;

/// The number of a node among those that share a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NodeNumber(u64);

impl NodeNumber {
    /// `None` from [`MAX_NODES`] on.
    pub fn new(number: u64) -> Option<Self> {
        (number < MAX_NODES).then_some(Self(number))
    }

    /// All that there are.
    pub fn all() -> impl Iterator<Item = Self> {
        (0..MAX_NODES).map(Self)
    }

    pub fn get(self) -> u64 {
        self.0
    }

    /// The first timestamp from `least` on that the node of this number may hand out.
    pub fn first_from(self, least: Timestamp) -> Timestamp {
        Timestamp(first_of_node(least.0, self.0).min(MAX_TICKS))
    }
}

/// The first number from `least` on that is congruent to `node` modulo [`MAX_NODES`].
fn first_of_node(least: u64, node: u64) -> u64 {
    least + (node % MAX_NODES + MAX_NODES - least % MAX_NODES) % MAX_NODES
}

/// Tells the time. Passed to whatever needs it, so that tests can move it.
pub trait Clock: Send + Sync + 'static {
    /// The time now.
    fn now(&self) -> Timestamp;

    /// A timestamp close to now and later than every one handed out before. No other node hands it out.
    fn tick(&self) -> Timestamp;

    /// The node whose timestamps these are, if several nodes share a store.
    fn node(&self) -> Option<NodeNumber> {
        None
    }

    /// The time by the machine's clock when it is `now` by this one: for the dates that clients sign, and for what must not
    /// end because this clock was set for a test. Otherwise both are the same.
    fn of_machine(&self, now: Timestamp) -> Timestamp {
        now
    }

    /// Completes when the clock is set after this call. For background work that waits for times to pass; clocks that only
    /// run never complete it.
    fn changed(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(std::future::pending())
    }
}

/// The machine's clock.
#[derive(Debug, Default)]
pub struct SystemClock {
    last: AtomicU64,
    node: Option<NodeNumber>,
}

impl SystemClock {
    /// For a store that no other node uses.
    pub fn new() -> Self {
        Self::default()
    }

    /// For one of the nodes that share a store.
    pub fn of_node(node: NodeNumber) -> Self {
        Self { last: AtomicU64::default(), node: Some(node) }
    }
}

impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "this is the clock that everyone else is given")]
    fn now(&self) -> Timestamp {
        let since_epoch = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        Timestamp::UNIX_EPOCH.saturating_add(since_epoch)
    }

    fn tick(&self) -> Timestamp {
        rise(&self.last, self.now(), self.node)
    }

    fn node(&self) -> Option<NodeNumber> {
        self.node
    }
}

/// A clock that only moves when it is set. For tests.
#[derive(Debug)]
pub struct ManualClock {
    now: AtomicU64,
    last: AtomicU64,
    node: Option<NodeNumber>,
}

impl ManualClock {
    pub fn at(now: Timestamp) -> Self {
        Self { now: AtomicU64::new(now.0), last: AtomicU64::new(0), node: None }
    }

    /// The clock of one of the nodes that share a store.
    pub fn of_node(self, node: NodeNumber) -> Self {
        Self { node: Some(node), ..self }
    }

    pub fn advance(&self, by: Duration) {
        self.now.fetch_add(duration_ticks(by), Ordering::SeqCst);
    }

    pub fn set(&self, now: Timestamp) {
        self.now.store(now.0, Ordering::SeqCst);
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        Timestamp(self.now.load(Ordering::SeqCst))
    }

    fn tick(&self) -> Timestamp {
        rise(&self.last, self.now(), self.node)
    }

    fn node(&self) -> Option<NodeNumber> {
        self.node
    }
}

/// Raises `last` to `now`, or by as little as possible where the clock has not moved on, and returns it.
fn rise(last: &AtomicU64, now: Timestamp, node: Option<NodeNumber>) -> Timestamp {
    let mut seen = last.load(Ordering::Relaxed);
    loop {
        let next = now.0.max(seen + 1);
        let next = node.map_or(next, |node| first_of_node(next, node.0));
        match last.compare_exchange_weak(seen, next, Ordering::Relaxed, Ordering::Relaxed) {
            Ok(_) => return Timestamp(next.min(MAX_TICKS)),
            Err(current) => seen = current,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn known_times() {
        for (text, ticks) in [
            ("0001-01-01T00:00:00Z", 0),
            ("1601-01-01T00:00:00Z", Timestamp::EARLIEST_STORABLE.ticks()),
            ("1970-01-01T00:00:00Z", 621_355_968_000_000_000),
            ("2000-03-01T00:00:00Z", 630_874_656_000_000_000),
            ("9999-12-31T23:59:59.9999999Z", MAX_TICKS),
        ] {
            let time = Timestamp::parse_iso(text).unwrap();
            assert_eq!(time.ticks(), ticks, "{text}");
            assert_eq!(time.to_string(), text);
        }
    }

    #[test]
    fn iso_texts() {
        for (text, expected) in [
            ("2026-03-10", Some("2026-03-10T00:00:00Z")),
            ("2026-03-10T08:15Z", Some("2026-03-10T08:15:00Z")),
            ("2026-03-10T08:15:30", Some("2026-03-10T08:15:30Z")),
            ("2026-03-10T08:15:30.1200000Z", Some("2026-03-10T08:15:30.12Z")),
            ("2026-03-10T08:15:30.123456789Z", Some("2026-03-10T08:15:30.1234567Z")),
            ("2026-03-10T08:15:30-05:30", Some("2026-03-10T13:45:30Z")),
            ("2026-03-10T08:15:30+0200", Some("2026-03-10T06:15:30Z")),
            ("0001-01-01T00:00:00+01:00", None),
            ("2026-02-29", None),
            ("2026-13-01", None),
            ("2026-03-10T24:00:00Z", None),
            ("2026-03-10T08:15:30.Z", None),
            ("2026-03-10T08:15:30.5X", None),
            ("2026-3-10", None),
            ("é026-03-10", None),
            ("", None),
        ] {
            assert_eq!(Timestamp::parse_iso(text).map(|t| t.to_string()).as_deref(), expected, "{text}");
        }
    }

    #[test]
    fn http_dates() {
        let time = Timestamp::parse_http("Tue, 10 Mar 2026 08:15:30 GMT").unwrap();
        assert_eq!(time.to_string(), "2026-03-10T08:15:30Z");
        assert_eq!(time.to_http(), "Tue, 10 Mar 2026 08:15:30 GMT");
        assert_eq!(Timestamp::MIN.to_http(), "Mon, 01 Jan 0001 00:00:00 GMT");
        assert_eq!(Timestamp::MAX.to_http(), "Fri, 31 Dec 9999 23:59:59 GMT");
        for text in [
            " Tue, 10 Mar 2026 08:15:30 GMT ",
            "Tuesday, 10-Mar-2026 08:15:30 GMT",
            "Tue, 10 MAR 2026 08:15:30 GMT",
            "Tue, 10-Mar-2026 08:15:30 GMT",
            "1st, 10 Mar 2026 08:15:30 GMT",
            "Tuesday, 10-Mar-26 08:15:30 GMT",
            "Tue Mar 10 08:15:30 2026",
        ] {
            assert_eq!(Timestamp::parse_http(text), Some(time), "{text}");
        }
        let other_century = Timestamp::parse_http("Sunday, 06-Nov-94 08:49:37 GMT").unwrap();
        assert_eq!(other_century.to_string(), "1994-11-06T08:49:37Z");
        for text in [
            "",
            "10 Mar 2026",
            "Tue, 10 Foo 2026 08:15:30 GMT",
            "Tue, 10 Mar 2026 08:15:30 CET",
            "Tue, 10 Mar 2026 08:15:3x GMT",
            "Tue, 10 Mar 2026 24:15:30 GMT",
            "Tue, 29 Feb 2026 08:15:30 GMT",
            ", a, 10 Mar 2026 08:15:30 GMT",
            "Tue, 10 Mar 26 08:15:30 GMT",
            "Tue Mar 10 08:15:30 26",
            "Tue Mar 32 08:15:30 2026",
        ] {
            assert_eq!(Timestamp::parse_http(text), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn printed_times_parse_to_themselves(ticks in 0..=MAX_TICKS) {
            let time = Timestamp(ticks);
            prop_assert_eq!(Timestamp::parse_iso(&time.to_string()), Some(time));
            prop_assert_eq!(Timestamp::parse_iso(&time.to_iso_7()), Some(time));
            prop_assert_eq!(Timestamp::from_calendar(time.calendar()), Some(time));
        }

        #[test]
        fn usual_dates_are_read_as_any(ticks in 0..=MAX_TICKS, at in 0..29usize, byte in " -~") {
            let mut text = Timestamp(ticks).to_http();
            let whole = Timestamp::parse_usual_http(text.as_bytes());
            prop_assert!(whole.is_some() && whole == Timestamp::parse_any_http(&text));
            text.replace_range(at..=at, &byte);
            if let Some(time) = Timestamp::parse_usual_http(text.as_bytes()) {
                prop_assert_eq!(Timestamp::parse_any_http(&text), Some(time), "{}", text);
            }
        }

        #[test]
        fn any_text_parses_or_not(text in "\\PC{0,40}") {
            let _ = (Timestamp::parse_iso(&text), Timestamp::parse_http(&text));
        }
    }

    #[test]
    fn nodes_never_hand_out_the_same_timestamp() {
        let day = Timestamp::parse_iso("2026-03-10").unwrap();
        let clock = |number| ManualClock::at(day).of_node(NodeNumber::new(number).unwrap());
        let clocks = [clock(0), clock(1), clock(MAX_NODES - 1)];
        assert_eq!(NodeNumber::new(MAX_NODES), None);
        let mut seen = std::collections::BTreeSet::new();
        for _ in 0..100 {
            for clock in &clocks {
                let before = clock.tick();
                // One that another node wrote, whose clock is ahead.
                let later = clock.tick().later_than(before.saturating_add(Duration::from_secs(1)));
                assert!(later.since(before) >= Duration::from_secs(1));
                assert!(seen.insert(before) && seen.insert(later));
            }
        }
        assert!(clocks.iter().all(|clock| clock.tick().since(day) < Duration::from_millis(5)));
        assert_eq!(day.next().later_than(day), day.next());
        assert_eq!(day.later_than(day), Timestamp(day.0 + MAX_NODES));
        assert_eq!(Timestamp::MIN.later_than(Timestamp::MAX), Timestamp::MAX);
    }

    #[test]
    fn ticks_always_rise() {
        let clock = ManualClock::at(Timestamp::parse_iso("2026-03-10").unwrap());
        let first = clock.tick();
        let second = clock.tick();
        assert_eq!(second, first.next());
        clock.set(Timestamp::MIN);
        assert!(clock.tick() > second);
    }
}
