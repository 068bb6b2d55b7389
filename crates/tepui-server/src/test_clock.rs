//! The clock of a test bench, which can be set, moved on, stopped and let go.

use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::time::Duration;
use tepui_model::time::{MAX_NODES, SystemClock};
use tepui_model::{Clock, Timestamp};
use tokio::sync::Notify;

/// A clock that runs as far from the machine's as it was set, or stands still.
#[derive(Default)]
pub(crate) struct TestClock {
    machine: SystemClock,
    state: Mutex<State>,
    changed: Notify,
}

/// What a clock says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Reading {
    pub(crate) now: Timestamp,
    pub(crate) machine: Timestamp,
    pub(crate) is_frozen: bool,
}

#[derive(Default)]
struct State {
    mode: Mode,
    issued: IssuedTicks,
}

#[derive(Clone, Copy)]
enum Mode {
    /// Ticks ahead of the machine's clock.
    Running(i64),
    Frozen(Timestamp),
}

impl Default for Mode {
    fn default() -> Self {
        Self::Running(0)
    }
}

impl Mode {
    fn now(self, machine: Timestamp) -> Timestamp {
        match self {
            Self::Frozen(at) => at,
            Self::Running(ahead) => {
                let ticks = machine.ticks().saturating_add_signed(ahead);
                Timestamp::from_ticks(ticks).unwrap_or(Timestamp::MAX)
            }
        }
    }

    /// The same kind of clock at another time.
    fn at(self, now: Timestamp, machine: Timestamp) -> Self {
        match self {
            Self::Frozen(_) => Self::Frozen(now),
            Self::Running(_) => Self::running(now, machine),
        }
    }

    fn running(now: Timestamp, machine: Timestamp) -> Self {
        // Both are less than half of the range of numbers with a sign.
        Self::Running(now.ticks() as i64 - machine.ticks() as i64)
    }
}

impl TestClock {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    pub(crate) fn reading(&self) -> Reading {
        self.reading_of(&self.state.lock())
    }

    fn reading_of(&self, state: &State) -> Reading {
        let machine = self.machine.now();
        Reading { now: state.mode.now(machine), machine, is_frozen: matches!(state.mode, Mode::Frozen(_)) }
    }

    /// Sets the time. It goes on from there, or stands still if it did before.
    pub(crate) fn set(&self, now: Timestamp) -> Reading {
        self.change(|mode, machine| Ok::<_, ()>(mode.at(now, machine))).unwrap_or_else(|()| self.reading())
    }

    /// Moves the time on, unless it would be later than `limit`.
    pub(crate) fn advance(&self, by: Duration, limit: Timestamp) -> Result<Reading, Timestamp> {
        self.change(|mode, machine| {
            let now = mode.now(machine).saturating_add(by);
            if now > limit { Err(now) } else { Ok(mode.at(now, machine)) }
        })
    }

    /// Stops the clock.
    pub(crate) fn freeze(&self) -> Reading {
        let frozen = self.change(|mode, machine| Ok::<_, ()>(Mode::Frozen(mode.now(machine))));
        frozen.unwrap_or_else(|()| self.reading())
    }

    /// Lets the clock run on from where it stands.
    pub(crate) fn resume(&self) -> Reading {
        let running = self.change(|mode, machine| Ok::<_, ()>(Mode::running(mode.now(machine), machine)));
        running.unwrap_or_else(|()| self.reading())
    }

    /// Follows the machine's clock again.
    pub(crate) fn follow_machine(&self) -> Reading {
        self.change(|_, _| Ok::<_, ()>(Mode::Running(0))).unwrap_or_else(|()| self.reading())
    }

    fn change<E>(&self, to: impl FnOnce(Mode, Timestamp) -> Result<Mode, E>) -> Result<Reading, E> {
        let mut state = self.state.lock();
        state.mode = to(state.mode, self.machine.now())?;
        let reading = self.reading_of(&state);
        state.issued.jump(reading.now);
        drop(state);
        self.changed.notify_waiters();
        Ok(reading)
    }
}

impl Clock for TestClock {
    fn now(&self) -> Timestamp {
        self.reading().now
    }

    fn tick(&self) -> Timestamp {
        let mut state = self.state.lock();
        let now = state.mode.now(self.machine.now());
        state.issued.next(now)
    }

    fn of_machine(&self, _: Timestamp) -> Timestamp {
        self.machine.now()
    }

    fn changed(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        // It counts from here on, not only once it is polled.
        Box::pin(self.changed.notified())
    }
}

/// The ticks that were handed out: none is ever handed out twice, for ETags are made of them, and yet they follow a clock
/// that is set back.
///
/// Ticks are handed out in lanes: those of a lane are congruent to its number, as those of a node are. When the clock is set,
/// the lane is chosen whose ticks are free at that time. So a test that begins at the same time again and again has its
/// time, until every lane was used there.
#[derive(Debug, Default)]
struct IssuedTicks {
    /// From the first to the last tick of each span of a lane, which do not overlap. The key is the lane and the first.
    spans: BTreeMap<(u64, u64), u64>,
    lane: u64,
    /// The span since the clock was set.
    current: Option<(u64, u64)>,
}

impl IssuedTicks {
    /// As many as there are nodes, whose ticks are told apart in the same way.
    const LANES: u64 = MAX_NODES;
    /// The closest are joined if there are more.
    const MAX_SPANS: usize = 1000;

    /// The first tick from `now` on that was not handed out and is later than the one before.
    fn next(&mut self, now: Timestamp) -> Timestamp {
        let last = self.current.map_or(0, |(_, last)| last);
        let next = self.first_free(self.lane, now.ticks().max(last + 1)).min(Timestamp::MAX.ticks());
        let first = self.current.map_or(next, |(first, _)| first);
        self.current = Some((first, next));
        Timestamp::from_ticks(next).unwrap_or(Timestamp::MAX)
    }

    /// The first tick of a lane from `least` on that is in no span.
    fn first_free(&self, lane: u64, least: u64) -> u64 {
        let of_lane = |least: u64| least + (lane + Self::LANES - least % Self::LANES) % Self::LANES;
        let mut next = of_lane(least);
        while let Some((_, end)) = self.spans.range((lane, 0)..=(lane, next)).next_back()
            && *end >= next
        {
            next = of_lane(end + 1);
        }
        next
    }

    /// The clock was set: from here on ticks may be earlier.
    fn jump(&mut self, now: Timestamp) {
        if let Some((mut first, mut last)) = self.current.take() {
            let lane = self.lane;
            while let Some((&key, &end)) = self.spans.range((lane, 0)..=(lane, last)).next_back()
                && end >= first
            {
                self.spans.remove(&key);
                (first, last) = (first.min(key.1), last.max(end));
            }
            self.spans.insert((lane, first), last);
            if self.spans.len() > Self::MAX_SPANS {
                self.join_closest();
            }
        }
        let lag = |lane: &u64| (self.first_free(*lane, now.ticks()) - now.ticks()) / Self::LANES;
        self.lane = (0..Self::LANES).min_by_key(lag).unwrap_or(0);
    }

    fn join_closest(&mut self) {
        let neighbours = self.spans.iter().zip(self.spans.iter().skip(1));
        let of_one_lane = neighbours.filter(|((one, _), (other, _))| one.0 == other.0);
        let closest = of_one_lane.min_by_key(|((_, end), (start, _))| start.1 - **end);
        if let Some(((&first, _), (&second, &end))) = closest {
            self.spans.remove(&second);
            self.spans.insert(first, end);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    fn time(text: &str) -> Timestamp {
        Timestamp::parse_iso(text).unwrap()
    }

    #[test]
    fn it_runs_stands_still_and_goes_on() {
        let clock = TestClock::new();
        let before = clock.reading();
        assert!(before.now.since(before.machine) < Duration::from_secs(1) && !before.is_frozen);
        let day = time("2030-01-01");
        assert!(clock.set(day).now.since(day) < Duration::from_secs(1));
        let frozen = clock.freeze();
        assert!(frozen.is_frozen && clock.now() == frozen.now);
        clock.set(day);
        assert_eq!(clock.reading().now, day, "it still stands");
        let hour = Duration::from_secs(3600);
        assert_eq!(clock.advance(hour, time("2031-01-01")).unwrap().now, day.saturating_add(hour));
        let latest = time("2030-01-01T01:30:00Z");
        assert_eq!(clock.advance(hour, latest), Err(time("2030-01-01T02:00:00Z")));
        assert_eq!(clock.now(), day.saturating_add(hour), "nothing has changed");
        clock.resume();
        assert!(clock.now() >= day.saturating_add(hour) && !clock.reading().is_frozen);
        clock.follow_machine();
        assert!(clock.now() < day.saturating_add(hour));
        assert!(clock.of_machine(day) < day);
    }

    #[test]
    fn ticks_follow_the_clock_and_never_repeat() {
        let clock = TestClock::new();
        let mut seen = HashSet::new();
        clock.freeze();
        // Back and forth, also to the same times again.
        for round in 0..50 {
            for day in ["2030-01-01", "2026-01-01", "2030-01-01T00:00:00.0000002Z", "2026-01-01"] {
                clock.set(time(day));
                let first = clock.tick();
                let later = [clock.tick(), clock.tick()];
                assert!(first < later[0] && later[0] < later[1], "{day}");
                assert!(
                    [first, later[0], later[1]].into_iter().all(|tick| seen.insert(tick)),
                    "{round} {day}"
                );
                assert!(later[1].since(time(day)) < Duration::from_millis(1), "{day}");
                assert!(first >= time(day));
            }
        }
    }

    #[test]
    fn spans_are_bounded() {
        let mut issued = IssuedTicks::default();
        let mut seen = HashSet::new();
        for number in 0..5000u64 {
            let at = Timestamp::from_ticks((number * 7919) % 5000 * 1000 + 1).unwrap();
            issued.jump(at);
            for _ in 0..3 {
                assert!(seen.insert(issued.next(at)));
            }
            assert!(issued.spans.len() <= IssuedTicks::MAX_SPANS);
        }
    }

    #[test]
    fn the_same_minute_can_be_lived_through_again() {
        let (mut issued, mut seen) = (IssuedTicks::default(), HashSet::new());
        let minute = time("2030-01-01T12:00:00Z");
        for round in 0..MAX_NODES {
            issued.jump(minute);
            for second in 0..60 {
                let now = minute.saturating_add(Duration::from_secs(second));
                let tick = issued.next(now);
                assert!(
                    tick >= now && tick.since(now) < Duration::from_micros(10),
                    "{round} {second}: {tick}"
                );
                assert!(seen.insert(tick));
            }
        }
    }

    #[tokio::test]
    async fn those_who_wait_hear_of_a_change() {
        let clock = TestClock::new();
        let changed = clock.changed();
        clock.freeze();
        changed.await;
    }
}
